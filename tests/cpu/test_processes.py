"""Threads, forks, modes and interrupts around measuring: right numbers or a named refusal, and nothing left behind."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

import graphbench
from graphbench import session
from graphbench.errors import UsageError
from graphbench.inductor import wrapper as wrappers
from graphbench.measuring.compiled import CompiledSide
from graphbench.session import ProcessLock, Session
from tests.cpu.stories import QUICK, Scores, batch, changes, compiled, quick, shape_of
from tests.cpu.world import everything

PATIENCE_S = 60


def wait(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, "waited for too long"
        time.sleep(0.001)


def in_thread(work: Callable[[], Any], name: str = "worker") -> tuple[threading.Thread, list[Any]]:
    """A running thread, and what it returned or raised once it is over."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            found.append(error)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    return thread, found


@pytest.fixture
def scores() -> Callable[[torch.Tensor], torch.Tensor]:
    """A compiled model that has run once, forward and backward."""
    model = compiled(Scores())
    model(batch()).sum().backward()
    return model


# Two users at once.


def test_measuring_from_two_threads_is_refused_to_the_second_and_names_the_first() -> None:
    session_ = Session()
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with session_.in_use("measure"):
            inside.set()
            leave.wait(PATIENCE_S)

    thread, _ = in_thread(first, "first user")
    inside.wait(PATIENCE_S)
    with pytest.raises(UsageError, match="cannot record now: thread 'first user' has graphbench measure"):
        session_.in_use("record").__enter__()
    leave.set()
    thread.join()
    with session_.in_use("record"):
        pass


def test_of_many_threads_that_start_at_once_one_alone_gets_the_session() -> None:
    session_, barrier, leave = Session(), threading.Barrier(8), threading.Event()
    entered: list[str] = []

    def work() -> None:
        barrier.wait()
        with session_.in_use("measure"):
            entered.append(threading.current_thread().name)
            leave.wait(PATIENCE_S)

    started = [in_thread(work) for _ in range(8)]
    wait(lambda: sum(bool(found) for _, found in started) == 7)
    leave.set()
    for thread, _ in started:
        thread.join()
    refused = [found[0] for _, found in started if isinstance(found[0], UsageError)]
    assert (len(entered), len(refused)) == (1, 7)


def test_a_session_whose_user_died_with_another_process_is_free() -> None:
    session_ = Session()
    session_._use = session_and_use = None or _dead_use()
    assert session_and_use.thread not in threading.enumerate()
    with session_.in_use("measure"):
        pass


def _dead_use() -> Any:
    thread, _ = in_thread(lambda: None)
    thread.join()
    return session._Use("measure", thread)


def test_measuring_inside_a_recorded_block_is_refused(scores: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match="within what graphbench is about to record"), graphbench.record():
        graphbench.measure(**QUICK)


# Other threads at work meanwhile.


def test_another_threads_calls_of_the_model_run_right_and_are_not_counted(scores: Callable[..., Any]) -> None:
    x = batch()
    expected, alone = scores(x).detach(), shape_of(quick())
    stop = threading.Event()
    wrong: list[bool] = []

    def serve() -> int:
        calls = 0
        while not stop.is_set():
            with torch.no_grad():
                wrong.append(not torch.allclose(scores(x), expected))
            calls += 1
        return calls

    scores(x)
    with torch.no_grad():
        scores(x)  # its own region, compiled before the thread starts
    alone = shape_of(quick())
    thread, found = in_thread(serve)
    wait(lambda: len(wrong) > 3)
    record = quick()
    stop.set()
    thread.join()
    assert found[0] > 3
    assert not any(wrong)
    assert shape_of(record) == alone
    kernels = [kernel for region in record.regions for kernel in region.kernels if region.status == "ok"]
    assert {kernel.calls for kernel in kernels} == {1}


def test_only_the_measuring_thread_is_isolated(scores: Callable[..., Any]) -> None:
    (region,) = session.current().regions
    graph = region.graph("forward")
    assert graph is not None
    side = CompiledSide.of(graph)
    with side.isolating(_Unused(), {}, lambda: None):
        thread, found = in_thread(lambda: graph.artifact([entry.value.detach() for entry in _inputs(region)]))
        thread.join()
    assert not isinstance(found[0], BaseException), found[0]
    assert (side.calls, side.isolated) == ({}, {})


