"""How to measure: every option, declared and described once for Python's keywords and the command line. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, get_args

from graphbench.arguments import check_fields
from graphbench.errors import UsageError
from graphbench.measurements import CacheState, ValuePolicy

LONGEST: Final = 1e9
"""Of milliseconds and of seconds: what is longer fits no timer of the system, or no record of nanoseconds."""
MOST_CALLS: Final = 10**9
MOST_BYTES: Final = 2**63 - 1
FEWEST_IN_BATCH: Final = 2
MOST_IN_BATCH: Final = 64  # a device queues about a thousand launches before its host must wait
CeilingChoice = Literal["auto", "fresh", "off"]
TimerChoice = Literal["auto", "cupti", "wallclock", "cuda-events"]
_DOC_WIDTH: Final = 112


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What is said of an option. `flag` is its name on the command line, "" where only Python has it."""

    name: str
    text: str
    flag: str
    default: object
    choices: tuple[str, ...] = ()


def _told(text: str, flag: str = "", choices: tuple[str, ...] = ()) -> Mapping[str, Any]:
    return {"text": text, "flag": flag, "choices": choices}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """Keywords of `graphbench.measure()` and whatever else measures; flags of `graphbench run` and `demo`."""

    timer: TimerChoice = field(
        default="auto",
        metadata=_told(
            "the instrument: `auto` takes `cupti` on a CUDA device, `wallclock` on the CPU, timing events elsewhere; "
            "`cuda-events`, only on request, count launch gaps too and are never compared with `cupti`",
            "--timer",
            get_args(TimerChoice),
        ),
    )
    l2: CacheState | None = field(
        default=None,
        metadata=_told(
            "state of a GPU's L2 cache before each isolated sample; by default `cold-read` on a GPU; the CPU's caches "
            "are always warm, and setting them is refused",
            "--l2",
            get_args(CacheState),
        ),
    )
    values: ValuePolicy = field(
        default="captured",
        metadata=_told(
            "isolate on the values that occurred, or on made-up ones of the same kind in a stable range",
            "--values",
            get_args(ValuePolicy),
        ),
    )
    warmup_ms: float = field(default=25.0, metadata=_told("milliseconds of warm-up per node or kernel", "--warmup-ms"))
    measure_ms: float = field(
        default=100.0, metadata=_told("milliseconds of samples per node or kernel", "--measure-ms")
    )
    warmup: int | None = field(
        default=None, metadata=_told("number of warm-up calls in the place of warmup_ms; 0 for none", "--warmup")
    )
    repeat: int | None = field(default=None, metadata=_told("number of samples in the place of measure_ms", "--repeat"))
    noise: float | None = field(
        default=None,
        metadata=_told(
            "go on sampling a row until its median is known to this part of itself, as 1%%, or noise_ms are up",
            "--noise",
        ),
    )
    noise_ms: float = field(
        default=1000.0, metadata=_told("how many milliseconds a row is sampled at most for `noise`", "--noise-ms")
    )
    batch: int | None = field(
        default=None,
        metadata=_told(
            f"also time {FEWEST_IN_BATCH} to {MOST_IN_BATCH} copies of every tiny row queued back to back on a GPU: "
            "the theoretical time without overhead",
            "--batch-execute",
        ),
    )
    select: tuple[str, ...] = field(
        default=(),
        metadata=_told(
            "isolate only nodes whose name, op type or module path matches one of these shell-style patterns (`conv*`, "
            "`layers.*.mlp`), with their kernels, and kernels whose name matches; other rows are skipped, and whole "
            "runs are measured as ever",
            "--select",
        ),
    )
    exclude: tuple[str, ...] = field(
        default=(), metadata=_told("leave out rows that match one of these patterns", "--exclude")
    )
    only_region: tuple[str, ...] = field(
        default=(),
        metadata=_told(
            "measure only these regions, as r0 or by a pattern of the location (`attention.py:*`)", "--only-region"
        ),
    )
    max_seconds: float | None = field(
        default=None,
        metadata=_told(
            "how long measuring may take, compiling not counted: first a rough pass over everything, then what takes "
            "most time or is noisiest is measured again, as long as there is time; longer where whole runs alone take "
            "more than half of it",
            "--max-seconds",
        ),
    )
    memory_budget: int | None = field(
        default=None,
        metadata=_told(
            "bytes that copies of tensors may take on the device, as 8GiB on the command line; rows that do not fit "
            "are skipped; by default what is free there",
            "--memory-budget",
        ),
    )
    lock_gpu_clock: int | None = field(
        default=None,
        metadata=_told(
            "hold the GPU's SM clock at so many MHz while measuring; reset afterwards, also after a crash; needs root",
            "--lock-gpu-clock",
        ),
    )
    ceilings: CeilingChoice = field(
        default="auto",
        metadata=_told(
            "what the device can do at most, against which rows are set: `auto` measures it once and keeps it for a "
            "month, `fresh` measures it again, `off` leaves it out",
            "--ceilings",
            get_args(CeilingChoice),
        ),
    )
    unit_timeout_s: float | None = field(
        default=120.0,
        metadata=_told(
            "seconds that a node or kernel may take before its row fails, whole runs ten times as long; heard in the "
            "main thread",
            "--unit-timeout",
        ),
    )
    progress: bool | None = field(
        default=None,
        metadata=_told(
            "a progress bar on stderr with what is being measured and the time left; by default on a terminal, if it "
            "takes longer than two seconds",
            "--progress",
        ),
    )
    subject: str = field(default="", metadata=_told("what the profile calls the thing that it measured"))
    superseded: bool = field(default=False, metadata=_told("also measure regions that a recompile took over from"))

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            UsageError: a value of another type, or outside its choices or range.
        """
        for name in ("select", "exclude", "only_region"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else given)
        check_fields(self)
        for name in ("select", "exclude", "only_region"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
            self._check(name, all(getattr(self, name)), "patterns that are not empty")
        for name in ("warmup_ms", "measure_ms", "noise_ms"):
            self._check(
                name, 0 <= getattr(self, name) <= LONGEST, "a number of milliseconds, at least 0 and at most 1e9"
            )
        self._check("repeat", self.repeat is None or 1 <= self.repeat <= MOST_CALLS, "at least 1 and at most 1e9")
        self._check("warmup", self.warmup is None or 0 <= self.warmup <= MOST_CALLS, "at least 0 and at most 1e9")
        self._check("noise", self.noise is None or 0 < self.noise < 1, "a part of the median, as 0.01")
        for name in ("unit_timeout_s", "max_seconds"):
            seconds = getattr(self, name)
            self._check(name, seconds is None or 0 < seconds <= LONGEST, "seconds, above 0 and at most 1e9")
        in_batch = self.batch is None or FEWEST_IN_BATCH <= self.batch <= MOST_IN_BATCH
        self._check("batch", in_batch, f"from {FEWEST_IN_BATCH} to {MOST_IN_BATCH} calls")
        memory, clock = self.memory_budget, self.lock_gpu_clock
        self._check("memory_budget", memory is None or 1 <= memory <= MOST_BYTES, "a number of bytes below 2**63")
        self._check("lock_gpu_clock", clock is None or 1 <= clock <= MOST_CALLS, "a clock in MHz")

    def _check(self, name: str, fits: bool, expected: str) -> None:
        if not fits:
            raise UsageError(f"{name}={getattr(self, name)!r}: expected {expected}", subject=name)


def described() -> Iterator[Described]:
    """Every measuring option with what is said of it, in the order of declaration."""
    for entry in fields(MeasureOptions):
        told = entry.metadata
        yield Described(
            name=entry.name, text=told["text"], flag=told["flag"], default=entry.default, choices=told["choices"]
        )


def _documented() -> str:
    """The class docstring with every option: what `help(graphbench.MeasureOptions)` shows."""
    paragraphs = [MeasureOptions.__doc__ or "", "", "Args:"]
    for entry in described():
        text = f"{entry.name}: {entry.text.replace('%%', '%')}. Default: {entry.default!r}."
        paragraphs += textwrap.wrap(text, _DOC_WIDTH, initial_indent="    ", subsequent_indent="        ")
    return "\n".join(paragraphs)


MeasureOptions.__doc__ = _documented()
