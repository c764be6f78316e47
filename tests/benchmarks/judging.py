"""When a benchmark's result meets its bar: arithmetic on what was measured, without torch, for tests to check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphbench.analysis.stats import quantile

LONG_NS = 10_000.0
FEWEST_COMPARED, FEWEST_LONG = 12, 8
MEDIAN_BAR_PERCENT, WORST_BAR_PERCENT = 1.5, 3.0
DECODE_BAR_US = 2.0
ROWS_BAR_PERCENT = 0.5
RECORDING_BAR = 1.15
DEVICE_BOUND_IDLE_PERCENT = 10.0
"""A plain step in which the device idles for no more than this is bound by it."""

# --- accuracy ---------------------------------------------------------------------------------------------------------


def accuracy(rows: Sequence[Mapping[str, Any]], left_out: Mapping[str, str]) -> dict[str, Any]:
    """Deviations from ncu against the bars, and the bias of short kernels in nanoseconds.

    Args:
        rows: one per kernel, with `ncu us`, `kernels us` and `deviation %`, the last `None` where not compared.
        left_out: kernels that were not compared, and why; a reason that is empty fails the bar.
    """
    compared = [row for row in rows if row["deviation %"] is not None]
    long = {row["kernel"]: row["deviation %"] for row in compared if row["ncu us"] * 1e3 >= LONG_NS}
    bias = {
        row["kernel"]: round((row["kernels us"] - row["ncu us"]) * 1e3, 1)
        for row in compared
        if row["ncu us"] * 1e3 < LONG_NS
    }
    enough = len(compared) >= FEWEST_COMPARED and len(long) >= FEWEST_LONG and all(left_out.values())
    found: dict[str, Any] = {
        "compared": len(compared),
        "of_10_us_and_more": len(long),
        "left_out": dict(left_out),
        "bias_below_10_us_ns": bias,
        "met": False,
    }
    if bias:
        found["median_bias_below_10_us_ns"] = quantile(list(bias.values()), 0.5)
    if long:
        worst = max(long, key=lambda name: abs(long[name]))
        median = quantile([abs(deviation) for deviation in long.values()], 0.5)
        found |= {"median_percent": median, "worst_percent": abs(long[worst]), "worst": worst}
        found["met"] = enough and median <= MEDIAN_BAR_PERCENT and abs(long[worst]) <= WORST_BAR_PERCENT
    return found | _beside_constants(compared)


def _beside_constants(compared: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What each instrument adds to every kernel, by kernels that read the GPU's clock themselves, and the rest.

    The bars are judged with these constants in. Without them what is left tells whether the instruments disagree about
    kernels or only about what starting and ending one costs.
    """
    stamped = [row for row in compared if row.get("stamped us") is not None]
    if not stamped:
        return {}
    excess = {
        instrument: quantile([row[f"{instrument} us"] - row["stamped us"] for row in stamped], 0.5)
        for instrument in ("ncu", "kernels")
    }

    def kernels_alone_us(row: Mapping[str, Any], instrument: str) -> float:
        return float(row[f"{instrument} us"] - row["per call"] * excess[instrument])

    rest = {
        row["kernel"]: 100 * (kernels_alone_us(row, "kernels") / kernels_alone_us(row, "ncu") - 1)
        for row in compared
        if row["ncu us"] * 1e3 >= LONG_NS
    }
    found: dict[str, Any] = {
        "excess_over_stamps_ns": {
            "ncu": round(excess["ncu"] * 1e3, 1),
            "graphbench": round(excess["kernels"] * 1e3, 1),
        }
    }
    if not rest:
        return found
    worst = max(rest, key=lambda name: abs(rest[name]))
    return found | {
        "without_excess": {
            "median_percent": quantile([abs(deviation) for deviation in rest.values()], 0.5),
            "worst_percent": abs(rest[worst]),
            "worst": worst,
        }
    }


def why_left_out(found: Mapping[str, Any], name: str) -> str:
    """Why a kernel was not compared with ncu: the first error found, else kernel counts that differ, else nothing.

    Args:
        found: the report: `not_built`, and of `graphbench` and `ncu` either `figures` and `errors` or one `error`.
        name: of the kernel.
    """
    if name in found["not_built"]:
        return f"not built: {found['not_built'][name]}"
    for instrument in ("graphbench", "ncu"):
        part = found.get(instrument, {})
        error = part.get("error") or part.get("errors", {}).get(name)
        if error:
            return f"{instrument}: {error}"
    mine, ncu = (found.get(part, {}).get("figures", {}).get(name) for part in ("graphbench", "ncu"))
    if mine and ncu:
        return f"{mine['n_kernels']} kernels a call, of which ncu saw {ncu['n_kernels']}"
    return ""


# --- poison -----------------------------------------------------------------------------------------------------------


def as_expected(outcome: Mapping[str, Any], expected: Sequence[str]) -> bool:
    """Whether a disturbed measurement ended as it should.

    Args:
        outcome: `outcome`, and where that is `refused` the `error`, which begins with its class.
        expected: outcomes, and in the place of `refused` the classes that may refuse.
    """
    return refused_by(outcome) in expected if outcome["outcome"] == "refused" else outcome["outcome"] in expected


def refused_by(outcome: Mapping[str, Any]) -> str:
    """The class of the error that refused a measurement, as its text begins with it."""
    return str(outcome["error"]).partition(":")[0]


# --- pressure ---------------------------------------------------------------------------------------------------------


def nothing_lost(part: Mapping[str, Any]) -> bool:
    """Whether every kernel of a session was counted in its row, and no record lost or without a label."""
    return bool(part["exact"]) and not part["unattributed"] and part["dropped"] == 0


def decoded_in_time(part: Mapping[str, Any]) -> bool:
    """Whether decoding took no longer per record than the bar."""
    return bool(part["decode_us_per_record"] <= DECODE_BAR_US)


# --- steps ------------------------------------------------------------------------------------------------------------


def explained(step: Mapping[str, Any]) -> bool:
    """Whether all device work of a step has a row, and the rows add up to what the device was busy."""
    return (
        step["attributed_percent"] == 100
        and not step["unattributed"]
        and step["dropped"] == 0
        and abs(step["rows_against_busy_percent"]) <= ROWS_BAR_PERCENT
    )


def recorded_in_time(step: Mapping[str, Any]) -> bool | None:
    """Whether recording slowed a step down by no more than the bar; `None` for one that the host bounds."""
    if step["idle_plain_percent"] > DEVICE_BOUND_IDLE_PERCENT:
        return None
    return bool(step["recording_ratio"] <= RECORDING_BAR)
