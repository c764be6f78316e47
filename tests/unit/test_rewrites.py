"""What a compiler's passes replaced, found by comparing graphs."""

from __future__ import annotations

from graphbench.provenance.rewrites import stand_ins


def test_nothing_stands_in_where_nothing_changed() -> None:
    graph = {"x": (), "sin": ("x",), "output": ("sin",)}
    assert stand_ins(graph, graph) == {}


def test_a_new_node_stands_in_for_the_whole_pattern_that_its_user_read() -> None:
    before = {"x": (), "w": (), "b": (), "mm": ("x", "w"), "add": ("mm", "b"), "relu": ("add",), "output": ("relu",)}
    after = {"x": (), "w": (), "b": (), "addmm": ("b", "x", "w"), "relu": ("addmm",), "output": ("relu",)}
    assert stand_ins(before, after) == {"addmm": ("mm", "add")}


def test_nodes_that_are_still_there_are_not_replaced() -> None:
    shared = {"x": (), "exp": ("x",), "output": ("relu", "exp")}
    before = {**shared, "sum": ("exp",), "div": ("exp", "sum"), "relu": ("div",)}
    after = {**shared, "softmax": ("x",), "relu": ("softmax",)}
    assert stand_ins(before, after) == {"softmax": ("sum", "div")}


def test_a_pattern_may_become_several_nodes() -> None:
    before = {"q": (), "mm": ("q", "q"), "softmax": ("mm",), "bmm": ("softmax", "q"), "output": ("bmm",)}
    after = {"q": (), "attention": ("q", "q", "q"), "getitem": ("attention",), "output": ("getitem",)}
    replaced = ("mm", "softmax", "bmm")
    assert stand_ins(before, after) == {"attention": replaced, "getitem": replaced}


def test_a_merged_nodes_users_read_one_that_was_there_before() -> None:
    before = {"x": (), "sin": ("x",), "sin_1": ("x",), "add": ("sin", "sin_1"), "output": ("add",)}
    after = {"x": (), "sin": ("x",), "add": ("sin", "sin"), "output": ("add",)}
    assert stand_ins(before, after) == {}


def test_gradients_are_paired_from_the_end_and_results_from_the_start() -> None:
    before = {"x": (), "y": (), "mm": ("x", "y"), "g": ("mm",), "output": ("mm", "g")}
    assert stand_ins(before, {"x": (), "y": (), "new": ("x", "y"), "output": ("new", "x")}) == {"new": ("mm",)}
    assert stand_ins(before, {"mm": (), "fused": ("mm",), "output": ("fused",)}, "backward") == {"fused": ("g",)}


def test_a_user_with_other_arguments_tells_nothing() -> None:
    before = {"x": (), "sin": ("x",), "cat": ("sin", "x"), "output": ("cat",)}
    assert stand_ins(before, {"x": (), "new": ("x",), "cat": ("new",), "output": ("cat",)}) == {}
