"""What a graph break names, found in the user's source."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench.capture import causes
from graphbench.capture.break_messages import Message

SOURCE = """\
def step(x, y):
    if x.sum() > 0 and y:
        x = helper(x); y = other(y)
    v = float(x.mean())
    w = helper(x) + helper(y)
    z = add(
        x,
        helper(
            y,
        ),
    )
    with scope(helper(x)):
        done(x)
    try:
        done(x)
        done(y)
        late(x)
    finally:
        pass
    return [u for u in x if u > 0]


def next_one(x):
    return late(x)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


def calls(name: str) -> Message:
    return Message(reason="", hint="", called=name)


BRANCHES = Message(reason="", hint="", is_branch=True)


@pytest.mark.parametrize(
    ("line", "name", "cause"),
    [
        (3, "helper", "helper(x)"),
        (3, "other", "other(y)"),
        (3, "package.module.other", "other(y)"),
        (8, "_hel_per2", "helper(y)"),  # as ATen or Dynamo may spell it
        (4, "item", "float(x.mean())"),
        (5, "helper", ""),  # either of the two
        (8, "helper", "helper(y)"),
        (12, "helper", "helper(x)"),
        (12, "done", ""),  # the body is not that line's
        (13, "done", "done(x)"),
        (4, "absent", ""),
        (4, "", ""),
    ],
)
def test_the_call_of_a_name_is_found_on_its_line(file: str, line: int, name: str, cause: str) -> None:
    assert causes.on_line(file, line, calls(name)) == cause


@pytest.mark.parametrize(("line", "cause"), [(2, "x.sum() > 0 and y"), (20, "u > 0"), (4, "")])
def test_a_branch_is_the_condition_on_its_line(file: str, line: int, cause: str) -> None:
    assert causes.on_line(file, line, BRANCHES) == cause


def test_an_expression_is_found_by_its_position(file: str) -> None:
    assert causes.at_position(file, 2, (7, 18)) == "x.sum() > 0"


def test_an_expression_over_several_lines_is_told_on_one(file: str) -> None:
    assert causes.at_position(file, 8, (8, 9)) == "helper(y)"


def test_a_position_where_nothing_begins_has_no_cause(file: str) -> None:
    assert causes.at_position(file, 2, (8, 18)) == ""


def test_the_only_later_call_in_the_function_is_found(file: str) -> None:
    assert causes.later_in_function(file, 12, calls("late")) == (17, "late(x)")


def test_of_several_later_calls_none_is_chosen(file: str) -> None:
    assert causes.later_in_function(file, 12, calls("done")) is None


def test_a_line_belongs_to_its_innermost_function(file: str) -> None:
    assert [causes.function_name(file, line) for line in (1, 20, 24)] == ["step", "step", "next_one"]


def test_source_that_does_not_parse_has_no_cause(tmp_path: Path) -> None:
    path = tmp_path / "cell.py"
    path.write_text("%magic\nhelper(x)\n", encoding="utf-8")
    assert causes.on_line(str(path), 2, calls("helper")) == ""


def test_source_that_is_not_there_has_no_cause() -> None:
    assert causes.on_line("nowhere.py", 1, calls("helper")) == ""
    assert causes.code_at("nowhere.py", 1) == ""


def test_a_long_expression_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text(f"helper({'x' * 200})\n", encoding="utf-8")
    text = causes.on_line(str(path), 1, calls("helper"))
    assert len(text) == causes.LONGEST
    assert text.endswith("...")
