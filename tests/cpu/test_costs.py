"""Least work of calls, by hand: FLOPs and bytes are worked out on paper in every test, from shapes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils import flop_counter

from graphbench.isolate.costs import counting

F32, I64, BF16 = 4, 8, 2  # bytes of an element
Costs = tuple[int | None, int | None, int | None]


def costs(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Costs:
    """FLOPs, bytes read and bytes written of one call."""
    with counting() as counter:
        result = call(*args, **kwargs)
    work = counter.work(result)
    assert work.reason == ""
    return work.flops, work.read_bytes, work.written_bytes


@pytest.fixture(autouse=True)
def _no_grad() -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


# Products


def test_mm_multiplies_and_adds_once_for_each_of_rows_columns_and_depth() -> None:
    found = costs(torch.mm, torch.randn(3, 5), torch.randn(5, 7))
    assert found == (2 * 3 * 5 * 7, (3 * 5 + 5 * 7) * F32, 3 * 7 * F32)


def test_bmm_is_so_many_products() -> None:
    found = costs(torch.bmm, torch.randn(2, 3, 5), torch.randn(2, 5, 7))
    assert found == (2 * 2 * 3 * 5 * 7, 2 * (3 * 5 + 5 * 7) * F32, 2 * 3 * 7 * F32)


def test_addmm_reads_its_bias_as_well() -> None:
    found = costs(torch.addmm, torch.randn(7), torch.randn(3, 5), torch.randn(5, 7))
    assert found == (2 * 3 * 5 * 7, (7 + 3 * 5 + 5 * 7) * F32, 3 * 7 * F32)


def test_a_transposed_operand_costs_what_a_plain_one_does() -> None:
    found = costs(torch.matmul, torch.randn(5, 3).t(), torch.randn(7, 5).t())
    assert found == (2 * 3 * 5 * 7, (5 * 3 + 7 * 5) * F32, 3 * 7 * F32)


def test_a_matrix_times_itself_is_read_once() -> None:
    x = torch.randn(6, 6)
    assert costs(torch.mm, x, x.t()) == (2 * 6 * 6 * 6, 6 * 6 * F32, 6 * 6 * F32)


def test_half_precision_moves_half_the_bytes() -> None:
    x, w = torch.randn(3, 5).bfloat16(), torch.randn(5, 7).bfloat16()
    assert costs(torch.mm, x, w) == (2 * 3 * 5 * 7, (3 * 5 + 5 * 7) * BF16, 3 * 7 * BF16)


def test_attention_is_two_products_for_every_pair_of_query_and_key() -> None:
    q, k, v = (torch.randn(1, 2, length, 16) for length in (8, 12, 12))
    found = costs(functional.scaled_dot_product_attention, q, k, v)
    pairs, heads, width = 8 * 12, 2, 16
    assert found == (2 * 2 * heads * pairs * width, heads * (8 + 12 + 12) * width * F32, heads * 8 * width * F32)


def test_causal_attention_looks_at_half_the_pairs_and_the_diagonal() -> None:
    q, k, v = (torch.randn(1, 2, 8, 16) for _ in range(3))
    found = costs(functional.scaled_dot_product_attention, q, k, v, is_causal=True)
    pairs = 8 * 9 // 2  # of query i, the keys 0 to i
    assert found == (2 * 2 * 2 * pairs * 16, 3 * 2 * 8 * 16 * F32, 2 * 8 * 16 * F32)


# Convolutions


def test_a_grouped_dilated_conv1d_sees_only_its_groups_channels() -> None:
    x, w, b = torch.randn(2, 4, 10), torch.randn(6, 4 // 2, 3), torch.randn(6)
    found = costs(functional.conv1d, x, w, b, groups=2, dilation=2)
    length = 10 - 2 * (3 - 1)
    flops = 2 * (2 * 6 * length) * (4 // 2 * 3)
    assert found == (flops, (2 * 4 * 10 + 6 * 2 * 3 + 6) * F32, 2 * 6 * length * F32)


def test_conv2d_reads_every_pixel_once_however_many_windows_hold_it() -> None:
    x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    found = costs(functional.conv2d, x, w, padding=1)
    assert found == (2 * (2 * 4 * 8 * 8) * (3 * 3 * 3), (2 * 3 * 64 + 4 * 27) * F32, 2 * 4 * 64 * F32)


def test_a_depthwise_conv2d_has_one_channel_to_a_window() -> None:
    x, w = torch.randn(1, 6, 8, 8), torch.randn(6, 1, 3, 3)
    found = costs(functional.conv2d, x, w, groups=6)
    assert found == (2 * (6 * 6 * 6) * 9, (6 * 64 + 6 * 9) * F32, 6 * 36 * F32)


def test_a_strided_pointwise_conv2d_reads_only_the_pixels_that_it_steps_on() -> None:
    x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 1, 1)
    found = costs(functional.conv2d, x, w, stride=2)
    assert found == (2 * (2 * 4 * 4 * 4) * 3, (2 * 3 * 4 * 4 + 4 * 3) * F32, 2 * 4 * 16 * F32)


def test_a_strided_convolution_without_gaps_between_its_windows_reads_up_to_the_last_one() -> None:
    found = costs(functional.conv1d, torch.randn(1, 2, 10), torch.randn(3, 2, 3), stride=3)
    assert found == (2 * (3 * 3) * (2 * 3), (2 * 9 + 3 * 2 * 3) * F32, 3 * 3 * F32)


def test_a_dilated_strided_convolution_reads_where_its_taps_fall() -> None:
    found = costs(functional.conv1d, torch.randn(1, 1, 9), torch.randn(1, 1, 2), stride=4, dilation=2)
    taps = {0, 2, 4, 6}
    assert found == (2 * 2 * 2, (len(taps) + 2) * F32, 2 * F32)


def test_conv3d() -> None:
    x, w = torch.randn(1, 2, 4, 5, 6), torch.randn(3, 2, 2, 2, 2)
    found = costs(functional.conv3d, x, w)
    places = 3 * 4 * 5
    assert found == (2 * (3 * places) * (2 * 8), (2 * 4 * 5 * 6 + 3 * 2 * 8) * F32, 3 * places * F32)


def test_a_transposed_convolution_spreads_every_input_over_a_window() -> None:
    x, w = torch.randn(1, 3, 4, 4), torch.randn(3, 5, 2, 2)
    found = costs(functional.conv_transpose2d, x, w, stride=2)
    assert found == (2 * (3 * 4 * 4) * (5 * 2 * 2), (3 * 16 + 3 * 5 * 4) * F32, 5 * 8 * 8 * F32)


# Gathering and scattering


def test_an_embedding_reads_each_row_that_it_is_asked_for_once() -> None:
    found = costs(functional.embedding, torch.tensor([1, 3, 3, 7]), torch.randn(50, 8))
    assert found == (None, 4 * I64 + 3 * 8 * F32, 4 * 8 * F32)


def test_index_select_reads_the_selected_columns() -> None:
    found = costs(torch.index_select, torch.randn(5, 9), 1, torch.tensor([8, 0, 8]))
    assert found == (None, 3 * I64 + 2 * 5 * F32, 5 * 3 * F32)


def test_gather_reads_the_elements_that_it_gathers() -> None:
    index = torch.tensor([[0, 5], [1, 4], [2, 3], [3, 0]])
    found = costs(torch.gather, torch.randn(4, 6), 1, index)
    assert found == (None, 8 * I64 + 8 * F32, 8 * F32)


def test_what_is_gathered_twice_is_read_once() -> None:
    index = torch.zeros(4, 5, dtype=torch.int64)
    found = costs(torch.gather, torch.randn(4, 6), 1, index)
    assert found == (None, 20 * I64 + 4 * F32, 20 * F32)


def test_an_index_reads_the_rows_that_it_names() -> None:
    x = torch.randn(10, 4)
    found = costs(lambda: x[torch.tensor([2, 5, 9])])
    assert found == (None, 3 * I64 + 3 * 4 * F32, 3 * 4 * F32)


def test_a_row_that_is_indexed_twice_is_read_once() -> None:
    x = torch.randn(10, 4)
    found = costs(lambda: x[torch.tensor([2, 2, 2, 2, 9])])
    assert found == (None, 5 * I64 + 2 * 4 * F32, 5 * 4 * F32)


def test_scatter_add_copies_what_it_adds_to() -> None:
    x, index, source = torch.randn(4, 6), torch.tensor([[0], [1], [2], [3]]), torch.randn(4, 1)
    found = costs(torch.scatter_add, x, 1, index, source)
    assert found == (None, 4 * 6 * F32 + 4 * I64 + 4 * F32, 4 * 6 * F32)


def test_scatter_add_in_place_reads_and_writes_only_what_it_adds_to() -> None:
    x, index, source = torch.randn(4, 6), torch.tensor([[0], [1], [2], [3]]), torch.randn(4, 1)
    found = costs(x.scatter_add_, 1, index, source)
    assert found == (None, 4 * F32 + 4 * I64 + 4 * F32, 4 * F32)


def test_index_put_in_place_writes_the_rows_that_it_names() -> None:
    x, index, values = torch.randn(6, 4), torch.tensor([0, 2]), torch.randn(2, 4)
    assert costs(x.index_put_, (index,), values) == (None, 2 * I64 + 2 * 4 * F32, 2 * 4 * F32)


def test_index_put_that_accumulates_reads_them_too() -> None:
    x, index, values = torch.randn(6, 4), torch.tensor([0, 2]), torch.randn(2, 4)
    found = costs(x.index_put_, (index,), values, accumulate=True)
    assert found == (None, 2 * I64 + (2 * 4 + 2 * 4) * F32, 2 * 4 * F32)


# Pointwise, reductions and copies


def test_cat_reads_and_writes_everything_once() -> None:
    found = costs(torch.cat, [torch.randn(3, 4), torch.randn(5, 4)])
    assert found == (None, (3 + 5) * 4 * F32, (3 + 5) * 4 * F32)


def test_a_broadcast_input_is_read_once() -> None:
    found = costs(lambda x, y: x.expand(4, 8) + y, torch.randn(4, 1), torch.randn(4, 8))
    assert found == (None, (4 + 4 * 8) * F32, 4 * 8 * F32)


def test_add_in_place_reads_both_and_writes_one() -> None:
    x, y = torch.randn(4, 8), torch.randn(8)
    assert costs(x.add_, y) == (None, (4 * 8 + 8) * F32, 4 * 8 * F32)


def test_copy_in_place_does_not_read_what_it_overwrites() -> None:
    x, y = torch.randn(4, 8), torch.randn(4, 8).bfloat16()
    assert costs(x.copy_, y) == (None, 4 * 8 * BF16, 4 * 8 * F32)


def test_a_view_moves_nothing() -> None:
    assert costs(lambda x: x.view(2, 16).t()[1:], torch.randn(4, 8)) == (None, 0, 0)


def test_a_slice_is_read_without_what_lies_between_its_rows() -> None:
    found = costs(torch.neg, torch.randn(16, 64)[:, :4])
    assert found == (None, 16 * 4 * F32, 16 * 4 * F32)


def test_layer_norm_reads_its_input_once_although_it_passes_twice() -> None:
    found = costs(functional.layer_norm, torch.randn(6, 8), (8,), torch.randn(8), torch.randn(8))
    assert found == (None, (6 * 8 + 8 + 8) * F32, 6 * 8 * F32)


def test_batch_norm_in_training_moves_its_running_statistics_once_each_way() -> None:
    x, mean, variance, weight, bias = torch.randn(4, 3, 5, 5), *(torch.ones(3) for _ in range(4))
    found = costs(functional.batch_norm, x, mean, variance, weight, bias, training=True)
    assert found == (None, (4 * 3 * 25 + 4 * 3) * F32, (4 * 3 * 25 + 2 * 3) * F32)


def test_batch_norm_in_inference_only_reads_them() -> None:
    x, mean, variance, weight, bias = torch.randn(4, 3, 5, 5), *(torch.ones(3) for _ in range(4))
    found = costs(functional.batch_norm, x, mean, variance, weight, bias)
    assert found == (None, (4 * 3 * 25 + 4 * 3) * F32, 4 * 3 * 25 * F32)


@pytest.mark.parametrize("op", [torch.softmax, torch.cumsum, torch.log_softmax])
def test_softmax_and_cumsum_read_and_write_as_much_as_there_is(op: Callable[..., Any]) -> None:
    assert costs(op, torch.randn(6, 8), dim=-1) == (None, 6 * 8 * F32, 6 * 8 * F32)


def test_sort_writes_values_and_positions() -> None:
    assert costs(torch.sort, torch.randn(6, 8)) == (None, 6 * 8 * F32, 6 * 8 * (F32 + I64))


def test_a_sum_writes_what_is_left() -> None:
    assert costs(torch.sum, torch.randn(6, 8), dim=1) == (None, 6 * 8 * F32, 6 * F32)


def test_upsampling_reads_the_small_and_writes_the_large() -> None:
    found = costs(functional.interpolate, torch.randn(1, 2, 3, 4), scale_factor=2, mode="nearest")
    assert found == (None, 2 * 3 * 4 * F32, 2 * 6 * 8 * F32)


def test_dropout_keeps_its_mask_to_itself() -> None:
    assert costs(functional.dropout, torch.randn(6, 8), 0.5, True) == (None, 6 * 8 * F32, 6 * 8 * F32)


def test_a_foreach_add_is_all_its_adds() -> None:
    lists = [[torch.randn(3), torch.randn(5, 2)] for _ in range(2)]
    assert costs(torch._foreach_add, *lists) == (None, 2 * (3 + 10) * F32, (3 + 10) * F32)


def test_a_foreach_add_in_place_writes_its_first_list() -> None:
    lists = [[torch.randn(3), torch.randn(5, 2)] for _ in range(2)]
    assert costs(torch._foreach_add_, *lists) == (None, 2 * (3 + 10) * F32, (3 + 10) * F32)


def test_filling_reads_nothing() -> None:
    assert costs(torch.randn(4, 8).zero_) == (None, 0, 4 * 8 * F32)


def test_a_max_pool_that_leaves_pixels_out_does_not_read_them() -> None:
    found = costs(functional.max_pool2d, torch.randn(1, 2, 9, 9), 1, stride=2)
    assert found == (None, 2 * 5 * 5 * F32, 2 * 5 * 5 * F32)


# Backwards


def gradients(call: Callable[..., torch.Tensor], *args: torch.Tensor) -> Costs:
    """What the gradients of all arguments cost; the forward is not counted."""
    with torch.enable_grad():
        leaves = [arg.requires_grad_() for arg in args]
        output = call(*leaves)
    return costs(torch.autograd.grad, output, leaves, torch.randn_like(output))


def test_the_backward_of_a_linear_layer_is_two_products_and_a_sum() -> None:
    found = gradients(functional.linear, torch.randn(6, 5), torch.randn(7, 5), torch.randn(7))
    product = 2 * 6 * 5 * 7
    assert found == (2 * product, (6 * 7 + 6 * 5 + 7 * 5) * F32, (6 * 5 + 7 * 5 + 7) * F32)


def test_the_backward_of_a_convolution_is_two_convolutions_and_a_sum() -> None:
    found = gradients(functional.conv2d, torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(4))
    forward = 2 * (2 * 4 * 6 * 6) * 27
    sizes = 2 * 3 * 64, 4 * 27, 2 * 4 * 36
    assert found == (2 * forward, sum(sizes) * F32, (sizes[0] + sizes[1] + 4) * F32)


def test_a_gradient_for_the_input_alone_does_not_read_the_input() -> None:
    weight = torch.randn(4, 3, 3, 3)
    found = gradients(lambda x: functional.conv2d(x, weight), torch.randn(2, 3, 8, 8))
    assert found == (2 * (2 * 4 * 36) * 27, (4 * 27 + 2 * 4 * 36) * F32, 2 * 3 * 64 * F32)


def test_the_backward_of_relu_reads_gradient_and_result() -> None:
    assert gradients(torch.relu, torch.randn(6, 8)) == (None, 2 * 6 * 8 * F32, 6 * 8 * F32)


# Memory that is only allocated, results in pieces


def test_memory_that_is_only_allocated_is_not_written() -> None:
    assert costs(torch.empty_like, torch.randn(6, 8)) == (None, 0, 0)


def test_memory_that_is_allocated_and_then_filled_is_written_once() -> None:
    assert costs(lambda x: torch.empty_like(x).copy_(x), torch.randn(6, 8)) == (None, 6 * 8 * F32, 6 * 8 * F32)


def test_all_pieces_of_one_new_result_are_written() -> None:
    assert costs(lambda x: (2 * x).chunk(2, dim=1), torch.randn(6, 8)) == (None, 6 * 8 * F32, 6 * 8 * F32)


def test_a_bag_of_embeddings_reads_each_row_that_it_is_asked_for_once() -> None:
    table, words, offsets = torch.randn(1000, 16), torch.tensor([3, 7, 3, 9]), torch.tensor([0, 2])
    found = costs(functional.embedding_bag, words, table, offsets)
    assert found == (None, 3 * 16 * F32 + (4 + 2) * I64, 2 * 16 * F32)


# Products without a formula


@torch.library.custom_op("graphbench_costs::product", mutates_args=())
def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """An op whose FLOPs nobody told."""
    return left @ right


def test_what_a_users_own_op_computes_is_not_known_but_its_bytes_are() -> None:
    left, right = torch.randn(4, 5), torch.randn(5, 6)
    with counting() as counter:
        result = product(left, right)
    work = counter.work(result)
    assert (work.flops, work.read_bytes, work.written_bytes) == (None, (4 * 5 + 5 * 6) * F32, 4 * 6 * F32)
    assert "graphbench_costs.product" in work.reason


def test_a_product_without_formula_leaves_none_of_the_others_flops() -> None:
    layer = torch.nn.Bilinear(5, 6, 7)
    with counting() as counter:
        result = torch.randn(4, 5) @ layer(torch.randn(5, 5), torch.randn(5, 6))
    work = counter.work(result)
    assert (work.flops, work.arithmetic) == (None, "")
    assert "_trilinear" in work.reason


def test_a_grouped_product_multiplies_every_row_once() -> None:
    groups = torch.randn(2, 16, 32, dtype=torch.bfloat16), torch.tensor([3, 8], dtype=torch.int32)
    with counting() as counter:
        torch._grouped_mm(torch.randn(8, 16, dtype=torch.bfloat16), groups[0], offs=groups[1])
    assert counter.work(()).flops == 2 * 8 * 16 * 32


def test_a_formula_that_raises_leaves_neither_flops_nor_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> int:
        raise ZeroDivisionError("no such shape")

    monkeypatch.setitem(flop_counter.flop_registry, torch.ops.aten.bmm, broken)
    matrix, stack = torch.ones(4, 4), torch.ones(2, 4, 4)
    with counting() as counter:
        result = matrix @ matrix + torch.bmm(stack, stack)
    work = counter.work(result)
    assert (work.flops, work.arithmetic, work.read_bytes) == (None, "", None)
    assert "ZeroDivisionError: no such shape" in work.reason
    assert torch.equal(result, torch.full((2, 4, 4), 8.0))  # the ops themselves ran
