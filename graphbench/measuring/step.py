"""A whole live step: warmed up, recorded once, and measured; or recorded as a block of the user's own code."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import torch

from graphbench.errors import CaptureError, GraphbenchError, UsageError, first_line
from graphbench.measuring.call_inputs import input_records
from graphbench.measuring.locking import clock_lock
from graphbench.measuring.options import timers_for
from graphbench.measuring.recording import Recorded, Recorder, compile_count
from graphbench.measuring.whole import device_of_regions, measure_session
from graphbench.options import MeasureOptions, TimerChoice
from graphbench.records import ProfileRecord
from graphbench.runs.ledger import Ledger
from graphbench.session import Session
from graphbench.step_records import StepRecord
from graphbench.tensors import device_named, device_of, tensors_of

NO_PLAIN_TIME = "every warm-up step compiled, so the step has no uninstrumented time: use more warmup_steps"
NO_BLOCK_TIME = "a recorded block runs once, so it has no uninstrumented time"
FREE_MEMORY_PART = 0.5
WARMUP_STEPS = 3
REHEARSED_FROM = 3
"""With so many warm-up steps: one compiles, one is timed, one is left."""


def profile_step(
    session: Session,
    fn: Callable[..., Any],
    args: Sequence[Any],
    warmup_steps: int,
    restore: Sequence[Any],
    options: MeasureOptions,
    *,
    ledger: Ledger | None = None,
    leave: Callable[[], None] | None = None,
) -> ProfileRecord:
    """Warm up, record one call of `fn`, then measure the regions and the gap ops that it ran.

    `ledger` and `leave` are those of `measure_session`.

    Raises:
        CaptureError: `fn` raised, or ran no tensor op.
        UsageError: fewer than one warm-up step.
    """
    inputs = input_records(args, {})  # before a step may change them
    with _state_put_back(restore):
        recorded = recorded_step(session, fn, args, warmup_steps, options)
    return replace(measure_session(session, options, recorded=recorded, ledger=ledger, leave=leave), inputs=inputs)


def recorded_step(
    session: Session, fn: Callable[..., Any], args: Sequence[Any], warmup_steps: int, options: MeasureOptions
) -> Recorded:
    """Warm up and record one call of `fn`. Of three warm-ups and more, the last is a rehearsal of the recording.

    Raises:
        CaptureError: `fn` raised, or ran no tensor op.
        UsageError: fewer than one warm-up step.
    """
    if warmup_steps < 1:
        raise UsageError(f"warmup_steps={warmup_steps}: expected at least 1, since the first step compiles")
    step = compiled_first(fn)
    timed = [_timed(session, step, args)]
    device = _device(session, fn, args)
    recorder = Recorder(session, timers_for(options, device).running, device, _held_budget(session, device))
    notes: list[str] = []
    with clock_lock(options, device, notes):
        if warmup_steps > 1 or options.lock_gpu_clock is not None:
            timed.clear()  # a first step is no ordinary one, and the recorded one may have another clock
        before = _calls(session)
        for i in range(1, warmup_steps):
            before = _calls(session)
            if i < REHEARSED_FROM - 1 or i < warmup_steps - 1:
                timed.append(_timed(session, step, args))
            else:
                with recorder.rehearsal():
                    _call(step, args)
        last = _calls(session)
        with recorder.recording():
            _call(step, args)
    if not recorder.reached and not any(op.calls for op in recorder.gaps.rows.values()):
        raise CaptureError("the step ran no tensor op", hint="let it call what should be measured")
    if warmup_steps > 1 and not recorder.still_compiled:
        notes += _not_run_again(before, last, _calls(session))
    walls_ns = tuple(float(wall_ns) for wall_ns, compiled in timed if not compiled)
    if not walls_ns:
        notes.append(NO_PLAIN_TIME)
    return Recorded(recorder, device, walls_ns, tuple(notes))


class LiveBlock:
    """Records a block of the user's own code, which runs once.

    Args:
        session: whose regions are labelled.
        timer: as in `MeasureOptions`.
        device: what the block runs on; found out by default.
    """

    def __init__(self, session: Session, timer: TimerChoice, device: str | None) -> None:
        self._session = session
        self._timer = timer
        self._device = device_named(device) if device is not None else _device(session, None, ())
        self._recorder: Recorder | None = None
        self._recording: contextlib.AbstractContextManager[None] | None = None
        self._recorded: Recorded | None = None
        self._raised = ""

    def __enter__(self) -> None:
        if self._recorder is not None:
            raise UsageError("this recording has been used", hint="call graphbench.record() again for another block")
        timers = timers_for(MeasureOptions(timer=self._timer), self._device)
        self._recorder = Recorder(
            self._session, timers.running, self._device, _held_budget(self._session, self._device)
        )
        self._recording = self._recorder.recording()
        self._recording.__enter__()

    def __exit__(self, *error: Any) -> None:
        assert self._recording is not None
        assert self._recorder is not None
        self._raised = error[0].__name__ if error[0] is not None else ""
        self._recording.__exit__(*error)
        if self._raised:
            return
        self._recorded = Recorded(self._recorder, self._device, notes=(NO_BLOCK_TIME,))

    @property
    def recorded(self) -> Recorded:
        """What the block did.

        Raises:
            UsageError: the block has not been left, or it raised.
        """
        if self._raised:
            raise UsageError(
                f"nothing is recorded: the block raised {self._raised}", hint="record a block that runs to its end"
            )
        if self._recorded is None:
            raise UsageError("nothing is recorded yet", hint="leave the `with graphbench.record()` block first")
        return self._recorded

    def step(self) -> StepRecord:
        """The block as a step; its gap ops are not measured alone."""
        return self.recorded.step()

    def profile(self, options: MeasureOptions) -> ProfileRecord:
        """Measure the regions and the gap ops that the block ran."""
        return measure_session(self._session, options, recorded=self.recorded)


def compiled_first(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The callable itself, or a module in which nothing is compiled yet, compiled.

    Source: `torch._dynamo.eval_frame.OptimizedModule`, `nn.Module._compiled_call_impl`, torch 2.13.
    """
    if not isinstance(fn, torch.nn.Module):
        return fn
    optimized = torch._dynamo.eval_frame.OptimizedModule
    if any(isinstance(module, optimized) or module._compiled_call_impl is not None for module in fn.modules()):
        return fn
    from graphbench.session import backend

    compiled: Callable[..., Any] = torch.compile(fn, backend=backend)
    return compiled


