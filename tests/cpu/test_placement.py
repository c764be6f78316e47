"""Every tensor of a model on the device that was asked for, those of plain attributes too; layouts; where ops ran."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from graphbench.cli.device_check import check_devices
from graphbench.errors import CaptureError
from graphbench.models.inputs import Inputs
from graphbench.models.placement import channels_last, is_there, place, strays
from graphbench.regions import Region
from tests import factories

META = torch.device("meta")
ONE = torch.device("cuda:1")


class Holder(nn.Module):
    """Holds tensors where `.to()` finds them, and where it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("buffer", torch.ones(2))
        self.mask = torch.ones(3)
        self.masks = [self.mask, torch.ones(4)]
        self.table: dict[str, Any] = {"cos": (torch.ones(5), "a word", [torch.ones(6)])}
        self.pair = (torch.ones(7), torch.ones(8))
        self.number = torch.tensor(2.0)


@pytest.fixture
def net() -> nn.Sequential:
    return nn.Sequential(Holder())


def test_tensors_that_to_does_not_find_are_found_by_name(net: nn.Sequential) -> None:
    net.to(META)
    assert [stray.name for stray in strays(net, META)] == [
        "0.mask",
        "0.masks[0]",
        "0.masks[1]",
        "0.table['cos'][0]",
        "0.table['cos'][2][0]",
        "0.pair[0]",
        "0.pair[1]",
        "0.number",
    ]


def test_they_are_moved_and_told_in_one_line(net: nn.Sequential) -> None:
    (told,) = place(net, META, None)
    holder: Any = net[0]
    cosine, word, sines = holder.table["cos"]
    moved = [holder.buffer, holder.mask, *holder.masks, cosine, *sines, *holder.pair, *net.parameters()]
    assert {tensor.device for tensor in moved} == {META}
    assert word == "a word"
    assert told.startswith("0.mask, 0.masks[0], 0.masks[1], 0.table['cos'][0], 0.table['cos'][2][0] and 2 more: moved")


def test_a_tensor_that_two_names_hold_stays_one(net: nn.Sequential) -> None:
    place(net, META, None)
    holder: Any = net[0]
    assert holder.masks[0] is holder.mask


def test_a_number_on_the_cpu_stays_there(net: nn.Sequential) -> None:
    place(net, META, None)
    holder: Any = net[0]
    assert holder.number.device.type == "cpu"


def test_what_was_computed_from_a_parameter_is_not_moved_but_told(net: nn.Sequential) -> None:
    holder: Any = net[0]
    holder.scaled = holder.linear.weight * 2
    _, told = place(net, META, None)
    assert told == "0.scaled: not on meta, and not to be moved: computed from what requires a gradient"


def test_a_module_that_is_there_already_is_left_alone(net: nn.Sequential) -> None:
    mask = net[0].mask
    assert place(net, torch.device("cpu"), None) == ()
    assert net[0].mask is mask


def test_lists_that_hold_themselves_come_to_an_end(net: nn.Sequential) -> None:
    holder: Any = net[0]
    holder.masks.append(holder.masks)
    assert len([stray for stray in strays(net, META) if stray.name.startswith("0.masks")]) == 2


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [("cpu", "cpu", True), ("cuda:1", "cuda:1", True), ("cuda:0", "cuda:1", False), ("cpu", "cuda:1", False)],
)
def test_one_of_several_gpus_is_another_device(found: str, wanted: str, same: bool) -> None:
    assert is_there(torch.device(found), torch.device(wanted)) is same


# channels last


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.two = nn.Conv2d(3, 4, 3)
        self.three = nn.Conv3d(3, 4, 3)
        self.linear = nn.Linear(2, 2)


def test_weights_and_inputs_of_four_and_five_dimensions_are_laid_out_channels_last() -> None:
    net, given = (
        Convolutions(),
        Inputs(args=(torch.ones(2, 3, 5, 5),), kwargs={"v": [torch.ones(1, 3, 4, 4, 4)]}, origin=""),
    )
    inputs, told = channels_last(net, given)
    (image,), (volume,) = inputs.args, inputs.kwargs["v"]  # type: ignore[misc]
    assert isinstance(image, torch.Tensor)
    assert told == ""
    assert [tensor.is_contiguous(memory_format=torch.channels_last) for tensor in (net.two.weight, image)] == [True] * 2
    assert [tensor.is_contiguous(memory_format=torch.channels_last_3d) for tensor in (net.three.weight, volume)] == [
        True
    ] * 2
    assert image.stride() == (75, 1, 15, 3)


def test_a_model_without_such_tensors_says_that_nothing_changes() -> None:
    _, told = channels_last(nn.Linear(2, 2), Inputs(args=(torch.ones(3, 2),), kwargs={}, origin=""))
    assert told == "--channels-last changes nothing: no weight and no input has 4 or 5 dimensions"


# where ops ran


def region(*devices: str) -> Region:
    nodes = tuple(
        factories.node(f"op{i}", outputs=(factories.spec(device=device),)) for i, device in enumerate(devices)
    )
    return Region(key="r0", compile_id="0/0", gm=None, nodes=nodes, location=None, frame="0")  # type: ignore[arg-type]


@pytest.mark.parametrize("devices", [("cuda:1",), ("cuda:1", "cpu")])
def test_ops_on_the_device_that_was_asked_for_are_fine_and_so_are_some_on_the_cpu(devices: tuple[str, ...]) -> None:
    check_devices(None, [region(*devices)], ONE, "net")


@pytest.mark.parametrize(
    ("devices", "wanted", "message"),
    [
        (("cuda:1", "cuda:0"), "cuda:1", "net: what op1 makes (model.py:1) is on cuda:0, but --device is cuda:1"),
        (("cpu", "cuda:0"), "cpu", "net: what op1 makes (model.py:1) is on cuda:0, but --device is cpu"),
        (("cpu", "cpu"), "cuda:1", "net: everything ran on cpu, but --device is cuda:1"),
    ],
)
def test_an_op_on_another_device_is_named(devices: tuple[str, ...], wanted: str, message: str) -> None:
    with pytest.raises(CaptureError) as caught:
        check_devices(None, [region(*devices)], torch.device(wanted), "net")
    assert caught.value.message == message


def test_a_result_on_another_device_is_refused() -> None:
    with pytest.raises(CaptureError, match="its result is on meta, but --device is cpu"):
        check_devices(torch.ones(2, device="meta"), [], torch.device("cpu"), "net")
