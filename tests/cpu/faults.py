"""Faults put into a run on purpose, as data: where, which exception, and what became of the process afterwards."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal
from unittest import mock

import torch
from tabulate import tabulate
from torch import nn

import graphbench
from graphbench.errors import GraphbenchError
from graphbench.measuring import options
from graphbench.measuring.options import Timers
from graphbench.records import ProfileRecord
from graphbench.step_records import StepRecord
from graphbench.timing.fake import FakeTimer
from tests.cpu.stories import QUICK, WIDTH, changes, shape_of
from tests.cpu.world import everything, interrupted_at

How = Literal["instead", "behind", "entering", "left", "anywhere"]
Entry = Literal["measure", "profile", "record"]
SEED = 6
N_ANYWHERE = 20


class BoomError(Exception):
    """An ordinary error of the user's code."""


class Own(BaseException):
    """Neither an `Exception` nor an interrupt: nobody may catch it and go on."""


@dataclass(frozen=True)
class Injection:
    """One fault: `exception` raised at `point`, in its `nth` call.

    `how`: in the call's place, right behind it, when the context manager that it returns is entered or has been left,
    or `anywhere`: at the nth place where Python looks for signals (no point). A `point` is `module:attribute.path`.
    """

    entry: Entry
    point: str
    how: How
    exception: type[BaseException]
    nth: int = 1

    @property
    def name(self) -> str:
        """For reports and test ids."""
        where = self.point.removeprefix("graphbench.") or "everywhere"
        return f"{self.entry} {where} {self.how} #{self.nth} {self.exception.__name__}"


@dataclass(frozen=True)
class Outcome:
    """What a fault did. `raised` is what left the call, `None` when it returned; `changes` what is not as before."""

    injection: Injection
    fired: bool
    raised: BaseException | None
    changes: list[str]
    same_rows: bool

    def verdict(self) -> str:
        """Empty when all is well, else what is wrong."""
        expected = self.injection.exception
        contained = self.raised is None or isinstance(self.raised, GraphbenchError)
        wrong = {
            "never reached": not self.fired,
            f"raised {self.raised!r}": self.fired
            and type(self.raised) is not expected
            and not (contained and issubclass(expected, Exception)),
            f"left behind: {', '.join(self.changes)}": bool(self.changes),
            "the next call finds other rows": not self.same_rows,
        }
        return "; ".join(what for what, applies in wrong.items() if applies)


def table(outcomes: Iterable[Outcome]) -> str:
    """The campaign as text, a line per fault."""
    lines = [
        (
            o.injection.entry,
            o.injection.point or "-",
            o.injection.how,
            o.injection.nth,
            o.injection.exception.__name__,
            "rows with a reason" if o.raised is None else type(o.raised).__name__,
            o.verdict() or "as before",
        )
        for o in outcomes
    ]
    return tabulate(lines, headers=["entry", "point", "how", "nth", "raises", "the call", "the process"])


_Touchy: dict[str, Callable[[], None]] = {}  # what the user's op does beside its work, by phase


@torch.library.custom_op("graphbench_tests::touchy", mutates_args=())
def touchy(x: torch.Tensor) -> torch.Tensor:
    """An op of the user's that can be told to raise."""
    _Touchy.get("forward", lambda: None)()
    return x * 2.0


@touchy.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("graphbench_tests::touchy_backward", mutates_args=())
def touchy_backward(gradient: torch.Tensor) -> torch.Tensor:
    """Its backward."""
    _Touchy.get("backward", lambda: None)()
    return gradient * 2.0


