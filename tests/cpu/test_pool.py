"""Pooled copies: everything that a kernel could notice about a tensor is kept, in storage of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphbench.errors import IsolationError
from graphbench.isolate.pool import TensorPool
from graphbench.tensors import alias


def strided() -> torch.Tensor:
    return torch.arange(60.0).view(6, 10)[1:5:2, 2:9:3]


KINDS: dict[str, Callable[[], torch.Tensor]] = {
    "contiguous": lambda: torch.randn(3, 5),
    "strided": strided,
    "transposed": lambda: torch.randn(3, 5).t(),
    "offset": lambda: torch.randn(100)[13:40],
    "expanded": lambda: torch.randn(1, 4).expand(3, 4),
    "channels_last": lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "conj": lambda: torch.randn(4, dtype=torch.complex64).conj(),
    "negative": lambda: torch.randn(4, dtype=torch.complex64).conj().imag,
    "empty": lambda: torch.empty(0, 3),
    "0-d": lambda: torch.tensor(3.5),
    "fp8": lambda: torch.randn(8).to(torch.float8_e4m3fn),
    "bf16": lambda: torch.randn(8).bfloat16(),
    "bool": lambda: torch.tensor([True, False, True]),
    "complex": lambda: torch.randn(3, dtype=torch.complex128),
    "int": lambda: torch.arange(5),
    "overlapping": lambda: torch.arange(10.0).as_strided((4, 4), (2, 1)),
}


@pytest.fixture(params=KINDS)
def original(request: pytest.FixtureRequest) -> torch.Tensor:
    return KINDS[request.param]()


def twin(original: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = TensorPool([original]).tree()[0]
    return found


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """The values bit for bit, NaN included, of dtypes that have no comparison as well."""
    plain = tensor.resolve_conj().resolve_neg().contiguous()
    return torch.view_as_real(plain) if plain.is_complex() else plain.view(torch.uint8) if plain.dim() else plain


def layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.is_conj(), tensor.is_neg())


def test_layout_is_kept(original: torch.Tensor) -> None:
    assert layout(twin(original)) == layout(original)


def test_values_are_kept(original: torch.Tensor) -> None:
    assert torch.equal(raw(twin(original)), raw(original))


def test_alignment_is_kept(original: torch.Tensor) -> None:
    if original.numel():
        assert twin(original).data_ptr() % 64 == original.data_ptr() % 64


def test_storage_is_its_own(original: torch.Tensor) -> None:
    if original.numel():
        assert twin(original).data_ptr() != original.data_ptr()


def test_nan_and_minus_zero_are_kept_bit_for_bit() -> None:
    original = torch.tensor([float("nan"), -0.0, float("inf")])
    assert torch.equal(twin(original).view(torch.int32), original.view(torch.int32))


def test_elements_that_are_not_aligned_to_their_size_are_refused() -> None:
    buffer = bytearray(1) + bytearray(torch.arange(4.0).numpy().tobytes())
    unaligned = torch.frombuffer(buffer, dtype=torch.float32, offset=1)
    with pytest.raises(IsolationError, match=r"an argument of shape \(4,\): its elements are unaligned"):
        TensorPool([unaligned])


# aliasing


def test_the_same_tensor_twice_stays_one_tensor() -> None:
    x = torch.randn(3)
    one, two = TensorPool([x, x]).tree()
    assert one is two


def test_overlapping_views_stay_views_of_one_memory() -> None:
    base = torch.arange(10.0)
    low, high = TensorPool([base[:6], base[4:]]).tree()
    low[5] = -1.0
    assert high[1] == -1.0


def test_distance_between_views_of_one_storage_is_kept_where_they_overlap() -> None:
    base = torch.arange(10.0)
    low, high = TensorPool([base[:6], base[4:]]).tree()
    assert high.data_ptr() - low.data_ptr() == 16


def test_views_of_another_dtype_share_the_copy() -> None:
    base = torch.zeros(4)
    floats, ints = TensorPool([base, base.view(torch.int32)]).tree()
    ints.fill_(1065353216)  # the bits of 1.0
    assert floats.tolist() == [1.0] * 4


def test_tensors_apart_stay_apart() -> None:
    one, two = TensorPool([torch.zeros(4), torch.zeros(4)]).tree()
    one.fill_(1.0)
    assert two.tolist() == [0.0] * 4


def test_a_view_of_a_large_storage_copies_only_what_it_covers() -> None:
    pool = TensorPool([torch.zeros(1 << 20)[:16]])
    assert pool.nbytes == 64


def test_what_is_no_tensor_is_passed_on() -> None:
    tree = TensorPool(([torch.ones(1), None], {"dim": -1, "name": "a"})).tree()
    assert tree[0][1] is None
    assert tree[1] == {"dim": -1, "name": "a"}


# gradients


def test_requires_grad_is_kept_when_asked_for() -> None:
    pool = TensorPool([torch.ones(2, requires_grad=True), torch.ones(2)])
    assert [copy.requires_grad for copy in pool.tree(with_grad=True)] == [True, False]


def test_requires_grad_is_dropped_when_not_asked_for() -> None:
    assert not TensorPool([torch.ones(2, requires_grad=True)]).tree(with_grad=False)[0].requires_grad


def test_a_copy_that_requires_grad_may_be_written_in_place() -> None:
    copy = TensorPool([torch.ones(2, requires_grad=True)]).tree()[0]
    assert copy.add_(1).tolist() == [2.0, 2.0]


# restoring


def test_written_blocks_are_found_and_no_others() -> None:
    read, written = torch.zeros(4), torch.zeros(4)
    pool = TensorPool([read, written])
    pool.tree()[1].add_(1)
    assert pool.changed() == pool.blocks_of([written])


def test_restore_brings_the_original_values_back() -> None:
    x = torch.arange(4.0)
    pool = TensorPool([x])
    copy = pool.tree()[0]
    copy.zero_()
    pool.restore(pool.changed())
    assert copy.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_writing_a_copy_leaves_the_original_alone() -> None:
    x = torch.arange(4.0)
    TensorPool([x]).tree()[0].zero_()
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_after_fill_restore_brings_the_filled_in_values_back() -> None:
    pool = TensorPool([torch.zeros(2)])
    pool.fill(lambda original, pooled: pooled.fill_(5.0))
    copy = pool.tree()[0]
    copy.zero_()
    pool.restore(pool.changed())
    assert copy.tolist() == [5.0, 5.0]


def test_inference_tensors_are_copied_outside_inference_mode() -> None:
    with torch.inference_mode():
        x = torch.ones(2)
    assert twin(x).tolist() == [1.0, 1.0]


# what cannot be copied


class Labelled(torch.Tensor):
    pass


REFUSED: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "sparse": (lambda: torch.eye(3).to_sparse(), "torch.sparse_coo layout"),
    "csr": (lambda: torch.eye(3).to_sparse_csr(), "torch.sparse_csr layout"),
    "nested": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.strided),
        "quantized or nested tensor",
    ),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "quantized or nested tensor",
    ),
    "subclass": (lambda: torch.ones(2).as_subclass(Labelled), "tensor subclass Labelled"),
    "meta": (lambda: torch.ones(2, device="meta"), "meta tensor"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", REFUSED)
def test_a_tensor_without_plain_storage_is_refused_by_name(kind: str) -> None:
    make, expected = REFUSED[kind]
    with pytest.raises(IsolationError, match=expected):
        TensorPool([make()])


def test_a_value_inside_vmap_is_refused_by_name() -> None:
    reasons = []

    def inside(x: torch.Tensor) -> torch.Tensor:
        with pytest.raises(IsolationError) as caught:
            TensorPool([x])
        reasons.append(str(caught.value))
        return x

    torch.vmap(inside)(torch.ones(2, 3))
    assert reasons == [
        "cannot copy an argument of shape (3,): values inside vmap or func.grad have no storage of their own"
    ]


def test_a_tensor_whose_storage_was_freed_is_refused() -> None:
    x = torch.ones(4)
    x.untyped_storage().resize_(0)
    with pytest.raises(IsolationError, match="storage is smaller than the tensor"):
        TensorPool([x])


def test_an_alias_passes_gradients_on() -> None:
    x = torch.ones(2, requires_grad=True)
    (alias(x) * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]
