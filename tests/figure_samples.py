"""A profile whose names try to be markup, and what texts a picture has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from graphbench.records import ProfileRecord
from tests.factories import executes, kernel, node, profile, region

HOSTILE: Final = '<b>x</b> & <a href="https://example.org">y</a> %{x}'
MARKUP: Final = re.compile(r"<[^>]*>")


def hostile() -> ProfileRecord:
    """A node, a module, an op type and a kernel that try to be markup."""
    nodes = [node(HOSTILE, 10.0, module=f"{HOSTILE}.a"), node("relu", 5.0, module="b", op_type=HOSTILE)]
    return profile(region(nodes, [kernel(HOSTILE, 5.0, roles=(executes(HOSTILE), executes("relu")))]))


def strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a figure with the name of the entry that it stands in."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from strings(entry, name)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from strings(entry, key)
