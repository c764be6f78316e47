"""Groups of sizes of one graph: joint exponents, names of sizes, what is told once for all groups, reports, CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable

import pytest

import graphbench
from graphbench.analysis.diff import diff
from graphbench.analysis.diff_regions import pair_regions
from graphbench.analysis.growth import growths
from graphbench.analysis.opportunities import opportunities
from graphbench.analysis.payoff import pay_offs, whole_pay_off
from graphbench.analysis.recompiles import recompile_rows
from graphbench.analysis.shape_groups import by_size
from graphbench.analysis.shapes import call_texts
from graphbench.analysis.size_groups import groups_of, heaviest, size_names, sizes_text
from graphbench.analysis.views import node_rows, outputs_text, symbolic_text
from graphbench.records import InputRecord, ProfileRecord, Side, Traffic
from graphbench.report import REPORTERS
from graphbench.report.markdown import MarkdownReporter
from graphbench.step_records import Recompile
from tests.factories import ceilings, device_run, executes, kernel, node, profile, region, spec, steady
from tests.size_samples import SETS, US, called_with, group, six_groups


def test_two_sizes_have_the_exponents_of_one_fit() -> None:
    batches, lengths = [2, 4, 8, 2, 4, 8], [64, 64, 64, 128, 128, 128]
    times = [3.0 * b * n**2 for b, n in zip(batches, lengths, strict=True)]
    batch, length = growths((batches, lengths), times, [0.0] * 6)
    assert (batch.exponent, length.exponent) == (pytest.approx(1.0), pytest.approx(2.0))
    assert batch.error == pytest.approx(0.0, abs=1e-6)
    assert length.error is None  # of two lengths


def test_sets_that_lie_on_no_grid_are_fitted_as_well() -> None:
    sizes = ((1, 2, 3, 5), (64, 100, 90, 300))
    times = [7.0 * b**0.5 * n**1.5 for b, n in zip(*sizes, strict=True)]
    assert [found.exponent for found in growths(sizes, times, [0.0] * 4)] == [pytest.approx(0.5), pytest.approx(1.5)]


def test_sizes_that_change_together_have_no_exponents() -> None:
    assert growths(((1, 2, 4), (10, 20, 40)), (1.0, 2.0, 4.0), (0.0, 0.0, 0.0)) == ()
    assert growths(((1, 2), (10, 40)), (1.0, 2.0), (0.0, 0.0)) == ()


def test_noise_of_the_medians_is_in_the_error_of_each_size() -> None:
    times = [float(b * n) for b, n in SETS]
    batch, _ = growths(tuple(zip(*SETS, strict=True)), times, [0.1] * 6)
    assert batch.error is not None
    assert 0.04 < batch.error < 0.2


def test_groups_of_one_graph_are_one_table() -> None:
    (found,) = by_size(six_groups())
    assert (found.region, found.labels) == ("r1", ("r1", "r1.2", "r1.3", "r1.4", "r1.5", "r1.6"))
    assert [axis.name for axis in found.axes] == ["x[0]", "x[1]"]
    assert found.symbols == (("s1", "x[0]"), ("s2", "x[1]"))
    assert found.inputs[0] == "x=2x64x16"
    rows = {row.op_type: [round(entry.exponent, 3) for entry in row.growths] for row in found.rows}
    assert rows == {"scaled_dot_product_attention": [1.0, 2.0], "linear": [1.0, 1.0]}
    assert {row.outputs for row in found.rows} == {"f32[s1,s2,16]", ""}


def test_whole_runs_grow_with_each_size_too() -> None:
    (found,) = by_size(six_groups())
    eager = next(total for total in found.totals if total.name == "busy, eager")
    assert [round(entry.exponent, 3) for entry in eager.growths] == [1.0, 1.0]


def test_one_size_that_changes_is_called_n() -> None:
    (found,) = by_size(six_groups([(2, 64), (4, 64), (8, 64)]))
    assert [axis.name for axis in found.axes] == ["x[0]"]
    assert "grows\nas n^" not in str(found)
    assert [len(row.growths) for row in found.rows] == [1, 1]


def test_a_group_that_was_not_measured_is_told() -> None:
    record = six_groups()
    lost = dataclasses.replace(record.regions[2], status="failed", reason="out of memory")
    (found,) = by_size(dataclasses.replace(record, regions=(*record.regions[:2], lost, *record.regions[3:])))
    assert len(found.labels) == 5
    assert found.warnings[0] == "r1.3: left out, since it was not measured: out of memory"


def test_graphs_of_one_group_have_no_table() -> None:
    assert by_size(profile(group("r1", 2, 64))) == []
    assert by_size(profile(group("r1", 2, 64), group("r2", 4, 64, base="r2"))) == []


def test_a_number_that_is_no_size_of_a_tensor_is_called_as_it_is() -> None:
    times = InputRecord(name="s9", source="L['times']", kind="value", value=3, symbolic=("s9",))
    entry = dataclasses.replace(group("r1", 2, 64), inputs=(times, *called_with(2, 64)))
    entry = dataclasses.replace(entry, sizes=(*entry.sizes, ("s9", 3), ("s7", 1)))
    assert size_names(entry) == {"s1": "x[0]", "s2": "x[1]", "s9": "times", "s7": "s7"}
    assert sizes_text(entry) == "x[0]=2 x[1]=64 times=3 s7=1"


def test_the_heaviest_group_stands_for_its_graph() -> None:
    record = profile(*six_groups().regions, group("r2", 2, 64, base="r2"))
    assert heaviest(record) == {"r1.6", "r2"}
    assert [len(groups) for groups in groups_of(record)] == [6, 1]


def test_compiling_once_for_all_groups_is_paid_by_a_call_of_each() -> None:
    record = six_groups()
    (found,) = pay_offs(record)
    whole = whole_pay_off(record)
    assert whole is not None
    assert (found.region, found.compile_ns, whole.compile_ns) == ("r1", 10**9, 10**9)
    calls_ns = sum(6 * US * batch * length for batch, length in SETS)
    assert found.calls == pytest.approx(max(1.0, 10**9 / calls_ns))


# reports


def test_the_report_names_the_groups_and_what_totals_are() -> None:
    text = " ".join(graphbench.Profile(six_groups()).table().split())
    assert "(1 region in 6 groups of sizes, each group run once)" in text
    assert "sizes: r1 takes any x[0], x[1]: 6 groups of sizes" in text
    assert "totals add one call of each" in text
    assert "r1.6 x[0]=8 x[1]=128 (8 calls)" in text


def test_nodes_are_shown_once_with_a_column_a_group() -> None:
    text = graphbench.Profile(six_groups()).table()
    table = text[text.index("Nodes by size: r1 over x[0] × x[1] (2, by time at the largest)") :]
    (row,) = [line for line in table.splitlines() if line.startswith("attend ")]
    assert row.split()[-3:] == ["~1.00", "±0.00", "~2.00"]
    assert "in specs: s1 is x[0], s2 is x[1]" in table
    nodes = text[text.index("Nodes, isolated") : text.index("Nodes by size")]
    assert len([line for line in nodes.splitlines() if line.startswith("attend")]) == 1


def test_a_wide_report_has_all_groups_and_symbolic_specs() -> None:
    text = graphbench.Profile(six_groups()).table(wide=True)
    nodes = text[text.index("Nodes, isolated") : text.index("Nodes by size")]
    assert len([line for line in nodes.splitlines() if " attend " in f" {line} "]) == 6
    assert "f32[s1,s2,16]" in nodes
    assert "f32[8,128,16]" in nodes


@pytest.mark.parametrize("width", [60, 80, 100])
def test_narrow_lines_keep_the_ends_and_the_exponents(width: int) -> None:
    from graphbench.report.table import TableReporter

    text = TableReporter().render(six_groups(), width=width)
    table = text[text.index("Nodes by size") : text.index("grows as x[0]^, ...")]
    assert max(map(len, table.splitlines())) <= width
    assert "2×64" in table
    assert "8×128" in table
    assert table.count("2.00") >= 1


def test_markdown_and_the_page_have_the_table() -> None:
    record = six_groups()
    text = MarkdownReporter().render(record)
    assert "## Nodes by size: r1 over x[0] × x[1] (2, by time at the largest)" in text
    page = graphbench.Profile(record).html()
    assert "Nodes by size" in page


def test_a_result_has_a_csv_a_page_and_data() -> None:
    (found,) = graphbench.Profile(six_groups()).by_size()
    assert "8×128: r1.6 (x=8x128x16)" in str(found)
    header, first = found.csv().splitlines()[:2]
    cells = dict(zip(header.split(","), first.replace('"f32[s1,s2,16]"', "spec").split(","), strict=True))
    assert cells["name"] == "attend"
    assert float(cells["exponent_x_1"]) == pytest.approx(2.0)
    assert cells["isolated_2x64_ns"] == "2560"
    assert "<html" in found.html()
    assert '"further_sizes"' in found.to_json()


def test_memory_and_late_hosts_are_told_once_for_a_graph() -> None:
    record = six_groups()
    regions = [
        dataclasses.replace(entry, peak_node="attend", peak_bytes=1000 * index)
        for index, entry in enumerate(record.regions, start=1)
    ]
    text = graphbench.Profile(dataclasses.replace(record, regions=tuple(regions))).table()
    (line,) = [line for line in text.splitlines() if line.startswith("memory:")]
    assert line.startswith("memory: r1.6:")


def test_ceilings_change_nothing_of_the_exponents() -> None:
    record = dataclasses.replace(six_groups(), ceilings=ceilings(gb_per_s=300.0, gflops=2_000.0))
    (found,) = by_size(record)
    assert [len(row.growths) for row in found.rows] == [2, 2]


# recompiles


def test_a_recompile_says_from_which_region_and_what_it_takes_now() -> None:
    static = dataclasses.replace(region([node("relu", 5 * US)], key="r0"), compile_id="0/0")
    sizes = group("r1", 2, 64, compile_id="0/1")
    entry = Recompile(compile_id="0/1", guard="size mismatch at index 0", region="r1")
    record = dataclasses.replace(profile(static, sizes, group("r1.2", 4, 64, compile_id="0/1")), recompiles=(entry,))
    (row,) = recompile_rows(record)
    assert (row.region, row.earlier, row.takes) == ("r1", ("r0",), "x[0], x[1]")
    told = "recompile 0/1 (r1 takes any x[0], x[1]): from r0, whose guard failed: size mismatch at index 0"
    assert told in " ".join(graphbench.Profile(record).table().split())


def test_what_a_region_took_before_is_no_news_of_a_recompile() -> None:
    entry = Recompile(compile_id="0/1", guard="dtype mismatch", region="r2")
    regions = group("r1", 2, 64, compile_id="0/0"), group("r2", 2, 64, base="r2", compile_id="0/1")
    (row,) = recompile_rows(dataclasses.replace(profile(*regions), recompiles=(entry,)))
    assert (row.earlier, row.takes) == (("r1",), "")


def test_without_the_guard_nothing_is_made_up() -> None:
    (row,) = recompile_rows(dataclasses.replace(six_groups(), recompiles=(Recompile(compile_id="3/1"),)))
    assert (row.region, row.earlier, row.takes) == ("", (), "")


def test_of_several_earlier_regions_none_is_said_to_have_failed_the_guard() -> None:
    regions = [dataclasses.replace(region([node("relu", US)], key=f"r{n}"), compile_id=f"0/{n}") for n in range(3)]
    other = dataclasses.replace(region([node("relu", US)], key="r3"), compile_id="1/0")
    entry = Recompile(compile_id="0/2", guard="n == 2", region="r2")
    text = graphbench.Profile(dataclasses.replace(profile(*regions, other), recompiles=(entry,))).table()
    assert "recompile 0/2 (r2): beside r0, r1: n == 2" in text


# diff


def test_a_diff_joins_groups_of_equal_sizes() -> None:
    before, after = six_groups(), six_groups(tuple(reversed(SETS)))
    pairs = pair_regions(before.regions, after.regions)
    joined = [(old.sizes, new.sizes) for old, new in pairs if old is not None and new is not None]
    assert len(joined) == 6
    assert all(old == new for old, new in joined)


@pytest.mark.parametrize("edited", [False, True])
def test_a_group_that_one_profile_lacks_is_joined_with_none_of_other_sizes(edited: bool) -> None:
    before, after = six_groups(SETS[:3]), six_groups([SETS[1], (16, 64), SETS[2]])
    regions = after.regions
    if edited:  # another op, so that graphs are not equal any more
        regions = tuple(dataclasses.replace(r, nodes=(*r.nodes, node("relu", US))) for r in regions)
    pairs = pair_regions(before.regions, regions)
    joined = [(old.sizes if old else None, new.sizes if new else None) for old, new in pairs]
    first, second, third = (tuple(zip(("s1", "s2"), sizes, strict=True)) for sizes in SETS[:3])
    assert joined == [(second, second), (None, (("s1", 16), ("s2", 64))), (third, third), (first, None)]


def test_the_only_region_of_one_profile_is_joined_with_the_group_of_its_size() -> None:
    single = profile(group("r0", 4, 128, base="r0"))
    ((old, new), *others) = [pair for pair in pair_regions(single.regions, six_groups().regions) if pair[0]]
    assert not others
    assert old is not None
    assert new is not None
    assert (old.sizes, new.key) == (new.sizes, "r1.4")


def test_rows_of_a_diff_are_of_one_size() -> None:
    result = diff(six_groups(), six_groups(tuple(reversed(SETS))))
    assert {row.change for row in result.rows} == {"both"}
    assert {row.work for row in result.rows} == {""}
    assert all(row.before_ns == row.after_ns for row in result.rows)


# sizes that only the data tells


def test_a_size_without_a_number_is_called_as_the_compiler_does() -> None:
    found = dataclasses.replace(
        node("nonzero", US), outputs=(spec(-1, 4), spec(3)), symbolic=(("u0", "4"), ("s1",)), inputs=("l_x_",)
    )
    reads = dataclasses.replace(node("relu", US), inputs=("nonzero",))
    entry = dataclasses.replace(region([found, reads]), inputs=called_with(2, 64))
    rows = node_rows(profile(entry))
    assert rows[0].outputs == "f32[u0,4] f32[3]"
    assert rows[0].symbolic == "f32[u0,4] f32[s1]"
    assert call_texts(entry) == {"nonzero": "nonzero f32[2,64,16]", "relu": "relu f32[u0,4] f32[3]"}


def test_sizes_of_another_number_of_dimensions_change_nothing() -> None:
    assert outputs_text((spec(-1, 4),), (("u0",),)) == "f32[-1,4]"
    assert outputs_text((spec(2, 4),), ()) == "f32[2,4]"
    assert symbolic_text((spec(2, 4),), ()) == ""


def test_csv_of_sizes_has_a_row_for_every_node_and_size() -> None:
    rows = list(csv.DictReader(io.StringIO(REPORTERS["csv"].render(six_groups(), table="sizes"))))
    found = {(row["name"], row["size"]): round(float(row["exponent"]), 3) for row in rows}
    assert found == {
        ("attend", "x[0]"): 1.0,
        ("attend", "x[1]"): 2.0,
        ("project", "x[0]"): 1.0,
        ("project", "x[1]"): 1.0,
    }
    assert (rows[0]["region"], rows[0]["values"], rows[0]["groups"]) == ("r1", "2 4 8", "6")
    assert REPORTERS["csv"].render(profile(group("r1", 2, 64)), table="sizes").count("\n") == 1


def test_csv_of_sizes_says_why_there_is_no_exponent() -> None:
    record = six_groups([(2, 64), (4, 128)])
    rows = list(csv.DictReader(io.StringIO(REPORTERS["csv"].render(record, table="sizes"))))
    assert {(row["exponent"], row["reason"]) for row in rows} == {
        ("", "x[0] and x[1] are not told apart by these sets, or its time is 0")
    }


# opportunities


def slow_groups(*, launches: float = 1_000.0) -> ProfileRecord:
    """Two groups of sizes on a GPU, each with a kernel at half of its limit; the second takes four times as long."""
    found = []
    for key, length, time_ns in (("r1", 64, 20_000.0), ("r1.2", 128, 80_000.0)):
        measured = steady(time_ns, timer="cupti")
        nodes = [dataclasses.replace(node("relu", measured), symbolic=(("s1", "s2", "16"),), outputs=(spec(2, 4, 16),))]
        moved = (Traffic(buffer="x", read_bytes=int(time_ns / 4)), Traffic(buffer="y", written_bytes=int(time_ns / 4)))
        kernels = [kernel("triton_relu", measured, kind="triton", in_graph=measured, roles=(executes("relu"),))]
        kernels = [dataclasses.replace(entry, traffic=moved) for entry in kernels]
        ran = Side(
            run=device_run([measured]), plain=measured, wall_ns=(time_ns + 10_000.0,) * 5, host_ns=(launches,) * 5
        )
        sized = group(key, 2, length)
        found.append(
            dataclasses.replace(
                region(nodes, kernels, key=key, device="cuda:0", forward=ran), shapes_of=sized.shapes_of
            )
        )
        found[-1] = dataclasses.replace(found[-1], inputs=sized.inputs, sizes=sized.sizes)
    return profile(*found, timer="cupti", ceilings=ceilings(device="cuda:0", gb_per_s=1.0, launch_ns=1.0))


def test_an_opportunity_of_several_groups_is_one_where_it_gives_most() -> None:
    (far,) = (entry for entry in opportunities(slow_groups()) if entry.kind == "far from limit")
    assert far.gain_ns == pytest.approx(50_000.0)
    assert (far.region, far.count) == ("r1.2", 1)
    assert far.note.startswith("at x[0]=2 x[1]=128, where it gives most of 2 groups of sizes; ")


def test_a_late_host_is_told_once_for_all_groups() -> None:
    record = slow_groups(launches=500_000.0)
    (late,) = (entry for entry in opportunities(record) if entry.kind == "launch-bound")
    assert late.region in ("r1", "r1.2")
    text = graphbench.Profile(record).table()
    (line,) = [line for line in text.splitlines() if line.startswith("host-bound:")]
    assert line.startswith("host-bound: r1:")


def test_a_report_of_groups_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden(graphbench.Profile(six_groups()).table(), "table_sizes.txt")


def test_a_profile_of_groups_says_so_in_short() -> None:
    assert repr(graphbench.Profile(six_groups())) == (
        "<graphbench.Profile of Net: 1 region in 6 groups of sizes, 12 nodes>"
    )
