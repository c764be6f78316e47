"""DataFrames: the columns of the CSV under the same names, typed, with NA for what is missing."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable

import pytest

from graphbench.analysis.diff import diff
from graphbench.analysis.scaling import scaling
from graphbench.errors import SetupError
from graphbench.facade import Profile
from graphbench.records import ProfileRecord
from graphbench.report.column import Column
from graphbench.report.profile_diff import ProfileDiff
from graphbench.report.profile_scaling import SCALING_TABLES, ProfileScaling
from graphbench.report.row_view import Rows
from tests.factories import FAILED, node, profile, region, spec
from tests.hostile import RECORDS, TEXTS
from tests.launch_samples import launch_profile
from tests.recorded import recorded_profile
from tests.samples import cpu_profile, gpu_profile

pandas = pytest.importorskip("pandas", reason="needs the extra `pandas`")
TABLES = ("nodes", "fusions", "gaps", "places", "breaks")


def same(cell: str, value: object) -> bool:
    """Whether a cell of a CSV says the same as a value of a DataFrame."""
    if pandas.isna(value) or value == "":
        return cell == ""
    if isinstance(value, str):
        return cell.removeprefix("'") == value
    return cell == str(value).lower() or float(cell) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("make", [*RECORDS, launch_profile, lambda: recorded_profile("training_step")])
@pytest.mark.parametrize("table", TABLES)
def test_a_frame_says_what_the_csv_says(make: Callable[[], ProfileRecord], table: str) -> None:
    rows: Rows[object] = getattr(Profile(make()), table)
    frame = rows.to_pandas().reset_index(drop=not rows.index_keys)
    header, *lines = csv.reader(io.StringIO(rows.to_csv()))
    assert sorted(frame.columns) == sorted(header)
    assert len(frame) == len(lines)
    for name, cells in zip(header, zip(*lines, strict=True), strict=False):
        assert all(same(cell, value) for cell, value in zip(cells, frame[name], strict=True)), name


def test_nodes_are_found_by_region_and_name() -> None:
    frame = Profile(cpu_profile()).nodes.to_pandas()
    assert frame.index.names == ["region", "name"]
    assert frame.loc[("r0", "conv1"), "isolated_p50_ns"] == 1_200_000.0
    assert frame.loc[("r0", "conv1"), "share_percent"] == pytest.approx(100 * 1_200_000 / 1_600_900)


def test_a_missing_time_is_na_and_the_reason_is_there() -> None:
    frame = Profile(profile(region([node("a", FAILED), node("b", 5.0)]))).nodes.to_pandas()
    assert frame.loc[("r0", "a"), "isolated_p50_ns"] is pandas.NA
    assert frame.loc[("r0", "a"), "reason"] == "ran out of memory"
    assert frame["isolated_p50_ns"].sum() == 5.0


def test_no_module_is_an_empty_text_so_that_groups_lose_nothing() -> None:
    frame = Profile(profile(region([node("a", 5.0), node("b", 7.0, module="net.b")]))).nodes.to_pandas()
    assert frame.groupby("module")["isolated_p50_ns"].sum().to_dict() == {"": 5.0, "net.b": 7.0}


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        ("isolated_p50_ns", "Float64"),
        ("share_percent", "Float64"),
        ("limit_percent", "Float64"),
        ("samples", "Int64"),
        ("unfaithful", "boolean"),
        ("op_type", "category"),
        ("state", "category"),
        ("module", "string"),
        ("fate", "string"),
    ],
)
def test_columns_are_typed(column: str, dtype: str) -> None:
    assert str(Profile(cpu_profile()).nodes.to_pandas()[column].dtype) == dtype


def test_a_time_is_a_float_also_where_no_row_has_one() -> None:
    frame = Profile(profile(region([node("a", FAILED)]))).nodes.to_pandas()
    assert str(frame["isolated_p50_ns"].dtype) == "Float64"
    assert frame["isolated_p50_ns"].isna().all()


def test_a_column_in_which_a_row_has_several_numbers_is_text() -> None:
    frame = Profile(launch_profile()).nodes.to_pandas()
    several = [value for value in frame["registers_per_thread"] if not pandas.isna(value) and ";" in value]
    assert several
    assert str(frame["registers_per_thread"].dtype) == "string"


def test_unfaithful_is_true_or_false() -> None:
    frame = Profile(gpu_profile()).nodes.to_pandas()
    wrong = [row.name for row in Profile(gpu_profile()).nodes if row.unfaithful]
    assert wrong
    assert list(frame[frame["unfaithful"]].index.get_level_values("name")) == wrong


def test_sizes_beyond_64_bits_are_floats() -> None:
    size: Column[int] = Column(name="size", key="size_bytes", kind="number", get=lambda row: row)
    assert Rows([1, 1 << 70], [size], what="size").to_pandas()["size_bytes"].tolist() == [1.0, float(1 << 70)]


@pytest.mark.parametrize("name", TEXTS, ids=ascii)
def test_every_name_is_one_printable_line(name: str) -> None:
    frame = Profile(profile(region([node(name, 5.0, module=name)]))).nodes.to_pandas()
    assert frame["module"].iloc[0].isprintable()


def test_a_frame_without_rows_has_every_column() -> None:
    rows = Profile(cpu_profile()).gaps
    frame = rows.to_pandas()
    assert frame.empty
    assert list(frame.columns) == rows.to_csv().strip().split(",")


def test_a_diff_has_frames() -> None:
    faster = profile(region([node("a", 50.0)]))
    found = ProfileDiff(diff(profile(region([node("a", 100.0)])), faster))
    frame = found.nodes.to_pandas()
    assert frame.loc[("r0", "a", "forward"), ["before_ns", "after_ns", "verdict"]].tolist() == [100.0, 50.0, "faster"]


def test_a_scaling_has_frames() -> None:
    def of(size: int) -> ProfileRecord:
        return profile(region([node("a", 1_000.0 * size, outputs=(spec(size, 4),))]))

    found = ProfileScaling(scaling([of(8), of(16)]))
    for table in SCALING_TABLES:
        frame = getattr(found, table).to_pandas()
        assert len(frame) == len(found.csv(table).splitlines()) - 1
    times = [name for name in found.nodes.to_pandas().columns if name.startswith("isolated_")]
    assert found.nodes.to_pandas()[times].iloc[0].tolist() == [8_000.0, 16_000.0]


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SetupError, match="a DataFrame needs pandas") as caught:
        Profile(cpu_profile()).nodes.to_pandas()
    assert caught.value.hint is not None
    assert "pip install 'torch-graphbench[pandas]'" in caught.value.hint
