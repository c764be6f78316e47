"""What Triton's autotuner chose for a generated kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphbench.device_records import TritonConfig
from graphbench.probes.features import why_not


def triton_config(function: Callable[..., Any]) -> TritonConfig | None:
    """The configuration in use of a generated Triton kernel that has run; `None` for any other function.

    Source: `torch._inductor.runtime.triton_heuristics.CachingAutotuner.launchers`, of which one is left once the kernel
        has run, with `config` (a `triton.Config`), `n_regs`, `n_spills` and `shared`, torch 2.11, 2.13 and 2.14.
    """
    launchers: Any = getattr(getattr(function, "__self__", None), "launchers", None)
    if not isinstance(launchers, list) or len(launchers) != 1 or why_not("Triton"):
        return None
    launcher = launchers[0]
    config: Any = getattr(launcher, "config", None)
    if config is None:
        return None
    return TritonConfig(
        num_warps=int(config.num_warps),
        num_stages=int(config.num_stages),
        blocks=tuple((name, int(value)) for name, value in config.kwargs.items() if isinstance(value, int)),
        registers=_number(launcher, "n_regs"),
        spills=_number(launcher, "n_spills"),
        shared_bytes=_number(launcher, "shared"),
    )


def _number(launcher: Any, name: str) -> int | None:
    value = getattr(launcher, name, None)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None
