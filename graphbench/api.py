"""The public functions, and `Profile`: a facade over a measured or loaded record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from graphbench import document
from graphbench.analysis.diff import Diff
from graphbench.analysis.diff import diff as _diff
from graphbench.comparing.implementation import Implementation
from graphbench.records import ProfileRecord
from graphbench.report.diff_table import render_diff
from graphbench.report.table import TableReporter

if TYPE_CHECKING:
    import torch

    from graphbench.comparing.table import ImplementationTable
    from graphbench.session import Session

Path = str | PathLike[str]
_COMPARE_OPTIONS = ("timer", "l2", "warmup_ms", "measure_ms", "warmup", "repeat", "noise", "noise_ms", "lock_gpu_clock")


class Profile:
    """What was measured. Printing it gives the tables; everything it shows is a function of `record`.

    Args:
        record: the whole profile as frozen records; units are in the field names.
    """

    def __init__(self, record: ProfileRecord) -> None:
        self.record = record

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Write the profile as JSON.

        Raises:
            UsageError: the file exists and `overwrite` is not set, or it cannot be written.
            ConservationError: the rows do not add up.
        """
        document.write(self.record, path, overwrite=overwrite)

    def check(self) -> None:
        """Prove that the rows add up to their totals.

        Raises:
            ConservationError: they do not.
        """
        document.check(self.record)

    def table(self, *, top: int | None = None, sort: str = "cost", wide: bool = False) -> str:
        """The tables as text.

        Args:
            top: how many rows per table, the most expensive first; all by default.
            sort: column to sort nodes by.
            wide: more columns, for wide terminals.
        """
        return TableReporter().render(self.record, top=top, sort=sort, wide=wide)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        regions = self.record.regions
        nodes = sum(len(region.nodes) for region in regions)
        return f"<graphbench.Profile of {self.record.subject or 'a model'}: {len(regions)} regions, {nodes} nodes>"


class ProfileDiff:
    """Two profiles joined on their nodes. Printing it gives the table."""

    def __init__(self, result: Diff) -> None:
        self.result = result

    def __str__(self) -> str:
        return render_diff(self.result)


def measure(**options: Any) -> Profile:
    """Measure what compiled models ran since the last `reset`: every node and every kernel, isolated and in order.

    Models compiled with `torch.compile(model, backend="graphbench")` must have been called. Parameters, buffers,
    gradients, random state and pending backwards are bit-equal afterwards.

    Args:
        **options: fields of `graphbench.measuring.options.MeasureOptions`.

    Raises:
        CaptureError: nothing was captured; the message says why.
        UsageError: an unknown option, or one that does not fit the device.
        SetupError: the instrument for the device is missing.
    """
    from graphbench.measuring.whole import measure_session

    return _checked(measure_session(_session(), _options(options)))


def profile(
    fn: Callable[..., Any], *args: Any, warmup_steps: int = 2, restore: Iterable[Any] = (), **options: Any
) -> Profile:
    """Run a whole step, record everything it launches, then measure the regions it ran.

    `fn(*args)` is called `warmup_steps` + 1 times as it is, side effects included; the last call is recorded. An
    `nn.Module` that is not compiled yet is compiled first.

    Args:
        fn: a step, a model, or anything else callable.
        *args: its arguments.
        warmup_steps: calls before the recorded one; at least 1, since compiling steps are no ordinary steps.
        restore: modules and optimizers whose state is put back afterwards (`state_dict`).
        **options: fields of `graphbench.measuring.options.MeasureOptions`.

    Raises:
        CaptureError: `fn` raised, or nothing was captured.
        UsageError: an unknown option, or one that does not fit the device.
        SetupError: the instrument for the device is missing.
    """
    from graphbench.measuring.step import profile_step

    return _checked(profile_step(_session(), fn, args, warmup_steps, tuple(restore), _options(options)))


