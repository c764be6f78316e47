"""What a compiler's passes replaced, found by comparing graphs."""

from __future__ import annotations

from graphbench.provenance.rewrites import made_for, stand_ins


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


def test_a_chain_of_replaced_nodes_gives_each_new_node_the_one_it_was_made_for() -> None:
    before = {"x": (), "a": (), "b": (), "mul": ("x", "a"), "mul_1": ("mul", "b"), "output": ("mul", "mul_1")}
    made = {
        "wide": ("a",),
        "mul_2": ("x", "wide"),
        "wide_1": ("b",),
        "mul_3": ("mul_2", "wide_1"),
        "narrow": ("mul_3",),
    }
    after = {"x": (), "a": (), "b": (), **made, "output": ("mul_2", "narrow")}
    found = made_for({"mul": "mul_2", "mul_1": "narrow"}, before, after)
    assert found == {
        "mul_2": ("mul",),
        "wide": ("mul",),
        "narrow": ("mul_1",),
        "mul_3": ("mul_1",),
        "wide_1": ("mul_1",),
    }


def test_what_two_replaced_nodes_share_was_made_for_both() -> None:
    before = {"x": (), "a": (), "mul": ("x", "a"), "div": ("x", "a"), "output": ("mul", "div")}
    after = {"x": (), "a": (), "wide": ("a",), "mul_1": ("x", "wide"), "div_1": ("x", "wide"), "output": ()}
    assert made_for({"mul": "mul_1", "div": "div_1"}, before, after)["wide"] == ("mul", "div")


def test_of_a_part_that_lacks_other_nodes_only_what_can_be_gone_is() -> None:
    before = {"x": (), "sin": ("x",), "cos": ("sin",), "g": ("cos",), "output": ("cos", "g")}
    after = {"x": (), "new": ("x",), "g": ("new",), "output": ("g",)}
    assert stand_ins(before, after, "backward") == {"new": ("sin", "cos")}
    assert stand_ins(before, after, "backward", within={"g"}) == {"new": ("cos",)}
