"""What is said of a profile of an op list: its ops ran alone, eagerly, and nothing of it was compiled. Pure."""

from __future__ import annotations

from graphbench.records import OP_LIST_REGION, ProfileRecord, RegionRecord


def holds_ops(region: RegionRecord) -> bool:
    """Whether a region's nodes are the ops of an op list."""
    return region.key.startswith(OP_LIST_REGION)


def is_op_list(record: ProfileRecord) -> bool:
    """Whether a profile is of an op list."""
    return bool(record.regions) and all(map(holds_ops, record.regions))
