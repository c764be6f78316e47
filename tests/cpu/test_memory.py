"""Memory while measuring: what does not fit is skipped, what runs out is a row and frees everything, nothing grows."""

from __future__ import annotations

import gc
import resource
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from graphbench import memory, session
from graphbench.isolate import compare, pool
from graphbench.isolate.held import Stub
from graphbench.isolate.pool import copies_bytes
from graphbench.measurements import Measurement
from graphbench.measuring.calls import Call
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.options import Timers, policy_of
from graphbench.measuring.peaks import eager_peak
from graphbench.memory import MemoryBudget, forget
from graphbench.options import MeasureOptions
from graphbench.records import RegionRecord
from graphbench.regions import Region
from graphbench.timing.fake import FakeTimer
from tests.cpu.stories import Scores, batch, captured, measured

CPU = torch.device("cpu")
OUT = "CUDA out of memory. Tried to allocate 20.00 GiB"


def isolator(**options: Any) -> Isolator:
    timer = FakeTimer(lambda _row, _sample: 1000.0)
    timers = Timers(timer, timer)
    return Isolator(CPU, timers, policy_of(MeasureOptions(repeat=2, warmup=1, **options), timers))


def isolate(call: Call, **options: Any) -> Measurement:
    _, verdict = isolator(**options).isolate(call, lambda: call.function(*call.args))
    return verdict.measurement


def call_of(function: Callable[..., Any], *args: Any, **more: Any) -> Call:
    return Call("row", function, args, {}, identity=function, **more)


# --- what fits --------------------------------------------------------------------------------------------------------


def test_a_unit_past_the_budget_is_skipped_with_both_figures() -> None:
    found = isolate(call_of(torch.relu, torch.zeros(1024)), memory_budget=1000)
    assert found.status == "skipped"
    assert found.reason == "does not fit: its copies need 4.00 KiB, the memory budget leaves 1000 B"


def test_a_unit_within_the_budget_is_measured() -> None:
    assert isolate(call_of(torch.relu, torch.zeros(1024)), memory_budget=4096).status == "ok"


def test_made_up_values_are_kept_twice() -> None:
    call = call_of(torch.relu, torch.zeros(1024))
    assert isolate(call, memory_budget=8191, values="synthetic").reason.startswith("does not fit: its copies need 8.00")
    assert isolate(call, memory_budget=8192, values="synthetic").status == "ok"


def test_the_trials_results_and_a_samples_count_where_they_are_known() -> None:
    call = call_of(torch.relu, torch.zeros(1024), result_bytes=4096)
    assert isolate(call, memory_budget=12287).status == "skipped"
    assert isolate(call, memory_budget=12288).status == "ok"


def test_a_backward_past_the_budget_is_skipped() -> None:
    call = call_of(torch.exp, torch.zeros(1024, requires_grad=True), with_grad=True)
    found = isolator(memory_budget=8191).isolate_backward(call)
    assert found.reason == "does not fit: its copies need 8.00 KiB, the memory budget leaves 8.00 KiB"
    assert isolator(memory_budget=8192).isolate_backward(call).status == "ok"


def test_a_batch_past_the_budget_costs_the_row_only_its_batch() -> None:
    found = isolate(call_of(torch.relu, torch.zeros(1024)), memory_budget=9000, batch=4)
    assert (found.status, found.batch_ns) == ("ok", None)
    assert "does not fit: 4 times its copies need 16.0 KiB" in found.warnings[-1]


def test_overlapping_views_are_copied_once() -> None:
    base = torch.zeros(100)
    assert copies_bytes([base[:60], base[40:], torch.zeros(10)], CPU) == 440


def test_without_a_budget_free_memory_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_host_bytes", lambda: 64)
    assert isolate(call_of(torch.relu, torch.zeros(1024))).reason.endswith("the memory budget leaves 63 B")


def test_what_is_kept_from_unit_to_unit_leaves_less() -> None:
    budget = MemoryBudget(CPU, 1000)
    budget.held_bytes = 400
    assert budget.left_bytes() == 600


