"""Model Explorer's node data: one metric of a profile, to be laid over the graphs that `model_explorer` writes.

Checked against google-ai-edge/model-explorer at c0f8dba and its package ai-edge-model-explorer 0.1.34 (2026-11-30).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.rows import profile_rows
from graphbench.analysis.views import NodeRow
from graphbench.errors import UsageError
from graphbench.plaintext import clean
from graphbench.records import ProfileRecord, RegionRecord
from graphbench.report.base import RenderOptions, check_options
from graphbench.report.graph.model_explorer import (
    RegionRows,
    kernel_ids,
    kernels_graph_id,
    node_ids,
    nodes_graph_id,
    rows_by_region,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

Value = float | str | None
DEFAULT_METRIC: Final = "isolated"
_DECIMALS: Final = 4  # a tenth of a nanosecond: the program prints every digit on its nodes

# Colours of Okabe and Ito, which people tell apart whatever they see of red and green.
_BLUE, _SKY, _ORANGE, _RED, _PURPLE, _GREY = "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#CC79A7", "#DDDDDD"
_MORE: Final = ({"stop": 0, "bgColor": "#FFFFFF"}, {"stop": 1, "bgColor": _BLUE})
_RATIOS: Final = (
    {"value": 0.95, "bgColor": _ORANGE},
    {"value": 1.05, "bgColor": _GREY},
    {"value": 2.0, "bgColor": "#B3D9F2"},
    {"value": 1e12, "bgColor": _SKY},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What one overlay shows: `of_node` and `of_kernel` give a number or a word, `None` where it is not known.

    Numbers are coloured by `gradient` or `thresholds`, words by `colours`.
    """

    name: str
    of_node: Callable[[NodeRow, _Verdicts], Value] = lambda row, verdicts: None
    of_kernel: Callable[[FusionRow], Value] = lambda row: None
    gradient: tuple[Mapping[str, object], ...] = ()
    thresholds: tuple[Mapping[str, object], ...] = ()
    colours: Mapping[str, str] = field(default_factory=dict)


_Verdicts = Mapping[str, str | None]


def _us(time_ns: float | None) -> float | None:
    return None if time_ns is None else time_ns / 1000


def _percent(part: float | None) -> float | None:
    return None if part is None else 100 * part


def _speedup(row: NodeRow) -> float | None:
    eager_ns, compiled_ns = row.isolated_p50_ns, row.compiled.forward_ns
    return eager_ns / compiled_ns if eager_ns is not None and compiled_ns else None


def _verdict(row: NodeRow, verdicts: _Verdicts) -> str | None:
    """Those of the kernels that execute the node, each once."""
    found = dict.fromkeys(verdicts.get(f"{row.region}/{key}") for key in row.kernels)
    return ", ".join(verdict for verdict in found if verdict) or None


