"""What is said of a profile of an op list: its ops ran alone, eagerly, and nothing of it was compiled. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from graphbench.records import OP_LIST_REGION, ProfileRecord, RegionRecord


def holds_ops(region: RegionRecord) -> bool:
    """Whether a region's nodes are the ops of an op list."""
    return region.key.startswith(OP_LIST_REGION)


def is_op_list(record: ProfileRecord) -> bool:
    """Whether a profile is of an op list."""
    return bool(record.regions) and all(map(holds_ops, record.regions))


def is_meant(patterns: Iterable[str], names: Iterable[str], module: str) -> bool:
    """Whether one of some shell-style patterns is of a node.

    Args:
        patterns: of a name, or of a module's path, part by part, in which `*` is one part.
        names: what the node is called: its name, its op type.
        module: its module's path.
    """
    known = [*names, module]
    return any(
        any(fnmatchcase(name, pattern) for name in known if name) or _is_below(pattern, module) for pattern in patterns
    )


def _is_below(pattern: str, module: str) -> bool:
    """Whether a module lies below the one that a pattern names."""
    wanted, parts = pattern.split("."), module.split(".")
    return len(wanted) <= len(parts) and all(map(fnmatchcase, parts, wanted))
