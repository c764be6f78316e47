"""Printed reports: golden texts, the line width, and what must be said however small the profile is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from graphbench import document
from graphbench.errors import UsageError
from graphbench.measurements import Comparison, Measurement
from graphbench.records import Fate, NodeRole, ProfileRecord, Side
from graphbench.report import REPORTERS, names
from graphbench.step_records import StepRecord, StepRow
from tests.cost_samples import gated_mlp
from tests.factories import cpu_run, device_run, executes, kernel, measurement, node, profile, region, steady
from tests.samples import cpu_profile, gpu_profile


def table(record: ProfileRecord, **options: object) -> str:
    return REPORTERS["table"].render(record, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "make"), [("cpu", cpu_profile), ("gpu", gpu_profile)])
def test_the_report_reads_as_agreed(
    name: str, make: Callable[[], ProfileRecord], golden: Callable[[str, str], None]
) -> None:
    golden(table(make()), f"table_{name}.txt")


def test_the_wide_report_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden(table(cpu_profile(), wide=True), "table_cpu_wide.txt")


def test_the_markdown_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden(REPORTERS["markdown"].render(gpu_profile()), "report_gpu.md")


def long_names() -> ProfileRecord:
    name = "l_self_modules_transformer_modules_layers_modules_11_modules_feed_forward"
    key = f"forward/triton_poi_fused_{'add_mul_' * 20}:17"
    fate = Fate(kind="fused", kernels=(key,))
    made = kernel(f"triton_poi_fused_{'add_mul_' * 20}", 123_456.0, handle=17, roles=(executes(name),) * 1)
    long = node(name, 123_456.0, op_type="scaled_dot_product_attention" * 2, fate=fate, line=12_345)
    return profile(region([long], [made]), subject="x" * 300)


@pytest.mark.parametrize("make", [cpu_profile, gpu_profile, long_names])
@pytest.mark.parametrize("width", [100, 120])
def test_no_line_is_wider_than_asked_for(make: Callable[[], ProfileRecord], width: int) -> None:
    lines = [line for line in table(make(), width=width).splitlines() if "xxx" not in line]
    assert max(map(len, lines)) <= width


def test_a_shortened_kernel_keeps_its_beginning_and_the_end_that_tells_it_apart() -> None:
    text = table(long_names())
    assert "poi_fused" in text
    assert "add_mul_:17" in text


@pytest.mark.parametrize(
    ("cut", "text", "width", "short"),
    [
        (names.shorten, "abcdef", 6, "abcdef"),
        (names.shorten, "abcdefghi", 5, "ab…hi"),
        (names.shorten_tail, "abcdefghij", 7, "ab…ghij"),
        (names.shorten_head, "abcdefghij", 7, "abcdef…"),
        (names.shorten_source, "modeling_llama.py:480", 10, "model…:480"),
        (names.shorten_kernel, "triton_poi_fused_add_relu_7:20", 22, "triton_p…add_relu_7:20"),
        (names.shorten_kernel_of_kind, "triton_poi_fused_add_relu_7:20", 23, "poi_fused_add_relu_7:20"),
        (names.shorten_kernel_of_kind, "cpp_fused_add_relu_0:2", 12, "add_relu_0:2"),
        (names.shorten_kernel_of_kind, "extern_kernels.addmm:5", 22, "addmm:5"),
        (names.shorten_kernel_of_kind, "torch.ops.aten.topk.default:3", 22, "aten.topk:3"),
        (names.shorten_fate, "fused → triton_poi_fused_add_relu_7:20", 30, "fused→poi_fused_add_relu_7:20"),
        (names.shorten_fate, "split → extern_kernels.mm:1, triton_poi_fused_add_0:2", 22, "split→mm:1 +1"),
        (names.shorten_fate, "merged → add_1", 22, "merged: add_1"),
        (names.shorten_fate, "view", 22, "view"),
    ],
)
def test_long_texts_keep_what_tells_them_apart(
    cut: Callable[[str, int], str], text: str, width: int, short: str
) -> None:
    assert cut(text, width) == short
    assert len(short) <= width


def test_the_coverage_line_is_printed() -> None:
    assert "coverage: attributed 100.00 % (2 kernels, 0 unattributed, 0 dropped)" in table(cpu_profile())


def test_without_a_recorded_step_gaps_are_said_not_to_be_recorded() -> None:
    assert "gaps: not recorded (use graphbench.profile(fn))" in table(cpu_profile()).splitlines()


def test_an_empty_profile_still_makes_a_report() -> None:
    text = table(profile())
    assert "Nodes, isolated: none" in text
    assert "coverage: nothing ran labelled" in text


def test_a_host_bound_region_is_said_before_anything_else_is_found() -> None:
    side = Side(plain=measurement(500.0, 500.0, timer="cupti"), host_ns=(900.0, 900.0))
    lines = table(profile(region(forward=side), timer="cupti")).splitlines()
    findings = [line for line in lines if line.startswith(("host-bound", "coverage"))]
    assert findings[0].startswith("host-bound: r0: issuing its kernels takes 900.0 ns, the device needs 500.0 ns")


def test_a_sum_of_some_rows_is_marked_and_not_divided() -> None:
    row, of = (line for line in table(cpu_profile()).splitlines() if line.startswith("Σ isolated"))
    assert of == "Σ isolated (part): of 4/5 nodes, 2/2 kernels"
    assert row.endswith("–")


def test_what_failed_is_listed_with_its_reason_and_not_as_zero() -> None:
    lines = table(cpu_profile()).splitlines()
    (row,) = (line for line in lines if line.startswith("sort "))
    assert row.split()[3:8] == ["–", "–", "n/a", "n/a", "–"]
    assert "– ran out of memory: sort" in lines


def test_shared_and_warned_rows_are_marked_and_explained() -> None:
    shared = dataclasses.replace(steady(5_000.0), shared_with="relu", warnings=("coarse: 7 samples",))
    text = table(profile(region([node("relu", 5_000.0), node("relu_1", shared)])))
    assert "=!5.00" in text
    assert "= measured once for several equal ones" in text
    assert "! coarse: 7 samples: relu_1" in text


def test_unstable_rows_are_counted_and_named_only_when_wide() -> None:
    def of(n: int) -> ProfileRecord:
        warned = dataclasses.replace(steady(5_000.0), warnings=("unstable",))
        return profile(region([node("mul", 5_000.0), *(node(f"relu_{i}", warned) for i in range(n))]))

    assert "! unstable: 3 rows" in table(of(3)).splitlines()
    assert "! unstable: 1 row" in table(of(1)).splitlines()
    assert "! unstable: 3 rows (relu_0, relu_1, relu_2)" in table(of(3), wide=True).splitlines()


def test_a_profile_without_a_name_is_of_a_model() -> None:
    for name, start in (("table", ""), ("markdown", "# ")):
        text = REPORTERS[name].render(profile(subject=""))
        assert text.startswith(f"{start}graphbench profile of a model (2026-01-02T03:04:05+00:00)\n")


def stepped(*rows: StepRow, **run: Any) -> ProfileRecord:
    """One region with one kernel, and a step of these rows."""
    row = steady(5_000.0, timer="cupti")
    side = Side(run=device_run([row]), plain=row)
    made = region([node("a", row)], [kernel("k", row, in_graph=row)], forward=side)
    step = StepRecord(run=device_run([entry.in_graph for entry in rows], **run), rows=rows)
    return profile(made, timer="cupti", step=step)


KERNEL_ROW = StepRow(
    name="k", op_type="triton", in_graph=steady(5_000.0, timer="cupti"), region="r0", kernel="forward/k:0", calls=1
)
GAP_ROW = StepRow(name="gap", op_type="add", in_graph=steady(5_000.0, timer="cupti"))


def test_a_step_that_is_one_whole_region_has_no_coverage_line_of_its_own() -> None:
    text = table(stepped(KERNEL_ROW))
    assert "coverage: attributed 100.00 %" in text
    assert "coverage of the step" not in text


@pytest.mark.parametrize(
    "record",
    [
        stepped(KERNEL_ROW, GAP_ROW),
        stepped(GAP_ROW),
        stepped(KERNEL_ROW, unattributed_ns=5.0, unattributed=("other",)),
    ],
    ids=["gap op", "kernel missing", "unattributed"],
)
def test_a_step_that_is_more_or_less_than_its_region_has_its_own_coverage_line(record: ProfileRecord) -> None:
    assert "coverage of the step: attributed" in table(record)


def test_without_an_instrument_wall_time_comes_first_and_what_compiling_saved_is_said() -> None:
    row, *_ = (line for line in table(gpu_profile()).splitlines() if "wall (no instrument)" in line)
    assert " ".join(row.split()) == "forward wall (no instrument) 320.0 µs – 190.0 µs 130.0 µs 1.68x"


def test_on_the_cpu_the_plain_run_is_the_wall_time_and_not_shown_twice() -> None:
    row = steady(5_000.0)
    side = Side(run=cpu_run([row]), plain=row, wall_ns=(5_000.0,))
    assert "no instrument" not in table(profile(region([node("a", in_graph=row)], eager=side)))


def test_no_backward_in_inference_is_no_news_but_a_failed_one_is() -> None:
    reason = "none of its results requires grad"
    assert reason not in table(profile(region([node("a", 5.0)], backward=Side(reason=reason))))
    failed = Side(reason="it raised", plain=Measurement(status="failed", reason="it raised"))
    assert "not measured: 1 run failed: it raised (backward)" in table(profile(region(backward=failed)))


def test_a_backward_that_was_skipped_though_it_has_kernels_is_said() -> None:
    made = region([], [kernel("k", 5.0, phase="backward")], backward=Side(reason="never called"))
    assert "not measured: 1 run skipped: never called (backward)" in table(profile(made))


def test_results_that_are_wrong_are_warned_of_by_name() -> None:
    wrong = Comparison(equal=False, max_abs=0.25)
    made = region(
        [node("a", dataclasses.replace(steady(5.0), fidelity=wrong)), node("b", 5.0)],
        [kernel("k", 5.0, handle=3, difference=Comparison(equal=False, max_abs=None, note="NaN on one side only"))],
    )
    text = table(profile(dataclasses.replace(made, outputs=wrong)))
    assert "warning: compiled results differ from eager's beyond tolerance: r0 (by 2.5e-01)" in text
    assert "beyond tolerance: forward/k:3 (NaN on one side only)" in " ".join(text.split())
    assert "warning: unfaithful: alone these gave another result than in the run: a (by 2.5e-01)" in text
    assert "!5.00" in text


@pytest.mark.parametrize("equal", [True, None])
def test_results_that_are_right_or_unknown_raise_no_warning(equal: bool | None) -> None:
    fine = Comparison(equal=equal, max_abs=None)
    made = region([node("a", dataclasses.replace(steady(5.0), fidelity=fine))], [kernel("k", 5.0, difference=fine)])
    assert "warning" not in table(profile(dataclasses.replace(made, outputs=fine)))


def backward_kernels(n: int) -> ProfileRecord:
    rows = [kernel(f"k{i}", 5.0, phase="backward", in_graph=steady(30_000.0)) for i in range(n)]
    rows.append(kernel("owned", 5.0, phase="backward", roles=(NodeRole(node="a", role="differentiates"),)))
    rows[-1] = dataclasses.replace(rows[-1], in_graph=steady(50_000.0))
    return profile(region([node("a")], rows))


def test_backward_kernels_of_no_known_node_are_one_line_with_count_and_share_unless_wide() -> None:
    text = table(backward_kernels(5))
    assert "not listed: 5 backward kernels of no known node: 150.0 µs in-graph (75.0 % of backward's)" in text
    assert "k0:0" not in text
    assert "k0:0" in table(backward_kernels(5), wide=True)


def test_a_few_backward_kernels_of_no_known_node_are_listed() -> None:
    text = table(backward_kernels(4))
    assert "not listed" not in text
    assert "k0:0" in text


def test_a_reason_that_many_rows_share_is_said_once_with_their_number() -> None:
    line = "– no eager time: no node of the model is known for it: 5 rows"
    assert table(backward_kernels(5)).splitlines().count(line) == 1


def test_of_cupti_the_version_is_shown_without_its_path() -> None:
    text = table(gpu_profile())
    assert "CUPTI 13.0 |" in text
    assert "libcupti.so" not in text


def test_a_gap_op_is_named_by_its_type_and_source_not_by_its_key() -> None:
    text = table(gpu_profile())
    (row,) = (line for line in text.splitlines() if line.startswith("_foreach_add_"))
    assert row.split() == ["_foreach_add_", "opt", "2", "20.0", "66.7", "20.0", "train.py:7"]
    assert "gap/" not in text


@pytest.mark.parametrize("name", ["table", "markdown"])
def test_what_several_regions_note_is_told_once_with_their_names(name: str) -> None:
    noted = [
        dataclasses.replace(region(key=f"r{i}"), notes=("slow records", *extra)) for i, extra in enumerate(((), ("b",)))
    ]
    text = REPORTERS[name].render(profile(*noted))
    lines = [line.removeprefix("- ") for line in text.splitlines() if "note: " in line]
    assert lines == ["note: r0, r1: slow records", "note: r1: b"]


def test_all_times_of_a_table_have_one_unit() -> None:
    made = kernel("k", 9_990.0, roles=(executes("a"),))
    text = table(profile(region([node("a", 10_000.0)], [made])))
    (row,) = (line for line in text.splitlines() if line.startswith("k:0"))
    assert row.split()[3:6] == ["10.0", "9.99", "0.0100"]


def test_on_the_cpu_host_time_is_no_column_of_its_own() -> None:
    without = {
        kind: table(dataclasses.replace(make(), ceilings=()))
        for kind, make in (("cpu", cpu_profile), ("gpu", gpu_profile))
    }
    tables = {kind: text.split("Nodes, isolated")[1] for kind, text in without.items()}
    assert "host" not in tables["cpu"]
    assert "host" in tables["gpu"]


def test_limits_take_the_room_of_host_times_and_ratios() -> None:
    header = table(gpu_profile()).split("Nodes, isolated")[1].splitlines()[3]
    assert "bound" in header
    assert "host" not in header
    assert "ratio" not in table(gpu_profile())
    assert "ratio" in table(gpu_profile(), wide=True)


def test_a_difference_is_a_number_and_never_cut() -> None:
    record = gated_mlp()
    off = Comparison(equal=False, max_abs=8.3e-7)
    kernels = tuple(dataclasses.replace(entry, difference=off) for entry in record.regions[0].kernels)
    place = dataclasses.replace(record.regions[0], kernels=kernels)
    text = table(dataclasses.replace(record, regions=(place,)), width=64)
    shown = text[text.index("\nFusions") :].splitlines()
    assert sum(line.endswith(" 8.3e-07") for line in shown) == len(kernels)


def test_top_cuts_the_table_and_says_so() -> None:
    text = table(cpu_profile(), top=2)
    assert "Nodes, isolated (2 of 5, sorted by cost)" in text
    assert "\nrelu " not in text


def test_a_table_that_nobody_would_read_to_its_end_is_cut_and_says_how_to_see_all() -> None:
    record = profile(region([node(f"add_{i}", float(i + 1)) for i in range(501)]))
    assert "Nodes, isolated (500 of 501 rows, top=501 shows all, sorted by cost)" in table(record)
    assert "\nadd_0 " in table(record, top=501)


def test_sort_applies_to_the_tables_that_have_the_column() -> None:
    text = table(cpu_profile(), sort="name")
    rows = [line.split()[0] for line in text.splitlines() if "model.py:" in line]
    assert rows == ["add", "conv1", "relu", "sort", "view"]


@pytest.mark.parametrize(
    "word", ["name", "Node", "op", "p90", "max diff", "fused", "of step", "time", "kern", "compiled", "recomputed"]
)
def test_every_word_above_a_column_is_a_sort_key_of_the_report(word: str) -> None:
    assert f"sorted by {word.lower()})" in table(gpu_profile(), sort=word)


@pytest.mark.parametrize("name", ["table", "csv", "markdown"])
def test_an_unknown_sort_key_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="sort 'nope': no table has such a column"):
        REPORTERS[name].render(cpu_profile(), sort="nope")


def test_an_unknown_sort_key_is_met_with_those_like_it() -> None:
    with pytest.raises(UsageError) as caught:
        REPORTERS["table"].render(cpu_profile(), sort="verdct")
    assert (caught.value.hint or "").startswith("did you mean verdict? sort by one of: cost, ")


def test_an_option_that_a_report_would_ignore_is_refused() -> None:
    with pytest.raises(UsageError, match="the json report takes no option 'top'"):
        REPORTERS["json"].render(cpu_profile(), top=3)


def test_control_characters_in_names_do_not_reach_the_terminal() -> None:
    text = table(profile(region([node("a\x1b[31m\nb", 5.0, op_type="x")]), subject="S\x07"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "a·[31m·b" in text


@pytest.mark.parametrize(("heading", "header"), [("## Nodes", "iqr µs"), ("## Fusions", "1 call iqr µs")])
def test_the_wide_tables_have_the_interquartile_range(heading: str, header: str) -> None:
    spread = steady(5_000.0, n=5, spread_ns=200.0)
    text = REPORTERS["markdown"].render(profile(region([node("a", spread)], [kernel("k", spread)])), wide=True)
    lines = text.split(heading)[1].splitlines()[2:5]
    headers, _, cells = ([cell.strip() for cell in line.split("|")] for line in lines)
    assert dict(zip(headers, cells, strict=True))[header] == "0.200"


def test_the_json_report_is_the_document_with_plain_samples() -> None:
    values = tuple(float(i) for i in range(200))
    record = profile(region([node("a", measurement(*values))]))
    text = REPORTERS["json"].render(record)
    assert json.loads(text)["regions"][0]["nodes"][0]["isolated"]["samples"]["busy_ns"] == list(range(200))
    assert document.loads(text) == record


def test_markdown_cells_cannot_break_the_table() -> None:
    text = REPORTERS["markdown"].render(profile(region([node("a|b", 5.0, op_type="x")])))
    assert "a\\|b" in text
