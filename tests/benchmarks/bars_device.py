"""What the benchmarks that need a GPU found, beside their bars. Pure: from their JSON to findings, in order of bars."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.findings import Finding, Found, Gathered, at_least, at_most, gathered, none_of, within
from tests.benchmarks.judging import (
    DECODE_BAR_US,
    FEWEST_COMPARED,
    FEWEST_LONG,
    RECORDING_BAR,
    ROWS_BAR_PERCENT,
    accuracy,
    nothing_lost,
    recorded_in_time,
)

STEP_MODELS = ("resnet50", "gpt2", "llama", "vit_small", "three_breaks")
STEP_OPTIMIZERS = ("fused", "foreach")
REFERENCE_MODELS = ("resnet50", "llama", "vit_small")
MEASURED_MODELS = ("resnet50", "llama")
PRESSURE_PARTS = ("buffers_of_8_bytes", "buffers_of_64_bytes_growing", "200000_kernels", "eight_threads")
POISON_CASES = 15
FEWEST_REPEATED = 50
REPEATED_BAR_PERCENT = 95.0
EFFICIENCY_BAR = 1.5
FACT_BAR_PERCENT = 5.0
SIZE_GROUPS = 6
ATTENTION_ABOVE_LINEAR = 0.4
LINEAR_OFF_ONE = 0.3


def judge_accuracy(found: Found) -> tuple[Finding, ...]:
    """Kernel times against ncu."""
    table = found.get("table")
    if not isinstance(table, list):
        return (Finding("", None, f"no table: {table}"),)
    left_out = {row["kernel"]: "" for row in table if row["deviation %"] is None}
    left_out |= found.get("summary", {}).get("left_out", {})
    judged = accuracy(table, left_out)
    if "worst" not in judged:
        return (Finding("", None, f"no kernel of 10 µs and more among {judged['compared']} compared with ncu"),)
    text = (
        f"median {judged['median_percent']:.2f} %, worst {judged['worst_percent']:.2f} % ({judged['worst']}); "
        f"{judged['compared']} compared, {judged['of_10_us_and_more']} of 10 µs and more"
    )
    without = judged.get("without_excess")
    if judged["met"] or without is None:
        return (Finding(text, judged["met"], "" if judged["met"] else _too_few(judged)),)
    rest = (
        f"what each instrument adds to every kernel left out: median {without['median_percent']:.2f} %, worst "
        f"{without['worst_percent']:.2f} % ({without['worst']})"
    )
    return (Finding(text, False, "; ".join(part for part in (_too_few(judged), rest) if part)),)


def judge_shapes(found: Found) -> tuple[Finding, ...]:
    """One region of BERT in six groups of sizes, and how attention and linear layers grow with these."""
    (region, *others) = found.get("by_size") or [None]
    if region is None:
        return (Finding(), Finding(), Finding())
    counted = f"{found['regions']} region, {found['measured_groups']} of {found['groups']} groups measured"
    untimed = region["untimed_rows"]
    whole = not others and found["regions"] == 1 and found["measured_groups"] == found["groups"] == SIZE_GROUPS
    groups = Finding(counted, whole and not untimed, f"no time: {', '.join(untimed)}" if untimed else "")
    attention, linear = (region["exponents"][name] for name in ("scaled_dot_product_attention", "linear"))
    if len(linear) < 2 or len(attention) < 2 or region["doubts"]:
        why = "; ".join(f"{name}: {doubt}" for name, doubt in region["doubts"].items()) or "exponents are missing"
        return (groups, Finding(why=why), Finding(why=why))
    length = region["sizes"][1]
    above = gathered({"length": attention}, ("length",), lambda grown: grown[length] - linear[length])
    off = gathered({size: {"of": value} for size, value in linear.items()}, tuple(linear), lambda one: one["of"] - 1)
    return (groups, at_least(above, ATTENTION_ABOVE_LINEAR), within(off, LINEAR_OFF_ONE))


def _too_few(judged: dict[str, Any]) -> str:
    if judged["compared"] < FEWEST_COMPARED or judged["of_10_us_and_more"] < FEWEST_LONG:
        return f"fewer than {FEWEST_COMPARED} compared, or {FEWEST_LONG} of 10 µs and more"
    silent = [name for name, reason in judged["left_out"].items() if not reason]
    return f"left out without a reason: {', '.join(silent)}" if silent else ""


def judge_steps(found: Found) -> tuple[Finding, ...]:
    """Whole training steps: attributed, nothing lost, rows against busy time, the cost of recording."""
    steps, names = _by_optimizer(found)
    lost = [name for name in names if steps[name].get("unattributed") or steps[name].get("dropped")]
    checked = sum("dropped" in steps[name] for name in names)
    bound = [name for name in names if "recording_ratio" in steps[name] and recorded_in_time(steps[name]) is not None]
    recording = at_most(gathered(steps, bound, lambda step: step["recording_ratio"]), RECORDING_BAR)
    return (
        at_least(gathered(steps, names, lambda step: step["attributed_percent"]), 100.0, " %", digits=3),
        none_of(lost, checked, "steps with lost records or kernels without a row"),
        within(gathered(steps, names, lambda step: step["rows_against_busy_percent"]), ROWS_BAR_PERCENT, " %", 3),
        recording if bound else Finding("", None, "the host bounds every step"),
    )


def _by_optimizer(found: Found) -> tuple[dict[str, Any], list[str]]:
    steps = {}
    for model in STEP_MODELS:
        part = found.get(model, {"error": "not in the result"})
        for optimizer in STEP_OPTIMIZERS:
            steps[f"{model} {optimizer}"] = part if "error" in part else part.get(optimizer, {"error": "no such step"})
    return steps, list(steps)


def judge_reference_models(found: Found) -> tuple[Finding, ...]:
    """Inference of the three reference models: attributed, owners, rows against busy time, the facts known before."""
    measured = [name for name in REFERENCE_MODELS if "kernels" in found.get(name, {})]
    orphans = [key for name in measured for key in found[name]["kernels_without_owner"]]
    kernels = sum(found[name]["kernels"] for name in measured)
    facts = gathered(found, REFERENCE_MODELS, lambda model: max(_facts(model), key=abs))
    return (
        at_least(gathered(found, REFERENCE_MODELS, _attributed), 100.0, " %", digits=3),
        none_of(orphans, kernels, "kernels without an owner"),
        within(
            gathered(found, REFERENCE_MODELS, lambda model: model["rows_against_busy_percent"]),
            ROWS_BAR_PERCENT,
            " %",
            digits=3,
        ),
        within(facts, FACT_BAR_PERCENT, " %"),
    )


def _attributed(model: Found) -> float:
    """The part attributed; no number where records were lost, since the part of what cannot be known."""
    return float("nan") if model["dropped"] else float(model["attributed_percent"])


def _facts(model: Found) -> list[float]:
    found = [value for key, value in model.items() if key.endswith("_vs_fact_percent")]
    if len(found) != 4:
        raise ValueError(f"{len(found)} figures beside known ones, expected 4")
    return found


def judge_efficiency(found: Found) -> tuple[Finding, ...]:
    """Wall time of `measure()` by the time spent sampling."""
    names = ("transformer",) if "transformer" in found else MEASURED_MODELS
    on_device = gathered(found, MEASURED_MODELS, lambda model: model["wall_s"] / model["device_s"])
    on_cpu = Finding("", None, "a CPU has no device time apart")
    return (
        at_most(gathered(found, names, lambda model: model["wall_s"] / model["sampling_s"]), EFFICIENCY_BAR),
        on_cpu if "transformer" in found else at_most(on_device, EFFICIENCY_BAR),
    )


def judge_repeatability(found: Found) -> tuple[Finding, ...]:
    """Rows of two profiles of one model from two processes."""
    pair = found.get("two_processes", {})
    if "error" in pair or "within_2_percent" not in pair:
        return (Finding("", None, str(pair.get("error", "no two profiles were compared"))),)
    text = f"{pair['within_2_percent']:.1f} % of {pair['rows']} rows"
    if pair["rows"] < FEWEST_REPEATED:
        return (Finding(text, None, f"fewer than {FEWEST_REPEATED} rows of 5 µs and more"),)
    if pair["only_in_one"]:
        return (Finding(text, False, f"only in one of the two: {', '.join(pair['only_in_one'][:3])}"),)
    return (at_least(Gathered({f"{pair['rows']} rows": pair["within_2_percent"]}, {}), REPEATED_BAR_PERCENT, " %", 1),)


def judge_pressure(found: Found) -> tuple[Finding, ...]:
    """Decoding per record, and whether a session of 200,000 kernels or eight threads loses one unnoticed."""
    whole = ("200000_kernels", "eight_threads")
    present = [name for name in PRESSURE_PARTS if name in found and "error" not in found[name]]
    faults = [name for name in present if not (nothing_lost(found[name]) if name in whole else found[name]["met"])]
    counted = none_of(faults, len(present), "sessions that lost a kernel silently")
    if len(present) < len(PRESSURE_PARTS) and counted.met:
        counted = Finding(counted.text, None, "not every part ran")
    per_record = gathered(found, whole[:1], lambda part: part["decode_us_per_record"])
    return at_most(per_record, DECODE_BAR_US, " µs"), counted


def judge_poison(found: Found) -> tuple[Finding, ...]:
    """Disturbed measurements: right, or refused by name."""
    cases = {name: part for name, part in found.items() if isinstance(part, dict) and "afterwards" in part}
    counted = none_of(
        (name for name, part in cases.items() if not part["met"]), len(cases), "disturbances told wrongly"
    )
    if len(cases) < POISON_CASES and counted.met:
        return (Finding(counted.text, None, f"{len(cases)} of {POISON_CASES} cases ran"),)
    return (counted,)
