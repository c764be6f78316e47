"""Which nodes a pattern means: by name, op type or module path. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from graphbench.analysis.group_homes import fold_layers
from graphbench.errors import UsageError
from graphbench.records import NodeRecord, RegionRecord

CLOSE_NAMES = 5
_MANY = 1000  # names that are looked through for close ones


def folded(nodes: Iterable[NodeRecord]) -> dict[str, str]:
    """Module paths of nodes with repeated layers as `*`, by path."""
    return fold_layers({node.module for node in nodes})


def is_meant(pattern: str, region: str, node: NodeRecord, fold: Mapping[str, str]) -> bool:
    """Whether a shell-style pattern means a node.

    Args:
        pattern: of its name (`gelu*`, or `r0/gelu`), its op type, or its module's path, in which `*` is one part:
            `layers.*.mlp` is that module of every layer and all below it.
        region: the key of its region.
        node: the node.
        fold: what `folded` says of all nodes.
    """
    names = (node.name, f"{region}/{node.name}", node.op_type)
    named = pattern in names or any(fnmatchcase(name, pattern) for name in names)  # `mm[n=2]` is a name of itself
    return named or _in_module(pattern, node.module, fold)


def meant(
    nodes: Sequence[tuple[RegionRecord, NodeRecord]], patterns: Sequence[str], *, option: str
) -> list[tuple[RegionRecord, NodeRecord]]:
    """Those of the nodes that any of the patterns means, in their order; all of them without patterns.

    Raises:
        UsageError: a pattern of this option means none.
    """
    fold = folded(node for _, node in nodes)
    for pattern in patterns:
        if not any(is_meant(pattern, region.key, node, fold) for region, node in nodes):
            raise unmatched(pattern, [node for _, node in nodes], fold, option=option)
    return [
        (region, node)
        for region, node in nodes
        if not patterns or any(is_meant(pattern, region.key, node, fold) for pattern in patterns)
    ]


def _in_module(pattern: str, module: str, fold: Mapping[str, str]) -> bool:
    """Whether a module, or one above it, has the path; part by part, so that `*` is one part of it."""
    wanted, parts = pattern.split("."), module.split(".")
    if not module or len(wanted) > len(parts):
        return False
    if len(wanted) == 1 and fnmatchcase(module, pattern):
        return True
    return all(
        part == want or other == want or fnmatchcase(part, want)
        for want, part, other in zip(wanted, parts, fold[module].split("."), strict=False)
    )


def unmatched(
    pattern: str,
    nodes: Sequence[NodeRecord],
    fold: Mapping[str, str],
    others: Iterable[str] = (),
    *,
    option: str = "",
) -> UsageError:
    """The error for the pattern of an option that means nothing; its hint says what comes close, also of `others`."""
    names = [*fold.values(), *(node.op_type for node in nodes), *(node.name for node in nodes), *others]
    known = [name for name in dict.fromkeys(names) if name]
    close = difflib.get_close_matches(pattern, known[:_MANY], n=CLOSE_NAMES, cutoff=0.4) or known[:CLOSE_NAMES]
    return UsageError(
        f"{option} {pattern!r}: no node, op type, module or kernel matches"
        if option
        else f"no node, op type or module matches {pattern!r}",
        hint=f"close to it: {', '.join(close)}" if close else "the profile has no nodes",
        subject=pattern,
    )
