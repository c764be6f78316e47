"""What the cache state does to an add of 1 to 64 MiB per tensor, and which bandwidths no memory could deliver.

Bandwidth is bytes read and written by busy time. A row above the measured copy ceiling was served from L2, in part.
Run from the repository root: `python tests/benchmarks/cache_states.py --output results.json`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from harness import DEVICE, POLICY, Report, busy_p50_ns, measured, parser, spin, table

from graphbench.timing.cache import STATES
from graphbench.timing.cupti import CuptiTimer

SIZES_MIB = (1, 2, 4, 8, 16, 32, 64)
COPY_MIB = 2048
ABOVE_CEILING = "above the copy ceiling: served from L2"


def copy_ceiling_gb_s() -> float:
    """Bandwidth of a device-to-device copy many times the size of L2, in GB/s: each byte is read and written."""
    source = torch.randn(COPY_MIB << 18, device=DEVICE)
    target = torch.empty_like(source)
    found = measured(
        CuptiTimer(DEVICE, "cold-read"), "copy", lambda: target.copy_(source), replace(POLICY, cache="cold-read")
    )
    return 2 * source.nbytes / busy_p50_ns(found)


def adds(ceiling_gb_s: float | None) -> list[dict[str, Any]]:
    """One row per size and cache state: median busy time, bandwidth, and what to say of it."""
    rows = []
    timers = [CuptiTimer(DEVICE, state) for state in STATES]
    for size_mib in SIZES_MIB:
        x, y = (torch.randn(size_mib << 18, device=DEVICE) for _ in range(2))
        z = torch.empty_like(x)
        for timer in timers:
            policy = replace(POLICY, cache=timer.cache)
            found = measured(timer, "add", lambda x=x, y=y, z=z: torch.add(x, y, out=z), policy)  # type: ignore[misc]
            gb_s = 3 * x.nbytes / busy_p50_ns(found)
            rows.append(
                {
                    "MiB": size_mib,
                    "cache": timer.cache,
                    "busy us": busy_p50_ns(found) / 1e3,
                    "GB/s": gb_s,
                    "note": ABOVE_CEILING if ceiling_gb_s and gb_s > ceiling_gb_s else "",
                    "warnings": ", ".join(found.warnings),
                }
            )
    return rows


def main() -> None:
    """Measure the ceiling, then every size in every state."""
    chosen = parser(__doc__).parse_args()
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    report = Report(chosen.output)
    spin(1.0)
    ceiling_gb_s = report.part("copy_ceiling_gb_s", copy_ceiling_gb_s)
    rows = report.part("adds", adds, ceiling_gb_s)
    print(f"copy ceiling: {ceiling_gb_s} GB/s")
    if rows:
        print(table(rows))


if __name__ == "__main__":
    main()
