"""By what tables can be grouped: declared here once, for the command line, for Python and for reports. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

GroupBy = Literal["module", "source", "op_type", "kernel", "shape"]
DiffGroupBy = Literal["module", "source", "op_type", "shape"]
GROUP_BY: Final[tuple[GroupBy, ...]] = get_args(GroupBy)
DIFF_GROUP_BY: Final[tuple[DiffGroupBy, ...]] = get_args(DiffGroupBy)
MEANING: Final[Mapping[GroupBy, str]] = {
    "module": "module path, where repeated layers are one row",
    "source": "source line",
    "op_type": "kind of op",
    "kernel": "generated or library kernel, where those that differ in their number only are one row",
    "shape": "kind of op with the shapes it works on",
}


def meanings(choices: tuple[GroupBy, ...] | tuple[DiffGroupBy, ...]) -> str:
    """What the ways to group are, for a help text."""
    return "; ".join(f"{way}: {MEANING[way]}" for way in choices)
