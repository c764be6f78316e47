"""The trace of a profile: which slice is where, what it tells, where arrows lead, and what stands in for a time."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbench import document
from graphbench.device_records import ActivityKind, DeviceKernel
from graphbench.errors import UsageError
from graphbench.measurements import Measurement, SourceLine
from graphbench.records import GeneratedCode, KernelRecord, NodeRole, ProfileRecord
from graphbench.report.columns import FUSION_COLUMNS
from graphbench.report.gaps_table import GAP_COLUMNS
from graphbench.report.node_columns import NODE_COLUMNS
from graphbench.report.trace import TraceReporter
from graphbench.step_records import Place, StepRecord, StepRow, Timeline
from tests.factories import differentiates, executes, kernel, node, profile, region, steady
from tests.hostile import FIXED, RECORDS, hostile_everywhere, mutator, outcome
from tests.samples import cpu_profile, gpu_profile
from tests.step_samples import Event as Happening
from tests.step_samples import device_step, eager_step, gap_op, host_step, timeline, training_step
from tests.trace_format import time_faults, trace_faults

Event = dict[str, Any]
REAL = sorted((Path(__file__).parents[1] / "data" / "profiles").glob("*.json.gz"))
SAMPLES = (cpu_profile, gpu_profile, training_step, host_step, eager_step)
FAILED = Measurement(status="failed", reason="ran out of memory")


def render(record: ProfileRecord) -> str:
    return TraceReporter().render(record)


def events(record: ProfileRecord) -> list[Event]:
    found: list[Event] = json.loads(render(record))["traceEvents"]
    return found


def of(found: Sequence[Event], category: str, phase: str = "X") -> list[Event]:
    return [event for event in found if event.get("cat") == category and event["ph"] == phase]


def track_names(found: Sequence[Event]) -> dict[int, str]:
    return {event["tid"]: event["args"]["name"] for event in found if event["name"] == "thread_name"}


def launches(measured: Measurement, *names: str, kind: ActivityKind = "kernel") -> Measurement:
    return dataclasses.replace(measured, device_kernels=tuple(DeviceKernel(name=name, kind=kind) for name in names))


@pytest.mark.parametrize("make", SAMPLES)
def test_a_trace_keeps_to_the_format_and_its_times_are_the_profiles(make: Callable[[], ProfileRecord]) -> None:
    text = render(make())
    assert trace_faults(text) == []
    assert time_faults(text, make()) == []


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_a_trace_of_a_real_profile_keeps_to_the_format_and_its_times_are_the_profiles(path: Path) -> None:
    record = document.loads(gzip.decompress(path.read_bytes()).decode())
    text = render(record)
    assert trace_faults(text) == []
    assert time_faults(text, record) == []


@pytest.mark.parametrize("make", SAMPLES)
def test_the_same_profile_gives_the_same_trace(make: Callable[[], ProfileRecord]) -> None:
    assert render(make()) == render(make())


def test_a_trace_takes_no_options() -> None:
    with pytest.raises(UsageError, match="takes no option 'top'"):
        TraceReporter().render(cpu_profile(), top=3)


def test_a_trace_says_what_it_was_measured_on_and_how() -> None:
    told = json.loads(render(cpu_profile()))["otherData"]
    assert told["graphbench"] == "0.1.0"
    assert told["environment"]["torch"] == "2.13.0"
    assert told["policy"]["cache"] == "warm"


def test_a_node_tells_every_column_that_it_has_by_its_name_in_csv() -> None:
    (relu,) = (event for event in of(events(cpu_profile()), "eager") if event["name"] == "relu")
    assert relu["args"]["isolated_p50_ns"] == 100_000.0
    assert relu["args"]["share_percent"] == pytest.approx(100 * 100.0 / (1_200.0 + 300.0 + 100.0 + 0.9))
    assert relu["args"]["source_file"] == "model.py"
    assert relu["args"]["source_line"] == 12
    names = {column.csv_name for column in NODE_COLUMNS}
    assert {name for name in relu["args"] if name not in names} <= {
        "row",
        "source_file",
        "source_line",
        "source_function",
        "source_code",
    }


def test_a_kernel_tells_its_columns_and_where_the_generated_code_calls_it() -> None:
    called = dataclasses.replace(kernel("cpp_fused_relu_0", 5.0, in_graph=steady(5.0)), line=3)
    code = GeneratedCode(
        phase="forward", text="def call(args):\n    # Source: relu\n    cpp_fused_relu_0(buf0, buf1)\n"
    )
    made = dataclasses.replace(region([], [called]), code=(code,))
    (event,) = of(events(profile(made)), "compiled")
    assert event["args"]["generated_code_line"] == 3
    assert event["args"]["generated_code"] == "# Source: relu\ncpp_fused_relu_0(buf0, buf1)"
    assert event["args"]["row"] == "r0/forward/cpp_fused_relu_0:0"
    assert event["args"]["in_graph_ns"] == 5.0
    assert {column.csv_name for column in FUSION_COLUMNS} > {"in_graph_ns", "all_calls_fused_p50_ns", "kind"}


@pytest.mark.parametrize(
    ("work", "name"),
    [
        (("triton_poi_fused_relu_0",), "triton_poi_fused_relu_0"),
        (("void gemm<float>(float*)", "splitK"), "void gemm<float>(float*)"),
        ((), "extern_kernels.mm"),
    ],
)
def test_a_kernel_is_called_what_the_device_calls_it(work: tuple[str, ...], name: str) -> None:
    called = kernel("extern_kernels.mm", in_graph=launches(steady(5.0), *work))
    (event,) = of(events(profile(region([], [called]))), "compiled")
    assert event["name"] == name
    assert event["args"].get("in_graph_device_kernels", []) == list(work)


def test_a_copy_is_called_what_torch_profiler_calls_it() -> None:
    copies = kernel("copy", in_graph=launches(steady(5.0), "memcpy DtoD", kind="copy"))
    fills = kernel("fill", handle=1, in_graph=launches(steady(5.0), "memset", kind="memset"))
    assert [event["name"] for event in of(events(profile(region([], [copies, fills]))), "compiled")] == [
        "Memcpy DtoD",
        "Memset",
    ]


def fused(*roles: NodeRole, name: str = "k", ns: float = 5.0, backward: bool = False) -> KernelRecord:
    return kernel(name, phase="backward" if backward else "forward", roles=roles, in_graph=steady(ns))


def arrows(found: Sequence[Event]) -> list[tuple[str, float, float]]:
    ends = {event["id"]: event["ts"] for event in found if event["ph"] == "f"}
    return [(event["name"], event["ts"], ends[event["id"]]) for event in found if event["ph"] == "s"]


def test_an_arrow_leads_from_a_node_to_each_kernel_that_executes_or_differentiates_it() -> None:
    nodes = [node("a", in_graph=steady(100.0)), node("b", in_graph=steady(10.0))]
    kernels = [
        fused(executes("a"), name="k0"),
        fused(executes("a"), executes("b"), name="k1"),
        fused(differentiates("a"), name="k2", backward=True),
    ]
    assert arrows(events(profile(region(nodes, kernels)))) == [
        ("executes", 0.0, 0.11),
        ("executes", 0.0, 0.115),
        ("differentiates", 0.0, 0.12),
        ("executes", 0.1, 0.115),
    ]


def test_no_arrow_leads_to_what_only_reads_a_node_nor_to_what_has_no_time() -> None:
    nodes = [node("a", in_graph=steady(10.0)), node("b", in_graph=FAILED)]
    reads = NodeRole(node="a", role="contributes")
    kernels = [fused(reads, executes("b"), name="k0"), kernel("k1", roles=(executes("a"),), in_graph=FAILED)]
    assert arrows(events(profile(region(nodes, kernels)))) == []


def test_a_row_without_a_time_is_an_instant_that_says_why() -> None:
    record = profile(region([node("a", in_graph=FAILED)], [kernel("k", in_graph=FAILED)]))
    found = events(record)
    (eager,), (compiled,) = of(found, "eager", "i"), of(found, "compiled", "i")
    assert eager["args"]["no_time"] == compiled["args"]["no_time"] == "ran out of memory"
    assert of(found, "eager") == of(found, "compiled") == []


def test_slices_of_a_region_enclose_phase_module_and_node() -> None:
    nodes = [
        node("a", in_graph=steady(10.0), module="m.x"),
        node("b", in_graph=steady(20.0), module="m"),
        node("c", in_graph=steady(30.0), module="m.x"),
    ]
    found = [event for event in events(profile(region(nodes))) if event["ph"] == "X"]
    assert [(event["name"], event["ts"] * 1000, event["dur"] * 1000) for event in found] == [
        ("r0 forward (model.py:10)", 0, 60),
        ("eager forward", 0, 60),
        ("m", 0, 60),
        ("m.x", 0, 10),
        ("a", 0, 10),
        ("b", 10, 20),
        ("m.x", 30, 30),
        ("c", 30, 30),
    ]


def test_a_slice_that_encloses_others_tells_their_exact_sum() -> None:
    nodes = [node(name, in_graph=steady(10.25), module="m") for name in "abc"]
    (module,) = of(events(profile(region(nodes))), "module")
    assert module["args"]["time_ns"] == 30.75
    assert module["dur"] == pytest.approx(0.033)


def test_the_eager_backward_runs_in_reverse_behind_the_forward() -> None:
    nodes = [
        node(name, 1.0, in_graph=steady(10.0), backward=1.0, backward_in_graph=steady(ns))
        for name, ns in (("a", 3.0), ("b", 4.0))
    ]
    found = of(events(profile(region(nodes))), "eager backward")
    assert [(event["name"], event["ts"], event["args"]["backward_in_graph_ns"]) for event in found] == [
        ("b", 0.02, 4.0),
        ("a", 0.024, 3.0),
    ]


def test_ops_that_were_only_timed_alone_are_on_a_track_that_says_so() -> None:
    found = events(profile(region([node("mm", 10.0), node("add", 20.0)])))
    assert [event["dur"] for event in of(found, "eager")] == [0.01, 0.02]
    assert "eager, every op alone" in track_names(found).values()


ROWS: tuple[StepRow, ...] = (
    gap_op("mul", 4.0, place="start", calls=3, user_phase="data"),
    StepRow(
        name="r0/mm", op_type="extern", in_graph=steady(5e3), region="r0", kernel="forward/mm:1", place="r0/forward"
    ),
)
PLACES = (Place(key="start", kind="gap", calls=2), Place(key="r0/forward", kind="graph", calls=1))


def stepped(happened: Sequence[Happening], rows: tuple[StepRow, ...] = ROWS, **changes: Any) -> ProfileRecord:
    """A step in which this happened; starts and durations in microseconds."""
    made = StepRecord(run=device_step(rows, wall_us=100.0), rows=rows, places=PLACES, timeline=timeline(happened))
    return profile(timer="cupti", step=dataclasses.replace(made, **changes))


def test_the_step_tells_gap_ops_compiled_kernels_waits_and_work_of_no_row_apart() -> None:
    found = events(
        stepped(
            [
                ("host", 0, 0.0, 1.0),
                ("kernel", 0, 2.0, 1.0),
                ("kernel", 1, 3.0, 1.0),
                ("kernel", -1, 4.0, 1.0),
                ("sync", -1, 5.0, 1.0),
            ]
        )
    )
    names = track_names(found)
    told = [(event["cat"], event["ts"], names[event["tid"]]) for event in found if event["ph"] == "X"]
    assert [entry for entry in told if entry[0] not in ("idle", "place", "gap op")] == [
        ("gap", 0.0, "host thread 0"),
        ("sync", 5.0, "host thread 0"),
        ("gap", 2.0, "device 0, stream 0"),
        ("compiled", 3.0, "device 0, stream 0"),
        ("unattributed", 4.0, "device 0, stream 0"),
    ]


def test_what_the_host_issues_is_called_by_its_op_and_device_work_by_its_function() -> None:
    made = timeline([("host", 0, 0.0, 1.0), ("host", 1, 1.0, 1.0), ("copy", 0, 2.0, 1.0), ("kernel", 1, 3.0, 1.0)])
    names = dataclasses.replace(made, names=("label", "memcpy HtoD", "ampere_sgemm"), event_names=(0, 0, 1, 2))
    found = events(stepped([], timeline=names))
    titles = [event["name"] for event in found if event["ph"] == "X" and event["cat"] in ("gap", "compiled")]
    assert titles == ["mul", "mm:1", "Memcpy HtoD", "ampere_sgemm"]


def test_a_gap_is_a_slice_each_time_that_the_step_passes_through_it() -> None:
    happened: list[Happening] = [
        ("host", 0, 0.0, 1.0),
        ("host", 0, 2.0, 1.0),
        ("host", 1, 4.0, 1.0),
        ("host", 0, 6.0, 3.0),
    ]
    found = events(stepped(happened))
    visits = [(event["ts"], event["dur"], event["args"]["ops"]) for event in of(found, "place")]
    assert visits == [(0.0, 3.0, 2), (6.0, 3.0, 1)]
    assert "gap: start" in track_names(found).values()
    assert [event["ts"] for event in of(found, "gap op")] == [0.0, 2.0, 6.0]


def test_a_gap_op_tells_its_columns_at_its_first_call_and_only_itself_at_later_ones() -> None:
    first, second = of(events(stepped([("host", 0, 0.0, 1.0), ("host", 0, 2.0, 1.0)])), "gap op")
    assert first["args"]["in_graph_ns"] == 4_000.0
    assert first["args"]["user_phase"] == "data"
    assert {column.csv_name for column in GAP_COLUMNS} > {"in_graph_ns", "user_phase", "copied_bytes"}
    assert second["args"] == {"row": "start/forward/mul@1", "call": 2, "calls": 3}


def test_a_gap_op_of_which_the_timeline_has_nothing_is_an_instant_of_its_gap() -> None:
    (lost,) = of(events(stepped([("host", 1, 0.0, 1.0)])), "gap op", "i")
    assert (lost["name"], lost["args"]["no_time"]) == ("mul", "the timeline has no event of it")


def test_a_timeline_of_device_work_alone_tells_when_a_gap_was() -> None:
    found = events(stepped([("kernel", 0, 1.0, 2.0), ("kernel", 1, 3.0, 1.0), ("kernel", 0, 5.0, 1.0)]))
    assert [(event["ts"], event["dur"]) for event in of(found, "place")] == [(1.0, 2.0), (5.0, 1.0)]


def test_idle_stretches_are_slices_that_tell_for_whose_launch_the_device_waited() -> None:
    found = of(events(stepped([("kernel", 0, 5.0, 10.0), ("kernel", 1, 20.0, 2.0)])), "idle")
    assert [(event["ts"], event["dur"], event["args"]["before"], event["args"]["behind"]) for event in found] == [
        (0.0, 5.0, "start/forward/mul@1", "no row"),
        (15.0, 5.0, "r0/forward/mm:1", "start/forward/mul@1"),
    ]


def test_work_that_runs_at_once_on_a_stream_goes_beside_each_other() -> None:
    record = stepped([("kernel", 0, 0.0, 10.0), ("kernel", 1, 2.0, 3.0), ("kernel", 0, 10.0, 1.0)])
    found = events(record)
    names = track_names(found)
    placed = [(event["ts"], names[event["tid"]]) for event in found if event.get("cat") in ("gap", "compiled")]
    assert placed == [(0.0, "device 0, stream 0"), (10.0, "device 0, stream 0"), (2.0, "device 0, stream 0 (2)")]
    assert trace_faults(render(record)) == []


def test_calls_of_the_host_lie_inside_each_other_and_never_across() -> None:
    record = stepped([("host", 0, 0.0, 10.0), ("sync", 0, 2.0, 3.0), ("host", 1, 8.0, 5.0)])
    found = events(record)
    names = track_names(found)
    placed = [(event["ts"], names[event["tid"]]) for event in found if event.get("cat") in ("gap", "compiled", "sync")]
    assert placed == [(0.0, "host thread 0"), (2.0, "host thread 0"), (8.0, "host thread 0 (2)")]
    assert trace_faults(render(record)) == []


def test_stamps_with_fractions_never_overlap_by_rounding() -> None:
    happened: list[Happening] = [("kernel", 0, at * 0.0105, 0.0105) for at in range(40)]
    record = stepped(happened)
    text = render(record)
    assert trace_faults(text) == []
    assert time_faults(text, record) == []


def test_a_step_without_a_timeline_has_its_rows_laid_end_to_end_under_their_places() -> None:
    found = events(stepped([], timeline=Timeline()))
    assert [(event["name"], event["cat"], event["ts"], event["dur"]) for event in found if event["ph"] == "X"] == [
        ("start", "place", 0.0, 4.0),
        ("mul", "gap op", 0.0, 4.0),
        ("r0/forward", "place", 4.0, 5.0),
        ("mm:1", "compiled", 4.0, 5.0),
    ]


def test_a_graph_break_is_an_instant_where_its_gap_was_first_passed() -> None:
    found = events(training_step())
    (item,) = of(found, "break", "i")
    (gap,) = (event for event in of(found, "place") if event["name"] == "after r0/forward")
    assert item["ts"] == gap["ts"]
    assert item["args"]["cause"] == "x.sum().item()"
    assert item["name"].startswith("break: Unsupported Tensor.item() call")


def test_graph_breaks_are_told_where_no_step_was_recorded() -> None:
    record = dataclasses.replace(cpu_profile(), breaks=training_step().breaks)
    (item,) = of(events(record), "break", "i")
    assert item["ts"] == 0.0


@cache
def forged(make: Callable[[], ProfileRecord]) -> ProfileRecord:
    return hostile_everywhere(make(), lambda text: f'{text}"\\\n\x00\x1b[31m\x7f\u202e\udcff\U0001f600</script>')


@pytest.mark.parametrize("make", RECORDS)
def test_no_name_breaks_a_trace(make: Callable[[], ProfileRecord]) -> None:
    text = render(forged(make))
    assert trace_faults(text) == []
    assert text.replace("\n", "").isprintable()
    text.encode("utf-8")


@settings(FIXED, max_examples=60)
@given(st.sampled_from(RECORDS), st.booleans(), st.randoms(use_true_random=False))
def test_a_trace_of_a_changed_profile_keeps_to_the_format(
    make: Callable[[], ProfileRecord], compact: bool, draw: Random
) -> None:
    text = json.dumps(mutator(make, compact).mutated(draw, 1))
    record = outcome(lambda: document.loads(text))
    assert record is None or trace_faults(render(record)) == []


def test_no_number_has_more_digits_than_perfetto_reads() -> None:
    nodes = [node("a", 1.0, in_graph=steady(1 / 3)), node("b", 700_001.0 / 3, in_graph=steady(1e-3 / 7))]
    record = profile(region(nodes))
    assert trace_faults(render(record)) == []
    assert time_faults(render(record), record) == []


def test_more_modules_inside_each_other_than_viewers_show_keep_to_the_format() -> None:
    deep = node("a", in_graph=steady(5.0), module=".".join(["m"] * 1000))
    assert trace_faults(render(profile(region([deep])))) == []


def test_a_thousand_rows_without_a_time_do_not_lie_inside_each_other() -> None:
    record = profile(region([node(f"n{at}", in_graph=FAILED) for at in range(1000)]))
    assert trace_faults(render(record)) == []


def test_the_line_of_a_node_is_told_with_its_folders_and_code() -> None:
    line = SourceLine(file="src/net.py", line=7, function="Net.forward", code="  y = relu(x)  ")
    made = dataclasses.replace(node("a", in_graph=steady(5.0)), source=line)
    (event,) = of(events(profile(region([made]))), "eager")
    assert (event["args"]["source_file"], event["args"]["source_code"]) == ("src/net.py", "y = relu(x)")
