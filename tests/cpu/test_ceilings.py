"""What a device can do: found by doing it, kept for a month, measured again when anything that matters changed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from graphbench.condition_records import Ceiling
from graphbench.measurements import Measurement, Work
from graphbench.measuring import ceilings as measuring
from graphbench.measuring.ceilings import CeilingStore, arithmetics_of, ceilings_of, key_of
from graphbench.timing import ceilings as finding
from graphbench.timing.fake import FakeTimer
from graphbench.timing.wallclock import WallClock
from tests.factories import environment, node, post_grad, region, steady, worked

NOW = "2026-03-04T05:06:07+00:00"
CPU = torch.device("cpu")
COPY = Ceiling(device="cpu", kind="copy", value=1e10, measured=NOW)
PRODUCT = Ceiling(device="cpu", kind="matmul", value=1e11, measured=NOW, arithmetic="float32")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(finding, "CPU_BLOCKS", (1 << 20,))
    monkeypatch.setattr(finding, "CPU_SIDES", (64,))
    monkeypatch.setattr(finding, "CACHED_BLOCKS", ())
    monkeypatch.setenv("GRAPHBENCH_CACHE_DIR", str(tmp_path))


def found(**changes: object) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    options: dict[str, object] = {"locked_mhz": None, "fresh": False, "quiet": lambda: True, "now": NOW, **changes}
    linear = node("linear", worked(steady(10.0), 1, 1, flops=2))
    return ceilings_of(WallClock(), CPU, environment(), [region([linear])], **options)  # type: ignore[arg-type]


def test_bandwidths_and_products_are_found_and_say_how() -> None:
    ceilings, notes = found()
    assert notes == ()
    assert {(entry.kind, entry.arithmetic) for entry in ceilings} == {
        *(("copy", ""), ("read", ""), ("write", ""), ("matmul", "float32"))
    }
    assert all(entry.value > 0 and entry.device == "cpu" and not entry.cached for entry in ceilings)
    assert next(entry for entry in ceilings if entry.kind == "write").how == f"fill_ of {1 << 20} bytes"


def test_a_rate_is_work_by_the_best_way_and_its_best_sample() -> None:
    block = 1 << 20

    def script(row: str, sample: int) -> float:
        times_ns = {"copy_": 2000.0, "mul": 1000.0, "sum": 500.0, "amax": 800.0, "fill_": 400.0, "mm float32": 100.0}
        return times_ns[row] + (50.0 if sample else 0.0)

    result = finding.find_ceilings(FakeTimer(script), CPU, ("float32",), when=NOW, room_bytes=None, only=False)
    assert {entry.kind: round(entry.value / 1e9, 3) for entry in result.ceilings} == {
        "copy": round(2 * block / 1000, 3),
        "read": round(block / 500, 3),
        "write": round(block / 400, 3),
        "matmul": round(2 * 64**3 / 100, 3),
    }


def test_smaller_copies_of_a_warm_cache_are_at_least_as_fast_as_larger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "CACHED_BLOCKS", (1000, 2000, 4000))
    times_ns = iter([400.0, 100.0, 100.0])  # the largest first; the smallest pays for its call

    def script(row: str, sample: int) -> float:
        if row != "cached mul":
            return 1e6
        current[:] = current if sample else [next(times_ns)]
        return current[0]

    current: list[float] = []
    result = finding.find_ceilings(FakeTimer(script), CPU, (), when=NOW, room_bytes=None, only=False)
    cached = {entry.within_bytes: round(entry.value / 1e9, 6) for entry in result.ceilings if entry.within_bytes}
    assert cached == {8000: 20.0, 4000: 40.0, 2000: 40.0}


def test_the_second_run_takes_what_the_first_one_measured() -> None:
    first, _ = found()
    second, _ = found()
    assert [entry.value for entry in second] == [entry.value for entry in first]
    assert all(entry.cached and entry.measured == NOW for entry in second)


def test_the_users_random_numbers_are_those_that_they_would_have_been() -> None:
    before = torch.get_rng_state()
    found()
    assert torch.equal(torch.get_rng_state(), before)


def test_blocks_are_as_large_as_told_whatever_the_default_dtype_is(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    copy = torch.Tensor.copy_
    monkeypatch.setattr(torch.Tensor, "copy_", lambda own, source: sizes.append(source.nbytes) or copy(own, source))
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        finding.find_ceilings(WallClock(), CPU, (), when=NOW, room_bytes=None, only=False)
    finally:
        torch.set_default_dtype(default)
    assert set(sizes) == {1 << 20}


def test_a_fresh_one_is_measured_again() -> None:
    found()
    again, _ = found(fresh=True, now="2026-03-05T05:06:07+00:00")
    assert not any(entry.cached for entry in again)


def test_what_was_measured_while_others_took_the_cpu_is_not_kept() -> None:
    assert len(found(quiet=lambda: False)[0]) == 4
    assert not any(entry.cached for entry in found()[0])


def test_whether_others_took_the_cpu_is_asked_when_all_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    find = finding.find_ceilings
    monkeypatch.setattr(measuring, "find_ceilings", lambda *a, **k: happened.append("measured") or find(*a, **k))
    found(quiet=lambda: happened.append("asked") or True)
    assert happened == ["measured", "asked"]


def test_a_product_that_takes_long_is_not_tried_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "CPU_SIDES", (64, 1 << 20))
    timer = FakeTimer(lambda row, sample: 2e9 * finding.LONGEST_S)
    result = finding.find_ceilings(timer, CPU, ("float32",), when=NOW, room_bytes=None, only=True)
    assert [entry.how for entry in result.ceilings] == ["product of two 64x64 matrices"]


def test_a_ceiling_that_a_row_exceeds_is_measured_again() -> None:
    slow = dataclasses.replace(PRODUCT, value=100.0)  # FLOP per second, where a row does two in 10 ns
    CeilingStore.open().keep(key_of(environment(), "wallclock", None), (COPY, slow))
    ceilings, _ = found()
    assert not any(entry.cached for entry in ceilings)


def test_after_a_month_it_is_measured_again() -> None:
    found()
    again, _ = found(now="2026-04-05T05:06:07+00:00")
    assert not any(entry.cached for entry in again)


def test_another_locked_clock_has_ceilings_of_its_own() -> None:
    found()
    again, _ = found(locked_mhz=1200)
    assert not any(entry.cached for entry in again)


def test_only_products_in_an_arithmetic_that_is_missing_are_measured() -> None:
    store = CeilingStore.open()
    store.keep(key_of(environment(), "wallclock", None), (COPY,))
    ceilings, _ = found()
    assert [(entry.kind, entry.cached) for entry in ceilings] == [("copy", True), ("matmul", False)]
    assert ceilings[0].value == COPY.value


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"key": 3}', '{"key": [{"device": "cpu"}]}', "[" * 100_000, '{"key": [{"kind": "copy"}]}'],
)
def test_a_damaged_file_is_measured_over(content: str, tmp_path: Path) -> None:
    (tmp_path / "ceilings.json").write_text(content)
    ceilings, notes = found()
    assert len(ceilings) == 4
    assert notes == ()
    assert len(json.loads((tmp_path / "ceilings.json").read_text())) == 1


@pytest.mark.parametrize("change", [{"value": -1.0}, {"value": "much"}, {"kind": "guess"}, {"measured": "today"}])
def test_an_entry_that_is_no_ceiling_is_not_taken(change: dict[str, object], tmp_path: Path) -> None:
    plain = dataclasses.asdict(COPY) | change
    (tmp_path / "ceilings.json").write_text(json.dumps({key_of(environment(), "wallclock", None): [plain]}))
    assert not any(entry.cached for entry in found()[0])


def test_a_folder_that_cannot_be_written_is_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRAPHBENCH_CACHE_DIR", str(tmp_path / "file" / "below"))
    ceilings, notes = found()
    assert len(ceilings) == 4
    assert "measured anew in every run" in notes[0]


def test_an_arithmetic_that_cannot_multiply_is_named() -> None:
    result = finding.find_ceilings(WallClock(), CPU, ("bits8",), when=NOW, room_bytes=None, only=True)
    assert result.ceilings == ()
    assert result.missing[0].startswith("products in bits8: ")


def test_without_room_there_are_no_bandwidths_and_the_reason_is_told() -> None:
    result = finding.find_ceilings(WallClock(), CPU, (), when=NOW, room_bytes=1 << 20, only=False)
    assert result.ceilings == ()
    assert "1048576 bytes are free, 4194304 are needed" in result.missing[0]


def test_scripted_times_are_no_ceilings() -> None:
    asked = {"locked_mhz": None, "fresh": False, "quiet": lambda: True, "now": NOW}
    assert ceilings_of(FakeTimer({}), CPU, environment(), [], **asked) == ((), ())  # type: ignore[arg-type]


def test_arithmetics_are_those_of_all_measured_rows() -> None:
    def counted(arithmetic: str) -> Measurement:
        return dataclasses.replace(
            steady(1.0), work=Work(flops=1, arithmetic=arithmetic, read_bytes=0, written_bytes=0)
        )

    entry = node("linear", counted("float32"), backward=counted("tf32"))
    lowered = dataclasses.replace(post_grad("mm"), isolated=counted("bfloat16"))
    assert arithmetics_of([region([entry], post_grad=(lowered,))]) == {"float32", "tf32", "bfloat16"}
