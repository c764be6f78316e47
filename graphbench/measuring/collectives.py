"""Collectives wait for other ranks; they are never isolated."""

from __future__ import annotations

COLLECTIVE = "a collective: alone, ranks would not call it equally often"
COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d", "_dtensor", "symm_mem")


def is_collective(function: object) -> bool:
    """Whether a call waits for other ranks, which would wait for ever if each timed it in its own number of samples.

    Source: `torch.ops._c10d_functional` and its kin, whose overloads have a `namespace` and whose packets a
        `_qualified_op_name`; `torch.distributed._functional_collectives`, torch 2.13.
    """
    packet = str(getattr(function, "_qualified_op_name", ""))
    namespace = getattr(function, "namespace", None) or packet.split("::")[0]
    module = str(getattr(function, "__module__", "") or "")
    return namespace in COLLECTIVES or module.startswith("torch.distributed")
