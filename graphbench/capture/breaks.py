"""Graph breaks and recompiles, as far as Dynamo tells: reason and source line of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import torch
from torch import fx

from graphbench.capture import source_lines
from graphbench.errors import first_line
from graphbench.step_records import GraphBreak


def break_after(gm: fx.GraphModule, region: str) -> GraphBreak | None:
    """The graph break that ended a graph, or `None` when it ended because its frame returned.

    Source: `torch._dynamo.output_graph.GraphCompileReason` on `gm.compile_subgraph_reason`, torch 2.11 to 2.14.
    """
    reason = getattr(gm, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    return GraphBreak(
        reason=first_line(reason.reason), source=source_lines.from_summary(reason.user_stack), region=region
    )


def counted() -> dict[str, int]:
    """Dynamo's own count of break reasons so far in this process."""
    counters: Mapping[str, Mapping[str, int]] = torch._dynamo.utils.counters
    total: Counter[str] = Counter()
    for kind in ("graph_break", "unimplemented"):  # a reason may be in both
        for reason, count in counters[kind].items():
            total[str(reason)] += int(count)
    return dict(total)


def unplaced(before: Mapping[str, int], after: Mapping[str, int], placed: list[GraphBreak]) -> list[GraphBreak]:
    """Reasons that Dynamo counted since `before` and no captured graph carries: frames that never became a graph."""
    known = {found.reason for found in placed}
    fresh = [first_line(reason) for reason, count in after.items() if count > before.get(reason, 0)]
    return [GraphBreak(reason=reason) for reason in dict.fromkeys(fresh) if reason not in known]
