"""A comparison over the sizes of the inputs as text and as Markdown: what grows fastest, whole runs, ops, nodes."""

from __future__ import annotations

from collections.abc import Sequence

from graphbench.analysis.growth import FEWEST_SIZES
from graphbench.analysis.scaling import Scaling, fastest_growing
from graphbench.analysis.scaling_groups import GroupScaling
from graphbench.analysis.scaling_rows import NodeScaling
from graphbench.analysis.sizes import ELEMENTS
from graphbench.plaintext import clean
from graphbench.report.base import DEFAULT_WIDTH
from graphbench.report.grid import build, draw, wrap
from graphbench.report.markdown_text import bullets, escape, rows_table
from graphbench.report.scaling_columns import (
    BACKWARD,
    group_columns,
    grows_text,
    node_columns,
    set_names,
    share_text,
    total_columns,
)
from graphbench.units import count_text

SHOWN_ROWS = 20
"""Rows of each table, unless asked for otherwise: what takes most at the largest size comes first."""


def render_scaling(
    found: Scaling, *, top: int | None = SHOWN_ROWS, wide: bool = False, width: int = DEFAULT_WIDTH
) -> str:
    """The text, ending with a line break.

    Args:
        found: profiles over the sizes of their inputs.
        top: rows a table at most; `None` for all.
        wide: also what every node reads, and its part of compiled kernels.
        width: of a line, in characters.
    """
    lines = [title(found), *(f"  {line}" for line in set_lines(found)), *headlines(found)]
    lines += [f"warning: {warning}" for warning in found.warnings]
    lines = [clean(line) for line in lines]
    lines += ["", draw(build(total_columns(found), found.totals, wide=wide), width)] if found.totals else []
    for what, rows in shown_groups(found):
        shown = rows[:top]
        lines += ["", _counted(f"By {what}", shown, rows)]
        lines += [draw(build(group_columns(found, what), shown, wide=wide), width)]
    nodes = by_last(found.rows)
    lines += ["", _counted("Nodes", nodes[:top], nodes)]
    lines += [draw(build(node_columns(found), nodes[:top], wide=wide), width)] if nodes else []
    return wrap([*lines, *map(clean, legend(found))], width)


def markdown_scaling(found: Scaling, *, top: int | None = SHOWN_ROWS) -> str:
    """The same as Markdown."""
    parts = [f"### {escape(title(found))}", bullets(set_lines(found))]
    parts += [f"**{escape(line)}**" for line in headlines(found)]
    parts += [bullets([f"warning: {warning}" for warning in found.warnings])]
    parts += [rows_table(total_columns(found), found.totals)] if found.totals else []
    for what, rows in shown_groups(found):
        parts += [
            f"#### {_counted(f'By {what}', rows[:top], rows)}",
            rows_table(group_columns(found, what), rows[:top]),
        ]
    nodes = by_last(found.rows)
    parts += [f"#### {_counted('Nodes', nodes[:top], nodes)}", rows_table(node_columns(found), nodes[:top])]
    parts += [bullets(legend(found))]
    return "\n\n".join(part for part in parts if part) + "\n"


def headlines(found: Scaling) -> list[str]:
    """What grows fastest, of op types and of nodes."""
    node = fastest_growing(found)
    ops = [
        (entry.exponent, row)
        for row in found.ops
        for entry in row.growths
        if entry.is_known and not row.doubt and (row.shares[-1] or 0.0) >= 0.05
    ]
    op = max(ops, key=lambda pair: pair[0])[1] if ops else None
    told = []
    if op is not None and op.nodes > 1:
        told.append(f"{op.group} ({count_text(op.nodes, 'row')}) grows fastest of all op types: {_grows(found, op)}")
    if node is not None:
        mark = BACKWARD if node.phase == "backward" else ""
        told.append(f"{mark}{node.name} ({node.op_type}) grows fastest of all nodes: {_grows(found, node)}")
    return told or ["what grows fastest is not known: no node with a share of 5 % has an exponent that means its work"]


