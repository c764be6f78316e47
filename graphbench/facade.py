"""`Profile`: a facade over a measured or loaded record."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

from graphbench import document
from graphbench.arguments import check_type, checked_path
from graphbench.records import ProfileRecord
from graphbench.units import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import networkx

    from graphbench.analysis.break_costs import BreakRow
    from graphbench.analysis.fusion import FusionRow
    from graphbench.analysis.gaps import GapRow
    from graphbench.analysis.graph import CriticalPath
    from graphbench.analysis.opportunity import Opportunity
    from graphbench.analysis.places import PlaceRow
    from graphbench.analysis.views import NodeRow
    from graphbench.analysis.what_if import WhatIf
    from graphbench.report.base import RenderOptions
    from graphbench.report.profile_scaling import ProfileScaling
    from graphbench.report.row_view import Rows

Path = str | PathLike[str]


class Profile:
    """What was measured. Printing it gives the tables; everything it shows is a function of `record`.

    Args:
        record: the whole profile as frozen records; units are in the field names.

    `nodes`, `fusions`, `gaps`, `places`, `breaks` and `opportunities()` are tables: sequences of rows with
    `to_pandas()` and `to_csv()`.
    """

    def __init__(self, record: ProfileRecord) -> None:
        self.record = record

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Write the profile as JSON.

        Raises:
            UsageError: no path, the file exists and `overwrite` is not set, or it cannot be written.
            ConservationError: the rows do not add up.
        """
        document.write(self.record, checked_path("path", path), overwrite=overwrite)

    def check(self) -> None:
        """Prove that the rows add up to their totals.

        Raises:
            ConservationError: they do not.
        """
        document.check(self.record)

    def table(
        self,
        *,
        top: int | None = None,
        sort: str = "cost",
        wide: bool = False,
        group_by: str | None = None,
        depth: int | None = None,
        fold: str = "never",
    ) -> str:
        """The tables as text.

        Args:
            top: how many rows per table, the most expensive first; all by default.
            sort: column to sort nodes by.
            wide: more columns, for wide terminals.
            group_by: `"module"`, `"source"`, `"op_type"`, `"kernel"` or `"shape"` (op type and shapes of its inputs):
                sums in the place of nodes and fusions; repeated layers are one row.
            depth: with modules, cut their paths after so many parts.
            fold: `"always"` makes nodes and kernels that layers repeat one row, with their sums, `"auto"` those of long
                tables; groups are folded in any case.

        Raises:
            UsageError: a value of another type, `top` or `depth` below 1, a column that no table has, or no such way to
                group or to fold.
        """
        expected: dict[str, tuple[Any, Any]] = {
            "top": (top, int | None),
            "sort": (sort, str),
            "wide": (wide, bool),
            "group_by": (group_by, str | None),
            "depth": (depth, int | None),
            "fold": (fold, str),
        }
        for name, (value, kind) in expected.items():
            check_type(name, value, kind)
        from graphbench.report.table import TableReporter

        options: RenderOptions = {"top": top, "sort": sort, "wide": wide, "fold": fold}
        if group_by is not None:
            options["group_by"] = group_by
        if depth is not None:
            options["depth"] = depth
        return TableReporter().render(self.record, **options)

    def html(self) -> str:
        """The whole profile as a page: one HTML file, to be opened in any browser, that loads nothing from elsewhere.

        Raises:
            SetupError: jinja2 or plotly is not installed.
        """
        from graphbench.report.html.reporter import HtmlReporter

        return HtmlReporter().render(self.record)

    @cached_property
    def nodes(self) -> Rows[NodeRow]:
        """Compute and view nodes of all regions, in program order."""
        from graphbench.report.profile_rows import nodes_of

        return nodes_of(self.record)

    @cached_property
    def fusions(self) -> Rows[FusionRow]:
        """Kernels of all regions, in the order of their wrappers."""
        from graphbench.report.profile_rows import fusions_of

        return fusions_of(self.record)

    @cached_property
    def gaps(self) -> Rows[GapRow]:
        """Gap ops of the recorded step, in its order; none without a step."""
        from graphbench.report.profile_rows import gaps_of

        return gaps_of(self.record)

    @cached_property
    def places(self) -> Rows[PlaceRow]:
        """Places of the recorded step, in its order; none without a step."""
        from graphbench.report.profile_rows import places_of

        return places_of(self.record)

    @cached_property
    def breaks(self) -> Rows[BreakRow]:
        """Graph breaks, the most expensive first."""
        from graphbench.report.profile_rows import breaks_of

        return breaks_of(self.record)

    def by_size(self) -> tuple[ProfileScaling, ...]:
        """Every region that was called with several sizes, with each node's time over these; print one to read it.

        A graph that takes any sizes (`dynamic=True`, `mark_dynamic`) is measured for every group of sizes that it is
        called with. Its nodes get an exponent for each size that changes, from one fit over all groups.
        """
        from graphbench.report.profile_scaling import by_size_of

        return by_size_of(self.record)

    def opportunities(self) -> Rows[Opportunity]:
        """What could make the step faster, the most promising first, each with the most that it gives alone.

        They overlap and do not add up. Times are nanoseconds of the recorded step, else of all regions, each run once.
        """
        from graphbench.report.profile_rows import opportunities_of

        return opportunities_of(self.record)

    def what_if(self, pattern: str, factor: float = 2.0) -> WhatIf:
        """Predict the step if the nodes that match took 1/`factor` of their time; print the result to read it.

        Args:
            pattern: shell-style, of a node's name, its op type or its module's path, in which `*` is one part:
                `layers.*.mlp` is that module of every layer and all below it.
            factor: how much faster they get, above 0; `inf` removes them.

        Raises:
            UsageError: nothing matches, or a value that cannot be meant.
        """
        from graphbench.analysis.what_if import what_if

        check_type("pattern", pattern, str)
        check_type("factor", factor, float | int)
        return what_if(self.record, pattern, factor)

    def graph(self) -> networkx.DiGraph[str]:
        """Nodes, post-grad nodes and kernels, and how they hang together; see `graphbench.analysis.graph`.

        Times are isolated medians in nanoseconds (`isolated_ns`); what is not known is no attribute.
        """
        from graphbench.analysis.graph import profile_graph

        return profile_graph(self.record)

    def critical_paths(self) -> list[CriticalPath]:
        """The longest chain of kernels of every region's forward and backward, by isolated time in nanoseconds."""
        from graphbench.analysis.graph import critical_paths

        return critical_paths(self.record)

    def repro(self, row: str, *, backward: bool = False) -> str:
        """A stand-alone Python script that repeats the measurement of one row with plain torch.

        Args:
            row: a node as `conv1` or `r0/conv1`, a post-grad node as `forward:relu`, or a kernel's key.
            backward: the backward of the node of that name is meant.

        Raises:
            UsageError: no such row, or several; or one that cannot be rebuilt, and why.
        """
        check_type("row", row, str)
        check_type("backward", backward, bool)
        from graphbench.report.repro import repro

        return repro(self.record, row, backward=backward)

    def op_list(self, select: str | Sequence[str] = ()) -> str:
        """The ops of the profile as the text of an op list, which `measure_ops` measures without the model.

        Args:
            select: shell-style patterns of nodes' names, op types or module paths; by default all compute nodes.

        Raises:
            UsageError: a pattern that means nothing, or no node that can be exported, and why.
        """
        from graphbench.report.op_list import op_list

        patterns = (select,) if isinstance(select, str) else tuple(select)
        for pattern in patterns:
            check_type("select", pattern, str)
        return op_list(self.record, patterns)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        from graphbench.report.html.fragment import profile_fragment

        return profile_fragment(self.record)

    def __repr__(self) -> str:
        regions = self.record.regions
        nodes = sum(len(region.nodes) for region in regions)
        graphs = count_text(sum(not region.shapes_of for region in regions), "region")
        graphs += f" in {len(regions)} groups of sizes" if any(region.shapes_of for region in regions) else ""
        held = f"{graphs}, {count_text(nodes, 'node')}"
        return f"<graphbench.Profile of {self.record.subject or 'a model'}: {held}>"
