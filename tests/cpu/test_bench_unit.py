"""One call alone: repeated on the same work every time, restored, compared with the real call, measured once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it
from torch.utils._python_dispatch import TorchDispatchMode

from graphbench.condition_records import Policy
from graphbench.errors import IsolationError
from graphbench.isolate.bench_unit import BenchUnit, RngState
from graphbench.measurements import Measurement
from graphbench.measuring.calls import Call
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.options import Timers
from graphbench.timing.wallclock import WallClock

CPU = torch.device("cpu")


def unit(function: Callable[..., Any], *args: Any, **options: Any) -> BenchUnit:
    return BenchUnit("row", function, args, {}, **options)


# repeating the same work


def test_a_call_gives_the_real_result() -> None:
    found = unit(torch.add, torch.ones(2), torch.ones(2)).run()
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == [2.0, 2.0]


def test_what_only_reads_needs_no_restoring() -> None:
    assert not unit(torch.add, torch.ones(2), torch.ones(2)).needs_restore


def test_an_in_place_op_finds_the_same_values_every_time() -> None:
    measured = unit(torch.Tensor.add_, torch.ones(2), torch.ones(2))
    results = []
    for _ in range(3):
        measured.prepare()
        results.append(measured.run().tolist())  # type: ignore[attr-defined]
    assert results == [[2.0, 2.0]] * 3


def test_an_in_place_op_leaves_the_original_alone() -> None:
    x = torch.ones(2)
    unit(torch.Tensor.add_, x, torch.ones(2)).run()
    assert x.tolist() == [1.0, 1.0]


def test_what_is_written_by_declaration_is_restored_though_the_trial_wrote_equal_values() -> None:
    out = torch.zeros(2)
    assert unit(lambda out: out.zero_(), out, written=(out,)).needs_restore


def test_an_in_place_op_on_an_argument_that_requires_grad_repeats() -> None:
    x = torch.ones(2, requires_grad=True) * 1
    measured = unit(torch.Tensor.mul_, x, torch.full((2,), 3.0), with_grad=True)
    results = []
    for _ in range(3):
        measured.prepare()
        results.append(measured.run())
    assert [result.tolist() for result in results] == [[3.0, 3.0]] * 3  # type: ignore[attr-defined]
    assert all(result.requires_grad for result in results)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "shape", "stride"),
    [
        (lambda x: x.t_(), (3, 2), (1, 3)),
        (lambda x: x.unsqueeze_(0), (1, 2, 3), (6, 3, 1)),
        (lambda x: x.resize_(3), (3,), (1,)),
    ],
    ids=["t_", "unsqueeze_", "resize_"],
)
def test_a_changed_layout_is_put_back_before_every_call(
    change: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    measured = unit(change, torch.arange(6.0).view(2, 3))
    results = []
    for _ in range(2):
        measured.prepare()
        results.append(measured.run())
    assert [(tuple(result.shape), result.stride()) for result in results] == [(shape, stride)] * 2  # type: ignore[attr-defined]


def test_a_random_op_leaves_the_generator_where_it_was() -> None:
    before = torch.get_rng_state()
    measured = unit(F.dropout, torch.ones(64), 0.5)
    assert measured.draws
    assert torch.equal(torch.get_rng_state(), before)


def test_what_does_not_draw_is_known_not_to() -> None:
    assert not unit(torch.relu, torch.ones(4)).draws


class Casts(TorchDispatchMode):
    """Counts dtype conversions."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._to_copy.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("with_grad", [True, False])
def test_every_sample_pays_for_autocasts_weight_cast(with_grad: bool) -> None:
    weight = torch.nn.Parameter(torch.ones(4, 4))
    counts = []
    with torch.autocast("cpu", torch.bfloat16):
        measured = unit(F.linear, torch.ones(2, 4), weight, with_grad=with_grad)
        for _ in range(3):
            measured.prepare()
            with Casts() as casts:
                measured.run()
            counts.append(casts.count)
    assert counts == [2, 2, 2]


def test_one_tensor_as_two_arguments_stays_one() -> None:
    x = torch.ones(2)
    found = unit(lambda a, b: torch.tensor(a.data_ptr() == b.data_ptr()), x, x).run()
    assert bool(found)


