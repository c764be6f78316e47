"""Clock readings through NVML and what they say of a row, against a scripted `pynvml`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphbench.device_records import ClockState
from graphbench.errors import SetupError
from graphbench.timing.clocks import NoClocks, clock_source, clock_warnings
from graphbench.timing.nvml import Nvml, throttle_reasons

H200 = {"sm_mhz": 1980, "memory_mhz": 3201, "temperature_c": 41, "milliwatts": 118_250, "reasons": 0x1}
FAKE = Path(__file__).parents[1] / "fake_nvml"
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9

Script = Callable[..., Path]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Describe what the fake NVML sees; gives the path of its log."""
    monkeypatch.syspath_prepend(str(FAKE))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml.json"))

    def write(gpus: dict[str, dict[str, Any]], **state: Any) -> Path:
        (tmp_path / "nvml.json").write_text(json.dumps({"gpus": gpus, **state}), encoding="utf-8")
        return tmp_path / "nvml.log"

    return write


@pytest.fixture
def torch_devices(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Stands for torch's devices: name to UUID, in the order that CUDA_VISIBLE_DEVICES makes."""
    uuids: dict[str, str] = {}
    cuda = SimpleNamespace(get_device_properties=lambda device: SimpleNamespace(uuid=uuids[device]))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    return uuids


def test_a_reading_has_every_value_in_its_unit(script: Script) -> None:
    script({"GPU-a": H200 | {"reasons": 0x4}})
    assert Nvml("a").clock_state() == ClockState(
        sm_mhz=1980, memory_mhz=3201, temperature_c=41, power_w=118.25, throttle=("software power cap",)
    )


def test_what_the_device_does_not_support_is_none(script: Script) -> None:
    script({"GPU-a": {"sm_mhz": 1410}})
    nvml = Nvml("a")
    assert nvml.clock_state() == ClockState(sm_mhz=1410)
    assert (nvml.mig_mode, nvml.max_sm_mhz, nvml.persistence_mode(), nvml.supported_sm_mhz) == (None, None, None, ())


def test_supported_clocks_are_those_of_the_highest_memory_clock(script: Script) -> None:
    clocks = {"memory_clocks": [3201, 1593], "sm_clocks": {"3201": [1980, 1965, 345], "1593": [345]}}
    script({"GPU-a": H200 | clocks})
    assert Nvml("a").supported_sm_mhz == (345, 1965, 1980)


def test_the_older_query_serves_drivers_that_lack_the_newer(script: Script) -> None:
    script({"GPU-a": H200 | {"reasons": 0x40}}, refuse={"nvmlDeviceGetCurrentClocksEventReasons": 3})
    assert Nvml("a").clock_state().throttle == ("hardware thermal slowdown",)


@pytest.mark.parametrize(("sm_mhz", "throttle"), [(1980, ()), (1965, ("software power cap",))])
def test_a_reason_named_at_the_highest_clock_holds_nothing_down(
    script: Script, sm_mhz: int, throttle: tuple[str, ...]
) -> None:
    script({"GPU-a": H200 | {"sm_mhz": sm_mhz, "max_sm_mhz": 1980, "reasons": 0x4}})
    assert Nvml("a").clock_state().throttle == throttle


def test_mig_mode_and_highest_clock_are_asked_for_once(script: Script) -> None:
    log = script({"GPU-a": H200 | {"mig": 1, "max_sm_mhz": 1980}})
    nvml = Nvml("a")
    found = [(nvml.mig_mode, nvml.max_sm_mhz) for _ in range(3)]
    assert found == [(True, 1980)] * 3
    names = [json.loads(line)[1] for line in log.read_text(encoding="utf-8").splitlines()]
    assert (names.count("nvmlDeviceGetMigMode"), names.count("nvmlDeviceGetMaxClockInfo")) == (1, 1)


def test_a_slice_stands_for_its_gpu(script: Script) -> None:
    script({"GPU-a": H200 | {"mig": 1}}, slices={"MIG-s": "GPU-a"})
    nvml = Nvml("s")
    assert (nvml.uuid, nvml.sm_mhz(), nvml.mig_mode) == ("GPU-a", 1980, True)


def test_an_unknown_device_is_named(script: Script) -> None:
    script({"GPU-a": H200})
    with pytest.raises(SetupError, match="GPU-b: Not Found; MIG-b: Not Found"):
        Nvml("b")


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0x0, ()),
        (0x1 | 0x2, ()),
        (0x4 | 0x1, ("software power cap",)),
        (0x8 | 0x20 | 0x80, ("hardware slowdown", "software thermal slowdown", "hardware power brake")),
        (0x10000, ("unknown reason 0x10000",)),
    ],
)
def test_idle_and_clocks_set_by_somebody_are_no_throttling(mask: int, names: tuple[str, ...]) -> None:
    assert throttle_reasons(mask) == names


def test_readings_are_of_the_device_that_torch_means(script: Script, torch_devices: dict[str, str]) -> None:
    script({"GPU-a": H200, "GPU-b": H200 | {"sm_mhz": 1200}})
    torch_devices["cuda:0"] = "b"  # CUDA_VISIBLE_DEVICES=1
    state = clock_source("cuda:0").read()
    assert state is not None
    assert state.sm_mhz == 1200


def test_without_the_binding_clocks_are_unknown_and_the_command_is_named(
    torch_devices: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_devices["cuda:0"] = "a"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    source = clock_source("cuda:0")
    assert source.read() is None
    assert isinstance(source, NoClocks)
    assert "pip install nvidia-ml-py" in source.reason


def test_without_a_driver_clocks_are_unknown_with_nvmls_reason(script: Script, torch_devices: dict[str, str]) -> None:
    script({}, refuse={"nvmlInit": DRIVER_NOT_LOADED})
    torch_devices["cuda:0"] = "a"
    source = clock_source("cuda:0")
    assert isinstance(source, NoClocks)
    assert "Driver Not Loaded" in source.reason


def test_the_cpu_has_no_clocks_to_miss() -> None:
    assert clock_source("cpu") == NoClocks("")


def states(*sm_mhz: int | None, memory_mhz: int = 3201) -> list[ClockState]:
    return [ClockState(sm_mhz=mhz, memory_mhz=memory_mhz) for mhz in sm_mhz]


@pytest.mark.parametrize(
    ("readings", "warnings"),
    [
        ([], ()),
        (states(1980, 1980, 1980), ()),
        (states(1980, 1950, 1980), ()),  # 1.5 %
        (states(1980, 1980, 1755), ("clock: SM 1980 -> 1755 MHz",)),
        (states(1980, 1755, 1980), ("clock: SM 1980 -> 1755 -> 1980 MHz",)),
        (states(None, None), ()),
        (states(1980) + states(1980, memory_mhz=2619), ("clock: memory 3201 -> 2619 MHz",)),
    ],
)
def test_clocks_that_moved_by_more_than_two_percent_are_told(
    readings: list[ClockState], warnings: tuple[str, ...]
) -> None:
    assert clock_warnings(readings) == warnings


def test_every_throttle_reason_is_told_once() -> None:
    capped = ClockState(sm_mhz=1755, throttle=("software power cap",))
    hot = ClockState(sm_mhz=1755, throttle=("software power cap", "hardware thermal slowdown"))
    assert clock_warnings([capped, hot]) == ("throttled: software power cap, hardware thermal slowdown",)
