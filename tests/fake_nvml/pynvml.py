"""Stands for `pynvml`: GPUs described by a JSON file, which every process sees, and a log of every call beside it.

The environment variable FAKE_NVML names the file: `{"gpus": {UUID: {...}}, "slices": {UUID: UUID of its GPU}}`. A GPU
has `sm_mhz`, `memory_mhz`, `temperature_c`, `milliwatts`, `reasons`, `max_sm_mhz`, `memory_clocks`, `sm_clocks`,
`persistence`, `mig`; what it lacks is not supported. `lock_works: false` lets a lock have no effect; `refuse` maps
calls to error codes. Which clock is locked follows from the log.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

NVML_CLOCK_SM = 1
NVML_CLOCK_MEM = 2
NVML_TEMPERATURE_GPU = 0
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NO_PERMISSION = 4
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_DRIVER_NOT_LOADED = 9

_TEXTS = {3: "Not Supported", 4: "Insufficient Permissions", 6: "Not Found", 9: "Driver Not Loaded"}


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return _TEXTS[self.value]


def _file() -> Path:
    return Path(os.environ["FAKE_NVML"])


def _called(name: str, *arguments: object) -> dict[str, Any]:
    """Log a call, refuse it if the file says so, and give the file's content."""
    with _log().open("a", encoding="utf-8") as log:
        log.write(json.dumps([os.getpid(), name, *arguments]) + "\n")
    state: dict[str, Any] = json.loads(_file().read_text(encoding="utf-8"))
    if name in state.get("refuse", {}):
        raise NVMLError(state["refuse"][name])
    return state


def _log() -> Path:
    return _file().with_suffix(".log")


def _ask(name: str, handle: str, key: str) -> Any:
    gpu = _called(name, handle)["gpus"][handle]
    if key not in gpu:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return gpu[key]


def _locked(handle: str) -> int | None:
    calls = [json.loads(line)[1:] for line in _log().read_text(encoding="utf-8").splitlines()]
    changes = [call for call in calls if "LockedClocks" in call[0] and call[1] == handle]
    return changes[-1][2] if changes and len(changes[-1]) > 2 else None


def nvmlInit() -> None:  # noqa: N802  # NVML's own names
    _called("nvmlInit")


def nvmlDeviceGetHandleByUUID(uuid: str) -> str:  # noqa: N802
    state = _called("nvmlDeviceGetHandleByUUID", uuid)
    if uuid not in state["gpus"] and uuid not in state.get("slices", {}):
        raise NVMLError(NVML_ERROR_NOT_FOUND)
    return uuid


def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle: str) -> str:  # noqa: N802
    parent: str = _called("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)["slices"][handle]
    return parent


def nvmlDeviceGetUUID(handle: str) -> str:  # noqa: N802
    _called("nvmlDeviceGetUUID", handle)
    return handle


def nvmlDeviceGetClockInfo(handle: str, clock: int) -> int:  # noqa: N802
    found: int = _ask("nvmlDeviceGetClockInfo", handle, "sm_mhz" if clock == NVML_CLOCK_SM else "memory_mhz")
    locked = _locked(handle)
    works = json.loads(_file().read_text(encoding="utf-8")).get("lock_works", True)
    return locked if clock == NVML_CLOCK_SM and locked is not None and works else found


def nvmlDeviceGetMaxClockInfo(handle: str, clock: int) -> Any:  # noqa: N802
    return _ask("nvmlDeviceGetMaxClockInfo", handle, "max_sm_mhz")


def nvmlDeviceGetTemperature(handle: str, sensor: int) -> Any:  # noqa: N802
    return _ask("nvmlDeviceGetTemperature", handle, "temperature_c")


def nvmlDeviceGetPowerUsage(handle: str) -> Any:  # noqa: N802
    return _ask("nvmlDeviceGetPowerUsage", handle, "milliwatts")


def nvmlDeviceGetCurrentClocksEventReasons(handle: str) -> Any:  # noqa: N802
    return _ask("nvmlDeviceGetCurrentClocksEventReasons", handle, "reasons")


def nvmlDeviceGetCurrentClocksThrottleReasons(handle: str) -> Any:  # noqa: N802
    return _ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle, "reasons")


def nvmlDeviceGetPersistenceMode(handle: str) -> Any:  # noqa: N802
    return _ask("nvmlDeviceGetPersistenceMode", handle, "persistence")


def nvmlDeviceGetMigMode(handle: str) -> list[Any]:  # noqa: N802
    return [_ask("nvmlDeviceGetMigMode", handle, "mig"), 0]


def nvmlDeviceGetSupportedMemoryClocks(handle: str) -> Any:  # noqa: N802
    return _ask("nvmlDeviceGetSupportedMemoryClocks", handle, "memory_clocks")


def nvmlDeviceGetSupportedGraphicsClocks(handle: str, memory_mhz: int) -> Any:  # noqa: N802
    return _ask("nvmlDeviceGetSupportedGraphicsClocks", handle, "sm_clocks")[str(memory_mhz)]


def nvmlDeviceSetGpuLockedClocks(handle: str, least_mhz: int, most_mhz: int) -> None:  # noqa: N802
    _called("nvmlDeviceSetGpuLockedClocks", handle, least_mhz, most_mhz)


def nvmlDeviceResetGpuLockedClocks(handle: str) -> None:  # noqa: N802
    _called("nvmlDeviceResetGpuLockedClocks", handle)
