"""CSV of a recorded step: gap ops, places, parts and breaks."""

from __future__ import annotations

import csv
import io

import pytest

from graphbench.records import ProfileRecord
from graphbench.report import REPORTERS
from tests.samples import cpu_profile, gpu_profile
from tests.step_samples import training_step


def csv_rows(record: ProfileRecord, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(REPORTERS["csv"].render(record, table=name))))


def test_csv_of_gaps_has_place_bytes_and_direction() -> None:
    rows = {row["op_type"]: row for row in csv_rows(training_step(), "gaps")}
    copy = rows["copy_"]
    assert (copy["place"], copy["kind"], copy["copied_bytes"], copy["copied"]) == (
        "start",
        "copy",
        "4096",
        "cpu to cuda",
    )
    assert (rows["_foreach_add_"]["isolated_p50_ns"], rows["_foreach_add_"]["reason"]) == ("", "isolated: not measured")


def test_csv_of_places_keeps_the_order_of_the_step() -> None:
    rows = csv_rows(training_step(), "places")
    assert [row["place"] for row in rows[:3]] == ["start", "r0/forward", "after r0/forward"]
    assert (rows[2]["host_ns"], rows[2]["host_bound"], rows[2]["followed_by"]) == ("42000", "true", "r1/forward")


def test_csv_of_the_step_has_its_parts_then_the_total() -> None:
    rows = csv_rows(training_step(), "step")
    assert [row["part"] for row in rows][:2] == ["forward, compiled", "forward, gap"]
    assert (rows[5]["part"], rows[5]["share_percent"], rows[5]["copied_bytes"]) == ("total", "100", "4100")


def test_csv_of_breaks_has_their_cost_or_why_there_is_none() -> None:
    (row,) = csv_rows(training_step(), "breaks")
    assert (row["separates"], row["ops"], row["time_ns"]) == ("r0 | r1", "3", "6000")
    (lost,) = csv_rows(gpu_profile(), "breaks")
    assert (lost["time_ns"], lost["no_cost_reason"]) == ("", "no gap behind it was recorded")


@pytest.mark.parametrize("name", ["gaps", "places", "step"])
def test_csv_without_a_step_is_a_header(name: str) -> None:
    assert csv_rows(cpu_profile(), name) == []
