"""How opportunities are printed: the most promising first, with what their gain is of, and what is not known."""

from __future__ import annotations

import csv
import dataclasses
import io

from graphbench.analysis.opportunities import opportunities
from graphbench.measurements import NOT_MEASURED
from graphbench.records import ProfileRecord, Traffic
from graphbench.report import REPORTERS
from graphbench.report.html.findings import findings
from graphbench.report.html.row_sections import opportunities_section
from graphbench.report.opportunities_table import OVERLAP, opportunity_lines
from tests.factories import node, profile, region
from tests.step_samples import training_step
from tests.unit.test_opportunities import late, layers, made, on_gpu


def far(count: int) -> ProfileRecord:
    """So many kernels far from their limit, of different code at different places."""
    return layers(code=[f"poi_a{i}" for i in range(count)], modules=[f"part_{i}.act" for i in range(count)])


def test_ten_are_shown_unless_more_are_asked_for() -> None:
    assert opportunity_lines(far(12))[0].startswith(f"Opportunities (10 of 12; {OVERLAP}")
    assert sum(line[2:4] == ". " for line in opportunity_lines(far(12))) == 10
    assert sum(line[2:4] == ". " for line in opportunity_lines(far(12), top=12)) == 12


def test_what_is_less_than_a_thousandth_of_the_step_is_shown_when_asked_for() -> None:
    kernels = [made("poi_0", 1e7), made("poi_1", 10_000.0, Traffic(buffer="b", read_bytes=1_000), targets=["y"])]
    record = on_gpu([node("gelu")], kernels)
    assert opportunity_lines(record) == ["Opportunities: none found of 0.1 % of the step"]
    assert "far from limit" in opportunity_lines(record, top=1)[1]


def test_a_line_has_the_part_the_gain_and_the_kind_and_the_next_where_it_is() -> None:
    first, second = opportunity_lines(layers(code=["poi_0"] * 3, modules=["h.0.act", "h.1.act", "h.2.act"]))[1:3]
    assert first == " 1.  90.0 %  27.0 µs  far from limit x3: reaches 10 % of its limit (memory)"
    assert second == "    gelu_0, h.*.act, model.py:1; poi_0:0; 10.00 µs a call, 1.000 µs at the limit"


def test_a_gain_that_the_wall_time_does_not_get_says_so() -> None:
    lines = opportunity_lines(late(wall_ns=100_000.0, host_ns=95_000.0))
    assert "host-bound: no wall time until the host's part shrinks" in lines[4]


def test_a_gain_of_which_the_wall_time_gets_a_part_says_how_much() -> None:
    lines = opportunity_lines(late(wall_ns=22_000.0, host_ns=10_000.0))
    assert "of the wall time at most 12.0 µs" in lines[2]


def test_without_ceilings_it_is_said_what_is_not_known() -> None:
    lines = opportunity_lines(dataclasses.replace(far(1), ceilings=()))
    assert lines[0] == "Opportunities: none found"
    assert lines[1].startswith("the device's ceilings were not measured: missed fusions")


def test_kernels_without_an_in_graph_time_are_counted() -> None:
    untimed = dataclasses.replace(made("poi", 5.0), in_graph=NOT_MEASURED)
    record = profile(region([], [untimed]))
    assert "not looked at: 1 kernel without an in-graph time" in opportunity_lines(record)


def test_csv_has_all_of_them_with_their_units() -> None:
    rows = list(csv.DictReader(io.StringIO(REPORTERS["csv"].render(far(12), table="opportunities"))))
    assert len(rows) == 12
    assert rows[0]["kind"] == "far from limit"
    assert (rows[0]["gain_ns"], rows[0]["part_percent"], rows[0]["count"]) == ("9000", "7.5", "1")


def test_a_gain_on_the_wall_that_is_not_known_is_an_empty_cell() -> None:
    record = training_step()
    assert record.step is not None
    unknown = dataclasses.replace(record, step=dataclasses.replace(record.step, plain_wall_ns=()))
    rows = list(csv.DictReader(io.StringIO(REPORTERS["csv"].render(unknown, table="opportunities"))))
    assert {row["wall_gain_ns"] for row in rows} == {""}


def test_markdown_has_a_table_of_them() -> None:
    text = REPORTERS["markdown"].render(far(2))
    section = text[text.index("## Opportunities") : text.index("## Nodes")]
    assert "| far from limit | 9.00 | 45.0 | 9.00 | 1 |" in section
    assert OVERLAP.split(";")[0] in section


def test_the_printed_report_has_them_before_the_tables() -> None:
    text = REPORTERS["table"].render(training_step())
    assert text.index("Opportunities (") < text.index("Nodes, isolated")
    assert len(opportunities(training_step())) > 3


def test_the_table_of_a_page_says_what_its_short_headers_mean() -> None:
    section = opportunities_section(findings(far(2)))
    (table,) = section.tables
    names = [column.name for column in table.columns if column.key in ("wall_gain", "count")]
    assert names == ["wall", "n"]
    assert all(any(f"{name}: " in note for note in table.notes) for name in names)