@touchy_backward.register_fake
def _(gradient: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(gradient)


torch.library.register_autograd(
    "graphbench_tests::touchy", lambda _, gradient: touchy_backward(gradient), setup_context=lambda *_, **__: None
)


class Touchy(nn.Module):
    """Buffers, random draws, and an op that may raise."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(touchy(self.norm(self.inner(x))).relu())


class Bench:
    """A compiled model, and the three ways of measuring it on the fake timer."""

    def __init__(self, net: nn.Module, x: torch.Tensor) -> None:
        self.net, self.x = net, x
        self.model: Callable[..., Any] = torch.compile(net, backend="graphbench")

    def call(self, entry: Entry) -> list[Any]:
        """Measure; rows and their states, without numbers."""
        if entry == "measure":
            return shape_of(graphbench.measure(**QUICK).record)
        if entry == "profile":
            found = graphbench.profile(self.step, warmup_steps=1, restore=[self.net], **QUICK).record
            return _with_step(found)
        with graphbench.record() as recording:
            self.step()
        return _rows(recording.step)

    def step(self) -> None:
        """Forward and backward; the gradients go to nobody."""
        with torch.random.fork_rng(devices=[]):
            torch.autograd.grad(self.model(self.x).sum(), list(self.net.parameters()))


def _with_step(record: ProfileRecord) -> list[Any]:
    assert record.step is not None
    return [*shape_of(record), *_rows(record.step)]


def _rows(step: StepRecord) -> list[Any]:
    return [(row.name, row.calls, row.in_graph.status, row.isolated.status) for row in step.rows]


@contextlib.contextmanager
def on_the_fake_timer() -> Iterator[None]:
    """All instruments are the fake one: every label costs a microsecond."""
    timer = FakeTimer(lambda row, sample: 1000.0)
    users = ("whole", "step")
    with contextlib.ExitStack() as stack:
        for name in users:
            module = import_module(f"graphbench.measuring.{name}")
            assert module.timers_for is options.timers_for
            stack.enter_context(mock.patch.object(module, "timers_for", return_value=Timers(timer, timer)))
        yield


def inject(bench: Bench, injection: Injection, expected: list[Any]) -> Outcome:
    """Put one fault into a call, and look at the process afterwards.

    Args:
        bench: what is measured.
        injection: the fault.
        expected: rows of a call without any fault.
    """
    before = everything(bench.net, bench.x)
    raised: BaseException | None = None
    with _armed(injection) as fired:
        try:
            bench.call(injection.entry)
        except BaseException as error:  # noqa: BLE001 - it is what the campaign looks at
            raised = error.with_traceback(None)
            raised.__context__ = raised.__cause__ = None  # no frame of the call lives on, as after `except` of a user's
    found = [name for name in changes(before, everything(bench.net, bench.x)) if injection.entry not in _may_move(name)]
    return Outcome(injection, bool(fired), raised, found, bench.call(injection.entry) == expected)


def _may_move(name: str) -> tuple[Entry, ...]:
    """The ways of measuring that may move it: the user's own step BatchNorm's buffers, `restore=` all versions."""
    if " norm." in name and "weight" not in name and "bias" not in name:
        return ("profile", "record")
    return ("profile",) if name.startswith("version of") else ()


@contextlib.contextmanager
def _armed(injection: Injection) -> Iterator[list[bool]]:
    fired: list[bool] = []

    def trip() -> None:
        fired.append(True)
        raise injection.exception

    if injection.how == "anywhere":
        with interrupted_at(injection.nth, lambda: fired.append(True) or injection.exception()):
            yield fired
    elif injection.point in ("forward", "backward"):
        calls = iter(range(1, 1 << 30))
        _Touchy[injection.point] = lambda: trip() if next(calls) == injection.nth else None
        try:
            yield fired
        finally:
            _Touchy.clear()
    else:
        owner, name = _owner(injection.point)
        with mock.patch.object(owner, name, _stand_in(getattr(owner, name), injection, trip)):
            yield fired


def _owner(point: str) -> tuple[Any, str]:
    module, _, path = point.partition(":")
    *outer, name = path.split(".")
    owner: Any = functools.reduce(getattr, outer, import_module(module))
    return owner, name


def _stand_in(original: Callable[..., Any], injection: Injection, trip: Callable[[], None]) -> Callable[..., Any]:
    calls = iter(range(1, 1 << 30))

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        now = next(calls) == injection.nth
        if now and injection.how == "instead":
            trip()
        result = original(*args, **kwargs)
        if now and injection.how == "behind":
            trip()
        return _Tripping(result, injection.how, trip) if now and injection.how in ("entering", "left") else result

    return call


class _Tripping:
    """A context manager that raises instead of entering another one, or once that has been left."""

    def __init__(self, inner: Any, how: How, trip: Callable[[], None]) -> None:
        self._inner, self._how, self._trip = inner, how, trip

    def __enter__(self) -> Any:
        if self._how == "entering":
            self._trip()
        return self._inner.__enter__()

    def __exit__(self, *error: Any) -> Any:
        result = self._inner.__exit__(*error)
        if self._how == "left":
            self._trip()
        return result


# What measuring enters and leaves, and what it calls, by how it is called. Names stand where they are looked up.
MEASURING_CONTEXTS = (
    "graphbench.session:Session.in_use",
    "graphbench.measuring.whole:clock_lock",
    "graphbench.measuring.session_work:progress",
    "graphbench.capture.ambient:rng_untouched",
    "graphbench.capture.ambient:restored",
    "graphbench.capture.ambient:_nesting_kept",
    "graphbench.execution.backward:backward_on_this_thread",
    "graphbench.inductor.wrapper:labelled",
    "graphbench.inductor.wrapper:before_calls",
    "graphbench.measuring.unfused:_as_compiled",
    "graphbench.measuring.region:isolating_ops",
    "graphbench.measuring.runs:replaying",
    "graphbench.measuring.eager_backward:EagerBackward._hooking",
    "graphbench.timing.loop:collector_paused",
    "graphbench.timing.fake:_FakeSession.label",
    "graphbench.timing.fake:_FakeSession.window",
    "graphbench.timing.fake:_FakeSession.preparation",
)
MEASURING_CALLS = (
    "graphbench.timing.fake:FakeTimer.record",
    "graphbench.timing.fake:FakeTimer.synchronize",
    "graphbench.isolate.bench_unit:BenchUnit._trial",
    "graphbench.isolate.bench_unit:BenchUnit.prepare",
    "graphbench.isolate.bench_unit:BenchUnit.run",
    "graphbench.isolate.bench_unit:BenchUnit.compare",
    "graphbench.isolate.bench_unit:RngState.restore",
    "graphbench.isolate.backward_unit:BackwardUnit.trial",
    "graphbench.isolate.pool:TensorPool.restore",
    "graphbench.execution.backward:Backward.run",
    "graphbench.regions:Region.compiled_call",
    "graphbench.measuring.eager:shadow",
    "graphbench.measuring.compiled_runs:shadow",
    "graphbench.measuring.compiled:CompiledSide._compare",
    "graphbench.measuring.unfused:run_lowered",
    "graphbench.measuring.region:node_records",
    "graphbench.measuring.whole:environment",
)
RECORDING_CONTEXTS = (
    "graphbench.session:Session.in_use",
    "graphbench.inductor.wrapper:labelled",
    "graphbench.inductor.wrapper:around_calls",
    "graphbench.inductor.wrapper:all_calls",
    "graphbench.measuring.recording:phases_heard",
    "graphbench.measuring.recording:foreign_modes",
    "graphbench.measuring.recording:launches_heard",
    "graphbench.measuring.recording:in_other_threads",
    "graphbench.measuring.recording:collector_paused",
    "graphbench.measuring.recording:paused",
    "graphbench.measuring.recording:Recorder._in_thread",
    "graphbench.measuring.places:Places.graph",
    "graphbench.capture.gaps:Depth.inside",
    "graphbench.timing.fake:FakeTimer.open",
    "graphbench.timing.fake:_FakeSession.label",
    "graphbench.timing.fake:_FakeSession.window",
)
RECORDING_CALLS = (
    "graphbench.measuring.gap_ops:GapOps.find",
    "graphbench.measuring.gap_ops:GapOps.let_go",
    "graphbench.isolate.held:Holder.hold",
    "graphbench.measuring.recording:Recorder._on_kernel",
)
PROFILING_CALLS = (
    "graphbench.measuring.step:_timed",
    "graphbench.measuring.step:_state_put_back",
    "graphbench.measuring.session_work:isolate_gap_ops",
    "graphbench.measuring.recording:Recorder.step",
)


def named_injections() -> list[Injection]:
    """Every point with an ordinary error and an interrupt; the user's own ops with an exception of neither kind too."""
    both: tuple[type[BaseException], ...] = (BoomError, KeyboardInterrupt)
    contexts: list[tuple[Entry, str]] = [
        *(("measure", point) for point in MEASURING_CONTEXTS),
        *(("record", point) for point in RECORDING_CONTEXTS),
    ]
    calls: list[tuple[Entry, str]] = [
        *(("measure", point) for point in MEASURING_CALLS),
        *(("record", point) for point in RECORDING_CALLS),
        *(("profile", point) for point in PROFILING_CALLS),
    ]
    hows: tuple[tuple[How, type[BaseException]], ...] = (("entering", KeyboardInterrupt), ("left", BoomError))
    user_ops: list[tuple[Entry, str, int]] = [
        *(("measure", "forward", nth) for nth in (1, 2, 8, 30)),
        *(("measure", "backward", nth) for nth in (1, 2, 8, 30)),
        *(("record", phase, 1) for phase in ("forward", "backward")),
        *(("profile", phase, nth) for phase in ("forward", "backward") for nth in (1, 2)),
    ]
    return [
        *(Injection(entry, point, how, error) for entry, point in contexts for how, error in hows),
        *(Injection(entry, point, "instead", error) for entry, point in calls for error in both),
        *(Injection(entry, point, "instead", error, nth) for entry, point, nth in user_ops for error in (*both, Own)),
        *(
            Injection("measure", "graphbench.timing.fake:FakeTimer.record", "behind", error, 2)
            for error in (*both, Own)
        ),
    ]


def injections_anywhere(bench: Bench, entry: Entry, seed: int = SEED, count: int = N_ANYWHERE) -> list[Injection]:
    """Seeded interrupts at any place of one way of measuring."""
    drawn = random.Random(f"{entry} {seed}")
    with interrupted_at(0, KeyboardInterrupt) as passed:
        bench.call(entry)
    places = drawn.sample(range(1, passed[0]), count)
    return [Injection(entry, "", "anywhere", drawn.choice((KeyboardInterrupt, Own)), nth) for nth in places]
