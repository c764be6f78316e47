"""What the benchmarks that any machine runs found, beside their bars. Pure: from JSON to findings, in order of bars."""

from __future__ import annotations

import math
from statistics import median

from tests.benchmarks.findings import Finding, Found, Gathered, at_least, at_most, below, gathered, none_of, within
from tests.benchmarks.judging import ROWS_BAR_PERCENT

IDLE_BAR, COMPILE_BAR = 1.02, 1.15
COMPILE_PAIRS = 5
RECORDED_MODELS = 24
START_BAR_S, SHOW_BAR_S = 0.3, 2.0
NODES = 10_000
PROFILES = ("nothing_shared", "80_percent_shared")
LONG_REGION_MS, KERNELS_BAR_PERCENT = 5.0, 95.0
SUPERVISION_BAR = 1.02
FEWEST_PAIRS = 5


def judge_idle(found: Found) -> tuple[Finding, ...]:
    """A step that is not measured, against Inductor's."""
    return (
        at_most(
            gathered(found, ("idle",), lambda part: part["graphbench_us"] / part["inductor_us"]), IDLE_BAR, digits=3
        ),
    )


def judge_compile(found: Found) -> tuple[Finding, ...]:
    """CPU time of compiling, cold; what a second process builds."""
    part = found.get("compile", {"error": "not in the result"})
    if "error" in part:
        return (Finding("", None, part["error"]),) * 2
    ratios = [pair["graphbench"]["cpu_s"] / pair["inductor"]["cpu_s"] for pair in part["pairs"]]
    if len(ratios) < COMPILE_PAIRS:
        ratio = Finding("", None, f"{len(ratios)} pairs of {COMPILE_PAIRS}")
    else:
        ratio = at_most(Gathered({f"median of {len(ratios)} pairs": median(ratios)}, {}), COMPILE_BAR)
    first, second = part["pairs"][0]["graphbench"]["kernels_built"], part["second_process"]["kernels_built"]
    if not first:
        return ratio, Finding("", None, "the first process built no kernel, so a second one has none to build again")
    again = Finding(f"{second:.0f}, of {first:.0f} that the first process built", second == 0)
    return ratio, again


def judge_provenance(found: Found) -> tuple[Finding, ...]:
    """Owners and fates of the recorded suite: kernels, nodes, post-grad nodes."""
    models = {name: part for name, part in found.items() if isinstance(part, dict) and "kernels" in part}
    findings = (
        _counted(models, "unowned", "kernels", "kernels without an owner"),
        _counted(models, "unknown", "nodes", "nodes without a fate"),
    )
    if len(models) == RECORDED_MODELS:
        return findings
    why = f"{len(models)} of {RECORDED_MODELS} recordings"
    return tuple(Finding(one.text, one.met and None, one.why or why) for one in findings)


def _counted(models: Found, faults: str, of: str, what: str) -> Finding:
    wrong = [name for name, part in models.items() for _ in range(part[faults])]
    return none_of(wrong, sum(part[of] for part in models.values()), what)


def judge_show(found: Found) -> tuple[Finding, ...]:
    """Start of `show` and `diff`, and a profile of 10,000 nodes."""
    start = found.get("start", {"error": "not in the result"})
    if "error" in start:
        begin = Finding("", None, str(start["error"]))
    else:
        begin = below(gathered(start, ("show_s", "diff_s"), float), START_BAR_S, " s")
        if start["torch_imported"]:
            begin = Finding(begin.text, False, f"torch was imported by {', '.join(start['torch_imported'])}")
    if found.get("nodes") != NODES:
        return (begin, *(Finding("", None, f"{found.get('nodes')} nodes, expected {NODES}"),) * 2)
    times = (gathered(found, PROFILES, lambda profile, key=f"{name}_s": profile[key]) for name in ("show", "diff"))
    return (begin, *(below(figures, SHOW_BAR_S, " s") for figures in times))


def judge_conservation(found: Found) -> tuple[Finding, ...]:
    """Rows against their runs; on the CPU the kernels' part of long regions; equal units; nothing lost."""
    models = {name: part for name, part in found.items() if isinstance(part, dict) and "runs" in part}
    broken = [f"{name}: {part['error']}" for name, part in found.items() if isinstance(part, dict) and "error" in part]
    missing = dict(entry.split(": ", 1) for entry in broken)
    runs = {f"{name} {run['run']}": run for name, part in models.items() for run in part["runs"]}
    sums = Gathered({name: run["rows_against_total_percent"] for name, run in runs.items()}, missing)
    attributed = Gathered({name: run["attributed_percent"] for name, run in runs.items()}, missing)
    shares = {
        name: run["kernels_percent"]
        for name, run in runs.items()
        if run["kernels_percent"] is not None and run["wall_ms"] >= LONG_REGION_MS
    }
    owned = Gathered({name: part["owned_time_percent"] for name, part in models.items()}, missing)
    twice = [f"{name}: {unit}" for name, part in models.items() for unit in part["equal_units"]["measured_again"]]
    groups = sum(part["equal_units"]["groups"] for part in models.values())
    return (
        at_least(attributed, 100.0, " %", digits=3),
        at_least(owned, 100.0, " %", digits=3),
        within(sums, ROWS_BAR_PERCENT, " %", digits=3),
        at_least(Gathered(shares, missing), KERNELS_BAR_PERCENT, " %", digits=1),
        none_of(twice, groups, "groups of equal units measured more than once"),
    )


def judge_supervision(found: Found) -> tuple[Finding, ...]:
    """Wall time of `graphbench run` with its supervisor by that without."""
    pairs = found.get("pairs", [])
    if len(pairs) < FEWEST_PAIRS:
        return (Finding("", None, f"{len(pairs)} pairs of {FEWEST_PAIRS}: {found.get('error', 'no reason given')}"),)
    ratio = median(pair["supervised_s"] / pair["alone_s"] for pair in pairs)
    return (at_most(Gathered({f"median of {len(pairs)} pairs": ratio}, {}), SUPERVISION_BAR, digits=3),)


def judge_memory(found: Found) -> tuple[Finding, ...]:
    """Peak memory of `measure()` by its bound, per model."""
    models = found.get("models", {})
    peaks = gathered(models, tuple(models), lambda model: model["peak_bytes"] / _positive(model["bound_bytes"]))
    return (at_most(peaks, 1.0, " × the bound", digits=3),)


def _positive(n_bytes: float) -> float:
    if not n_bytes > 0 or math.isinf(n_bytes):
        raise ValueError(f"a bound of {n_bytes} bytes is none")
    return n_bytes
