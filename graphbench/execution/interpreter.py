"""The eager side: a region's Dynamo graph, node by node, each call handed to a visitor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from graphbench.errors import CaptureError, GraphbenchError, first_line

NodeVisit = Callable[[fx.Node, tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]


class StreamingInterpreter(fx.Interpreter):
    """Runs a graph and hands every call to `visit(node, args, kwargs, call)`, which must return `call()`'s result.

    Inputs, attributes and the output are not visited. Values are dropped after their last use.

    Source: `torch.fx.Interpreter.run_node`, torch 2.13.
    """

    def __init__(self, gm: fx.GraphModule, visit: NodeVisit) -> None:
        super().__init__(gm)
        self._visit = visit
        self.extra_traceback = False

    def run_node(self, n: fx.Node) -> Any:
        """Run one node through the visitor."""
        if n.op in ("placeholder", "get_attr", "output"):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return self._visit(n, args, kwargs, lambda: getattr(self, n.op)(n.target, args, kwargs))


def run_eager(gm: fx.GraphModule, args: list[Any], visit: NodeVisit) -> Any:
    """Run a region's graph eagerly.

    Raises:
        CaptureError: a node raised; its name is the error's subject.
    """
    at: list[str] = []

    def note(node: fx.Node, node_args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
        at[:] = [node.name]
        return visit(node, node_args, kwargs, call)

    try:
        return StreamingInterpreter(gm, note).run(*args)
    except GraphbenchError:
        raise
    except Exception as error:  # the user's own ops: whatever one raises, the message names its node
        where = at[0] if at else "the inputs"
        raise CaptureError(
            f"eager replay stopped at {where}: {type(error).__name__}: {first_line(error)}", subject=where
        ) from error
