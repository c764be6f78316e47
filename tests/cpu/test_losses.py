"""What a training step goes backward from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from graphbench.errors import CaptureError, UsageError
from graphbench.models.losses import NamedLoss, auto_loss, inputs_of, loss_named, own_loss, summed


def grad(*shape: int, value: float = 1.0) -> torch.Tensor:
    return torch.full(shape, value, requires_grad=True)


@pytest.mark.parametrize("result", [{"loss": grad(), "logits": grad(2)}, SimpleNamespace(loss=grad(), logits=grad(2))])
def test_the_models_own_loss_is_taken_where_it_has_one(result: object) -> None:
    assert auto_loss(result).numel() == 1
    assert auto_loss(result) is own_loss(result)


def test_without_one_everything_that_has_a_gradient_is_summed() -> None:
    assert auto_loss((grad(2, value=2.0), [grad(3), torch.ones(9)])).item() == 7.0


def test_a_sum_is_asked_for_past_the_models_own_loss() -> None:
    assert summed({"loss": grad(value=5.0), "logits": grad(2)}).item() == 7.0


@pytest.mark.parametrize("loss", [auto_loss, summed])
def test_a_result_without_a_gradient_is_refused(loss: NamedLoss) -> None:
    with pytest.raises(CaptureError, match="no gradient"):
        loss({"logits": torch.ones(2)})


@pytest.mark.parametrize("result", [grad(2), {"logits": grad(2)}, {"loss": None}])
def test_a_model_without_its_own_loss_is_refused_where_that_is_asked_for(result: object) -> None:
    with pytest.raises(CaptureError, match="--loss own: the model's result, a "):
        own_loss(result)


def test_words_name_the_three_losses() -> None:
    assert [loss_named(word) for word in ("auto", "sum", "own")] == [auto_loss, summed, own_loss]


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    path = tmp_path / "losses.py"
    path.write_text(
        "def of_result(result): return result.sum() * 3\n"
        "def of_both(result, inputs): return (result - inputs['y']).pow(2).mean()\n"
        "def raises(result): return result.nothing\n"
        "def vector(result): return result\n"
        "def number(result): return 3.0\n"
        "def detached(result): return result.sum().detach()\n"
        "NAME = 'mse'\n"
    )
    return path


def test_a_function_gets_the_result(losses: Path) -> None:
    assert loss_named(f"{losses}:of_result")(grad(2), {"y": 0}).item() == 6.0


def test_a_function_of_two_arguments_gets_the_inputs_too(losses: Path) -> None:
    assert loss_named(f"{losses}:of_both")(grad(2, value=3.0), {"y": torch.ones(2)}).item() == 4.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raises", "losses.py:raises: it raised AttributeError"),
        ("vector", r"losses.py:vector: it returned a tensor of shape \[2\], expected a scalar tensor that has"),
        ("number", "losses.py:number: it returned a float, expected a scalar"),
        ("detached", "losses.py:detached: it returned a tensor without a gradient, expected"),
    ],
)
def test_what_is_no_loss_says_what_it_is(losses: Path, name: str, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        loss_named(f"{losses}:{name}")(grad(2), {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}:missing", "missing: no such function"),
        ("{}:NAME", "NAME: found str, expected a function"),
        ("gone.py:mine", "loss file gone.py: no such file"),
        ("no_such_module_of_losses:mine", "no_such_module_of_losses: no such module"),
    ],
)
def test_a_function_that_is_not_there_is_a_usage_error(losses: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        loss_named(text.format(losses))


def test_a_function_that_is_not_there_is_met_with_those_that_are(losses: Path) -> None:
    with pytest.raises(UsageError) as caught:
        loss_named(f"{losses}:missing")
    assert (caught.value.hint or "").startswith("functions defined there: ")
    assert "detached" in (caught.value.hint or "").split(": ")[1].split(", ")


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [((1, 2), {}, (1, 2)), ((), {"x": 1}, {"x": 1}), ((1,), {"x": 2}, (1, {"x": 2}))],
)
def test_inputs_are_a_dict_by_name_or_a_tuple(args: tuple[int, ...], kwargs: dict[str, int], expected: object) -> None:
    assert inputs_of(args, kwargs) == expected
