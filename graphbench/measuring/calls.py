"""One call to isolate: what is called, what it has to do, and what was found of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from graphbench.condition_records import Policy
from graphbench.isolate.costs import Span, counting
from graphbench.measurements import Measurement, ValuePolicy, Work
from graphbench.measuring.custom_calls import CustomCall
from graphbench.measuring.kept_values import body_indexes
from graphbench.tensors import shares_storage, tensor_version, tensors_of

UNDEFINED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}
UNCOUNTED = "a higher-order op: what its body does is not counted"


@dataclass(frozen=True, slots=True)
class Call:
    """A call to isolate. `identity` is its target, for equal units; `state` whatever else changes its cost.

    `synthetic`: its arguments hold random values, or descend from such, whatever the policy says. `result_bytes` is
    what its results will take, as far as that is known before the call. `counted`: what it has to do is counted while
    the real call is made. `keeps_values`: drawn ones might index what is not there.
    """

    row: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    identity: object
    state: tuple[object, ...] = ()
    written: tuple[torch.Tensor, ...] = ()
    with_grad: bool = False
    synthetic: bool = False
    result_bytes: int = 0
    counted: bool = True
    keeps_values: bool = False

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among its arguments."""
        return tensors_of((self.args, dict(self.kwargs)))

    @property
    def custom(self) -> CustomCall:
        """How its op stands to being repeated."""
        return CustomCall.of(self.function, self.args, self.kwargs, self.identity)

    @property
    def is_undefined(self) -> bool:
        """Whether its result holds whatever was there before."""
        function = self.function
        names = {getattr(function, "__name__", ""), getattr(function, "_opname", ""), str(self.identity)}
        return not UNDEFINED.isdisjoint(names)

    def values(self, policy: Policy) -> ValuePolicy:
        """What its copies hold. Of an op that is not torch's own nobody knows which values it bears."""
        kept = self.keeps_values or self.custom.is_foreign or body_indexes(self.args)
        return "captured" if kept else policy.values


@dataclass(frozen=True, slots=True)
class Counted:
    """What a call had to do, and of which memory; `None` and nothing where it was not counted."""

    work: Work | None = None
    spans: tuple[Span, ...] = ()
    scattered_bytes: int = 0


@dataclass(slots=True)
class Verdict:
    """What isolating a call found. `is_view` and `has_effect` are `None` when its trial failed."""

    measurement: Measurement
    is_view: bool | None = None
    has_effect: bool | None = None
    counted: Counted = field(default_factory=Counted)


def not_isolated(call: Call, real: Callable[[], Any], reason: str) -> tuple[Any, Verdict]:
    """The real call's result, and whether that is a view, which no trial has found out."""
    before = [(tensor, tensor_version(tensor)) for tensor in call.tensors]
    result, counted = counted_call(call, real)
    outputs, written = tensors_of(result), any(tensor_version(tensor) != version for tensor, version in before)
    is_view = bool(outputs) and not written and all(shares_storage(output, call.tensors) for output in outputs)
    verdict = Verdict(
        Measurement(status="skipped", reason=reason, work=counted.work),
        is_view=is_view,
        has_effect=bool(outputs) or written or bool(call.written),
        counted=counted,
    )
    return result, verdict


def counted_call(call: Call, real: Callable[[], Any]) -> tuple[Any, Counted]:
    """The real call's result, and what it had to do. Bodies of higher-order ops are not looked into."""
    if not call.counted:
        return real(), Counted()
    if isinstance(call.function, torch._ops.HigherOrderOperator):
        return real(), Counted(Work(reason=UNCOUNTED))
    with counting() as counter:
        result = real()
    return result, Counted(counter.work(result), tuple(counter.spans(result)), counter.scattered_bytes)