class _Unused:
    """An isolator that must not be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for in another thread")


def _inputs(region: Any) -> list[Any]:
    return [entry for entry in region.capture.values if isinstance(entry.value, torch.Tensor)]


def test_a_thread_that_is_inside_when_measuring_ends_finishes_its_call(scores: Callable[..., Any]) -> None:
    """Its frame runs the instrumented code to its end, which must still find the hook."""
    (region,) = session.current().regions
    graph = region.graph("forward")
    assert graph is not None
    wrapper = wrappers.prepare(graph)
    inside, go_on = threading.Event(), threading.Event()
    sites: list[str] = []

    def on_kernel(site: Any, function: Any, args: Any, kwargs: Any) -> Any:
        sites.append(site.name)
        inside.set()
        go_on.wait(PATIENCE_S)
        return function(*args, **kwargs)

    def call() -> Any:
        with torch.no_grad():
            return graph.artifact([entry.value.detach() for entry in _inputs(region)])

    with wrappers.labelled(wrapper, on_kernel):
        thread, found = in_thread(call)
        inside.wait(PATIENCE_S)
        threading.Timer(0.05, go_on.set).start()
    thread.join()
    assert not isinstance(found[0], BaseException), found[0]
    assert sites == [wrapper.sites[0].name]  # the second kernel ran behind the block, unlabelled
    assert wrappers.is_plain(graph)


def test_what_another_thread_compiles_meanwhile_belongs_to_itself(scores: Callable[..., Any]) -> None:
    alone = shape_of(quick())
    other = torch.compile(lambda x: (x * 3).sin() + 1, backend="inductor")
    thread, found = in_thread(lambda: other(batch(4, 4)))
    record = quick()
    thread.join()
    assert torch.allclose(found[0], (batch(4, 4) * 3).sin() + 1, atol=1e-5)
    assert shape_of(record) == alone


# What surrounds the call.


def test_measuring_inside_compiled_code_compiles_nothing_of_graphbench() -> None:
    net, profiles = Scores(), []

    def step(x: torch.Tensor) -> torch.Tensor:
        y = net(x)
        profiles.append(graphbench.measure(**QUICK).record)
        return y + 1

    with torch.no_grad():
        result = compiled(step)(batch())
        assert torch.allclose(result, net(batch()) + 1)
    (record,) = profiles
    assert [region.status for region in record.regions] == ["ok"]
    files = {region.location.file for region in session.current().regions if region.location is not None}
    assert files == {__file__, sys.modules[Scores.__module__].__file__}


class Heard(TorchDispatchMode):
    """A dispatch mode that counts ops."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops.append(str(func))
        return func(*args, **(kwargs or {}))


