"""Which kernels Inductor leaves outside of CUDA graphs, and why: what its scheduler says when it partitions."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Collection, Iterator
from threading import get_ident
from typing import Any, Final

from graphbench.errors import first_line
from graphbench.inductor.refusals import OPERATIONS
from graphbench.put_back import replaced

PARTITION: Final = re.compile(r"partition_(\d+)")
RULE: Final = "should_partition"


@contextlib.contextmanager
def noting_partitions() -> Iterator[dict[str, str]]:
    """Collect by operation why it cannot be in a CUDA graph, while the calling thread compiles; empty without graphs.

    Source: `torch._inductor.scheduler.Scheduler.should_partition`, which returns the reason, or `None`, torch
        2.11, 2.13 and 2.14. Of a torch in which it returns anything else, or that has none, no reason is known.
    """
    from torch._inductor import config, scheduler

    found: dict[str, str] = {}
    below, thread = getattr(scheduler.Scheduler, RULE, None), get_ident()
    if below is None or not config.triton.cudagraphs:
        yield found
        return

    def noted(self: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
        reason = below(self, node, *args, **kwargs)
        if isinstance(reason, str) and get_ident() == thread:
            found.update(dict.fromkeys(OPERATIONS.findall(node.get_name()), first_line(reason)))
        return reason

    with replaced(scheduler.Scheduler, RULE, noted):
        yield found


def lines_outside(source: str, lines: Collection[int]) -> frozenset[int]:
    """Those of a wrapper's lines that are in none of its partitions, nor in a function that one of these calls.

    Source: `torch._inductor.codegen.wrapper.SubgraphPythonWrapperCodegen`: partitions are the module's functions
        `partition_0`, `partition_1`, ..., and what is between them stays in `Runner.call`. torch 2.11, 2.13 and 2.14.
    """
    functions = {entry.name: entry for entry in ast.parse(source).body if isinstance(entry, ast.FunctionDef)}
    waiting = [name for name in functions if PARTITION.fullmatch(name)]
    captured: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in captured:
            captured.add(name)
            called = {node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)}
            waiting += sorted(called & functions.keys())
    spans = [range(functions[name].lineno, (functions[name].end_lineno or 0) + 1) for name in captured]
    return frozenset(line for line in lines if not any(line in span for span in spans))
