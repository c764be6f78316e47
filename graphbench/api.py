"""The public functions."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from graphbench import document
from graphbench.arguments import Stateful, check_type, checked_path, owners_of_state
from graphbench.comparing.implementation import Implementation
from graphbench.errors import UsageError
from graphbench.facade import Path as Path
from graphbench.facade import Profile as Profile
from graphbench.options import MeasureOptions, described
from graphbench.probes.features import require
from graphbench.records import ProfileRecord

if TYPE_CHECKING:
    import torch

    from graphbench.comparing.table import ImplementationTable
    from graphbench.report.profile_diff import ProfileDiff
    from graphbench.session import Session

COMPARE_OPTIONS = ("timer", "l2", "warmup_ms", "measure_ms", "warmup", "repeat", "noise", "noise_ms", "lock_gpu_clock")


def __getattr__(name: str) -> Any:
    """`ProfileDiff`, which is imported when it is asked for: commands that compare nothing start without it."""
    if name == "ProfileDiff":
        from graphbench.report import profile_diff

        return profile_diff.ProfileDiff
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def measure(**options: Any) -> Profile:
    """Measure what compiled models ran since the last `reset`: every node and every kernel, isolated and in order.

    Models compiled with `torch.compile(model, backend="graphbench")` must have been called. Parameters, buffers,
    gradients, random state and pending backwards are bit-equal afterwards.

    Args:
        **options: fields of `graphbench.options.MeasureOptions`.

    Raises:
        CaptureError: nothing was captured; the message says why.
        UsageError: an unknown option, a value that cannot be meant, or one that does not fit the device.
        SetupError: the instrument for the device is missing.
    """
    require("measuring")
    from graphbench.measuring.whole import measure_session

    return checked(measure_session(current_session(), measure_options(options)))


def profile(
    fn: Callable[..., Any],
    *args: Any,
    warmup_steps: int = 3,
    restore: Stateful | Iterable[Stateful] = (),
    **options: Any,
) -> Profile:
    """Run a whole step, record everything it launches, then measure the regions and the eager ops that it ran.

    `fn(*args)` is called `warmup_steps` + 1 times as it is, side effects included; the last call is recorded. An
    `nn.Module` that is not compiled yet is compiled first. Where nothing is compiled, every op is recorded as it runs
    eagerly, and the profile says so.

    Args:
        fn: a step, a model, or anything else callable.
        *args: its arguments.
        warmup_steps: calls before the recorded one; at least 1, since compiling steps are no ordinary steps. Of three
            and more, the last rehearses the recording, which else would pay for everything that runs a first time;
            those between the first and it give the step's uninstrumented time.
        restore: a module or an optimizer, or several, whose state is put back afterwards (`state_dict`).
        **options: fields of `graphbench.options.MeasureOptions`.

    Raises:
        CaptureError: `fn` raised, or ran no tensor op.
        UsageError: `fn` is not callable, an argument of another type, an unknown option, or one that does not fit the
            device.
        SetupError: the instrument for the device is missing.
    """
    if not callable(fn):
        raise UsageError(
            f"fn={reprlib.repr(fn)} is not callable: expected a step, a model, or anything else that is", subject="fn"
        )
    check_type("warmup_steps", warmup_steps, int)
    owners, found = owners_of_state("restore", restore), measure_options(options)
    require("measuring", "recording")
    from graphbench.measuring.step import profile_step

    return checked(profile_step(current_session(), fn, args, warmup_steps, owners, found))


def measure_ops(
    path: Path,
    *,
    device: str | torch.device | None = None,
    train: bool = False,
    seed: int = 0,
    imports: Sequence[str] = (),
    **options: Any,
) -> Profile:
    """Measure the ops of an op list, each alone, without any model.

    Args:
        path: the list; `graphbench/docs/op-list.md` describes its format. No code of it runs.
        device: where the ops run; by default the GPU if there is one.
        train: also time the backward of ops that have a tensor with `requires_grad`.
        seed: of the tensors' values.
        imports: modules that register custom ops. Their code runs.
        **options: fields of `graphbench.options.MeasureOptions`.

    Raises:
        UsageError: the list cannot be read, with file and line; an op that torch does not have; an unknown option, or
            one that does not fit the device.
        SetupError: the instrument for the device is missing.
    """
    found = measure_options(options)
    for name, value, kind in (("train", train, bool), ("seed", seed, int)):
        check_type(name, value, kind)
    from graphbench.models.oplist import read_op_list

    op_list = read_op_list(checked_path("path", path))
    require("measuring")
    from graphbench.measuring.op_list import OpsJob, measure_op_list, pick_ops_device

    job = OpsJob(op_list, pick_ops_device(device), seed=seed, train=train, imports=tuple(imports))
    return checked(measure_op_list(job, found, current_session()))


def compare(
    implementations: Mapping[str, Callable[..., Any]] | Sequence[Implementation],
    *,
    inputs: Sequence[Any] = (),
    device: str | torch.device | None = None,
    **options: Any,
) -> ImplementationTable:
    """Time implementations of one thing against each other: A B C ... C B A, half the budget each time.

    First each is called once: one that changes global state (autocast, grad mode, precision, threads, ...), a shared
    input, or its own without putting it back, is refused before anything is timed, and one that raises fails its row.
    Its result is compared with the first one's; a difference is shown, not refused. Then each is timed in two halves,
    whose samples are pooled; both medians are kept, and a row that drifted between them says so. One that changes in a
    later call what it did not in its first fails its row; the others do not see it.

    All that `call(*inputs)` does is timed. An implementation that needs its inputs in another dtype or layout converts
    them inside the call, where its users pay for it too. A backward is compared through `backward_of`.

    Global and random state are the same before every call, and afterwards what they were, and so are the inputs' bytes
    and gradients. Tensors are looked for in tuples, lists and dicts; what a callable or a module holds (parameters,
    buffers) is not checked. On the CPU short calls are repeated within a sample, in all rows or in none: in none where
    any implementation draws random numbers or has a `reset`, or inputs hold lists or dicts.

    Args:
        implementations: callables by name, or `Implementation` objects; the first is the baseline.
        inputs: what every implementation is called with that has no inputs of its own.
        device: where they run; by default where inputs and results are. To be given when those are on the CPU and the
            work is done on CUDA behind them.
        **options: `timer`, `l2`, `warmup_ms`, `measure_ms`, `warmup`, `repeat`, `noise`, `noise_ms` and
            `lock_gpu_clock`, as for `measure`; counts and budgets are of a whole row, and each half takes half of them,
            rounded up.

    Returns:
        A table of rows, each with its raw samples (`rows[0].measurement`), `environment` and `notes`; print it.

    Raises:
        UsageError: an option that is unknown or does not fit, no implementations, two of one name, one that changes
            global state or inputs (the message names it and what changed), or tensors that are not on one device.
        IsolationError: an input cannot be compared byte by byte.
        SetupError: the instrument for the device is missing.
        TimingError: halves or rows come from different timers or cache states, or the first call of an implementation
            left the device unusable.
    """
    require("measuring")
    from graphbench.comparing.compare import compare_implementations

    found = measure_options(options, COMPARE_OPTIONS)
    return compare_implementations(implementations, inputs, found, device=device)


def backward_of(
    out: torch.Tensor | Sequence[torch.Tensor],
    inputs: torch.Tensor | Sequence[torch.Tensor] | None = None,
    grad_outputs: torch.Tensor | Sequence[torch.Tensor] | None = None,
) -> Callable[[], tuple[torch.Tensor | None, ...]]:
    """The backward of `out`, as a call that can be timed: it runs again and again, and in the thread that calls it.

    Autograd runs device work from threads of its own, which carry no label of a timer. The call turns that off for
    itself (`torch.autograd.set_multithreading_enabled`). It keeps the graph, returns gradients like
    `torch.autograd.grad`, and touches nobody's `.grad`; hooks on tensors run as in any backward. A tensor that retains
    its gradient would be added to in every call: such a graph is refused. Do not call `retain_grad` afterwards.

    Args:
        out: what a forward returned, or several of its outputs.
        inputs: what to differentiate by; by default all leaves below `out`, in the order of a walk from `out`.
        grad_outputs: gradient of each output, of its shape; by default ones, also where `out` is no scalar.

    Returns:
        A callable without arguments that returns one gradient per input; `None` for a leaf that gets none.

    Raises:
        UsageError: `out` was not computed from anything that requires grad, `grad_outputs` do not fit it, or a tensor
            of its graph retains its gradient.

    The call raises what `torch.autograd.grad` raises. A graph that `torch.compile` made may refuse to run twice
    (`torch._functorch.config.donated_buffer`, which must be off when the forward is compiled).
    """
    from graphbench.execution.backward import backward_of as made

    return made(out, inputs, grad_outputs)


def load(path: Path) -> Profile:
    """Read a saved profile. Needs neither torch nor a GPU.

    Raises:
        UsageError: `path` is no path.
        ProfileFormatError: the file is unreadable, of a newer schema, or has a wrong field.
        ConservationError: its rows do not add up.
    """
    return Profile(document.read(checked_path("path", path)))


def diff(before: Path | Profile, after: Path | Profile) -> ProfileDiff:
    """Compare two profiles, saved or at hand: region by region, node by node, fusion by fusion.

    Raises:
        ProfileFormatError: a file cannot be read.
        UsageError: neither a profile nor a path was given, or timers or cache states differ, so that no number can be
            compared.
    """
    (old, old_name), (new, new_name) = side("before", before), side("after", after)
    from graphbench.analysis.diff import diff as compared
    from graphbench.report.profile_diff import ProfileDiff

    return ProfileDiff(compared(old.record, new.record, names=(old_name, new_name)))


def side(which: str, given: Path | Profile) -> tuple[Profile, str]:
    """A profile to compare, and the name of its file if it came from one."""
    if isinstance(given, Profile):
        return given, ""
    path = checked_path(which, given)
    return load(path), str(path)


def reset() -> None:
    """Forget everything captured and release its memory. Dynamo is reset as well, so models compile again."""
    from graphbench import session

    session.reset()


def current_session() -> Session:
    """What models compiled with this backend left since the last `reset`."""
    from graphbench import session

    return session.current()


def measure_options(options: dict[str, Any], known: Sequence[str] | None = None) -> MeasureOptions:
    """Measuring options from keywords. `known` are those that are taken, by default all.

    Raises:
        UsageError: an unknown one, or a value that cannot be meant.
    """
    known = known or [entry.name for entry in described()]
    unknown = sorted(set(options) - set(known))
    if unknown:
        near = [name for entry in unknown for name in get_close_matches(entry, known, n=1)]
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        hint = f"{meant}known options: {', '.join(known)}"
        raise UsageError(f"unknown measuring option {', '.join(unknown)}", hint=hint)
    return MeasureOptions(**options)


def checked(record: ProfileRecord) -> Profile:
    """The profile of a record whose times add up.

    Raises:
        ConservationError: they do not.
    """
    found = Profile(record)
    found.check()
    return found
