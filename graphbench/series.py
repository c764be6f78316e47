"""Profiles of one model on several inputs, set against the sizes of these. Needs neither torch nor a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from graphbench.api import Path, Profile, side
from graphbench.arguments import check_type, checked_path

if TYPE_CHECKING:
    from graphbench.report.profile_scaling import ProfileScaling


def scaling(profiles: Sequence[Path | Profile] | Path, *, by: str | None = None) -> ProfileScaling:
    """Set every node's time against the sizes of the inputs: profiles of one model, each on other inputs.

    A time that grows as n to the power of 2 where the others grow as n is what will be slow on long inputs.

    Args:
        profiles: two or more, saved or at hand; or the directory of a series, as `graphbench run` leaves it for several
            sets of inputs.
        by: the dimension to go by, such as `input_ids[1]`, or `elements`; by default the only one that changes, else
            the elements of all inputs together.

    Returns:
        Rows, sums and totals; print it.

    Raises:
        ProfileFormatError: a file cannot be read.
        UsageError: fewer than two profiles, no such dimension, or timers, cache states or devices differ.
    """
    from graphbench.analysis.scaling import scaling as scaled
    from graphbench.report.profile_scaling import ProfileScaling
    from graphbench.runs.series import profiles_of

    check_type("by", by, str | None)
    names: list[str] = []
    left_out: list[str] = []
    if isinstance(profiles, (str, PathLike)):
        found, left_out = profiles_of(checked_path("profiles", profiles))
        names, profiles = [path.parent.name for path in found], list(found)
    records = [side(f"profiles[{index}]", entry)[0].record for index, entry in enumerate(profiles)]
    return ProfileScaling(scaled(records, names=names, by=by, left_out=left_out))