# what a call is


def test_a_view_is_known() -> None:
    assert unit(lambda x: x.view(4), torch.ones(2, 2)).is_view


def test_a_copy_is_no_view() -> None:
    assert not unit(lambda x: x.clone(), torch.ones(2, 2)).is_view


def test_an_in_place_write_that_returns_its_input_is_no_view() -> None:
    measured = unit(torch.Tensor.add_, torch.ones(2), torch.ones(2))
    assert (measured.is_view, measured.has_effect, measured.may_launch_nothing) == (False, True, False)


def test_a_call_without_tensors_out_has_no_effect() -> None:
    assert not unit(lambda x: x.size(0), torch.ones(2)).has_effect


def test_empty_outputs_may_launch_nothing() -> None:
    assert unit(torch.add, torch.empty(0), torch.empty(0)).may_launch_nothing


# comparing with the real call


def judged(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[bool | None, str]:
    """Fidelity of a unit whose real call is made afterwards, on the originals."""
    measured = unit(function, *args, **options)
    rng = RngState(torch.device("cpu"))
    measured.finish()
    rng.restore()
    found = measured.compare(function(*args))
    return found.equal, found.note


def test_a_faithful_call_is_equal() -> None:
    assert judged(torch.softmax, torch.randn(4, 4), -1) == (True, "")


def test_a_call_that_differs_on_its_second_run_is_unfaithful() -> None:
    calls = [0]

    def counting(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return x + calls[0]

    assert judged(counting, torch.zeros(2))[0] is False


def test_what_was_written_in_place_is_compared() -> None:
    assert judged(torch.Tensor.add_, torch.ones(2), torch.ones(2)) == (True, "")


def test_a_write_that_differs_on_its_second_run_is_unfaithful() -> None:
    calls = [0]

    def writing(x: torch.Tensor) -> None:
        calls[0] += 1
        x.fill_(calls[0])

    assert judged(writing, torch.zeros(2))[0] is False


def test_a_random_op_is_faithful_as_the_real_call_draws_the_same() -> None:
    assert judged(F.dropout, torch.ones(64), 0.5)[0] is True


def test_another_layout_is_named() -> None:
    calls = [0]

    def turning(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return (x * 1).t() if calls[0] % 2 else x * 1

    equal, note = judged(turning, torch.ones(2, 3))
    assert (equal, note) == (False, "layouts differ: [((2, 3), (3, 1))] instead of [((3, 2), (1, 3))]")


def test_undefined_values_are_not_compared() -> None:
    assert judged(torch.empty_like, torch.ones(64), undefined=True) == (
        True,
        "values are undefined; shapes and strides are equal",
    )


def test_a_metadata_change_is_faithful() -> None:
    assert judged(lambda x: x.t_(), torch.arange(6.0).view(2, 3))[0] is True


# synthetic values


def test_synthetic_values_are_not_compared() -> None:
    assert judged(torch.relu, torch.ones(4), values="synthetic") == (None, "synthetic values")


def seen(function: Callable[..., Any], *args: Any) -> Any:
    return unit(function, *args, values="synthetic").run()


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (F.embedding, (torch.tensor([0, 4, 2]), torch.ones(5, 3))),
        (torch.bucketize, (torch.tensor([0.5, 2.5]), torch.tensor([1.0, 2.0, 3.0]))),
        (
            lambda x, index, source: x.index_add(0, index, source),
            (torch.zeros(5, 3), torch.tensor([0, 4, 2]), torch.ones(3, 3)),
        ),
        (lambda x, index: x.gather(1, index), (torch.ones(2, 5), torch.tensor([[0, 4], [2, 2]]))),
        (F.one_hot, (torch.tensor([0, 4, 2]), 5)),
    ],
    ids=["embedding", "bucketize", "index_add", "gather", "one_hot"],
)
def test_synthetic_indices_are_legal(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    found = seen(function, *args)
    assert found.shape == function(*args).shape


@pytest.mark.parametrize(
    "values",
    [torch.tensor([0, 4, -100, 2]), torch.tensor([True, False, False, True])],
    ids=["classes and what is ignored", "a mask"],
)
def test_what_decides_what_an_op_does_stays_as_captured(values: torch.Tensor) -> None:
    assert seen(lambda x, floats: x.clone(), values, torch.ones(2)).tolist() == values.tolist()


def test_a_call_with_nothing_to_draw_has_captured_values_and_is_compared() -> None:
    found = unit(torch.cumsum, torch.tensor([3, 7]), 0, values="synthetic")
    assert found.values == "captured"
    assert judged(torch.cumsum, torch.tensor([3, 7]), 0, values="synthetic") == (True, "")


JOINT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "offsets": (F.embedding_bag, (torch.tensor([4, 1, 2]), torch.ones(5, 3), torch.tensor([0, 2, 2]))),
    "a mask of as many values": (
        lambda x, mask, source: x.masked_scatter(mask, source),
        (torch.zeros(6), torch.tensor([True, False, True, False, False, False]), torch.ones(2)),
    ),
    "counts that add up": (
        lambda x, counts: x.repeat_interleave(counts, 0, output_size=5),
        (torch.ones(3, 2), torch.tensor([1, 0, 4])),
    ),
    "a class that is ignored": (F.cross_entropy, (torch.ones(3, 5), torch.tensor([4, -100, 0]))),
    "probabilities": (torch.bernoulli, (torch.full((64,), 0.5),)),
    "odds to draw from": (torch.multinomial, (torch.full((64,), 0.5), 2)),
    "targets and inputs within one": (F.binary_cross_entropy, (torch.full((64,), 0.5), torch.full((64,), 0.5))),
}


@pytest.mark.parametrize(("function", "args"), JOINT.values(), ids=JOINT)
def test_what_an_op_asks_of_its_values_still_holds(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    assert seen(function, *args).shape == function(*args).shape


def test_synthetic_floats_are_in_a_stable_range_and_not_the_captured_ones() -> None:
    found = seen(torch.clone, torch.tensor([1e30, -1e30] * 50))
    assert -1 <= float(found.min()) < 0 < float(found.max()) < 1


def test_where_none_is_negative_none_is_drawn() -> None:
    found = seen(torch.clone, torch.full((100,), 1e30))
    assert 0 <= float(found.min()) < 0.2 < 0.8 < float(found.max()) < 1


def test_an_expanded_tensor_is_drawn_once_and_stays_expanded() -> None:
    found = seen(lambda x: x, torch.ones(3, 1).expand(3, 8))
    assert found.stride() == (1, 0)
    assert len(set(found[:, 0].tolist())) == 3
    assert torch.equal(found, found[:, :1].expand(3, 8))


def test_integers_that_share_their_bytes_with_floats_are_what_is_left_there() -> None:
    integers = torch.tensor([1, 2, 3], dtype=torch.int32)
    found = seen(lambda floats, own: own.clone(), integers.view(torch.float32), integers)
    assert found.tolist() == [1, 2, 3]


def test_synthetic_values_do_not_move_the_generator() -> None:
    before = torch.get_rng_state()
    seen(torch.clone, torch.ones(100))
    assert torch.equal(torch.get_rng_state(), before)


def test_synthetic_values_are_put_back_after_an_in_place_op() -> None:
    measured = unit(torch.Tensor.mul_, torch.ones(4), torch.ones(4), values="synthetic")
    results = []
    for _ in range(2):
        measured.prepare()
        results.append(measured.run().clone())  # type: ignore[attr-defined]
    assert torch.equal(results[0], results[1])


# measured once


@pytest.fixture
def isolator() -> Isolator:
    policy = Policy(timer="wallclock", cache="warm", values="captured", warmup=0, repeat=2)
    return Isolator(CPU, Timers(WallClock(), WallClock()), policy)


def isolate(isolator: Isolator, row: str, function: Callable[..., Any], *args: Any, state: object = ()) -> Measurement:
    call = Call(row, function, args, {}, identity=function, state=(state,))
    return isolator.isolate(call, lambda: function(*args))[1].measurement


def test_an_equal_unit_is_measured_once_and_says_where(isolator: Isolator) -> None:
    first = isolate(isolator, "a", torch.relu, torch.ones(4))
    second = isolate(isolator, "b", torch.relu, torch.zeros(4))
    assert (first.shared_with, second.shared_with) == (None, "a")
    assert second.samples is first.samples


@pytest.mark.parametrize(("raised", "noted"), [(KeyboardInterrupt, False), (ValueError, True)])
def test_a_unit_that_ctrl_c_kept_from_being_compared_is_none_that_is_done(
    isolator: Isolator, raised: type[BaseException], noted: bool
) -> None:
    def real() -> Any:
        raise raised

    with pytest.raises(raised):
        isolator.isolate(Call("a", torch.relu, (torch.ones(4),), {}, identity=torch.relu), real)
    assert (("isolated", "a") in isolator.book.units) == noted


X = torch.ones(4, 4)
OTHERS: dict[str, tuple[Any, ...]] = {
    "shape": (torch.add, torch.ones(4, 2), torch.ones(4, 2)),
    "stride": (torch.add, torch.ones(4, 4).t(), torch.ones(4, 4)),
    "dtype": (torch.add, torch.ones(4, 4).double(), torch.ones(4, 4).double()),
    "alignment": (torch.add, torch.ones(17)[1:].view(4, 4), torch.ones(4, 4)),
    "aliasing": (torch.add, X, X),
    "requires grad": (torch.add, torch.ones(4, 4, requires_grad=True), torch.ones(4, 4)),
    "constant": (torch.add, torch.ones(4, 4), 1.0),
    "target": (torch.sub, torch.ones(4, 4), torch.ones(4, 4)),
}


@pytest.mark.parametrize("difference", OTHERS)
def test_units_that_differ_are_measured_each(isolator: Isolator, difference: str) -> None:
    isolate(isolator, "a", torch.add, torch.ones(4, 4), torch.ones(4, 4))
    assert isolate(isolator, "b", *OTHERS[difference]).shared_with is None


def test_equal_calls_under_another_ambient_state_are_measured_each(isolator: Isolator) -> None:
    isolate(isolator, "a", torch.relu, torch.ones(4), state="autocast off")
    assert isolate(isolator, "b", torch.relu, torch.ones(4), state="autocast on").shared_with is None


def test_true_and_one_are_different_constants(isolator: Isolator) -> None:
    isolate(isolator, "a", torch.add, torch.ones(4), 1)
    assert isolate(isolator, "b", torch.add, torch.ones(4), True).shared_with is None


# isolating within a run


def test_the_real_call_draws_what_it_would_have_drawn(isolator: Isolator) -> None:
    torch.manual_seed(5)
    expected = F.dropout(torch.ones(64), 0.5)
    torch.manual_seed(5)
    call = Call("a", F.dropout, (torch.ones(64), 0.5), {}, identity=F.dropout)
    result, verdict = isolator.isolate(call, lambda: F.dropout(torch.ones(64), 0.5))
    assert torch.equal(result, expected)
    assert verdict.measurement.fidelity is not None
    assert verdict.measurement.fidelity.equal is True


def test_a_call_that_raises_alone_fails_its_row_and_the_real_call_goes_on(isolator: Isolator) -> None:
    call = Call("a", torch.relu, (), {}, identity=torch.relu)
    result, verdict = isolator.isolate(call, lambda: "real")
    assert result == "real"
    assert verdict.measurement.status == "failed"
    assert verdict.measurement.reason.startswith("alone it raises TypeError: relu() missing 1 required")


def test_a_failed_unit_is_not_shared(isolator: Isolator) -> None:
    calls = [Call(row, torch.relu, (), {}, identity=torch.relu) for row in "ab"]
    found = [isolator.isolate(call, lambda: None)[1].measurement for call in calls]
    assert [entry.status for entry in found] == ["failed", "failed"]


def test_an_exception_of_the_real_call_leaves_the_isolator(isolator: Isolator) -> None:
    def real() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        isolator.isolate(Call("a", torch.relu, (torch.ones(2),), {}, identity=torch.relu), real)


def test_an_argument_that_cannot_be_copied_is_refused() -> None:
    with pytest.raises(IsolationError, match="sparse_coo layout"):
        unit(torch.sparse.mm, torch.eye(2).to_sparse(), torch.ones(2, 2))


def test_a_call_without_tensor_arguments_repeats() -> None:
    found = unit(torch.ones, 3, device=CPU).run()
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == [1.0, 1.0, 1.0]
