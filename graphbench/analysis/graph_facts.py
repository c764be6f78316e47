"""What a profile's graph says of its vertices beside their times: shares, compiled parts, verdicts, limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.roofline import Limit
from graphbench.analysis.views import NodeRow
from graphbench.records import ProfileRecord


def graph_facts(record: ProfileRecord) -> dict[str, Any]:
    """Of the whole graph: `subject`, when and what with it was measured, and what was in the cache."""
    policy, environment = record.policy, record.environment
    return known(
        {
            "subject": record.subject or None,
            "created": record.created,
            "timer": policy.timer,
            "cache": policy.cache,
            "torch": environment.torch,
            "device": environment.gpu or environment.cpu,
        }
    )


def node_facts(row: NodeRow) -> dict[str, Any]:
    """Of a compute or view node: `share` of all nodes' isolated time and `limit` are fractions of 1.

    `compiled_forward_ns` and `compiled_backward_ns` are its parts of the kernels; `state` is of its isolated
    measurement, `reason` says why that is missing.
    """
    return known(
        {
            "share": row.share,
            "compiled_forward_ns": _time(row.compiled.forward_ns),
            "compiled_backward_ns": _time(row.compiled.backward_ns),
            **_limit(row.limit),
            "state": row.state,
            "reason": row.reason or None,
        }
    )


def kernel_facts(row: FusionRow) -> dict[str, Any]:
    """Of a kernel, all its calls together: `fused_ns` against `eager_ns` and `unfused_ns`, and the `verdict`.

    `limit` is a fraction of 1; `reason` says why anything is missing.
    """
    return known(
        {
            "eager_ns": _time(row.eager.p50_ns if row.eager else None),
            "unfused_ns": _time(row.unfused_ns),
            "fused_ns": _time(row.fused_ns),
            "saved_ns": _time(row.saved_ns),
            "ratio": row.ratio,
            "verdict": row.verdict,
            **_limit(row.limit),
            "state": row.state,
            "reason": "; ".join(row.reasons) or None,
        }
    )


def known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Those that have a value: a format such as GraphML has no word for a missing one."""
    return {name: value for name, value in attributes.items() if value is not None}


def _time(time_ns: float | None) -> float | None:
    return None if time_ns is None else float(time_ns)


def _limit(limit: Limit) -> dict[str, Any]:
    return {"bound": limit.bound, "limit": limit.part}
