"""The tables of a profile, of a diff and of a scaling as `Rows`: each with the columns of its CSV, in order."""

from __future__ import annotations

from graphbench.analysis.break_costs import BreakRow, break_rows
from graphbench.analysis.diff import Diff
from graphbench.analysis.diff_fusions import FusionDiffRow
from graphbench.analysis.diff_gaps import GapDiffRow
from graphbench.analysis.diff_rows import DiffRow
from graphbench.analysis.diff_totals import DiffTotal
from graphbench.analysis.fusion import FusionRow, all_fusion_rows
from graphbench.analysis.gaps import GapRow, gap_rows
from graphbench.analysis.opportunities import opportunities
from graphbench.analysis.opportunity import Opportunity
from graphbench.analysis.places import PlaceRow, place_rows
from graphbench.analysis.views import NodeRow, node_rows
from graphbench.records import ProfileRecord
from graphbench.report.break_columns import BREAK_COLUMNS
from graphbench.report.columns import FUSION_COLUMNS
from graphbench.report.diff_columns import DIFF_COLUMNS, FUSION_DIFF_COLUMNS, GAP_DIFF_COLUMNS, TOTAL_COLUMNS
from graphbench.report.gaps_table import GAP_COLUMNS
from graphbench.report.node_columns import NODE_COLUMNS
from graphbench.report.opportunities_table import OPPORTUNITY_COLUMNS
from graphbench.report.row_view import Rows
from graphbench.report.step_table import PLACE_COLUMNS


def nodes_of(record: ProfileRecord) -> Rows[NodeRow]:
    """Compute and view nodes of all regions, in program order."""
    return Rows(node_rows(record), NODE_COLUMNS, what="node", index=("region", "name"))


def fusions_of(record: ProfileRecord) -> Rows[FusionRow]:
    """Kernels of all regions, in the order of their wrappers."""
    return Rows(all_fusion_rows(record), FUSION_COLUMNS, what="kernel", index=("region", "phase", "kernel"))


def gaps_of(record: ProfileRecord) -> Rows[GapRow]:
    """Gap ops of the recorded step, in its order; none without a step."""
    return Rows(gap_rows(record.step) if record.step else (), GAP_COLUMNS, what="gap op")


def places_of(record: ProfileRecord) -> Rows[PlaceRow]:
    """Places of the recorded step, in its order; none without a step."""
    return Rows(place_rows(record.step) if record.step else (), PLACE_COLUMNS, what="place", index=("place",))


def breaks_of(record: ProfileRecord) -> Rows[BreakRow]:
    """Graph breaks, the most expensive first."""
    return Rows(break_rows(record), BREAK_COLUMNS, what="graph break")


def opportunities_of(record: ProfileRecord) -> Rows[Opportunity]:
    """What could make the step faster, the most promising first."""
    return Rows(opportunities(record), OPPORTUNITY_COLUMNS, what="opportunity", several="opportunities")


def diff_nodes(result: Diff) -> Rows[DiffRow]:
    """Nodes of either profile, forward and backward."""
    return Rows(result.rows, DIFF_COLUMNS, what="node", index=("region", "name", "phase"))


def diff_fusions(result: Diff) -> Rows[FusionDiffRow]:
    """Kernels of either profile."""
    return Rows(result.fusions, FUSION_DIFF_COLUMNS, what="fusion")


def diff_gaps(result: Diff) -> Rows[GapDiffRow]:
    """Gap ops of either profile."""
    return Rows(result.gaps, GAP_DIFF_COLUMNS, what="gap op")


def diff_totals(result: Diff) -> Rows[DiffTotal]:
    """Whole runs."""
    return Rows(result.totals, TOTAL_COLUMNS, what="total", index=("name",))
