"""Cells in a line: how wide characters are, and in which order what gives way."""

from __future__ import annotations

import pytest

from graphbench.report.cells import Grid, cell_width, fit, padded, shortened
from graphbench.report.grid import Drawn, draw, draw_lines, wrap
from graphbench.report.names import shorten_head, shorten_phase
from graphbench.report.table import TableReporter
from tests.factories import executes, kernel, node, profile, region


def grid(*columns: tuple[str, list[str]], leave: tuple[str, ...] = (), shrink: int | None = 8) -> Grid:
    """Texts by header; those in `leave` may leave."""
    return Grid(
        headers=[name for name, _ in columns],
        rows=list(map(list, zip(*(cells for _, cells in columns), strict=True))),
        aligns=["left"] * len(columns),
        shrink=[shrink] * len(columns),
        shorten=[shorten_head] * len(columns),
        words=[name for name, _ in columns],
        leave=[leave.index(name) if name in leave else None for name, _ in columns],
    )


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("conv1", 5),
        ("µs", 2),
        ("层", 2),
        ("模型.注意力", 11),
        ("e\u0301", 1),
        ("🔥op", 4),
        ("ｆｕｌｌ", 8),
        ("", 0),
    ],
)
def test_wide_characters_take_two_columns_and_marks_none(text: str, width: int) -> None:
    assert cell_width(text) == width


def test_cells_are_padded_to_columns_of_the_screen() -> None:
    assert padded("层", 5, "left") == "层   "
    assert padded("层", 5, "right") == "   层"


@pytest.mark.parametrize("width", [2, 3, 4, 5, 9, 10])
def test_a_text_of_wide_characters_is_cut_to_columns_of_the_screen(width: int) -> None:
    assert cell_width(shortened("注意力机制层", width, shorten_head)) <= width


def test_a_text_whose_form_is_too_long_loses_its_end() -> None:
    assert shortened("launch", 4, lambda text, width: text) == "lau…"


def test_columns_of_a_table_with_wide_names_stand_below_each_other() -> None:
    table = draw(grid(("name", ["注意力", "gelu"]), ("fate", ["fused", "view"])), 80)
    wide, narrow = table.split("\n")[2:]
    assert cell_width(wide[: wide.index("fused")]) == cell_width(narrow[: narrow.index("view")]) == 8


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_report_with_wide_names_keeps_to_its_width(width: int) -> None:
    names = [f"注意力机制层_{index}_🔥" * 3 for index in range(3)]
    nodes = [node(name, 1e4, op_type="线性", module=f"模型.{name}") for name in names]
    made = [kernel(f"triton_融合_{name}", 1e4, kind="triton", roles=(executes(name),)) for name in names]
    text = TableReporter().render(profile(region(nodes, made)), width=width)
    tables = [line for line in text.splitlines() if "线性" in line or ("融合" in line and "triton " in line)]
    assert tables
    assert max(map(cell_width, tables)) <= width


def test_texts_are_shortened_before_columns_leave() -> None:
    fitted, gone = fit(grid(("a", ["x" * 20]), ("b", ["y" * 20]), leave=("b",)), 18, 1)
    assert gone == []
    assert [cell_width(cell) for cell in fitted.rows[0]] == [8, 9]


def test_columns_leave_in_their_order_and_only_as_many_as_must() -> None:
    columns = [(name, [name * 10]) for name in "abcd"]
    fitted, gone = fit(grid(*columns, leave=("c", "a")), 18, 1)
    assert gone == ["c"]
    assert fitted.headers == ["a", "b", "d"]
    fitted, gone = fit(grid(*columns, leave=("c", "a")), 9, 1)
    assert gone == ["c", "a"]
    assert fitted.headers == ["b", "d"]


def test_what_may_not_leave_is_shortened_further_instead() -> None:
    fitted, gone = fit(grid(("a", ["x" * 20]), ("b", ["y" * 20])), 7, 1)
    assert gone == []
    assert sum(map(cell_width, fitted.rows[0])) <= 6


def test_numbers_are_never_cut() -> None:
    fitted, _ = fit(grid(("a", ["1234.5678"]), shrink=None), 3, 1)
    assert fitted.rows == [["1234.5678"]]


def test_the_columns_that_left_are_named_below_the_table() -> None:
    _, note = draw_lines(grid(("a", ["x" * 10]), ("b", ["y" * 10]), leave=("b",)), 8)
    assert note == "no room for: b; wider lines show more"


def test_all_columns_that_were_asked_for_stay() -> None:
    wide = TableReporter().render(profile(region([node("n" * 40, 1e4)])), width=60, wide=True)
    assert "no room for" not in wide
    assert "source" in wide


@pytest.mark.parametrize("width", [40, 59])
def test_rows_are_cut_only_where_lines_are_too_short_for_tables(width: int) -> None:
    row = Drawn("x" * 70)
    assert wrap([row], width).splitlines()[0] == "x" * (width - 1) + "…"
    assert wrap([row], 60) == "x" * 70 + "\n"


@pytest.mark.parametrize(("text", "short"), [("forward", "fwd"), ("backward", "bwd")])
def test_a_phase_has_a_short_word(text: str, short: str) -> None:
    assert [shorten_phase(text, width) for width in (8, 6)] == [text, short]


def test_names_stay_readable_on_a_narrow_terminal() -> None:
    nodes = [node(f"node_with_a_long_name_{index}", 1e4, op_type="linear") for index in range(2)]
    text = TableReporter().render(profile(region(nodes)), width=60)
    assert "ame_0" in text
    assert "ame_1" in text