class HeardCalls(TorchFunctionMode):
    """A function mode that counts calls."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [Heard, HeardCalls])
def test_modes_of_the_users_hear_no_replay_and_are_on_again_afterwards(
    mode: type[Heard | HeardCalls], scores: Callable[..., Any]
) -> None:
    alone = shape_of(quick())
    with mode() as heard:
        record = quick()
        assert heard.ops == []
        torch.ones(2).add(1)
        assert any("add" in op for op in heard.ops)
    assert shape_of(record) == alone


def test_fake_tensors_are_off_while_measuring(scores: Callable[..., Any]) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    alone = shape_of(quick())
    with FakeTensorMode():
        assert shape_of(quick()) == alone


def test_measuring_inside_a_transform_is_refused(scores: Callable[..., Any]) -> None:
    def inside(x: torch.Tensor) -> torch.Tensor:
        graphbench.measure(**QUICK)
        return x

    with pytest.raises(UsageError, match="cannot measure here: within a function that torch transforms"):
        torch.func.vmap(inside)(batch())


# Processes.


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets torch's number of threads for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_a_forked_child_measures_right_on_one_thread(threads: Callable[[int], None]) -> None:
    threads(1)
    with torch.no_grad():
        compiled(Scores())(batch())
    alone = shape_of(quick())
    assert _in_child(lambda: shape_of(quick())) == alone
    assert shape_of(quick()) == alone


def test_a_backward_that_autograd_refuses_in_a_forked_child_says_so(threads: Callable[[int], None]) -> None:
    """A torch built for CUDA keeps threads for its devices, which do not live in a fork; others can run it."""
    threads(1)
    compiled(Scores())(batch()).sum().backward()
    quick()
    states = _in_child(lambda: [(k.in_graph.status, k.in_graph.reason) for k in quick().regions[0].kernels])
    assert all(status == "ok" or "fork-based multiprocessing" in reason for status, reason in states), states


def test_a_forked_child_that_would_need_lost_threads_is_refused(threads: Callable[[int], None]) -> None:
    threads(2)
    compiled(Scores())(batch())
    assert "cannot measure in process" in _in_child(quick)


def _in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = work()
        except BaseException as error:  # noqa: BLE001 - the parent looks at it
            found = repr(error)
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(found, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data)


def test_a_lock_that_another_thread_held_at_the_fork_is_open_in_the_child() -> None:
    lock, held, leave = ProcessLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock.here():
            held.set()
            leave.wait(PATIENCE_S)

    thread, _ = in_thread(hold)
    held.wait(PATIENCE_S)
    taken = _in_child(lambda: lock.here().acquire(timeout=5))
    leave.set()
    thread.join()
    assert taken is True


def test_a_child_forked_while_another_thread_measures_is_mended_by_its_own_use(scores: Callable[..., Any]) -> None:
    (region,) = session.current().regions
    graph = region.graph("forward")
    assert graph is not None
    wrapper = wrappers.prepare(graph)
    inside, leave = threading.Event(), threading.Event()

    def measure() -> None:
        with wrappers.labelled(wrapper, lambda site, function, args, kwargs: function(*args, **kwargs)):
            inside.set()
            leave.wait(PATIENCE_S)

    thread, _ = in_thread(measure)
    inside.wait(PATIENCE_S)

    def in_child() -> tuple[bool, bool]:
        before = wrappers.is_plain(graph)
        with wrappers.labelled(wrapper, lambda site, function, args, kwargs: function(*args, **kwargs)):
            pass
        return before, wrappers.is_plain(graph)

    found = _in_child(in_child)
    leave.set()
    thread.join()
    assert found == (False, True)


def test_workers_of_a_data_loader_are_left_alone(scores: Callable[..., Any]) -> None:
    data = TensorDataset(torch.arange(8.0))
    loader = DataLoader(data, batch_size=2, num_workers=1, persistent_workers=True)
    batches = iter(loader)
    first = next(batches)[0]
    alone = shape_of(quick())
    rest = [entry[0] for entry in batches]
    assert torch.cat([first, *rest]).tolist() == list(range(8))
    assert shape_of(quick()) == alone
    del batches, loader


# Copies.


def test_a_copy_of_a_compiled_model_is_a_model_of_its_own(scores: Callable[..., Any]) -> None:
    net = nn.Sequential(nn.Linear(4, 4))
    model = compiled(net)
    with torch.no_grad():
        model(batch(2, 4))
        twin = copy.deepcopy(model)
        assert torch.equal(twin(batch(2, 4)), model(batch(2, 4)))


def test_a_profile_can_be_pickled_and_copied(scores: Callable[..., Any]) -> None:
    profile = graphbench.measure(**QUICK)
    assert pickle.loads(pickle.dumps(profile)).record == profile.record
    assert copy.deepcopy(profile).record == profile.record


@pytest.mark.parametrize("make", [copy.deepcopy, pickle.dumps])
def test_a_session_is_not_copied(make: Callable[[Session], Any]) -> None:
    with pytest.raises(UsageError, match="a session cannot be copied"):
        make(Session())


# Interrupts.

INTERRUPTED = """
    import threading, torch, graphbench
    model = torch.compile(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), backend="graphbench")
    with torch.no_grad():
        model(torch.randn(4, 8))
    print("ready", flush=True)
    while True:
        graphbench.measure(progress=False)
"""


@pytest.fixture(scope="module")
def interrupted() -> tuple[int, float, str]:
    """A process that measures, and gets Ctrl-C: its exit code, the seconds it took to end, what it said."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.4)
        start_s = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
        return process.returncode, time.monotonic() - start_s, said
    finally:
        process.kill()  # it would measure for ever


def test_ctrl_c_ends_a_measuring_process_at_once(interrupted: tuple[int, float, str]) -> None:
    code, seconds, _ = interrupted
    assert code != 0  # -2 by Python alone, 1 once torch.compile was used
    assert seconds < 5


def test_ctrl_c_says_nothing_but_where_it_came(interrupted: tuple[int, float, str]) -> None:
    said = interrupted[2]
    assert said.count("Traceback") == 1
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "ignored" not in said


def test_an_interrupt_while_the_backward_compiles_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import compile_fx

    net, x = Scores(), batch()
    compiled(net)(x)
    real = compile_fx.compile_fx_inner

    def inner(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("is_backward"):
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    before = everything(net, x)
    with monkeypatch.context() as patch:
        patch.setattr(compile_fx, "compile_fx_inner", inner)
        with pytest.raises(KeyboardInterrupt):
            quick()
    assert changes(before, everything(net, x)) == []
    assert any(kernel.phase == "backward" for kernel in quick().regions[0].kernels)
