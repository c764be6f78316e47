"""Steps that are easily miscounted: threads, dispatch modes, breaks, host reads, nothing compiled, phases."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import graphbench
from graphbench.errors import UsageError
from graphbench.records import ProfileRecord
from graphbench.step_records import Place, StepRecord, StepRow
from tests.cpu.stories import QUICK, clean, compiled
from tests.live import busy_ns, calls, code_of, gap_rows, kernels, prove_explained, recorded

EYE = torch.eye(4)


def square(x: torch.Tensor) -> torch.Tensor:
    return x @ x


def cube(x: torch.Tensor) -> torch.Tensor:
    return x @ x @ x


def places(step: StepRecord) -> dict[str, Place]:
    return {place.key: place for place in step.places}


# threads


@pytest.fixture(scope="module")
def threads() -> StepRecord:
    """Two threads, started by the step, each with a region of its own and ten eager ops of a type of their own."""
    with clean():
        models = compiled(square), compiled(cube)
        for model in models:
            model(EYE)  # torch 2.11 crashes where two threads compile at once

        def work(model: Callable[..., Any], op: Callable[..., Any]) -> None:
            for _ in range(10):
                op(model(EYE))

        def step() -> None:
            started = [
                threading.Thread(target=work, args=pair) for pair in zip(models, (torch.sinh, torch.cosh), strict=True)
            ]
            for thread in started:
                thread.start()
            for thread in started:
                thread.join()

        return recorded(step)


def test_kernels_of_two_threads_are_counted_once_each(threads: StepRecord) -> None:
    assert kernels(threads) == {"r0/forward": 10, "r1/forward": 20}


def test_eager_ops_of_threads_that_the_step_started_are_rows(threads: StepRecord) -> None:
    assert (calls(threads, "sinh"), calls(threads, "cosh")) == (10, 10)


def test_the_gap_behind_a_graph_is_its_own_threads(threads: StepRecord) -> None:
    behind = {(row.op_type, row.place) for row in gap_rows(threads, "sinh", "cosh")}
    assert behind == {("sinh", "after r0/forward"), ("cosh", "after r1/forward")}


def test_tasks_of_a_thread_pool_are_rows() -> None:
    model = compiled(square)
    with ThreadPoolExecutor(1) as pool:
        found = recorded(lambda: pool.submit(lambda: model(EYE).sinh()).result())
    assert kernels(found) == {"r0/forward": 1}
    assert [(row.place, row.calls) for row in gap_rows(found, "sinh")] == [("after r0/forward", 1)]


def test_tasks_of_a_pool_that_the_step_makes_are_counted_once() -> None:
    def step() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: EYE.sinh(), range(4)))

    assert calls(recorded(step), "sinh") == 4


# dispatch modes of the user's own


class PassThrough(TorchDispatchMode):
    """Changes nothing; as most are written, it turns compiled code off."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Harmless(PassThrough):
    """Changes nothing, and says so."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True


def hundred_products(mode: type[TorchDispatchMode]) -> StepRecord:
    model = compiled(square)
    model(EYE)

    def step() -> None:
        with mode():
            y = model(EYE)
            for _ in range(100):
                y = torch.mm(y, y)

    return recorded(step)


def test_ops_under_a_harmless_dispatch_mode_are_counted_once() -> None:
    found = hundred_products(Harmless)
    assert calls(found, "mm") == 100
    assert kernels(found) == {"r0/forward": 1}


@pytest.fixture(scope="module")
def turned_off() -> StepRecord:
    with clean():
        return hundred_products(PassThrough)


def test_ops_of_a_region_that_a_dispatch_mode_turned_off_are_gap_ops(turned_off: StepRecord) -> None:
    assert kernels(turned_off) == {}
    assert calls(turned_off, "mm") == 101
    assert not turned_off.compiled


def test_a_region_that_a_dispatch_mode_turned_off_is_reported(turned_off: StepRecord) -> None:
    assert any("PassThrough" in note and "compile" in note for note in turned_off.notes)


# what the host reads


def test_a_value_that_the_host_reads_is_a_synchronisation() -> None:
    model = compiled(square)

    def step() -> torch.Tensor:
        x = model(EYE)
        return x * x.sum().item()

    found = recorded(step)
    assert {row.op_type: row.kind for row in gap_rows(found)} == {
        "sum": "op",
        "_local_scalar_dense": "sync",
        "mul": "op",
    }
    assert {row.place for row in gap_rows(found)} == {"after r0/forward"}


def test_gaps_dominate_a_loop_of_host_reads() -> None:
    model, counted = compiled(square), torch.arange(4)

    def step() -> float:
        model(EYE)
        return sum(torch.bincount(counted, minlength=4).max().item() for _ in range(100))

    found = recorded(step)
    assert (calls(found, "bincount"), calls(found, "max")) == (100, 100)
    assert {row.op_type for row in gap_rows(found, kind="sync")} == {"bincount", "_local_scalar_dense"}
    assert calls(found, kind="sync") == 200  # bincount asks how long its result is
    assert busy_ns(gap_rows(found)) > busy_ns(row for row in found.rows if row.kernel is not None)


# a disabled function between compiled ops


@torch.compiler.disable
def disabled(x: torch.Tensor) -> torch.Tensor:
    return x.sinh().cosh()


@dataclass(frozen=True)
class Split:
    record: ProfileRecord
    step: StepRecord


@pytest.fixture(scope="module")
def split() -> Split:
    """Two regions with a disabled function between them, measured; afterwards an op behind the last."""
    with clean():
        model = compiled(lambda x: disabled(x @ x) @ x)
        record = graphbench.profile(lambda: model(EYE).neg(), **QUICK).record
        assert record.step is not None
        prove_explained(record.step)
        return Split(record, record.step)


def test_ops_of_a_disabled_function_lie_behind_the_graph_that_it_ended(split: Split) -> None:
    assert {row.op_type: row.place for row in gap_rows(split.step)} == {
        "sinh": "after r0/forward",
        "cosh": "after r0/forward",
        "neg": "after r1/forward",
    }


def test_ops_of_a_disabled_function_carry_their_line(split: Split) -> None:
    rows = gap_rows(split.step, "sinh", "cosh")
    assert {code_of(row) for row in rows} == {"return x.sinh().cosh()"}
    assert {row.source.function for row in rows if row.source} == {"disabled"}


def test_gap_ops_are_isolated_from_their_arguments(split: Split) -> None:
    def shape(row: StepRow) -> list[tuple[int, ...]]:
        return [spec.shape for spec in (*row.inputs, *row.outputs)]

    rows = gap_rows(split.step)
    assert {row.op_type: (row.isolated.status, shape(row)) for row in rows} == dict.fromkeys(
        ("sinh", "cosh", "neg"), ("ok", [(4, 4), (4, 4)])
    )
    assert all(min(row.isolated.samples.busy_ns) > 0 for row in rows if row.isolated.samples)


def test_the_call_of_a_disabled_function_is_named_as_the_break(split: Split) -> None:
    (found,) = split.record.breaks
    assert (found.region, found.kind, found.count) == ("r0", "disabled", 1)
    assert "disabled" in found.cause
    assert found.source is not None
    assert found.source.file == __file__


def test_places_tell_what_ran_next(split: Split) -> None:
    found = places(split.step)
    assert found["r0/forward"].kind == "graph"
    assert found["after r0/forward"].kind == "gap"
    assert found["after r0/forward"].followed_by == ("r1/forward",)
    assert found["after r1/forward"].followed_by == ("end",)
    assert {place.calls for place in found.values() if place.key != "start"} == {1}


def test_places_last_as_long_as_what_ran_there(split: Split) -> None:
    for key, place in places(split.step).items():
        own = [row for row in split.step.rows if row.place == key]
        assert place.host_ns >= busy_ns(own)
    total = sum(place.host_ns for place in split.step.places)
    assert total <= split.step.run.wall_ns[0]


# steps without, or with little, of anything compiled


def test_a_model_of_which_nothing_compiles_is_all_gap_ops() -> None:
    def reads(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):  # a break inside a loop: Dynamo gives the whole frame up
            x = x * x.sum().item()
        return x

    found = graphbench.profile(compiled(reads), EYE, **QUICK).record
    assert found.step is not None
    prove_explained(found.step)
    assert not found.step.compiled
    assert kernels(found.step) == {}
    assert (calls(found.step, "sum"), calls(found.step, "mul")) == (3, 3)
    assert {row.isolated.status for row in gap_rows(found.step, "mul")} == {"ok"}
    assert [(entry.kind, entry.region) for entry in found.breaks] == [("skipped", None)]


def test_a_step_without_anything_compiled_is_recorded() -> None:
    found = recorded(lambda: EYE.sinh().cosh())
    assert not found.compiled
    assert {row.op_type: row.place for row in found.rows} == {"sinh": "start", "cosh": "start"}


# record and phase


@pytest.fixture(scope="module")
def generation() -> tuple[StepRecord, ProfileRecord]:
    """A prefill and three decodes of one compiled function, with phases of the user's own; recorded, then measured."""
    with clean():
        model = compiled(square)
        model(EYE)
        with graphbench.record() as recording:
            with graphbench.phase("prefill"):
                x = model(EYE).sinh()
            for _ in range(3):
                with graphbench.phase("decode"):
                    x = model(x)
                    with graphbench.phase("sample"):
                        x = x.cosh()
            x.neg()
        prove_explained(recording.step)
        return recording.step, recording.profile(**QUICK).record


