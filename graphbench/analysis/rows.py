"""The rows of a profile's nodes and kernels, worked out once for everything in a report that reads them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion import NO_ISOLATED, FusionRow, all_fusion_rows
from graphbench.analysis.shares import EagerShares, eager_shares
from graphbench.analysis.views import NodeRow, node_rows
from graphbench.records import NOT_SELECTED, ProfileRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRows:
    """Nodes and kernels of all regions, and how the nodes of each region were divided over its kernels."""

    nodes: Sequence[NodeRow]
    fusions: Sequence[FusionRow]
    divided: Sequence[EagerShares]

    @property
    def asked_for(self) -> ProfileRows:
        """Without the rows that nobody asked for: where only some rows were isolated, the others say nothing."""
        nodes = [row for row in self.nodes if row.reason != NOT_SELECTED]
        fusions = [row for row in self.fusions if f"{NO_ISOLATED}: {NOT_SELECTED}" not in row.causes]
        return ProfileRows(nodes=nodes, fusions=fusions, divided=self.divided)

    def of_regions(self, keys: Collection[str]) -> ProfileRows:
        """The rows of some regions only."""
        nodes = [row for row in self.nodes if row.region in keys]
        fusions = [row for row in self.fusions if row.region in keys]
        return ProfileRows(nodes=nodes, fusions=fusions, divided=self.divided)


def profile_rows(record: ProfileRecord, digest: Digest | None = None) -> ProfileRows:
    """All rows of a profile; `digest` holds statistics already computed for it."""
    digest = digest or Digest()
    divided = [eager_shares(region, digest) for region in record.regions]
    return ProfileRows(
        nodes=node_rows(record, digest), fusions=all_fusion_rows(record, digest, divided), divided=divided
    )
