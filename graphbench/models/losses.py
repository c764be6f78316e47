"""What a training step goes backward from: the model's own loss, a sum of its outputs, or a function of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graphbench.errors import CaptureError, raised_by
from graphbench.models.functions import FunctionSource

if TYPE_CHECKING:
    import torch

FLAG: Final = "--loss"
AUTO: Final = "auto"
SUM: Final = "sum"
OWN: Final = "own"
Loss = Callable[[Any, Any], "torch.Tensor"]
"""Makes a scalar of a model's result and of what the model was called with."""


def loss_named(text: str) -> Loss:
    """The loss of `--loss`: `auto`, `sum`, `own`, or `MODULE:FUNCTION`, which is imported.

    Raises:
        UsageError: none of these, or no such function.
        CaptureError: importing it raised.
    """
    known: Mapping[str, Loss] = {AUTO: auto_loss, SUM: summed, OWN: own_loss}
    return known[text] if text in known else NamedLoss.load(text)


def function_source(text: str) -> FunctionSource | None:
    """Where the function of `--loss` is, `None` for one of the words.

    Raises:
        UsageError: neither a word nor `MODULE:FUNCTION`.
    """
    if text in (AUTO, SUM, OWN):
        return None
    return FunctionSource.parse(FLAG, text, words=f"{AUTO}, {SUM}, {OWN} or ", example="losses.py:mine")


def inputs_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a loss function gets as its second argument: a dict by name, or a tuple where nothing has a name."""
    return dict(kwargs) if kwargs and not args else tuple(args) if not kwargs else (*args, dict(kwargs))


def auto_loss(result: Any, inputs: Any = None) -> torch.Tensor:
    """The loss that the model computed itself (`result.loss`), else the sum of its outputs.

    Raises:
        CaptureError: nothing has a gradient.
    """
    own = _own(result)
    return summed(result) if own is None else own


def own_loss(result: Any, inputs: Any = None) -> torch.Tensor:
    """The loss that the model computed itself.

    Raises:
        CaptureError: it computed none.
    """
    own = _own(result)
    if own is None:
        raise CaptureError(
            f"{FLAG} {OWN}: the model's result, a {type(result).__name__}, has no loss",
            hint="give it what it computes one from, as labels; or name a function, --loss my_package.losses:mine",
            subject=FLAG,
        )
    return own


def summed(result: Any, inputs: Any = None) -> torch.Tensor:
    """The sum of everything in a result that has a gradient.

    Raises:
        CaptureError: nothing has one.
    """
    import torch

    from graphbench.tensors import tensors_of

    terms = [leaf.sum() for leaf in tensors_of(result) if leaf.requires_grad]
    if not terms:
        raise CaptureError(
            "the model's outputs have no gradient: there is no backward to measure", hint="leave out --train"
        )
    return torch.stack([term.float() for term in terms]).sum() if len(terms) > 1 else terms[0]


@dataclass(frozen=True, slots=True)
class NamedLoss:
    """A function of the user's, called with the model's result and, if it takes a second argument, the inputs."""

    text: str
    function: Callable[..., Any]
    takes_inputs: bool

    @classmethod
    def load(cls, text: str) -> NamedLoss:
        """Import it.

        Raises:
            UsageError: no such function.
            CaptureError: importing it raised.
        """
        function = FunctionSource.parse(FLAG, text).load("loss")
        return cls(text, function, _takes_two(function))

    def __call__(self, result: Any, inputs: Any = None) -> torch.Tensor:
        """The loss.

        Raises:
            CaptureError: it raised, or what it returned is no scalar tensor with a gradient.
        """
        with raised_by(f"{FLAG} {self.text}: it", hint="--debug shows the traceback", subject=FLAG):
            found = self.function(result, inputs) if self.takes_inputs else self.function(result)
        problem = _problem(found)
        if problem:
            raise CaptureError(
                f"{FLAG} {self.text}: it returned {problem}, expected a scalar tensor that has a gradient",
                hint="it gets what the model returns; reduce with .mean() or .sum(), and do not detach",
                subject=FLAG,
            )
        loss: torch.Tensor = found
        return loss


def _own(result: Any) -> torch.Tensor | None:
    import torch

    own = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    return own if isinstance(own, torch.Tensor) else None


def _takes_two(function: Callable[..., Any]) -> bool:
    """Whether two arguments can be given by position; what has no signature gets the result alone."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return False
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(entry.kind in by_position for entry in signature.parameters.values()) > 1


def _problem(found: object) -> str:
    """What is wrong with a loss, "" for nothing."""
    import torch

    if not isinstance(found, torch.Tensor):
        return f"a {type(found).__name__}"
    if found.numel() != 1:
        return f"a tensor of shape {list(found.shape)}"
    return "" if found.requires_grad else "a tensor without a gradient"
