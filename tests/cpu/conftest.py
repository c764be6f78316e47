"""Clean torch before and after every test, and the models that several tests look at, compiled and measured once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from graphbench.models.demo import SmallTransformer
from tests.cpu import campaign
from tests.cpu.stories import Regularised, Story, batch, changes, clean, compiled, quick, world


@pytest.fixture(autouse=True)
def _clean_torch() -> Iterator[None]:
    """No test sees what another captured, and none leaves a hook, a dispatch mode or global state behind."""
    with clean():
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table of the fault campaign, where it ran."""
    if campaign.OUTCOMES:
        terminalreporter.section("fault campaign")
        terminalreporter.write_line("\n".join(campaign.table(campaign.OUTCOMES)))


def _training_story(net: nn.Module, x: torch.Tensor) -> Story:
    """Measure twice while a backward is pending, then run it; the same backward was run before for comparison."""
    model = compiled(net)

    def pending() -> torch.Tensor:
        torch.manual_seed(3)
        loss: torch.Tensor = model(x).pow(2).sum()
        return loss

    def gradients() -> tuple[torch.Tensor, ...]:
        return tuple(parameter.grad.clone() for parameter in net.parameters() if parameter.grad is not None)

    pending().backward()
    expected = gradients()
    for parameter in net.parameters():
        parameter.grad = torch.full_like(parameter, 0.25)
    loss = pending()
    before = world(net, x)
    first, second = quick(), quick()
    found = changes(before, world(net, x))
    net.zero_grad()
    loss.backward()
    return Story(first, second, found, gradients(), expected)


@pytest.fixture(scope="session")
def regularised_training() -> Story:
    """BatchNorm and dropout in training mode."""
    with clean():
        torch.manual_seed(0)
        return _training_story(Regularised(), batch())


@pytest.fixture(scope="session")
def transformer_training() -> Story:
    """The demo's transformer, one block, forward and backward."""
    with clean():
        torch.manual_seed(0)
        net = SmallTransformer(width=32, heads=2, layers=1, vocabulary=64)
        return _training_story(net, torch.arange(16).view(2, 8))


@pytest.fixture(scope="session")
def regularised_inference() -> Story:
    """The same layers in inference mode."""
    with clean(), torch.inference_mode():
        torch.manual_seed(0)
        net, x = Regularised().eval(), batch()
        model = compiled(net)
        model(x)
        before = world(net, x)
        first, second = quick(), quick()
        return Story(first, second, changes(before, world(net, x)))
