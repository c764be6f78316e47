"""Which runs belong together: a series is a directory with one run per set of inputs, named in `series.json`. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from graphbench.errors import ProfileFormatError, UsageError
from graphbench.files import write_whole
from graphbench.jsonvalues import describe

SERIES: Final = "series.json"
PROFILE: Final = "profile.json"
MOST_SETS: Final = 1000
_MOST_BYTES: Final = 1 << 20


def is_series(folder: Path) -> bool:
    """Whether a directory is that of a series."""
    return (folder / SERIES).is_file()


def write_series(folder: Path, labels: Sequence[str]) -> None:
    """Note which runs a series has, in order; each is a directory of that name.

    Raises:
        UsageError: it cannot be written.
    """
    write_whole(folder / SERIES, json.dumps({"sets": list(labels)}, indent=1) + "\n", overwrite=True)


def read_series(folder: Path) -> list[Path]:
    """The directories of a series' runs, in order, whether or not they have been begun.

    Raises:
        ProfileFormatError: there is no such list, or it names anything but directories inside.
    """
    path = folder / SERIES
    try:
        with path.open("rb") as stream:
            text = stream.read(_MOST_BYTES)
        plain = json.loads(text)
    except OSError as error:
        raise ProfileFormatError(
            str(path), None, f"an unreadable file ({error.strerror})", "the list of a series"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ProfileFormatError(
            str(path), None, f"no JSON ({type(error).__name__})", "the list of a series"
        ) from error
    found = plain.get("sets") if isinstance(plain, dict) else plain
    if not isinstance(found, list) or not 1 <= len(found) <= MOST_SETS:
        raise ProfileFormatError(str(path), "sets", describe(found), f"1 to {MOST_SETS} names of directories")
    for name in found:
        if not isinstance(name, str) or name in {"", ".", ".."} or Path(name).name != name or "\0" in name:
            raise ProfileFormatError(str(path), "sets", describe(name), "the name of a directory inside")
    return [folder / name for name in found]


def profiles_of(folder: Path) -> tuple[list[Path], list[str]]:
    """The profiles of a series that are there, in order, and the names of the runs that have none.

    Raises:
        ProfileFormatError: the directory is none of a series.
        UsageError: none of its runs has come to its end.
    """
    if not is_series(folder):
        raise ProfileFormatError(
            str(folder), None, f"no {SERIES}", "the directory of a series", hint="name the --output-dir of a series"
        )
    runs = read_series(folder)
    found = [run / PROFILE for run in runs if (run / PROFILE).is_file()]
    if not found:
        raise UsageError(
            f"{folder}: no run of the series is done", hint=f"graphbench run --resume {folder}", subject=str(folder)
        )
    return found, [run.name for run in runs if run / PROFILE not in found]
