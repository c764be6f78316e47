"""Why Inductor's scheduler did not fuse two kernels: what it says while it decides, kept for those that stayed two."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, Final, NamedTuple

from graphbench.errors import first_line
from graphbench.probes.features import why_not
from graphbench.put_back import replaced

OPERATIONS: Final = re.compile(r"op\d+")
REASON_CHARACTERS: Final = 200


class Refusal(NamedTuple):
    """Two kernels, by Inductor's `name:handle`, and the scheduler's last reason not to fuse them."""

    first: str
    second: str
    reason: str


@dataclass(slots=True)
class Refused:
    """What the scheduler refused while one graph was compiled, by the names of its nodes."""

    pairs: dict[tuple[str, str], tuple[str, tuple[Any, ...]]] = field(default_factory=dict)
    kernel_of: dict[str, str] = field(default_factory=dict)

    def emitted(self, kernel: str, operations: Iterable[str]) -> None:
        """A kernel was made of these operations."""
        self.kernel_of.update(dict.fromkeys(operations, kernel))

    def between_kernels(self) -> tuple[Refusal, ...]:
        """The refusals that were not undone by a later fusion, each pair of kernels once.

        The last reason is that of the kernels as they are; earlier ones are of parts that were fused meanwhile.
        """
        found: dict[tuple[str, str], str] = {}
        for names, (reason, args) in self.pairs.items():
            first, second = ({self.kernel_of.get(name) for name in OPERATIONS.findall(side)} for side in names)
            if len(first) == len(second) == 1 and first != second:
                left, right = first.pop(), second.pop()
                if left is not None and right is not None:
                    found[left, right] = first_line(reason % args if args else reason)[:REASON_CHARACTERS]
        return tuple(Refusal(first, second, reason) for (first, second), reason in found.items())


@contextlib.contextmanager
def noting_refusals() -> Iterator[Refused]:
    """Keep the last reason for every pair of scheduler nodes that the calling thread's compile does not fuse.

    Source: `torch._inductor.scheduler.WhyNoFuse`, which the scheduler calls with a format and its arguments for its own
        debug log; a fused node's name is its parts' joined (`op3_op4`). torch 2.11, 2.13 and 2.14. With a
        torch that has no such class no reason is noted.
    """
    from torch._inductor import scheduler

    refused = Refused()
    if why_not("refusals"):
        yield refused
        return
    why: Any = scheduler.WhyNoFuse
    below, thread = why.__call__, get_ident()

    def noted(self: Any, reason: str, *args: Any) -> None:
        below(self, reason, *args)
        if get_ident() == thread:
            refused.pairs.pop((self.name1, self.name2), None)  # the order is that of the last reasons
            refused.pairs[self.name1, self.name2] = (reason, args)

    with replaced(why, "__call__", noted):
        yield refused


def operations_of(announced: Any, is_extern: bool) -> list[str]:
    """Names of the operations that a kernel was announced for.

    Source: `BaseSchedulerNode.get_name`, `ir.Operation.get_operation_name`, torch 2.11, 2.13 and 2.14.
    """
    if is_extern:
        name = getattr(announced, "operation_name", None)
        return [str(name)] if name else []
    return [str(entry.get_name()) for entry in scheduled(announced) if hasattr(entry, "get_name")]


def scheduled(announced: Iterable[Any]) -> list[Any]:
    """What a kernel was announced for, one by one: a combo kernel is announced for what was fused before.

    Source: `SIMDScheduling.codegen_combo_kernel`, `BaseSchedulerNode.get_nodes`, torch 2.11, 2.13 and 2.14.
    """
    return [node for entry in announced for node in (entry.get_nodes() if hasattr(entry, "get_nodes") else [entry])]
