"""What the benchmarks that any machine runs found, beside their bars. Pure: from JSON to findings, in order of bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import median
from typing import Any

from tests.benchmarks.findings import Finding, Found, Gathered, at_least, at_most, below, gathered, none_of, within
from tests.benchmarks.judging import DECODE_BAR_US, ROWS_BAR_PERCENT

IDLE_BAR, COMPILE_BAR = 1.02, 1.15
COMPILE_PAIRS = 5
RECORDED_MODELS = 24
START_BAR_S, SHOW_BAR_S, DIFF_BAR_S = 0.3, 2.0, 5.0
NODES = 10_000
FEWEST_RECORDS = 600_000
PROFILES = ("nothing_shared", "80_percent_shared")
LONG_REGION_MS, KERNELS_BAR_PERCENT = 5.0, 95.0
SMALL_MODELS = ("mlp", "transformer")
SUITE_MODELS = (
    *("resnet", "vit", "swin", "convnext", "bert", "gpt2", "llama", "t5"),
    *("mixture_of_experts", "unet", "lstm", "detection"),
)
SUPERVISION_BAR_PERCENT = 2.0
FEWEST_PAIRS = 5


def judge_idle(found: Found) -> tuple[Finding, ...]:
    """A step that is not measured, against Inductor's, where Inductor against itself differs by less than the bar."""
    ours = at_most(gathered(found, ("idle",), itemgetter("ratio")), IDLE_BAR, digits=3)
    control = found.get("idle", {}).get("control_ratio")
    if ours.met is None or control is None:
        return (Finding(ours.text, None, ours.why or "Inductor was not timed against itself"),)
    text = f"{ours.text}; Inductor against itself {control:.3f}"
    if abs(control - 1) > IDLE_BAR - 1:
        return (Finding(text, None, "the machine cannot tell: equal steps differ by more than the bar"),)
    return (Finding(text, ours.met, ours.why),)


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
    show, diff = (gathered(found, PROFILES, itemgetter(f"{name}_s")) for name in ("show", "diff"))
    return begin, below(show, SHOW_BAR_S, " s"), below(diff, DIFF_BAR_S, " s")


def judge_conservation(found: Found) -> tuple[Finding, ...]:
    """Attributed, owned, rows against their runs, the kernels' part of long regions on the CPU, equal units."""
    models = _profiles(found, SMALL_MODELS)
    shares = {
        name: run["kernels_percent"]
        for name, run in models.runs.items()
        if run["kernels_percent"] is not None and run["wall_ms"] >= LONG_REGION_MS
    }
    part = at_least(Gathered(shares, models.missing), KERNELS_BAR_PERCENT, " %", digits=1)
    if not shares and not models.missing:
        on_device = not any(run["kernels_percent"] is not None for run in models.runs.values())
        part = Finding("", None, "needs a CPU run" if on_device else f"no region takes {LONG_REGION_MS:.0f} ms")
    return (*_conserved(models), part, _measured_once(models))


def judge_suite(found: Found) -> tuple[Finding, ...]:
    """As `judge_conservation` for the model suite in one mode, with every fault of its maps."""
    models = _profiles(found, SUITE_MODELS)
    faults = [f"{name}: {fault}" for name, part in models.parts.items() for fault in part["faults"]]
    mapped = none_of(faults, len(models.parts), "faults over the models")
    if models.missing and mapped.met:
        mapped = Finding(mapped.text, None, _told(models.missing))
    return (*_conserved(models), mapped, _measured_once(models))


@dataclass(frozen=True, slots=True)
class _Profiles:
    parts: dict[str, Any]
    runs: dict[str, Any]
    missing: dict[str, str]


def _profiles(found: Found, names: Sequence[str]) -> _Profiles:
    parts, missing = {}, {}
    for name in names:
        part = found.get(name, {"error": "not in the result"})
        if "error" in part:
            missing[name] = str(part["error"]).partition("\n")[0]
        elif part["regions_not_run"] or part["not_measured"]:
            missing[name] = ", ".join([*part["regions_not_run"], *part["not_measured"]][:3])
        else:
            parts[name] = part
    runs = {f"{name} {run['run']}": run for name, part in parts.items() for run in part["runs"]}
    return _Profiles(parts, runs, missing)