def compare(
    implementations: Mapping[str, Callable[..., Any]] | Sequence[Implementation],
    *,
    inputs: Sequence[Any] = (),
    device: str | torch.device | None = None,
    **options: Any,
) -> ImplementationTable:
    """Time implementations of one thing against each other: A B C ... C B A, half the budget each time.

    First each is called once: one that changes a shared input, or its own without putting it back, is refused before
    anything is timed, and one that raises fails its row. Its result is compared with the first one's; a difference is
    shown, not refused. Then each is timed in two halves, whose samples are pooled; both medians are kept, and a row
    that drifted between them says so.

    All that `call(*inputs)` does is timed. An implementation that needs its inputs in another dtype or layout converts
    them inside the call, where its users pay for it too. A backward is compared through `backward_of`.

    Random state is the same before every call, and afterwards what it was, and so are the bytes of the inputs. Tensors
    are looked for in tuples, lists and dicts; what a callable or a module holds (parameters, buffers) is not checked.

    Args:
        implementations: callables by name, or `Implementation` objects; the first is the baseline.
        inputs: what every implementation is called with that has no inputs of its own.
        device: where they run; by default where inputs and results are.
        **options: `timer`, `l2`, `warmup_ms`, `measure_ms`, `warmup`, `repeat`, `noise`, `noise_ms` and
            `lock_gpu_clock`, as for `measure`; counts and budgets are of a whole row, and each half takes half of them,
            rounded up.

    Returns:
        A table of rows, each with its raw samples (`rows[0].measurement`); print it.

    Raises:
        UsageError: an option that is unknown or does not fit, no implementations, two of one name, or one that changes
            inputs; the message names the implementation and the input.
        IsolationError: an input cannot be compared byte by byte.
        SetupError: the instrument for the device is missing.
        TimingError: halves or rows come from different timers or cache states.
    """
    from graphbench.comparing.compare import compare_implementations

    found = _options(options, _COMPARE_OPTIONS)
    return compare_implementations(implementations, inputs, found, device=device)


def backward_of(
    out: torch.Tensor | Sequence[torch.Tensor],
    inputs: torch.Tensor | Sequence[torch.Tensor] | None = None,
    grad_outputs: torch.Tensor | Sequence[torch.Tensor] | None = None,
) -> Callable[[], tuple[torch.Tensor | None, ...]]:
    """The backward of `out`, as a call that can be timed: it runs again and again, and in the thread that calls it.

    Autograd runs device work from threads of its own, which carry no label of a timer. The call turns that off for
    itself (`torch.autograd.set_multithreading_enabled`). It keeps the graph, returns gradients like
    `torch.autograd.grad`, and touches nobody's `.grad`; hooks on tensors run as in any backward.

    Args:
        out: what a forward returned, or several of its outputs.
        inputs: what to differentiate by; by default all leaves below `out`, in the order of a walk from `out`.
        grad_outputs: gradient of each output, of its shape; by default ones, also where `out` is no scalar.

    Returns:
        A callable without arguments that returns one gradient per input; `None` for a leaf that gets none.

    Raises:
        UsageError: `out` was not computed from anything that requires grad, or `grad_outputs` do not fit it.

    The call raises what `torch.autograd.grad` raises. A graph that `torch.compile` made may refuse to run twice
    (`torch._functorch.config.donated_buffer`, which must be off when the forward is compiled).
    """
    from graphbench.execution.backward import backward_of as made

    return made(out, inputs, grad_outputs)


def load(path: Path) -> Profile:
    """Read a saved profile. Needs neither torch nor a GPU.

    Raises:
        ProfileFormatError: the file is unreadable, of a newer schema, or has a wrong field.
        ConservationError: its rows do not add up.
    """
    return Profile(document.read(path))


def diff(before: Path | Profile, after: Path | Profile) -> ProfileDiff:
    """Compare two profiles, saved or at hand, node by node.

    Raises:
        ProfileFormatError: a file cannot be read.
        UsageError: timers or cache states differ, so that no number can be compared.
    """
    sides = [side if isinstance(side, Profile) else load(side) for side in (before, after)]
    names = ["" if isinstance(side, Profile) else str(side) for side in (before, after)]
    return ProfileDiff(_diff(sides[0].record, sides[1].record, names=(names[0], names[1])))


def reset() -> None:
    """Forget everything captured and release its memory. Dynamo is reset as well, so models compile again."""
    from graphbench import session

    session.reset()


def _session() -> Session:
    from graphbench import session

    return session.current()


def _options(options: dict[str, Any], known: Sequence[str] | None = None) -> Any:
    """Measuring options from keywords. `known` are those that are taken, by default all.

    Raises:
        UsageError: an unknown one.
    """
    from dataclasses import fields

    from graphbench.errors import UsageError
    from graphbench.measuring.options import MeasureOptions

    known = known or [entry.name for entry in fields(MeasureOptions)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise UsageError(f"unknown measuring option {', '.join(unknown)}", hint=f"known options: {', '.join(known)}")
    return MeasureOptions(**options)


def _checked(record: ProfileRecord) -> Profile:
    found = Profile(record)
    found.check()
    return found
