"""The flags that say how to measure, for the commands that do. What they mean is said in `graphbench.options`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from graphbench.cli.common import percent, positive_int
from graphbench.errors import UsageError
from graphbench.options import FEWEST_IN_BATCH, LONGEST, MOST_BYTES, MOST_IN_BATCH, Described, MeasureOptions, described


def add_measure_flags(parser: argparse.ArgumentParser) -> None:
    """Declare a flag for every measuring option that has one; its value is kept under the option's name."""
    group = parser.add_argument_group("measuring")
    for option in described():
        if option.flag:
            _add_flag(group, option)


def _add_flag(group: argparse._ArgumentGroup, option: Described) -> None:
    keywords: dict[str, Any] = {"dest": option.name, "help": _help(option), "default": option.default}
    if option.name == "progress":
        keywords["action"] = argparse.BooleanOptionalAction
    elif option.choices:
        keywords["choices"] = option.choices
    else:
        keywords["type"], keywords["metavar"] = _READERS[option.name]
    if isinstance(option.default, tuple):
        keywords |= {"action": "append", "default": [], "help": f"{keywords['help']}; repeatable"}
    if option.name == "noise_ms":
        keywords["default"] = None  # for whether it was given
    group.add_argument(option.flag, **keywords)


def _help(option: Described) -> str:
    """What is said of an option, in the command line's names."""
    flags = {entry.name: entry.flag for entry in described() if entry.flag}
    text = re.sub(r"\b[a-z]+_[a-z_]+\b", lambda found: flags.get(found[0], found[0]), option.text).replace("`", "")
    known = isinstance(option.default, str | float)
    return (
        f"{text}; default: {option.default:g}"
        if isinstance(option.default, float)
        else (f"{text}; default: {option.default}" if known else text)
    )


def measure_options(arguments: argparse.Namespace) -> MeasureOptions:
    """The measuring options of a parsed command line.

    Raises:
        UsageError: a flag that would change nothing: `--noise-ms` without the noise that it is the limit of.
    """
    given = {option.name: getattr(arguments, option.name) for option in described() if option.flag}
    if given["noise_ms"] is None:
        del given["noise_ms"]
    elif given["noise"] is None:
        raise UsageError(
            f"--noise-ms {given['noise_ms']:g}: it limits --noise, which is not given",
            hint="add --noise 1%, or leave out --noise-ms",
            subject="--noise-ms",
        )
    return MeasureOptions(**given)


def positive_float(text: str) -> float:
    """An argument that is a number above 0 and not beyond any use."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value <= LONGEST:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number above 0, at most 1e9")
    return value


def count(text: str) -> int:
    """An argument that is a whole number, 0 included."""
    return 0 if text.strip() == "0" else positive_int(text, "a whole number, at least 0")


def budget(text: str) -> float:
    """An argument that is a number, 0 included, and not beyond any use."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= LONGEST:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number, at least 0, at most 1e9")
    return value


def pattern(text: str) -> str:
    """An argument that is a pattern of names, not empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a pattern such as conv* or layers.*.mlp")
    return text.strip()


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
        wanted = float(found[1]) * base ** "BKMGT".index(unit[0])
        nbytes = int(min(wanted, MOST_BYTES + 1))
    if not 1 <= nbytes <= MOST_BYTES:
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


_READERS: Final[Mapping[str, tuple[Callable[[str], object], str]]] = {
    "warmup_ms": (budget, "MS"),
    "measure_ms": (positive_float, "MS"),
    "warmup": (count, "N"),
    "repeat": (positive_int, "N"),
    "noise": (noise, "PERCENT"),
    "noise_ms": (positive_float, "MS"),
    "batch": (batch_size, "N"),
    "select": (pattern, "PATTERN"),
    "exclude": (pattern, "PATTERN"),
    "only_region": (pattern, "REGION"),
    "max_seconds": (positive_float, "SECONDS"),
    "memory_budget": (size, "SIZE"),
    "lock_gpu_clock": (positive_int, "MHZ"),
    "unit_timeout_s": (positive_float, "SECONDS"),
}
"""How the value of a flag is read, and what stands for it in the help."""
