"""What replaying CUDA graphs saves, and how reports and comparisons say it."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench import document
from graphbench.analysis.diff import diff
from graphbench.analysis.graph_replays import graph_notes, graph_replays, moved_rows
from graphbench.device_records import NO_GRAPHS, OUTSIDE_GRAPHS
from graphbench.measurements import Measurement
from graphbench.records import GeneratedCode, ProfileRecord, Side, UncapturedRun
from graphbench.report import REPORTERS
from graphbench.report.cuda_graph_lines import graph_lines, unused_lines
from graphbench.report.html.findings import findings
from graphbench.report.html.summary_section import summary_section
from tests.factories import device_run, kernel, profile, region, steady

CODE = "class Runner:\n    pass\n\ndef partition_0(args):\n    pass\n\ndef partition_1(args):\n    pass\n"


def spanning(busy_ns: float, span_ns: float) -> Measurement:
    """A whole run in which the device waits between kernels."""
    plain = steady(busy_ns, timer="cupti")
    assert plain.samples is not None
    spans = (span_ns,) * len(plain.samples.busy_ns)
    return dataclasses.replace(plain, samples=dataclasses.replace(plain.samples, span_ns=spans))


def decoding(*, graphs: bool = True, without_ns: float = 80_000.0, notes: tuple[str, ...] = ()) -> ProfileRecord:
    """A step of two kernels that the host launches too slowly, replayed or not; the rows take 80 µs together."""
    rows = [steady(50_000.0, timer="cupti"), steady(30_000.0, timer="cupti")]
    kernels = [kernel(f"triton_{i}", row, kind="triton", in_graph=row) for i, row in enumerate(rows)]
    slow: dict[str, tuple[float, ...]] = {"host_ns": (640_000.0,) * 10, "wall_ns": (700_000.0,) * 10}
    bare = UncapturedRun(plain=spanning(without_ns, without_ns + 300_000.0), **slow)
    side = Side(run=device_run(rows), plain=bare.plain, **slow)
    if graphs:
        run = dataclasses.replace(device_run(rows), busy_ns=(82_000.0,) * 10, beside_ns=(2_000.0,) * 10)
        fast: dict[str, tuple[float, ...]] = {"host_ns": (12_000.0,) * 10, "wall_ns": (95_000.0,) * 10}
        side = Side(run=run, plain=spanning(82_000.0, 86_000.0), graph_nodes=2, uncaptured=bare, **fast)
    made = region(kernels=kernels, device="cuda:0", forward=side)
    made = dataclasses.replace(made, notes=notes, code=(GeneratedCode(phase="forward", text=CODE),))
    return profile(made, timer="cupti")


def test_what_is_saved_is_launching() -> None:
    (replay,) = graph_replays(decoding())
    assert (replay.nodes, replay.graphs, replay.beside_ns) == (2, 2, 2_000.0)
    assert (replay.host.replayed, replay.host.without) == (12_000.0, 640_000.0)
    assert (replay.idle.replayed, replay.idle.without) == (4_000.0, 300_000.0)
    assert (replay.wall.replayed, replay.wall.without) == (95_000.0, 700_000.0)
    assert (replay.kernels.replayed, replay.kernels.without, replay.kernels_differ) == (80_000.0, 80_000.0, 0.0)


def test_a_side_without_graphs_has_nothing_to_tell() -> None:
    assert list(graph_replays(decoding(graphs=False))) == []
    assert graph_lines(decoding(graphs=False)) == []


@pytest.mark.parametrize("format_name", ["table", "markdown"])
def test_every_report_says_what_replays_save(format_name: str) -> None:
    said = " ".join(REPORTERS[format_name].render(decoding()).split())
    assert "2 kernels in 2 graphs; issuing takes 12.00 µs instead of 640.0 µs" in said
    assert "idle time between kernels 4.000 µs instead of 300.0 µs" in said


def test_the_page_has_a_tile_of_it() -> None:
    section = summary_section(findings(decoding()))
    (tile,) = [tile for tile in section.tiles if tile.label == "issuing takes"]
    assert (tile.value, tile.note.endswith("instead of 640.0 µs")) == ("12.00 µs", True)
    assert any(line.startswith("CUDA graphs: forward: ") for line in section.lines)


def test_kernels_that_take_as_long_are_said_to() -> None:
    (line,) = graph_lines(decoding(without_ns=79_000.0))
    assert "kernels' own time is the same (+1.3 %)" in line


def test_kernels_that_take_longer_are_a_warning() -> None:
    line, warning = graph_lines(decoding(without_ns=64_000.0))
    assert "the same" not in line
    assert warning.startswith("warning: CUDA graphs: forward: kernels take 25")
    assert "more under replay" in warning


def test_a_run_without_graphs_that_failed_leaves_only_what_is_known() -> None:
    record = decoding()
    failed = UncapturedRun(plain=Measurement(status="failed", reason="it was lost"))
    side = dataclasses.replace(record.regions[0].forward, uncaptured=failed)
    alone = dataclasses.replace(record, regions=(dataclasses.replace(record.regions[0], forward=side),))
    (line,) = graph_lines(alone)
    assert line.startswith("CUDA graphs: forward: 2 kernels in 2 graphs")
    assert "instead" not in line
    assert "same" not in line


def test_graphs_asked_for_in_vain_are_the_first_thing_said() -> None:
    notes = (f"{NO_GRAPHS}: forward: an op of the CPU", f"{NO_GRAPHS}: backward: an op of the CPU")
    record = decoding(graphs=False, notes=notes)
    (line,) = unused_lines(record)
    said = "warning: CUDA graphs were asked for and not used: forward, backward: an op of the CPU"
    assert line.startswith(said)
    text = REPORTERS["table"].render(record)
    assert text.count("asked for and not used") >= 1
    assert text.index(said) < text.index("host-bound: r0")


def test_kernels_between_graphs_are_named_with_the_reason() -> None:
    record = decoding(notes=(f"{OUTSIDE_GRAPHS}: forward: forward/cpp_fused_0:2 (cpu ops)",))
    (note,) = graph_notes(record)
    assert (note.of, note.used) == (("forward",), True)
    assert "outside of CUDA graphs: forward: forward/cpp_fused_0:2 (cpu ops)" in graph_lines(record)
    assert unused_lines(record) == []


def test_rows_that_move_under_replay_are_named_the_worst_first() -> None:
    without = {"a": steady(10.0), "b": steady(100.0), "c": steady(50.0)}
    replayed = {"a": steady(14.0), "b": steady(100.0), "c": steady(70.0)}
    assert [(row.row, row.without_ns, row.replayed_ns) for row in moved_rows(without, replayed)][:2] == [
        ("c", 50.0, 70.0),
        ("a", 10.0, 14.0),
    ]
    assert moved_rows(without, {**without, "a": steady(13.0)}) == []


def test_a_comparison_says_that_launching_changed_and_the_kernels_did_not() -> None:
    result = diff(decoding(graphs=False), decoding())
    (finding,) = [line for line in result.findings if "CUDA graphs" in line]
    assert finding.startswith(
        "CUDA graphs are replayed only after; kernels 80.00 µs before, 80.00 µs after; wall 700.0 µs"
    )
    assert finding.endswith("they change how kernels are launched, not how long they take")
    assert [line for line in diff(decoding(), decoding()).findings if "CUDA graphs" in line] == []


def test_the_run_without_graphs_is_saved_and_read_back() -> None:
    assert document.loads(document.dumps(decoding())) == decoding()
