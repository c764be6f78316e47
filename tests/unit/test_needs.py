"""What a kernel needs of the values that it reads, worked out from what its nodes touch when they run alone."""

from __future__ import annotations

from graphbench.measuring.needs import Touched, needed_bytes, scattered_bytes


def test_a_slice_is_needed_only_as_far_as_it_is_read() -> None:
    touched = {"slice": Touched(base="x"), "mul": Touched(reads={"x": 25}, made=25)}
    assert needed_bytes(touched, ["slice", "mul"], ["mul"]) == {"x": 25}


def test_of_a_value_that_stays_inside_and_is_gathered_from_only_that_part_is_computed() -> None:
    # A tenth of `sub` is gathered, so a tenth of its inputs is needed.
    touched = {
        "sub": Touched(reads={"x": 1000, "row": 100}, made=1000),
        "gather": Touched(reads={"sub": 100}, made=100),
    }
    needed = needed_bytes(touched, ["sub", "gather"], ["gather"])
    assert needed is not None
    assert (needed["x"], needed["row"]) == (100, 10)


def test_a_value_that_is_written_out_is_needed_whole() -> None:
    touched = {"sub": Touched(reads={"x": 1000}, made=1000), "gather": Touched(reads={"sub": 100}, made=100)}
    needed = needed_bytes(touched, ["sub", "gather"], ["sub", "gather"])
    assert needed is not None
    assert needed["x"] == 1000


def test_a_value_that_is_written_out_through_a_view_is_needed_whole() -> None:
    touched = {
        "sub": Touched(reads={"x": 1000}, made=1000),
        "view": Touched(base="sub"),
        "gather": Touched(reads={"sub": 100}, made=100),
    }
    needed = needed_bytes(touched, ["sub", "view", "gather"], ["view"])
    assert needed is not None
    assert needed["x"] == 1000


def test_several_readers_of_one_value_need_it_together_and_never_more_than_there_is() -> None:
    touched = {
        "sub": Touched(reads={"x": 1000}, made=1000),
        "left": Touched(reads={"sub": 700}, made=700),
        "right": Touched(reads={"sub": 700}, made=700),
    }
    needed = needed_bytes(touched, ["sub", "left", "right"], ["left", "right"])
    assert needed is not None
    assert needed["x"] == 1000


def test_nothing_is_claimed_when_a_node_did_not_run() -> None:
    assert needed_bytes({"mul": Touched(made=1)}, ["mul", "add"], ["add"]) is None
    assert needed_bytes({}, [], []) is None


def test_a_scatter_touches_what_its_index_names() -> None:
    touched = {"index_put": Touched(made=1000, scattered=40), "mul": Touched(made=1000)}
    assert scattered_bytes(touched, ["mul", "index_put"], 1000) == 40
    assert scattered_bytes(touched, ["mul"], 1000) is None
    assert scattered_bytes(touched, ["index_put"], 500) is None  # another value than the one scattered into


def test_a_scatter_in_place_makes_no_more_than_it_touches() -> None:
    assert scattered_bytes({"index_put_": Touched(made=40, scattered=40)}, ["index_put_"], 1000) == 40


def test_a_kernel_that_fills_what_it_scatters_into_writes_all_of_it() -> None:
    touched = {"full": Touched(made=1000), "index_put": Touched(reads={"full": 1000}, made=1000, scattered=40)}
    assert scattered_bytes(touched, ["full", "index_put"], 1000) is None
    assert scattered_bytes(touched, ["index_put"], 1000) == 40  # another kernel filled it