@contextlib.contextmanager
def _state_put_back(owners: Sequence[Any]) -> Iterator[None]:
    states = [copy.deepcopy(owner.state_dict()) for owner in owners]
    try:
        yield
    finally:
        for owner, state in zip(owners, states, strict=True):
            owner.load_state_dict(state)


def _device(session: Session, fn: Callable[..., Any] | None, args: Sequence[Any]) -> torch.device:
    """What a step runs on: what its regions do, else its module and arguments, else CUDA where it is in use."""
    if any(region.capture is not None for region in session.regions):
        return device_of_regions(session)
    owned = [*fn.parameters(), *fn.buffers()] if isinstance(fn, torch.nn.Module) else []
    found = device_of([*owned, *tensors_of(list(args))])
    if found.type == "cpu" and not owned and torch.cuda.is_initialized() and torch.cuda.memory_allocated():
        return torch.device("cuda", torch.cuda.current_device())
    return found


def _held_budget(session: Session, device: torch.device) -> int:
    """Bytes that arguments of gap ops may keep alive until they are measured."""
    left = session.budget_left_bytes(device)
    if device.type != "cuda":
        return left
    free, _ = torch.cuda.mem_get_info(device)
    return min(left, int(free * FREE_MEMORY_PART))


def _calls(session: Session) -> dict[str, int]:
    """Calls of every graph so far, whatever their sizes."""
    found: dict[str, int] = {}
    for region in session.regions:
        key = region.shapes_of or region.key
        found[key] = found.get(key, 0) + region.calls
    return found


def _not_run_again(before: dict[str, int], last: dict[str, int], after: dict[str, int]) -> list[str]:
    """A note for every region that the step before ran more often than the recorded one."""
    found = []
    for key, calls in last.items():
        expected, ran = calls - before.get(key, 0), after[key] - calls
        if ran < expected:
            found.append(
                f"{key} ran {expected}x in the step before and {ran}x in the recorded one: where the step is the same, "
                "its ops ran eagerly, and are gap ops here"
            )
    return found


def _timed(session: Session, step: Callable[..., Any], args: Sequence[Any]) -> tuple[int, bool]:
    """Wall time of one whole step in nanoseconds, the device drained before and after; and whether it compiled."""
    before = compile_count(session)
    _drain()
    start_ns = perf_counter_ns()
    _call(step, args)
    _drain()
    return perf_counter_ns() - start_ns, compile_count(session) != before


def _drain() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _call(step: Callable[..., Any], args: Sequence[Any]) -> Any:
    try:
        return step(*args)
    except GraphbenchError:
        raise
    except Exception as error:  # the user's own code: whatever it raises, the message names it
        inner = getattr(error, "inner_exception", None)  # torch wraps what a backend raises
        if isinstance(inner, GraphbenchError):
            raise inner from error
        cause = inner if isinstance(inner, Exception) else error
        raise CaptureError(
            f"the step raised {type(cause).__name__}: {first_line(cause)}",
            hint="run it without graphbench to see where; the traceback is this error's cause (--debug shows it)",
        ) from error