def test_where_no_free_memory_is_told_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_host_bytes", lambda: None)
    MemoryBudget(CPU).check(1 << 60)


def test_a_budget_of_nothing_skips_every_unit_of_a_region_and_loses_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    captured(Scores(), batch())
    (region,) = session_profile(memory_budget=1)
    assert region.status == "ok"
    rows = [*(node.isolated for node in region.nodes), *(kernel.isolated for kernel in region.kernels)]
    assert {row.status for row in rows} == {"skipped"}
    assert all(row.reason.startswith("does not fit: its copies need") for row in rows)
    assert region.forward.run is not None


def session_profile(**options: Any) -> tuple[RegionRecord, ...]:
    from graphbench.measuring.whole import measure_session

    return measure_session(session.current(), MeasureOptions(repeat=2, warmup=1, progress=False, **options)).regions


def test_arguments_that_were_not_kept_say_what_making_them_takes() -> None:
    stub = Stub((10, 10), (10, 1), torch.bfloat16, CPU, 2)
    assert (stub.nbytes, stub.drawn_bytes) == (204, 408)
    assert stub.made().untyped_storage().nbytes() == 204


# --- running out ------------------------------------------------------------------------------------------------------


class RunsOut:
    """Raises out of memory in its first `times` calls, and holds what it was given meanwhile."""

    def __init__(self, times: int, error: Exception | None = None) -> None:
        self.left = times
        self.error = error or torch.OutOfMemoryError(OUT)
        self.seen: list[StorageWeakRef] = []
        self.first_alive: list[bool] = []

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.first_alive.append(bool(self.seen) and not self.seen[0].expired())
        held = x.exp()
        self.seen += [StorageWeakRef(x.untyped_storage()), StorageWeakRef(held.untyped_storage())]
        if self.left:
            self.left -= 1
            raise type(self.error)(*self.error.args)
        return held


def test_a_unit_that_runs_out_once_is_tried_again_without_its_first_copies() -> None:
    runs_out = RunsOut(1)
    assert isolate(call_of(runs_out, torch.zeros(8))).status == "ok"
    assert runs_out.first_alive[1] is False


def test_a_unit_that_runs_out_twice_is_a_row_with_torchs_figures() -> None:
    found = isolator().alone(call_of(RunsOut(2), torch.zeros(8)))
    assert found.status == "failed"
    assert found.reason == f"out of memory, also after all unused memory was given back: {OUT}"


def test_the_cpus_allocator_is_understood() -> None:
    error = RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried")
    assert "out of memory" in isolator().alone(call_of(RunsOut(2, error), torch.zeros(8))).reason


def test_other_errors_are_not_tried_again() -> None:
    boom = RunsOut(1, ValueError("mine"))
    assert isolator().alone(call_of(boom, torch.zeros(8))).reason.endswith(": alone it raises ValueError: mine")


@pytest.mark.parametrize("times", [1, 2])
def test_running_out_keeps_nothing_alive_even_without_the_collector(times: int) -> None:
    runs_out = RunsOut(times)
    gc.collect()
    gc.disable()
    try:
        isolator().alone(call_of(runs_out, torch.zeros(8)))
        assert [entry.expired() for entry in runs_out.seen] == [True] * len(runs_out.seen)
    finally:
        gc.enable()


def test_an_error_is_forgotten_with_everything_its_frames_hold() -> None:
    tensor = torch.zeros(8)
    gone = weakref.ref(tensor)

    def inner(held: torch.Tensor) -> None:
        raise ValueError(held.shape)

    def outer(held: torch.Tensor) -> None:
        try:
            inner(held)
        except ValueError as error:
            raise RuntimeError("outer") from error

    try:
        outer(tensor)
    except RuntimeError as error:
        kept = error
    del tensor
    forget(kept)
    assert gone() is None


