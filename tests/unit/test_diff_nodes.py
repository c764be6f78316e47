"""Nodes of two graphs are joined by source and neighbourhood: renames and edits elsewhere do not matter."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphbench.analysis.diff_nodes import join_nodes
from graphbench.records import NodeRecord
from tests import recorded_provenance
from tests.factories import node, region, spec

RECORDED = sorted((Path(__file__).parents[1] / "data" / "provenance").glob("*.json.gz"))


def chain(*ops: str, names: str = "n", code: bool = True) -> list[NodeRecord]:
    """Nodes that each read the one before; without `code` their lines say nothing."""
    made: list[NodeRecord] = []
    for index, op in enumerate(ops):
        inputs = (made[-1].name,) if made else ("x",)
        entry = node(f"{names}{index}", 1.0, op_type=op, inputs=inputs, line=index)
        source = dataclasses.replace(entry.source, code=f"x = {op}(x)" if code else "") if entry.source else None
        made.append(dataclasses.replace(entry, source=source))
    return made


def joined(before: Sequence[NodeRecord], after: Sequence[NodeRecord]) -> dict[str, str]:
    return join_nodes(region(before), region(after))


def test_renamed_nodes_are_the_same_nodes() -> None:
    ops = ("linear", "relu", "linear", "relu")
    assert joined(chain(*ops, names="a"), chain(*ops, names="b")) == {f"b{i}": f"a{i}" for i in range(4)}


@pytest.mark.parametrize("code", [True, False], ids=["with code", "without code"])
@pytest.mark.parametrize("at", range(1, 6))
def test_an_inserted_node_does_not_shift_the_others(at: int, code: bool) -> None:
    ops = ["linear", "relu", "linear", "relu", "linear", "relu"]
    before, after = chain(*ops, names="a", code=code), chain(*ops[:at], "gelu", *ops[at:], names="b", code=code)
    kept = [i for i in range(7) if i != at]
    assert joined(before, after) == {f"b{i}": f"a{i if i < at else i - 1}" for i in kept}


def test_a_node_that_was_removed_has_no_partner_and_its_neighbours_keep_theirs() -> None:
    before = chain("linear", "relu", "linear", "relu", "linear", names="a")
    after = chain("linear", "linear", "relu", "linear", names="b")
    assert joined(before, after) == {"b0": "a0", "b1": "a2", "b2": "a3", "b3": "a4"}


def test_a_node_removed_here_and_one_added_there_are_not_one() -> None:
    before = chain("embed", "relu", "conv", "pool", "sum", names="a")
    after = chain("embed", "conv", "pool", "relu", "sum", names="b")
    assert joined(before, after) == {"b0": "a0", "b1": "a2", "b2": "a3", "b4": "a4"}


def test_a_name_does_not_count_where_the_structure_says_otherwise() -> None:
    before = [node("p", 1.0, op_type="relu", inputs=("x",)), node("q", 1.0, op_type="relu", inputs=("p",))]
    before.append(node("s", 1.0, op_type="sum", inputs=("q",)))
    after = [node("q", 1.0, op_type="relu", inputs=("x",)), node("p", 1.0, op_type="relu", inputs=("q",))]
    after.append(node("s", 1.0, op_type="sum", inputs=("p",)))
    assert joined(before, after) == {"q": "p", "p": "q", "s": "s"}


def test_branches_that_changed_places_are_found_by_their_constants() -> None:
    def branches(first: int, second: int) -> list[NodeRecord]:
        made = [node(f"n{size}", 1.0, op_type="pool", inputs=("x",)) for size in (first, second)]
        return [
            dataclasses.replace(entry, arguments=[{"node": "x"}, size])
            for entry, size in zip(made, (first, second), strict=True)
        ]

    assert joined([*branches(3, 5), node("end", 1.0)], branches(5, 3)) == {"n5": "n5", "n3": "n3"}


def test_other_shapes_are_the_same_nodes() -> None:
    before = [dataclasses.replace(entry, outputs=(spec(4, 8),)) for entry in chain("linear", "relu", names="a")]
    after = [dataclasses.replace(entry, outputs=(spec(16, 8),)) for entry in chain("linear", "relu", names="b")]
    assert joined(before, after) == {"b0": "a0", "b1": "a1"}


def test_another_op_is_never_the_same_node() -> None:
    assert joined(chain("linear", "relu"), chain("linear", "gelu")) == {"n0": "n0"}


def test_one_of_many_equal_nodes_more_leaves_the_others_joined() -> None:
    before = [node(f"n{i}", 1.0, op_type="add", inputs=("x",)) for i in range(1_000)]
    after = [node(f"n{i}", 1.0, op_type="add", inputs=("x",)) for i in range(1_001)]
    assert joined(before, after) == {f"n{i}": f"n{i}" for i in range(1_000)}


def renamed(nodes: Sequence[NodeRecord]) -> list[NodeRecord]:
    """The same graph, all names changed."""
    names = {entry.name: f"q{i}" for i, entry in enumerate(nodes)}
    return [
        dataclasses.replace(entry, name=names[entry.name], inputs=tuple(names.get(name, name) for name in entry.inputs))
        for entry in nodes
    ]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_real_graphs_survive_renaming_and_the_loss_of_one_node_in_twenty(path: Path) -> None:
    """Recorded graphs have no code and no shapes: harder than what is measured."""
    right = total = 0
    for recorded in recorded_provenance.regions(recorded_provenance.read(path)):
        before, chosen = list(recorded.nodes), random.Random(0)
        dropped = {entry.name for entry in chosen.sample(before, len(before) // 20)}
        source = {entry.name: entry.inputs[0] for entry in before if entry.inputs}

        def kept(name: str, dropped: set[str] = dropped, source: dict[str, str] = source) -> str:
            while name in dropped and name in source:
                name = source[name]
            return name

        after = [
            dataclasses.replace(entry, inputs=tuple(map(kept, entry.inputs)))
            for entry in before
            if entry.name not in dropped
        ]
        names = {new.name: old.name for new, old in zip(renamed(after), after, strict=True)}
        found = joined(before, renamed(after))
        right += sum(names[new] == old for new, old in found.items())
        total += len(after)
        assert joined(before, renamed(before)) == {f"q{i}": entry.name for i, entry in enumerate(before)}
    assert right >= 0.97 * total
