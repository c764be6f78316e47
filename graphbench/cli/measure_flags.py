"""The flags that say how to measure, for the commands that do."""

from __future__ import annotations

import argparse
import dataclasses
import re
from dataclasses import dataclass
from typing import Any, Final

from graphbench.cli.common import percent, positive_int
from graphbench.errors import UsageError

FEWEST_IN_BATCH: Final = 2
MOST_IN_BATCH: Final = 64
"""The bounds of `graphbench.measuring.options`, which imports torch; a test compares them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """How to measure; fields as keywords of `graphbench.api.measure`, where `None` means its default."""

    timer: str
    l2: str | None
    values: str
    warmup: int | None
    repeat: int | None
    warmup_ms: float
    measure_ms: float
    noise: float | None
    noise_ms: float | None
    batch: int | None
    memory_budget: int | None
    lock_gpu_clock: int | None
    ceilings: str
    unit_timeout_s: float | None
    progress: bool | None

    def __post_init__(self) -> None:
        """Refuse a flag that would change nothing.

        Raises:
            UsageError: `--noise-ms` without the noise that it is the limit of.
        """
        if self.noise_ms is not None and self.noise is None:
            raise UsageError(
                f"--noise-ms {self.noise_ms:g}: it limits --noise, which is not given",
                hint="add --noise 1%, or leave out --noise-ms",
                subject="--noise-ms",
            )

    def keywords(self) -> dict[str, Any]:
        """The keywords of `graphbench.api.measure` and `profile`; `noise_ms` only where it was given."""
        chosen = dataclasses.asdict(self)
        if self.noise_ms is None:
            del chosen["noise_ms"]
        return chosen


def add_measure_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the fields of `MeasureOptions`."""
    group = parser.add_argument_group("measuring")
    _add_instrument_flags(group)
    _add_sampling_flags(group)
    group.add_argument(
        "--memory-budget",
        type=size,
        metavar="SIZE",
        help="what copies of tensors may take on the device, as 8GiB; rows that do not fit are skipped; "
        "default: what is free there",
    )
    group.add_argument(
        "--unit-timeout",
        dest="unit_timeout_s",
        type=positive_float,
        default=120.0,
        metavar="SECONDS",
        help="how long a node or kernel may take before its row fails; default: %(default)g",
    )
    group.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="a progress bar on stderr; default: on a terminal, if it takes longer than two seconds",
    )


def _add_instrument_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--timer",
        choices=("auto", "cupti", "wallclock", "cuda-events"),
        default="auto",
        help="cuda-events count launch gaps too; never compared with cupti; default: %(default)s",
    )
    group.add_argument(
        "--l2",
        choices=("cold-read", "cold-write", "warm"),
        help="state of a GPU's L2 cache before each isolated sample; default: cold-read on a GPU; refused on the CPU",
    )
    group.add_argument(
        "--values",
        choices=("captured", "synthetic"),
        default="captured",
        help="isolate on the values that occurred, or on made-up ones in a stable range; default: %(default)s",
    )
    group.add_argument(
        "--ceilings",
        choices=("auto", "fresh", "off"),
        default="auto",
        help="what the device can do at most: measured once and kept for a month, measured again, or left out; "
        "default: %(default)s",
    )
    group.add_argument(
        "--lock-gpu-clock",
        type=positive_int,
        metavar="MHZ",
        help="hold the GPU's SM clock while measuring and reset it afterwards, also after a crash; needs root",
    )


def _add_sampling_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--warmup", type=count, metavar="N", help="warm-up calls, instead of --warmup-ms; 0 for none")
    group.add_argument("--repeat", type=positive_int, metavar="N", help="samples, instead of --measure-ms")
    group.add_argument(
        "--warmup-ms", type=budget, default=25.0, metavar="MS", help="per node or kernel; default: %(default)s"
    )
    group.add_argument(
        "--measure-ms",
        type=positive_float,
        default=100.0,
        metavar="MS",
        help="per node or kernel; default: %(default)s",
    )
    group.add_argument(
        "--noise",
        type=noise,
        metavar="PERCENT",
        help="go on sampling a row until its median is known to so much of itself, as 1%%, or --noise-ms are up",
    )
    group.add_argument(
        "--noise-ms", type=positive_float, metavar="MS", help="how long a row is sampled for --noise; default: 1000"
    )
    group.add_argument(
        "--batch-execute",
        dest="batch",
        type=batch_size,
        metavar="N",
        help=f"also time {FEWEST_IN_BATCH} to {MOST_IN_BATCH} copies of every tiny row queued back to back on a GPU: "
        "the theoretical time without overhead",
    )


def positive_float(text: str) -> float:
    """An argument that is a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number above 0")
    return value


def count(text: str) -> int:
    """An argument that is a whole number, 0 included."""
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number, at least 0")
    return int(text)


def budget(text: str) -> float:
    """An argument that is a finite number, 0 included."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number, at least 0")
    return value


def noise(text: str) -> float:
    """An argument such as `1%`, above 0 % and below 100 %, as a fraction."""
    value = percent(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected more than 0% and less than 100%, such as 1%")
    return value


def size(text: str) -> int:
    """An argument such as `8GiB`, `512 MiB` or a bare number of bytes, above 0."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B?|B)?", text.strip(), re.ASCII | re.IGNORECASE)
    nbytes = 0
    if found is not None:
        unit = (found[2] or "B").upper()
        base = 1000 if unit.endswith("B") and "I" not in unit else 1024
        nbytes = int(float(found[1]) * base ** "BKMGT".index(unit[0]))
    if nbytes < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a size such as 8GiB or 512MiB")
    return nbytes


def batch_size(text: str) -> int:
    """An argument that is a number of calls in one batch."""
    value = int(text) if text.strip().isdecimal() else 0
    if not FEWEST_IN_BATCH <= value <= MOST_IN_BATCH:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected a whole number from {FEWEST_IN_BATCH} to {MOST_IN_BATCH}"
        )
    return value