def test_a_result_too_large_to_compare_costs_the_row_only_its_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    def out(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError(OUT)

    monkeypatch.setattr("graphbench.isolate.bench_unit.compare_trees", out)
    found = isolate(call_of(torch.relu, torch.zeros(8)))
    assert found.status == "ok"
    assert found.fidelity is not None
    assert (found.fidelity.equal, found.fidelity.note) == (None, "not compared: out of memory")


def test_pieces_compare_as_the_whole_does(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = torch.randn(7, 11), torch.randn(7, 11)
    expected = compare.compare_tensors(one, other)
    monkeypatch.setattr(compare, "PIECE_ELEMENTS", 5)
    assert compare.compare_tensors(one, other) == expected
    assert compare.compare_tensors(one, one.clone()).equal is True
    assert compare.compare_tensors(one.t(), one.t().clone()).equal is True


def test_pieces_find_the_one_byte_that_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PIECE_BYTES", 3)
    pooled = pool.TensorPool((torch.zeros(10),))
    assert pooled.changed() == set()
    (copy,) = pooled.tree()
    copy[9] = 1.0
    assert len(pooled.changed()) == 1


# --- peaks ------------------------------------------------------------------------------------------------------------


def peak_of(function: Callable[..., Any], *args: Any) -> tuple[str, dict[str, int]]:
    region: Region = captured(function, *args)
    found = eager_peak(region, [])
    assert found is not None
    return found.node, found.held


def test_without_grad_a_result_counts_until_its_last_reader_has_run() -> None:
    x = torch.zeros(256)

    def chain(x: torch.Tensor) -> torch.Tensor:
        return x.exp().repeat(4).sin().sum()

    node, held = peak_of(torch.no_grad()(chain), x)
    assert (node, held) == ("sin", {"repeat": 4096, "sin": 4096})


def test_what_autograd_saves_stays_alive() -> None:
    x = torch.zeros(256, requires_grad=True)
    node, held = peak_of(lambda x: x.exp().sin().cos(), x)
    assert (node, held) == ("cos", {"exp": 1024, "sin": 1024, "cos": 1024})


def test_what_an_op_saves_for_itself_counts_as_its_own() -> None:
    x, y = torch.zeros(64, 16, requires_grad=True), torch.zeros(64, dtype=torch.int64)
    node, held = peak_of(torch.nn.functional.cross_entropy, x, y)
    assert node.startswith("cross_entropy")
    assert held[node] >= 64 * 16 * 4  # the log-softmax, which no node returns


def test_views_and_writes_in_place_hold_nothing_of_their_own() -> None:
    with torch.no_grad():
        node, held = peak_of(lambda x: (x + 1).view(16, 16).relu_().t(), torch.zeros(256))
    assert (sorted(held), sum(held.values())) == (["add"], 1024)
    assert node == "add"


def test_inputs_and_parameters_do_not_count() -> None:
    net = torch.nn.Linear(16, 16)
    _, held = peak_of(net, batch())
    assert held == {"linear": 8 * 16 * 4}


def test_a_measured_region_has_the_peak_and_every_nodes_part() -> None:
    found = measured(Scores(), batch())
    parts = {node.name: node.peak_bytes for node in found.nodes}
    assert sum(size or 0 for size in parts.values()) == found.peak_bytes
    assert found.peak_node == "softmax"
    assert found.forward.peak_bytes is None  # the CPU's allocator does not count


# --- growth -----------------------------------------------------------------------------------------------------------


def tensors_alive() -> int:
    return sum(issubclass(type(entry), torch.Tensor) for entry in gc.get_objects())


def test_a_thousand_measurements_leave_nothing_behind() -> None:
    def some(count: int) -> None:
        found = isolator()
        for size in range(count):
            x = torch.zeros(8 + size % 7, requires_grad=True)
            call = Call(f"row{size}", torch.exp, (x,), {}, identity=(torch.exp, size), with_grad=True)
            assert found.isolate_backward(call).status == "ok"
            _, verdict = found.isolate(call, lambda: torch.exp(x))  # noqa: B023 - called at once
            assert verdict.measurement.status == "ok"
            if size % 100 == 0:
                assert found.alone(call_of(RunsOut(2), x.detach())).status == "failed"

    some(100)
    gc.collect()
    before, rss_kib = tensors_alive(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    some(1000)
    gc.collect()
    assert tensors_alive() <= before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss_kib < 16 << 10