def test_phases_of_the_users_own_are_timed_and_counted(generation: tuple[StepRecord, ProfileRecord]) -> None:
    step, _ = generation
    found = {phase.name: phase for phase in step.user_phases}
    assert {name: phase.calls for name, phase in found.items()} == {"prefill": 1, "decode": 3, "decode/sample": 3}
    assert found["decode"].host_ns > found["decode/sample"].host_ns > 0


def test_rows_tell_the_users_phase(generation: tuple[StepRecord, ProfileRecord]) -> None:
    step, _ = generation
    assert {row.op_type: row.user_phase for row in gap_rows(step)} == {
        "sinh": "prefill",
        "cosh": "decode/sample",
        "neg": "",
    }
    assert {row.user_phase: row.calls for row in step.rows if row.kernel is not None} == {"prefill": 1, "decode": 3}


def test_what_was_recorded_is_measured_afterwards(generation: tuple[StepRecord, ProfileRecord]) -> None:
    step, record = generation
    assert record.step is not None
    assert [(row.name, row.calls) for row in record.step.rows] == [(row.name, row.calls) for row in step.rows]
    assert [(region.key, region.status) for region in record.regions] == [("r0", "ok")]
    assert {row.isolated.status for row in gap_rows(record.step)} == {"ok"}


def test_a_phase_outside_a_recording_changes_nothing() -> None:
    with graphbench.phase("nobody listens"):
        assert torch.equal(square(EYE), EYE)


