"""What becomes of calls of ops that are not torch's own: benchmarked as they say themselves, repeated, or neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from graphbench.analysis.warning_kinds import OWN_BENCH
from graphbench.bench_protocol import BENCH
from graphbench.isolate.custom_ops import CustomBench, bench_of, is_foreign, op_name, opaque_argument, users_function
from graphbench.measurements import Comparison, Measurement
from graphbench.records import BY_HAND


@dataclass(frozen=True, slots=True)
class CustomCall:
    """How a call's op stands to being repeated.

    `bench` is how it wants to be benchmarked, `is_foreign` whether it is not torch's own, `opaque` the type of an
    argument that has a state of its own.
    """

    op: str
    is_foreign: bool
    bench: CustomBench | None
    opaque: str | None = None

    @classmethod
    def of(cls, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], identity: object) -> CustomCall:
        """Of a call; one whose identity is not its function calls a kernel of Inductor's, or an operator."""
        if identity is not function and not isinstance(function, torch._ops.OpOverload):
            return cls("", False, None)
        op, foreign = op_name(users_function(function, args, kwargs)), is_foreign(function, args)
        opaque = opaque_argument(args, kwargs) if foreign else None
        return cls(op, foreign, bench_of(function, args, kwargs), opaque)

    @property
    def may_differ(self) -> bool:
        """Whether it may do something else when it is repeated, and nothing says how to measure it then."""
        return self.is_foreign and self.bench is None


@dataclass(slots=True)
class ByHand:
    """The calls that have to be benchmarked by hand; `stateful` are ops that gave other results when repeated."""

    stateful: dict[str, str] = field(default_factory=dict)

    def untried(self, call: CustomCall) -> Measurement | None:
        """A measurement for a call of which it is known that it cannot be repeated, or `None`."""
        if not call.may_differ:
            return None
        if call.opaque is not None:
            return _by_hand(call, f"its {call.opaque} argument may change with every call, and is not copied")
        return _by_hand(call, self.stateful[call.op]) if call.op in self.stateful else None

    def differing(self, call: CustomCall, fidelity: Comparison) -> Measurement | None:
        """A measurement for a call that was repeated on equal arguments, where that gave another result."""
        if fidelity.equal is not False or not call.may_differ:
            return None
        size = fidelity.note or f"by {fidelity.max_abs:.1e}"
        self.stateful[call.op] = f"repeated with equal arguments it gives another result ({size})"
        return _by_hand(call, self.stateful[call.op])


def refused(call: CustomCall, message: str) -> Measurement:
    """What is said of a call that raised on its copies, or could not get any."""
    if call.bench is not None:
        return Measurement(status="failed", reason=f"{BENCH} of {call.bench.name}: {message}")
    return _by_hand(call, message) if call.is_foreign else Measurement(status="failed", reason=message)


def without_backward(call: CustomCall, reason: str) -> Measurement:
    """What is said of a call whose results have no backward: `reason`, unless its op was asked to make them."""
    if call.bench is None:
        return Measurement(status="skipped", reason=reason)
    return _by_hand(call, f"what {BENCH} of {call.bench.name} makes has no backward")


def stamped(call: CustomCall, measurement: Measurement) -> Measurement:
    """The measurement, which says so where not the call itself was repeated."""
    if call.bench is None or measurement.status != "ok":
        return measurement
    return replace(measurement, warnings=(*measurement.warnings, OWN_BENCH))


def _by_hand(call: CustomCall, why: str) -> Measurement:
    return Measurement(status="skipped", reason=f"{BY_HAND}: {call.op}: {why}")
