"""The lines below a table: what its marks and columns mean, and what its rows' warnings say, grouped by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from graphbench.analysis.device import BATCH_BELOW_NS
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.gaps import GapRow
from graphbench.analysis.views import NodeRow, is_unfaithful
from graphbench.analysis.warning_kinds import UNSTABLE, warning_kind
from graphbench.measurements import Measurement
from graphbench.plaintext import clean
from graphbench.report.overview import names_text
from graphbench.units import count_text

DETAILS_SHOWN = 3
SIDE_BY_SIDE = (
    "eager fwd, eager bwd: the node's forward and backward alone; comp. fwd, comp. bwd: its part of the compiled "
    "kernels, which are divided over their nodes by the bytes that each moves in them"
)
EAGER_ONLY = "eager fwd, eager bwd: the node's forward and backward alone"
DIFFERENTIATES = "∂: backward of"
UNFUSED = "unfused: the kernel's post-grad nodes one by one, called eagerly"
RECOMPUTED = "* in part of nodes that another kernel has computed before"
TOGETHER = "+ after a verdict: that of the kernels that compute a node together, by their sum"
BOUND = (
    "bound: memory (mem), compute (comp), latency (lat: no kernel is shorter) or launch (the host takes longer than "
    "the device); of limit: time at the limit ÷ time of one call, by the device's ceilings; n/a: not known"
)
COSTS = (
    "read, written, moved: distinct bytes, at least; FLOP: by torch's formulas, n/a where no op has one; removed: what "
    "the nodes of a kernel move alone less what it moves"
)
BEYOND = "! in of limit: beyond it, which no row can be: see suspicious above"
BATCH = (
    "batch: many calls queued back to back, warm: no-overhead theoretical, not what a single call costs; only rows "
    f"under {BATCH_BELOW_NS / 1e3:g} µs a call have one"
)
SPAN = (
    "span: first start to last end, gaps included; spans are comparable only between rows of equal kernel count (kern.)"
)
LAUNCH = (
    "grid, block, regs and local (a thread), shared (a block, static and dynamic), stream: of the first device kernel; "
    "+N: so many other launches, copies and fills, which CSV lists"
)
CLOCK = "clock: of the SMs, before the first sample → after the last"
CONFIG = "config: Triton's block constants, w warps, s stages; spills 0 is measured, – is not known"

Rows = Sequence[NodeRow] | Sequence[FusionRow] | Sequence[GapRow]


def legend(rows: Rows, *, many: bool, wide: bool) -> list[str]:
    """What a table of nodes, fusions or gap ops needs explained. `many` regions: rows are named with theirs."""
    lines = []
    measured = _measured(rows, many)
    if any(entry.shared_with for _, entry in measured):
        lines.append("= measured once for several equal ones")
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, entry in measured:
        for warning in entry.warnings:
            kind = warning_kind(warning)
            groups.setdefault(kind, []).append((name, warning[len(kind) :].removeprefix(":").strip()))
    lines += [f"! {clean(_warning(kind, found, len(measured), wide))}" for kind, found in groups.items()]
    if any(is_unfaithful(entry) for _, entry in measured):
        lines.append("! unfaithful: see the warning above")
    nodes = [row for row in rows if isinstance(row, NodeRow)]
    if any(row.has_backward for row in nodes):
        lines.append(SIDE_BY_SIDE if any(row.node.fate.kind != "eager" for row in nodes) else EAGER_ONLY)
    if any(isinstance(row, FusionRow) and any(r.role == "differentiates" for r in row.roles) for row in rows):
        lines.append(DIFFERENTIATES)
    if any(isinstance(row, FusionRow) and row.unfused_ns is not None for row in rows):
        lines.append(UNFUSED)
    if any(isinstance(row, FusionRow) and row.recomputed_ns for row in rows):
        lines.append(RECOMPUTED)
    if any(isinstance(row, FusionRow) and row.together and row.verdict for row in rows):
        lines.append(TOGETHER)
    lines += _limit_legend([row for row in rows if not isinstance(row, GapRow)])
    if any(row.device.batch_ns is not None for row in rows):
        lines.append(BATCH)
    return lines


def is_costed(row: NodeRow | FusionRow) -> bool:
    """Whether there is anything to tell of its cost and its limit."""
    return bool(row.limit.bound or row.cost.moved_bytes or row.cost.flops)


def _limit_legend(rows: Sequence[NodeRow | FusionRow]) -> list[str]:
    limits = [row.limit for row in rows]
    lines = [BOUND] if any(limit.bound for limit in limits) else []
    return lines + ([BEYOND] if any(limit.suspicious for limit in limits) else [])


def without_limit(rows: Sequence[NodeRow] | Sequence[FusionRow], many: bool) -> list[tuple[str, str]]:
    """Rows that were timed and have no limit, by name, and why; none where no row has one, and no views."""
    if all(row.limit.bound is None for row in rows):
        return []
    timed = [row for row in rows if row.limit.bound is None and row.device.measurement.samples is not None]
    told = [row for row in timed if not (isinstance(row, NodeRow) and row.kind == "view")]
    return [(row_name(row, many), f"no limit: {row.limit.reason}") for row in told]


def _measured(rows: Rows, many: bool) -> list[tuple[str, Measurement]]:
    """What the marks of a table are about, by name: its rows alone, and the backwards of its nodes."""
    found = [(row_name(row, many), row.device.measurement) for row in rows]
    nodes = [row for row in rows if isinstance(row, NodeRow) and row.backward.samples is not None]
    return found + [(f"backward of {row_name(row, many)}", row.backward) for row in nodes]


def launch_legend(rows: Rows) -> list[str]:
    """What a table of launches needs explained."""
    devices = [row.device for row in rows]
    told = {
        SPAN: any(device.span_ns is not None for device in devices),
        LAUNCH: any(device.kernels for device in devices),
        CLOCK: any(device.sm_mhz != (None, None) for device in devices),
        CONFIG: any(device.config for device in devices),
    }
    return [line for line, needed in told.items() if needed]


def row_name(row: NodeRow | FusionRow | GapRow, many: bool) -> str:
    """The name of a node or the key of a kernel; with that of its region where there are several. Gap ops with line."""
    if isinstance(row, GapRow):
        return f"{row.row.op_type} at {row.source}" if row.source else row.row.op_type
    name = row.name if isinstance(row, NodeRow) else row.key
    return f"{row.region}/{name}" if many else name


def _warning(kind: str, found: Sequence[tuple[str, str]], n_rows: int, wide: bool) -> str:
    """All rows with one kind of warning: how many, which, and what it says of them."""
    # On a CPU most rows are unstable, and each has its mark: their names would say nothing more.
    rows = _rows([name for name, _ in found], n_rows, named=wide or kind != UNSTABLE)
    details = Counter(detail for _, detail in found if detail).most_common()
    if len(details) == 1:
        return f"{kind}: {details[0][0]}: {rows}"
    said = [f"{detail} ({count})" for detail, count in details[:DETAILS_SHOWN]]
    said += [count_text(len(details) - DETAILS_SHOWN, "other value")] if len(details) > DETAILS_SHOWN else []
    return f"{kind}: {rows}" + (f": {', '.join(said)}" if said else "")


def _rows(names: Sequence[str], n_rows: int, *, named: bool) -> str:
    distinct = list(dict.fromkeys(names))
    if len(distinct) == n_rows > 1:
        return f"all {n_rows} rows"
    if not named:
        return count_text(len(distinct), "row")
    return names_text(distinct) if len(distinct) == 1 else f"{len(distinct)} rows ({names_text(distinct)})"
