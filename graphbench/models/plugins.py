"""Zoos that other distributions bring along, found by the entry-point group `graphbench.zoos`.

The entry point's name is the zoo's prefix in `--model PREFIX:NAME`; its object is called like the builders of
`graphbench.models.zoo.ZOOS` and returns a `graphbench.models.zoo.ZooModel`. In the plug-in's `setup.cfg`:

    [options.entry_points]
    graphbench.zoos =
        ours = our_package.zoo:build
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from graphbench.errors import SetupError, first_line

GROUP: Final = "graphbench.zoos"


def plugin_zoos() -> tuple[str, ...]:
    """The names of all plug-in zoos; none of them is imported."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def distribution_of(name: str) -> str:
    """Who brings a plug-in zoo along, "" for nobody."""
    return " and ".join(dict.fromkeys(map(_distribution, _entries(name))))


def load_zoo(name: str) -> Any:
    """The builder of a plug-in zoo, `None` where there is no zoo of that name.

    Raises:
        SetupError: importing it raised, it cannot be called, or two distributions bring one of that name.
    """
    found = {entry.value: entry for entry in _entries(name)}  # an editable install may be listed twice
    if not found:
        return None
    if len(found) > 1:
        raise SetupError(
            f"zoo {name!r}: {distribution_of(name)} bring one each ({', '.join(found)}), expected one",
            hint="uninstall one of them",
            subject=name,
        )
    entry = next(iter(found.values()))
    try:
        builder = entry.load()
    except Exception as error:
        raise SetupError(
            f"zoo {name!r} of {_distribution(entry)}: importing {entry.value} raised {type(error).__name__}: "
            f"{first_line(error)}",
            hint=f"mend or uninstall {_distribution(entry)}; --debug shows the traceback",
            subject=name,
        ) from error
    if not callable(builder):
        raise SetupError(
            f"zoo {name!r} of {_distribution(entry)}: {entry.value} is a {type(builder).__name__}, expected a function",
            hint="graphbench.models.zoo says how it is called",
            subject=name,
        )
    return builder


def _entries(name: str) -> Iterator[EntryPoint]:
    return iter(entry_points(group=GROUP, name=name))


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value
