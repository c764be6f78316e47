"""The rows of a profile's nodes and kernels, worked out once for everything in a report that reads them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion import FusionRow, all_fusion_rows
from graphbench.analysis.shares import EagerShares, eager_shares
from graphbench.analysis.views import NodeRow, node_rows
from graphbench.records import ProfileRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRows:
    """Nodes and kernels of all regions, and how the nodes of each region were divided over its kernels."""

    nodes: Sequence[NodeRow]
    fusions: Sequence[FusionRow]
    divided: Sequence[EagerShares]


def profile_rows(record: ProfileRecord, digest: Digest | None = None) -> ProfileRows:
    """All rows of a profile; `digest` holds statistics already computed for it."""
    digest = digest or Digest()
    divided = [eager_shares(region, digest) for region in record.regions]
    return ProfileRows(
        nodes=node_rows(record, digest), fusions=all_fusion_rows(record, digest, divided), divided=divided
    )
