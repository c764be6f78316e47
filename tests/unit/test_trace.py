"""The trace of a profile: which slice is where, what it tells, where arrows lead, and what stands in for a time."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbench import document
from graphbench.device_records import ActivityKind, DeviceKernel
from graphbench.errors import UsageError
from graphbench.measurements import Measurement, SourceLine
from graphbench.records import GeneratedCode, KernelRecord, NodeRole, ProfileRecord
from graphbench.report.columns import FUSION_COLUMNS
from graphbench.report.node_columns import NODE_COLUMNS
from graphbench.report.trace import TraceReporter
from tests.factories import differentiates, executes, kernel, node, profile, region, steady
from tests.hostile import FIXED, RECORDS, hostile_everywhere, mutator, outcome
from tests.recorded import PROFILES, SUFFIX, recorded_profile
from tests.samples import cpu_profile, gpu_profile
from tests.step_samples import eager_step, host_step, training_step
from tests.trace_format import time_faults, trace_faults
from tests.traces import Event, events, of, render, track_names

REAL = sorted(path.name.removesuffix(SUFFIX) for path in PROFILES.glob(f"*{SUFFIX}"))
SAMPLES = (cpu_profile, gpu_profile, training_step, host_step, eager_step)
FAILED = Measurement(status="failed", reason="ran out of memory")


def launches(measured: Measurement, *names: str, kind: ActivityKind = "kernel") -> Measurement:
    return dataclasses.replace(measured, device_kernels=tuple(DeviceKernel(name=name, kind=kind) for name in names))


@pytest.mark.parametrize("make", SAMPLES)
def test_a_trace_keeps_to_the_format_and_its_times_are_the_profiles(make: Callable[[], ProfileRecord]) -> None:
    text = render(make())
    assert trace_faults(text) == []
    assert time_faults(text, make()) == []


@pytest.mark.parametrize("name", REAL)
def test_a_trace_of_a_real_profile_keeps_to_the_format_and_its_times_are_the_profiles(name: str) -> None:
    record = recorded_profile(name)
    text = render(record)
    assert trace_faults(text) == []
    assert time_faults(text, record) == []


def test_a_trace_of_a_real_training_step_has_all_tracks_and_arrows_of_every_kind() -> None:
    found = events(recorded_profile())
    assert {event["cat"] for event in found if event["ph"] == "X"} >= {
        *("region", "phase", "module", "eager", "eager backward", "compiled"),
        *("gap", "gap op", "place", "idle"),
    }
    assert {event["name"] for event in found if event["ph"] == "s"} >= {"executes", "differentiates"}


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
