"""Live steps on a GPU: every kernel, copy and wait once, with its row, in whatever thread and on whatever stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench.analysis.stats import quantile
from graphbench.step_records import TIMELINE_KINDS, StepRecord, StepRow, TimelineKind
from tests.live import code_of, gap_rows, kernels, recorded

pytestmark = pytest.mark.gpu
WIDTH = 256


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    graphbench.reset()
    torch.manual_seed(0)
    yield
    graphbench.reset()


class Broken(nn.Module):
    """Two regions around a value that the host reads."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        return self.second(x * x.detach().mean().item())


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a timeline; `row` is `None` for what no row claims."""

    kind: TimelineKind
    row: StepRow | None
    name: str
    duration_ns: float
    lane: int
    device: int


def events(step: StepRecord, *kinds: TimelineKind) -> list[Event]:
    line = step.timeline
    columns = zip(line.kinds, line.rows, line.event_names, line.durations_ns, line.lanes, line.devices, strict=True)
    return [
        Event(TIMELINE_KINDS[kind], step.rows[row] if row >= 0 else None, line.names[name], duration_ns, lane, device)
        for kind, row, name, duration_ns, lane, device in columns
        if TIMELINE_KINDS[kind] in kinds
    ]


def launched(rows: Iterable[StepRow]) -> int:
    """Kernels that ran in rows."""
    counts = [row.in_graph.samples.n_kernels for row in rows if row.in_graph.samples]
    return sum(count[0] for count in counts if count)


def recorded_once(step: Callable[[], Any], *, warm_ups: int = 2) -> StepRecord:
    """Record a step, and prove that rows, timeline and totals count the same kernels, each of them in one row."""
    found = recorded(step, warm_ups=warm_ups)
    assert found.run.timer == "cupti"
    assert found.run.n_kernels == launched(found.rows) == len(events(found, "kernel"))
    assert [event.name for event in events(found, "kernel", "copy", "memset") if event.row is None] == []
    return found


def compiled(model: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compile(model, backend="graphbench", **options)
    return made


def square(x: torch.Tensor) -> torch.Tensor:
    return x @ x


def cube(x: torch.Tensor) -> torch.Tensor:
    return x @ x @ x


def matrix(width: int = WIDTH) -> torch.Tensor:
    return torch.randn(width, width, device="cuda") / width


# whole training steps


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"foreach": True}, {"_foreach_lerp_", "_foreach_addcmul_", "_foreach_addcdiv_"}),
        ({"fused": True}, {"_fused_adamw_"}),
    ],
    ids=["foreach", "fused"],
)
def test_a_training_step_with_a_break_is_attributed_to_the_last_kernel(
    options: dict[str, bool], expected: set[str]
) -> None:
    net, x = Broken().cuda(), matrix()
    model, optimizer = compiled(net), torch.optim.AdamW(net.parameters(), **options)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    found = recorded_once(step, warm_ups=3)
    # The value that is read changes with every step, so that the second region was compiled again.
    assert set(kernels(found)) == {"r0/forward", "r0/backward", "r2/forward", "r2/backward"}
    updates = gap_rows(found, *expected)
    assert {row.op_type for row in updates} == expected
    assert {row.phase for row in updates} == {"optimizer"}
    assert all(launched([row]) > 0 for row in updates)
    # Dynamo hands the value on as a tensor of the CPU, which is read too and waits for nothing.
    reads = gap_rows(found, "_local_scalar_dense", phase="forward")
    assert [row.place for row in reads if row.kind == "sync"] == ["after r0/forward"]


def test_a_scaled_step_is_attributed_to_the_last_kernel() -> None:
    net, x = nn.Linear(WIDTH, WIDTH).cuda(), matrix()
    model, scaler = compiled(net), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.AdamW(net.parameters())

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    found = recorded_once(step)
    (unscaled,) = gap_rows(found, "_amp_foreach_non_finite_check_and_unscale_")
    assert (unscaled.phase, unscaled.calls) == ("optimizer", 1)
    assert launched([unscaled]) > 0
    waits = [event.row.op_type for event in events(found, "sync") if event.row is not None]
    assert waits == ["_local_scalar_dense"]  # the scaler asks whether a gradient is infinite


def test_micro_batches_add_up_their_gradients() -> None:
    net, parts = nn.Linear(WIDTH, WIDTH, bias=False).cuda(), matrix().chunk(4)
    model = compiled(net)

    def step() -> None:
        net.zero_grad()
        for part in parts:
            model(part).sum().backward()

    found = recorded_once(step)
    assert kernels(found) == {"r0/forward": 4, "r0/backward": 4}
    (added,) = gap_rows(found, "add_")
    assert (added.kind, added.phase, added.calls, launched([added])) == ("accumulation", "backward", 3, 3)


# threads and streams


def test_backward_is_labelled_on_autograds_own_thread() -> None:
    net, x = nn.Linear(WIDTH, WIDTH).cuda(), matrix()
    model = compiled(net)

    def step() -> None:
        net.zero_grad()
        y = model(x)
        z = y.sinh()
        z.sum().backward()

    found = recorded_once(step)
    (forward,) = gap_rows(found, "sinh", phase="forward")
    (backward,) = gap_rows(found, "cosh", phase="backward")
    assert "SinhBackward" in backward.autograd_node
    assert code_of(backward) == "z = y.sinh()"
    assert launched([backward]) == 1
    threads = {event.row.name: event.lane for event in events(found, "host") if event.row is not None}
    assert threads[forward.name] != threads[backward.name]
    assert threads[backward.name] in {
        threads[row.name] for row in found.rows if row.kernel is not None and row.phase == "backward"
    }


@pytest.fixture(scope="module")
def threads() -> StepRecord:
    """Two threads, each on a stream of its own, with a region and ten eager ops of their own."""
    models, x = (compiled(square), compiled(cube)), matrix()
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    for model in models:
        model(x)  # torch 2.11 crashes where two threads compile at once
    torch.cuda.synchronize()

    def work(model: Callable[..., Any], op: Callable[..., Any], stream: torch.cuda.Stream) -> None:
        with torch.cuda.stream(stream):
            for _ in range(10):
                op(model(x))

    def step() -> None:
        jobs = zip(models, (torch.sinh, torch.cosh), streams, strict=True)
        started = [threading.Thread(target=work, args=job) for job in jobs]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()

    return recorded_once(step)


def test_two_threads_on_two_streams_are_counted_once(threads: StepRecord) -> None:
    assert kernels(threads) == {"r0/forward": 10, "r1/forward": 20}
    assert [launched(gap_rows(threads, op_type)) for op_type in ("sinh", "cosh")] == [10, 10]


def test_the_timeline_keeps_streams_apart(threads: StepRecord) -> None:
    streams: dict[str, set[int]] = {}
    for event in events(threads, "kernel"):
        assert event.row is not None
        streams.setdefault(event.row.region or event.row.op_type, set()).add(event.lane)
    assert streams["r0"] == streams["sinh"]
    assert streams["r1"] == streams["cosh"]
    assert len(streams["r0"]) == len(streams["r1"]) == len(streams["r0"] ^ streams["r1"]) // 2 == 1


def test_work_on_a_side_stream_is_labelled() -> None:
    model, x, side = compiled(square), matrix(), torch.cuda.Stream()

    def step() -> torch.Tensor:
        y = model(x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            z = y.sinh()
        torch.cuda.current_stream().wait_stream(side)
        return z

    found = recorded_once(step)
    lanes = {event.row.op_type: event.lane for event in events(found, "kernel") if event.row is not None}
    assert lanes["sinh"] != lanes["extern"]


# copies and waits


@pytest.fixture(scope="module")
def transfers() -> tuple[StepRecord, int]:
    """Three copies to the device, which do not wait, and one back, which does; bytes of one copy."""
    model, host = compiled(square), torch.randn(WIDTH, WIDTH).pin_memory()

    def step() -> torch.Tensor:
        total = torch.zeros(WIDTH, WIDTH, device="cuda")
        for _ in range(3):
            total += model(host.to("cuda", non_blocking=True))
        return total.cpu()

    return recorded_once(step), host.nbytes


def test_copies_between_devices_tell_direction_and_bytes(transfers: tuple[StepRecord, int]) -> None:
    step, nbytes = transfers
    for direction, count in (("cpu to cuda", 3), ("cuda to cpu", 1)):
        rows = gap_rows(step, kind="copy", copied=direction)
        assert sum(row.calls for row in rows) == count
        assert sum(row.copied_bytes for row in rows) == count * nbytes


def test_copies_between_devices_take_copy_time(transfers: tuple[StepRecord, int]) -> None:
    step, _ = transfers
    for row in gap_rows(step, kind="copy"):
        samples = row.in_graph.samples
        assert samples is not None
        assert samples.copy_ns is not None
        assert samples.copy_ns[0] > 0
        assert samples.kernel_ns == (0,)
    assert {event.row.kind for event in events(step, "copy") if event.row is not None} == {"copy"}


def test_a_copy_to_the_host_waits_for_the_device(transfers: tuple[StepRecord, int]) -> None:
    step, _ = transfers
    assert {event.row.copied for event in events(step, "sync") if event.row is not None} == {"cuda to cpu"}


def test_reading_a_value_is_a_wait_of_the_host() -> None:
    model, x = compiled(square), matrix()

    def step() -> torch.Tensor:
        y = model(x)
        return y * y.sum().item()

    found = recorded_once(step)
    (row,) = gap_rows(found, kind="sync")
    assert row.op_type == "_local_scalar_dense"
    waits = [event for event in events(found, "sync") if event.row is not None]
    assert [(event.row and event.row.name, event.device) for event in waits] == [(row.name, -1)]
    assert waits[0].duration_ns > 0


def test_a_wait_of_the_users_own_belongs_to_no_row() -> None:
    model, x = compiled(square), matrix()

    def step() -> None:
        model(x)
        torch.cuda.synchronize()

    found = recorded_once(step)
    assert [event.row for event in events(found, "sync")] == [None]


# launches that torch's dispatcher does not see


def test_a_users_triton_kernel_in_a_gap_is_a_row() -> None:
    from tests.gpu.kernels import increment

    model, x, counter = compiled(square), matrix(), torch.zeros(WIDTH, device="cuda")

    def step() -> None:
        model(x)
        increment(counter)

    found = recorded_once(step)
    (row,) = gap_rows(found, "triton._increment")
    assert (row.calls, launched([row]), row.place) == (1, 1, "after r0/forward")
    assert counter.unique().tolist() == [3.0]


def test_a_cuda_graph_replayed_in_a_gap_is_a_row_of_all_its_kernels() -> None:
    model, x, replayed = compiled(square), matrix(), torch.cuda.CUDAGraph()
    x.sinh().cosh()
    torch.cuda.synchronize()
    with torch.cuda.graph(replayed):
        x.sinh().cosh()

    def step() -> None:
        model(x)
        replayed.replay()

    (row,) = gap_rows(recorded_once(step), "CUDAGraph.replay")
    assert (row.calls, launched([row])) == (1, 2)


def test_a_region_with_cuda_graphs_is_labelled_and_replayed_afterwards() -> None:
    model, x = compiled(cube, mode="reduce-overhead"), matrix()

    def step() -> torch.Tensor:
        y: torch.Tensor = model(x)
        return y.neg()

    expected = step()
    found = recorded_once(step, warm_ups=4)
    assert kernels(found) == {"r0/forward": 2}
    assert launched(gap_rows(found, "neg")) == 1
    assert torch.equal(step(), expected)


# steps that are measured further


def test_isolated_gap_ops_cost_what_they_cost_in_the_step() -> None:
    model, x = compiled(square), matrix(2048)

    def step() -> None:
        y = model(x)
        for _ in range(20):
            torch.mm(y, x)

    found = graphbench.profile(step, l2="warm", warmup_steps=3, progress=False).record.step
    assert found is not None
    (row,) = gap_rows(found, "mm")
    assert row.isolated.samples is not None, row.isolated.reason
    assert row.in_graph.samples is not None
    in_step_ns = row.in_graph.samples.busy_ns[0] / row.calls
    assert quantile(row.isolated.samples.busy_ns, 0.5) == pytest.approx(in_step_ns, rel=0.15)


def test_a_step_without_anything_compiled_is_timed_on_the_device_that_it_uses() -> None:
    x = matrix()
    found = recorded_once(lambda: x.sinh().cosh())
    assert not found.compiled
    assert {row.op_type: launched([row]) for row in found.rows} == {"sinh": 1, "cosh": 1}
