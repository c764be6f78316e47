"""Which row of a profile a name means: a node, its backward, a post-grad node or a kernel. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from graphbench.conservation import post_grad_row
from graphbench.errors import UsageError
from graphbench.measurements import Measurement
from graphbench.plaintext import quoted
from graphbench.records import KernelRecord, NodeRecord, PostGradNode, ProfileRecord, RegionRecord

_SHOWN = 200  # characters of a name that a message quotes
_BACKWARD = "backward:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured row: `of` is its record, `backward` says that a node's backward is meant. `name` is unique."""

    name: str
    region: RegionRecord
    of: NodeRecord | PostGradNode | KernelRecord
    measurement: Measurement
    backward: bool = False


def find_row(record: ProfileRecord, text: str, *, backward: bool = False) -> Row:
    """The row that a text names.

    `conv1` is a node and `forward:relu` a post-grad node; a kernel is named by its key, `forward/cpp_fused_add_0:3`, or
    the part behind the phase. `r0/` in front says in which region. `backward:conv1` is the backward of a node where the
    backward graph has no post-grad node of that name.

    Args:
        record: the profile.
        text: the name.
        backward: the backward of the node of that name is meant.

    Raises:
        UsageError: no such row, or several.
    """
    head, slash, rest = text.partition("/")
    named = [region for region in record.regions if slash and region.key == head]
    local = rest if named else text
    found = [row for region in named or record.regions for row in _matches(region, local, backward)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(row.name for row in found[:5])
        raise UsageError(f"row {_quoted(text)}: found {len(found)} rows of that name: {names}", subject="--row")
    if record.step is not None and any(row.name == text and row.kernel is None for row in record.step.rows):
        raise UsageError(f"row {_quoted(text)} is a gap op, of whose arguments a profile holds none", subject="--row")
    what = f"row {_quoted(text)}: found no such {'node, whose backward could be meant,' if backward else 'row'}"
    raise UsageError(f"{what} in the profile", hint=_hint(record, local), subject="--row")


def _matches(region: RegionRecord, text: str, backward: bool) -> list[Row]:
    rows = [row for row in _rows(region) if row.backward == backward]
    exact = [row for row in rows if _local(row) == text]
    if exact or backward:
        return exact
    if text.startswith(_BACKWARD):
        name = text.removeprefix(_BACKWARD)
        return [row for row in _rows(region) if row.backward and _local(row) == name]
    return [row for row in rows if isinstance(row.of, KernelRecord) and row.of.key.partition("/")[2] == text]


def _local(row: Row) -> str:
    if isinstance(row.of, PostGradNode):
        return post_grad_row(row.of.phase, row.of.name)
    return row.of.key if isinstance(row.of, KernelRecord) else row.of.name


def _rows(region: RegionRecord) -> Iterator[Row]:
    for node in region.nodes:
        yield Row(name=f"{region.key}/{node.name}", region=region, of=node, measurement=node.isolated)
        name = f"{region.key}/{node.name} --backward"
        yield Row(name=name, region=region, of=node, measurement=node.backward_isolated, backward=True)
    for op in region.post_grad:
        name = f"{region.key}/{post_grad_row(op.phase, op.name)}"
        yield Row(name=name, region=region, of=op, measurement=op.isolated)
    for kernel in region.kernels:
        yield Row(name=f"{region.key}/{kernel.key}", region=region, of=kernel, measurement=kernel.isolated)


def _hint(record: ProfileRecord, text: str) -> str:
    names = {_local(row): None for region in record.regions for row in _rows(region)}
    close = difflib.get_close_matches(text[:_SHOWN], list(names)[:5000], n=3)
    if close:
        return f"rows of a similar name: {', '.join(close)}"
    return "a node as in the table, a post-grad node as forward:relu, or a kernel's key as forward/cpp_fused_add_0:3"


def _quoted(text: str) -> str:
    return quoted(text, _SHOWN)