METRICS: Final[Mapping[str, Metric]] = MappingProxyType(
    {
        "isolated": Metric(
            name="eager, isolated p50 (µs)",
            of_node=lambda row, _: _us(row.isolated_p50_ns),
            of_kernel=lambda row: _us(row.eager.p50_ns if row.eager else None),
            gradient=_MORE,
        ),
        "backward_isolated": Metric(
            name="eager backward, isolated p50 (µs)",
            of_node=lambda row, _: _us(row.backward_p50_ns),
            gradient=_MORE,
        ),
        "in_graph": Metric(
            name="in-graph p50 (µs)",
            of_node=lambda row, _: _us(row.in_graph_ns),
            of_kernel=lambda row: _us(row.in_graph_ns),
            gradient=_MORE,
        ),
        "compiled": Metric(
            name="compiled, isolated p50 (µs)",
            of_node=lambda row, _: _us(row.compiled.forward_ns),
            of_kernel=lambda row: _us(row.fused_ns),
            gradient=_MORE,
        ),
        "compiled_backward": Metric(
            name="compiled backward, isolated p50 (µs)",
            of_node=lambda row, _: _us(row.compiled.backward_ns),
            gradient=_MORE,
        ),
        "speedup": Metric(
            name="speedup (eager ÷ compiled)",
            of_node=lambda row, _: _speedup(row),
            of_kernel=lambda row: row.ratio,
            thresholds=_RATIOS,
        ),
        "limit": Metric(
            name="of limit (%)",
            of_node=lambda row, _: _percent(row.limit.part),
            of_kernel=lambda row: _percent(row.limit.part),
            gradient=_MORE,
        ),
        "bound": Metric(
            name="bound",
            of_node=lambda row, _: row.limit.bound,
            of_kernel=lambda row: row.limit.bound,
            colours={"memory": _SKY, "compute": _ORANGE, "latency": _PURPLE, "launch": _GREY},
        ),
        "verdict": Metric(
            name="fusion verdict",
            of_node=_verdict,
            of_kernel=lambda row: row.verdict,
            colours={"faster": _SKY, "slower": _ORANGE, "same": _GREY, "unclear": "#F0E442"},
        ),
        "fate": Metric(
            name="fate (of kernels: kind)",
            of_node=lambda row, _: row.node.fate.kind,
            of_kernel=lambda row: row.kind,
            colours={"fused": _SKY, "kernel": "#B3D9F2", "split": _PURPLE, "eager": _ORANGE, "unknown": _RED},
        ),
    }
)
"""What can be laid over a graph, by the name used on the command line."""


class ModelExplorerReporter:
    """One metric of all nodes and kernels as node data; takes `metric`, one of `METRICS`.

    Data is by id of the graph and of the node that `model-explorer-graph` writes. Nodes of a graph that `torch.export`
    made have other names, and of equal names not always the same op: that graph's id is none of these, so that Model
    Explorer shows nothing there instead of another node's time.
    """

    suffix = ".json"

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The JSON text. A row without a value is left out.

        Source: `NodeDataProviderData` of `visualizer/common/types.ts`, `ModelNodeData` of `node_data_builder.py`.

        Raises:
            UsageError: an unknown option or metric.
        """
        check_options("model-explorer", options, ("metric",))
        name = options.get("metric", DEFAULT_METRIC)
        if name not in METRICS:
            hint = f"the metrics are: {', '.join(METRICS)}"
            raise UsageError(f"unknown metric {name!r}", hint=hint, subject="metric")
        rows = profile_rows(record, Digest())
        verdicts = {f"{row.region}/{row.key}": row.verdict for row in rows.fusions}
        by_region = rows_by_region(rows)
        found = {
            graph: data
            for region in record.regions
            for graph, data in _of_region(region, METRICS[name], by_region[region.key], verdicts)
        }
        return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _of_region(
    region: RegionRecord, metric: Metric, rows: RegionRows, verdicts: _Verdicts
) -> Iterable[tuple[str, Mapping[str, Any]]]:
    ids = node_ids(region)
    nodes = ((ids[row.name], metric.of_node(row, verdicts)) for row in rows.nodes)
    yield nodes_graph_id(region), _data(metric, nodes)
    keys = kernel_ids(region)
    for phase in dict.fromkeys(row.phase for row in rows.fusions):
        kernels = ((keys[row.key], metric.of_kernel(row)) for row in rows.fusions if row.phase == phase)
        yield kernels_graph_id(region, phase), _data(metric, kernels)


def _data(metric: Metric, values: Iterable[tuple[str, Value]]) -> Mapping[str, Any]:
    results = {name: _result(metric, value) for name, value in values if _is_known(value)}
    colouring = {"gradient": metric.gradient} if metric.gradient else {"thresholds": metric.thresholds}
    return {"name": metric.name, "results": results, **({} if metric.colours else colouring)}


def _is_known(value: Value) -> TypeGuard[float | str]:
    """JSON has no word for infinity."""
    return value is not None and (isinstance(value, str) or math.isfinite(value))


def _result(metric: Metric, value: float | str) -> Mapping[str, object]:
    if not isinstance(value, str):
        return {"value": round(value, _DECIMALS)}
    colour = metric.colours.get(value)
    return {"value": clean(value), **({"bgColor": colour} if colour else {})}