def test_a_recording_that_is_left_by_an_exception_lets_it_pass() -> None:
    model = compiled(square)
    model(EYE)

    def fails() -> None:
        with graphbench.record():
            model(EYE)
            raise ValueError("the weather is bad")

    with pytest.raises(ValueError, match="the weather is bad"):
        fails()


def test_what_a_block_that_raised_did_cannot_be_asked_for() -> None:
    recording = graphbench.record()
    with contextlib.suppress(ValueError), recording:
        torch.ones(2)
        raise ValueError("the weather is bad")
    for ask in (lambda: recording.step, recording.profile):
        with pytest.raises(UsageError, match="nothing is recorded: the block raised ValueError"):
            ask()


def test_a_timer_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="timer='sundial'"):
        graphbench.record(timer="sundial")  # type: ignore[arg-type]


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="device='nowhere'"):
        graphbench.record(device="nowhere")


def test_a_step_inside_of_a_phase_is_a_part_of_it() -> None:
    with graphbench.phase("epoch"):
        found = graphbench.profile(lambda: torch.ones(2) + 1, **QUICK).record.step
    assert found is not None
    assert [(phase.name, phase.calls) for phase in found.user_phases] == [("epoch", 1)]
    assert {row.user_phase for row in found.rows} == {"epoch"}
