"""The CUPTI timer on a real device: the contract, and what only a device can show."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable

import pytest
import torch

from graphbench.analysis.stats import quantile
from graphbench.condition_records import Policy
from graphbench.errors import GraphbenchError, OffThreadLaunchError, RecordsLostError, TimingError
from graphbench.timing import cupti as cupti_timer
from graphbench.timing import cupti_setup
from graphbench.timing.base import Session, Timer
from graphbench.timing.cache import L2
from graphbench.timing.cupti import CuptiTimer
from graphbench.timing.cupti_records import LABEL_KIND
from graphbench.timing.loop import measure
from tests.gpu.units import DEVICE, DeviceUnit
from tests.timer_contract import TimerContract, one_label

pytestmark = pytest.mark.gpu

if not torch.cuda.is_available() or importlib.util.find_spec("cupti") is None:
    if os.environ.get("GRAPHBENCH_REQUIRE_GPU", "0") != "0":
        raise RuntimeError("GRAPHBENCH_REQUIRE_GPU is set, but there is no CUDA device, or no cupti-python")
    pytest.skip("needs a CUDA device and cupti-python", allow_module_level=True)

POLICY = Policy(timer="cupti", cache="cold-read", values="captured", warmup=5, repeat=30)


@pytest.fixture(scope="module")
def big() -> torch.Tensor:
    """16 MiB: large against launch costs, small against the L2 of a data-centre GPU."""
    return torch.randn(4 << 20, device=DEVICE)


@pytest.fixture
def timer() -> CuptiTimer:
    return CuptiTimer(DEVICE, "warm")


class TestContract(TimerContract):
    @pytest.fixture(params=["cold-read", "cold-write", "warm"])
    def timer(self, request: pytest.FixtureRequest) -> Timer:
        return CuptiTimer(DEVICE, request.param)

    @pytest.fixture
    def work(self, big: torch.Tensor) -> Callable[[], None]:
        def add() -> None:
            big.add_(1)

        return add


def test_records_are_decoded_directly_on_this_release(timer: CuptiTimer) -> None:
    assert timer.record(one_label(lambda: None)).notes == ()


def test_the_library_found_is_the_one_torch_uses() -> None:
    library = cupti_setup.load()
    assert torch.version.cuda is not None
    assert library.version.split(".")[0] == torch.version.cuda.split(".")[0]
    assert "libcupti.so" in library.path


def test_one_op_is_one_named_kernel(timer: CuptiTimer, big: torch.Tensor) -> None:
    cost = timer.record(one_label(lambda: big.add_(1))).rows["a"][0]
    assert cost.n_kernels == 1
    assert "elementwise_kernel" in cost.device_kernels[0].name
    assert cost.busy_ns == cost.kernel_ns == cost.span_ns


def test_a_copy_is_a_copy_and_no_kernel(timer: CuptiTimer, big: torch.Tensor) -> None:
    target = torch.empty_like(big)
    cost = timer.record(one_label(lambda: target.copy_(big))).rows["a"][0]
    assert [(work.kind, work.name, work.grid) for work in cost.device_kernels] == [("copy", "memcpy DtoD", None)]
    assert (cost.n_kernels, cost.kernel_ns) == (0, 0)
    assert cost.copy_ns == cost.busy_ns > 0


def test_a_launch_is_kept_as_it_was_made(timer: CuptiTimer) -> None:
    count = 3 << 20
    tiny = torch.zeros(count, device=DEVICE)
    (kernel,) = timer.record(one_label(lambda: tiny.add_(1))).rows["a"][0].device_kernels
    assert kernel.grid is not None
    assert kernel.block is not None
    # torch's elementwise kernels work on 4 to 16 elements a thread, whole blocks of them.
    per_thread = count / (kernel.grid[0] * kernel.block[0])
    assert per_thread in (4, 8, 16)
    assert (kernel.grid[1:], kernel.block[1:], kernel.cluster, kernel.device) == ((1, 1), (1, 1), None, 0)
    assert 8 <= (kernel.registers or 0) <= 255
    assert (kernel.static_shared_bytes, kernel.dynamic_shared_bytes, kernel.local_bytes) == (0, 0, 0)


def test_a_kernel_on_a_stream_of_its_own_says_so(timer: CuptiTimer, big: torch.Tensor) -> None:
    def body(session: Session) -> None:
        with session.label("default", 0):
            big.add_(1)
        with torch.cuda.stream(torch.cuda.Stream(DEVICE)), session.label("own", 0):
            big.add_(1)

    rows = timer.record(body).rows
    assert rows["default"][0].device_kernels[0].stream != rows["own"][0].device_kernels[0].stream


def test_ids_that_the_timed_code_pushes_are_refused_by_name(timer: CuptiTimer, big: torch.Tensor) -> None:
    def labelled_itself() -> None:
        library = cupti_setup.load()
        library.push(LABEL_KIND, 17)
        big.add_(1)
        library.pop(LABEL_KIND)

    with pytest.raises(TimingError, match="carries label id 17, which this session never gave out"):
        timer.record(one_label(labelled_itself))


def test_ids_of_other_kinds_do_no_harm(timer: CuptiTimer, big: torch.Tensor) -> None:
    custom0 = LABEL_KIND - 2

    def labelled_itself() -> None:
        library = cupti_setup.load()
        library.push(custom0, 17)
        big.add_(1)
        library.pop(custom0)

    assert timer.record(one_label(labelled_itself)).rows["a"][0].n_kernels == 1


def test_a_forked_child_is_refused_by_name(timer: CuptiTimer, big: torch.Tensor) -> None:
    timer.record(one_label(lambda: big.add_(1)))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            CuptiTimer(DEVICE, "warm")
        except GraphbenchError as error:
            os.write(writer, error.message.encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        assert "forked from one that used CUDA" in told.read()
    assert timer.record(one_label(lambda: big.add_(1))).rows["a"][0].n_kernels == 1


def test_a_view_is_a_measured_zero(timer: CuptiTimer, big: torch.Tensor) -> None:
    cost = timer.record(one_label(lambda: big.view(2, -1))).rows["a"][0]
    assert (cost.busy_ns, cost.n_kernels) == (0, 0)


def test_twice_the_work_takes_about_twice_as_long(timer: CuptiTimer) -> None:
    small, large = (torch.randn(n << 20, device=DEVICE) for n in (64, 128))
    ratio = quantile(_busy(timer, lambda: large.add_(1)), 0.5) / quantile(_busy(timer, lambda: small.add_(1)), 0.5)
    assert ratio == pytest.approx(2.0, rel=0.15)


def _busy(timer: Timer, call: Callable[[], object]) -> tuple[float, ...]:
    measurement = measure(timer, DeviceUnit(call), POLICY)
    assert measurement.samples is not None, measurement.reason
    return measurement.samples.busy_ns


def test_backward_launched_by_autograds_thread_is_named_not_lost(timer: CuptiTimer) -> None:
    x = torch.randn(1 << 20, device=DEVICE, requires_grad=True)

    def forward_and_backward() -> None:
        (x * x).sum().backward()
        x.grad = None

    recording = timer.record(one_label(forward_and_backward))
    assert recording.unattributed != ()
    with pytest.raises(OffThreadLaunchError, match="row: launched"):
        measure(timer, DeviceUnit(forward_and_backward), POLICY)


def test_a_whole_run_counts_backward_too(timer: CuptiTimer) -> None:
    x = torch.randn(1 << 20, device=DEVICE, requires_grad=True)

    def forward() -> object:
        return (x * x).sum()

    def forward_and_backward() -> object:
        return torch.autograd.grad((x * x).sum(), x)

    whole = [measure(timer, DeviceUnit(call), POLICY, whole=True).samples for call in (forward, forward_and_backward)]
    assert whole[0] is not None
    assert whole[1] is not None
    assert quantile(whole[1].busy_ns, 0.5) > quantile(whole[0].busy_ns, 0.5)


def test_every_kernel_of_a_cuda_graph_replay_carries_its_label(timer: CuptiTimer, big: torch.Tensor) -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        big.add_(1)
        big.mul_(0.5)

    def body(session: Session) -> None:
        for sample in range(3):
            with session.window(sample), session.label("replay", sample):
                graph.replay()

    for _ in range(2):  # libcupti of CUDA 13.0 has had wrong ids from the second session on
        recording = timer.record(body)
        assert [recording.rows["replay"][i].n_kernels for i in range(3)] == [2, 2, 2]
        assert recording.unattributed == ()


def test_kernels_of_two_streams_overlap_and_count_once(timer: CuptiTimer) -> None:
    streams = [torch.cuda.Stream(DEVICE) for _ in range(2)]

    def body(session: Session) -> None:
        with session.window(0):
            for i, stream in enumerate(streams):
                with torch.cuda.stream(stream), session.label(f"stream {i}", 0):
                    torch.cuda._sleep(1_000_000)

    recording = timer.record(body)
    rows_ns = sum(samples[0].busy_ns for samples in recording.rows.values())
    run = recording.runs[0]
    assert rows_ns - run.overlap_ns == run.busy_ns
    assert run.overlap_ns > 0.5 * run.busy_ns


def test_a_profiler_session_before_does_not_bend_the_clock(big: torch.Tensor) -> None:
    timer = CuptiTimer(DEVICE, "warm")
    before = quantile(_busy(timer, lambda: big.add_(1)), 0.5)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        big.add_(1)
        torch.cuda.synchronize()
    assert quantile(_busy(timer, lambda: big.add_(1)), 0.5) == pytest.approx(before, rel=0.1)


def test_a_running_profiler_is_refused_by_name(timer: CuptiTimer, big: torch.Tensor) -> None:
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]),
        pytest.raises(TimingError, match=r"torch\.profiler is running"),
    ):
        timer.record(one_label(lambda: big.add_(1)))


def test_a_profiler_inside_a_session_is_an_error_not_zeros(timer: CuptiTimer, big: torch.Tensor) -> None:
    def profiled() -> None:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
            big.add_(1)
            torch.cuda.synchronize()

    with pytest.raises(TimingError):
        timer.record(one_label(profiled))
    assert timer.record(one_label(lambda: big.add_(1))).rows["a"][0].n_kernels == 1


def test_lost_records_are_an_error_and_the_next_session_works(
    timer: CuptiTimer, big: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cupti_timer, "BUFFER_BYTES", 8)
        patch.setattr(cupti_timer, "BUFFER_GROWTH", 1)
        with pytest.raises(RecordsLostError, match=r"in 4 session\(s\)"):
            timer.record(one_label(lambda: big.add_(1)))
    assert timer.record(one_label(lambda: big.add_(1))).rows["a"][0].n_kernels == 1


def test_many_launches_are_all_recorded(timer: CuptiTimer) -> None:
    tiny = torch.zeros(8, device=DEVICE)

    def body(session: Session) -> None:
        for row in range(20_000):
            with session.label(f"row {row % 100}", 0):
                tiny.add_(1)

    rows = timer.record(body).rows
    assert sum(samples[0].n_kernels or 0 for samples in rows.values()) == 20_000


def test_a_cold_cache_costs_more_than_a_warm_one(big: torch.Tensor) -> None:
    cold = quantile(_busy(CuptiTimer(DEVICE, "cold-read"), lambda: big.add_(1)), 0.5)
    warm = quantile(_busy(CuptiTimer(DEVICE, "warm"), lambda: big.add_(1)), 0.5)
    assert cold > 1.1 * warm


def test_the_flush_covers_twice_the_l2() -> None:
    assert L2(DEVICE, "cold-read").nbytes == 2 * torch.cuda.get_device_properties(DEVICE).L2_cache_size


def test_clearing_the_cache_is_never_part_of_a_sample(big: torch.Tensor) -> None:
    measurement = measure(CuptiTimer(DEVICE, "cold-read"), DeviceUnit(lambda: big.add_(1)), POLICY)
    assert measurement.samples is not None
    assert measurement.samples.n_kernels == (1,) * POLICY.repeat  # type: ignore[operator]


@pytest.mark.gpu(count=2)
def test_work_on_two_devices_is_told_apart_and_added_up() -> None:
    tensors = [torch.randn(16 << 20, device=f"cuda:{i}") for i in range(2)]
    timer = CuptiTimer("cuda:0", "warm", also=("cuda:1",))

    def body(session: Session) -> None:
        with session.window(0):
            for i, tensor in enumerate(tensors):
                with session.label(f"device {i}", 0):
                    tensor.add_(1)
            with session.label("peer copy", 0):
                tensors[0].copy_(tensors[1])

    recording = timer.record(body)
    assert recording.unattributed == ()
    assert all(samples[0].busy_ns > 0 for samples in recording.rows.values())
    rows_ns = sum(samples[0].busy_ns for samples in recording.rows.values())
    assert rows_ns - recording.runs[0].overlap_ns == recording.runs[0].busy_ns