def _conserved(models: _Profiles) -> tuple[Finding, Finding, Finding]:
    on_device = {name: run for name, run in models.runs.items() if run["attributed_percent"] is not None}
    parts = {name: math.nan if run["dropped"] else run["attributed_percent"] for name, run in on_device.items()}
    attributed = at_least(Gathered(parts, models.missing), 100.0, " %", digits=3)
    if models.runs and not on_device:
        attributed = Finding("", None, "on the CPU nothing is unattributed: what no kernel claims is wrapper")
    owned = Gathered({name: _number(part["owned_time_percent"]) for name, part in models.parts.items()}, models.missing)
    sums = {name: _number(run["rows_against_total_percent"]) for name, run in models.runs.items()}
    return (
        attributed,
        at_least(owned, 100.0, " %", digits=3),
        within(Gathered(sums, models.missing), ROWS_BAR_PERCENT, " %", digits=3),
    )


def _measured_once(models: _Profiles) -> Finding:
    units = {name: part["equal_units"] for name, part in models.parts.items()}
    wrong = [
        f"{name}: {unit}"
        for name, one in units.items()
        for unit in (*one["measured_again"], *one["in_place_of_another"])
    ]
    counted = none_of(wrong, sum(one["groups"] for one in units.values()), "groups of equal nodes")
    if models.missing and counted.met:
        return Finding(counted.text, None, _told(models.missing))
    return counted


def _number(value: float | None) -> float:
    """A missing figure is no number, which meets no bar."""
    return math.nan if value is None else value


def _told(missing: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in missing.items())


def judge_supervision(found: Found) -> tuple[Finding, ...]:
    """What supervisor and journal add to the wall time of `graphbench run`, together."""
    pairs, journal = found.get("pairs", []), found.get("journal")
    if len(pairs) < FEWEST_PAIRS or not journal:
        return (Finding("", None, f"{len(pairs)} pairs of {FEWEST_PAIRS}, {'a' if journal else 'no'} watched journal"),)
    if not journal["entries"]:
        return (Finding("", None, "the watched run wrote no journal"),)
    supervisor = 100 * (median(pair["supervised_s"] / pair["alone_s"] for pair in pairs) - 1)
    written = 100 * journal["journal_s"] / journal["wall_s"]
    both = max(supervisor, 0.0) + written  # a supervisor makes nothing faster: less is noise, and no credit
    text = f"{both:.2f} % (supervisor {supervisor:.2f} %, journal {written:.2f} %; {len(pairs)} pairs)"
    return (Finding(text, both < SUPERVISION_BAR_PERCENT),)


def judge_decoding(found: Found) -> tuple[Finding, ...]:
    """Decoding per record, of buffers made up; where a record was lost the time means nothing."""
    if found.get("lost") or found.get("records", 0) < FEWEST_RECORDS:
        return (Finding("", None, f"{found.get('records', 0)} records, {found.get('lost')} launches lost"),)
    figure = gathered({"median": found}, ("median",), itemgetter("decode_us_per_record"))
    return (at_most(figure, DECODE_BAR_US, " µs"),)


def judge_memory(found: Found) -> tuple[Finding, ...]:
    """Peak memory of `measure()` by its bound, per model: parts of the result, or of its `models`."""
    models = found.get("models", found)
    names = [name for name, part in models.items() if isinstance(part, dict) and {"peak_bytes", "error"} & part.keys()]
    peaks = gathered(models, names, lambda model: model["peak_bytes"] / _positive(model["bound_bytes"]))
    return (at_most(peaks, 1.0, " × the bound", digits=3),)


def _positive(n_bytes: float) -> float:
    if not n_bytes > 0 or math.isinf(n_bytes):
        raise ValueError(f"a bound of {n_bytes} bytes is none")
    return n_bytes
