"""Nodes that were removed before lowering say what became of them."""

from __future__ import annotations

from graphbench.provenance.vanished import CONSTANT, NO_OP, NO_OPERATION, UNREAD, Traced, vanished
from graphbench.records import Fate


def traced(**calls: tuple[str, ...]) -> Traced:
    """Calls by name: their op, then the nodes that they read. Each came from a Dynamo node named `d_NAME`."""
    found = Traced(inputs={"x": ()})
    for name, (op, *reads) in calls.items():
        found.inputs[name] = tuple(reads)
        if op != "output":
            found.calls[name] = f"{op}({', '.join(f'%{read}%' for read in reads)})"
            found.sources[name] = (f"d_{name}",)
    return found


def fate(before: Traced, after: dict[str, tuple[str, ...]], node: str) -> Fate | None:
    names = [source for sources in before.sources.values() for source in sources]
    return vanished([*names, "d_untraced"], before, after).get(node)


def test_what_is_still_there_is_not_among_them() -> None:
    before = traced(sin=("sin", "x"), output=("output", "sin"))
    assert fate(before, {"x": (), "sin": ("x",), "output": ("sin",)}, "d_sin") is None


def test_a_node_that_records_no_operation_is_folded() -> None:
    before = traced(sin=("sin", "x"), output=("output", "sin"))
    assert fate(before, {"sin": ("x",)}, "d_untraced") == Fate(kind="folded", note=NO_OPERATION)


def test_the_second_of_two_equal_calls_is_merged_into_the_first() -> None:
    before = traced(a=("sin", "x"), b=("sin", "x"), add=("add", "a", "b"), output=("output", "add"))
    after = {"a": ("x",), "add": ("a", "a"), "output": ("add",)}
    assert fate(before, after, "d_b") == Fate(kind="merged", note="d_a")


def test_calls_of_merged_calls_are_merged_too() -> None:
    before = traced(
        a=("arange",), b=("arange",), c=("cos", "a"), d=("cos", "b"), add=("add", "c", "d"), output=("output", "add")
    )
    after = {"a": (), "c": ("a",), "add": ("c", "c"), "output": ("add",)}
    assert fate(before, after, "d_b") == Fate(kind="merged", note="d_a")
    assert fate(before, after, "d_d") == Fate(kind="merged", note="d_c")


def test_a_node_whose_users_read_its_input_now_did_nothing() -> None:
    before = traced(clone=("clone", "x"), sin=("sin", "clone"), output=("output", "sin"))
    assert fate(before, {"sin": ("x",), "output": ("sin",)}, "d_clone") == Fate(kind="folded", note=NO_OP)


def test_what_depends_on_no_input_is_a_constant() -> None:
    before = traced(ones=("ones",), two=("mul", "ones"), mul=("mul", "x", "two"), output=("output", "mul"))
    after = {"full": (), "mul": ("x", "full"), "output": ("mul",)}
    assert fate(before, after, "d_ones") == Fate(kind="folded", note=CONSTANT)


def test_what_no_result_needs_is_dead_and_what_lost_its_readers_says_so() -> None:
    before = traced(cos=("cos", "x"), tan=("tan", "x"), sub=("sub", "tan"), output=("output", "sub"))
    after = {"zeros": (), "output": ("zeros",)}
    assert fate(before, after, "d_cos") == Fate(kind="dead")
    assert fate(before, after, "d_tan") == Fate(kind="dead", note=UNREAD)