def size_lines(found: Scaling) -> list[str]:
    """What n is, or which sizes change."""
    if found.others:
        lines = [
            f"sets: {' × '.join(axis.name for axis in found.axes)}; one fit over all sets gives each its exponent, the "
            "others held"
        ]
        lines += [f"{axis.name}, and with it {', '.join(axis.together)}" for axis in found.axes if axis.together]
    elif found.axis.name == ELEMENTS:
        lines = ["n: the elements of all inputs together, since not one dimension alone changes"]
    else:
        lines = [f"n: {found.axis.name}"]
        lines[0] += f", and with it {', '.join(found.axis.together)}" if found.axis.together else ""
    if len(set(found.axis.groups)) > 1 and not found.others:
        lines.append("sets that differ in other dimensions have a line of their own, all of one slope")
    if found.symbols:
        lines.append(f"in specs: {', '.join(f'{symbol} is {name}' for symbol, name in found.symbols)}")
    return lines


def set_lines(found: Scaling) -> list[str]:
    """What n is, and what each set was."""
    named = zip(set_names(found), found.labels, found.inputs, strict=True)
    return size_lines(found) + [
        f"{name}: {label}{f' ({inputs})' if inputs not in ('', label) else ''}" for name, label, inputs in named
    ]


def legend(found: Scaling) -> list[str]:
    """What the columns mean, as far as they are there."""
    lines = ["times: isolated medians; share: of the measured nodes' time, at the smallest set → at the largest"]
    lines.append("grows as n^: the exponent of the power law through the times; 0: it does not depend on n")
    if found.others:
        lines[-1] = lines[-1].replace("n^", f"{found.axis.name}^, ...").replace(" on n", " on that size")
        fewest = [axis.name for axis in found.axes if len(set(axis.values)) <= FEWEST_SIZES]
        lines += [f"{' and '.join(fewest)}: two sizes, no error is known; a third would tell"] if fewest else []
    elif len(set(found.axis.values)) < FEWEST_SIZES:
        lines.append("all sets are of one size: nothing grows")
    elif len(set(found.axis.values)) == FEWEST_SIZES:
        lines.append("two sizes: no error is known, any two times lie on a power law; a third size would tell")
    else:
        lines.append("±: two standard errors, or more where medians are noisy; at last: the exponent of the last step")
    rows: list[NodeScaling | GroupScaling] = [*found.rows, *found.ops, *found.modules]
    doubts = dict.fromkeys(row.doubt for row in rows if row.doubt)
    lines += [f"~: says nothing of the work: {'; '.join(doubts)}"] if doubts else []
    reasons = dict.fromkeys(row.reason for row in found.rows if row.reason)
    shown = list(reasons)[:3]
    more = f"; and {len(reasons) - len(shown)} reasons more, which CSV lists" if len(reasons) > len(shown) else ""
    return lines + ([f"–: {'; '.join(shown)}{more}"] if reasons else [])


def by_last(rows: Sequence[NodeScaling]) -> list[NodeScaling]:
    """What takes most at the largest size first; what is not known there last."""
    return sorted(rows, key=lambda row: -(row.times_ns[-1] or 0.0))


def _grows(found: Scaling, row: NodeScaling | GroupScaling) -> str:
    return f"as {grows_text(found, row)}, {share_text(row.shares)} % of the measured nodes' time"


def title(found: Scaling) -> str:
    """Of what, over how many sets."""
    if found.region:
        groups = count_text(len(found.labels), "group")
        return f"region {found.region} of {found.subject or 'a model'}, one graph for any sizes, over {groups} of them"
    return f"graphbench scaling of {found.subject or 'a model'} over {len(found.labels)} sets of inputs"


def shown_groups(found: Scaling) -> list[tuple[str, tuple[GroupScaling, ...]]]:
    """Sums by module say nothing new where there is one."""
    groups = [("op", found.ops), ("module", found.modules)]
    return [(what, rows) for what, rows in groups if len(rows) > 1]


def _counted(what: str, shown: Sequence[object], rows: Sequence[object]) -> str:
    if not rows:
        return f"{what}: none"
    return f"{what} ({len(shown)} of {len(rows)})" if len(shown) < len(rows) else f"{what} ({len(rows)})"
