"""Kernel times of the CUPTI timer against ncu's `gpu__time_duration`, with what other instruments say beside them.

Bars (DESIGN section 8), kernels of 10 µs and more: within 1.5 % in the median, 3 % at worst; at least 12 kernels
compared, 8 of them of 10 µs and more, and a reason for every one that is left out. ncu sees kernels only, so it is
compared with `kernel_ns`, without the copies and fills of the same call. Every call of every instrument finds the L2
cleared by reading (by writing under `triton.testing.do_bench`), so that what an instrument itself leaves in it makes no
difference; clocks are not controlled. Kernels named `stamped` also tell their own duration, from the GPU's clock: it
lacks only what passes before the first block starts and after the last one ends.
Run from the repository root: `python tests/benchmarks/accuracy.py --output results.json`.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from children import ChildError, child, find_ncu
from harness import DEVICE, Report, busy_p50_ns, each, measured, parser, spin, table
from judging import accuracy, why_left_out
from known_kernels import NOT_IN_NCU, Function, Stamped, build

from graphbench.analysis.stats import quantile
from graphbench.timing.cache import L2
from graphbench.timing.cupti import CuptiTimer

NCU_CALLS = 12
EVENT_CALLS = 100
PROFILER_CALLS = 30
SPIN_S = 1.0
NCU_LIMIT_S = 150.0
PROFILER_LIMIT_S = 90.0
METRIC = "gpu__time_duration.sum"
MARKER = "spin_kernel"
"""The kernel of `torch.cuda._sleep`, which tells one kernel's calls from the next one's."""
NS_PER_UNIT = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}


def graphbench_figures(calls: dict[str, Function]) -> dict[str, Any]:
    """Per kernel the medians in nanoseconds, the kernels per call, and their names."""
    timer = CuptiTimer(DEVICE, "cold-read")

    def figure(name: str, function: Function) -> dict[str, Any]:
        found = measured(timer, name, function)
        assert found.samples is not None
        assert found.samples.kernel_ns is not None
        return {
            "busy_ns": busy_p50_ns(found),
            "kernel_ns": quantile(found.samples.kernel_ns, 0.5),
            "n_kernels": sorted(set(found.samples.n_kernels or ())),
            "names": [kernel.name for kernel in found.device_kernels],
            "warnings": list(found.warnings),
            "sm_mhz": [state.sm_mhz for state in found.clocks],
        }

    return _with_errors(calls, figure)


def event_figures(calls: dict[str, Function]) -> dict[str, Any]:
    """Per kernel the median in nanoseconds between two CUDA events around each call."""
    l2 = L2(DEVICE, "cold-read")

    def figure(_: str, function: Function) -> float:
        times = []
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _call in range(EVENT_CALLS):
            l2.clear()
            torch.cuda.synchronize()
            start.record()
            function()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e6)
        return quantile(times, 0.5)

    return _with_errors(calls, figure)


def do_bench_figures(calls: dict[str, Function]) -> dict[str, Any]:
    """Per kernel the median in nanoseconds by `triton.testing.do_bench` (triton 3.6), its cache cleared by writing."""
    from triton.testing import do_bench

    return _with_errors(calls, lambda _, function: do_bench(function, warmup=10, rep=50, return_mode="median") * 1e6)


def profiler_figures(calls: dict[str, Function]) -> dict[str, Any]:
    """Per kernel the median in nanoseconds of the device time of a call, by torch.profiler.

    Source: `_KinetoEvent.device_type`, `.start_ns`, `.duration_ns` (torch 2.11).
    """
    from torch.profiler import ProfilerActivity, profile

    l2 = L2(DEVICE, "cold-read")

    def durations(function: Function) -> list[float]:
        with profile(activities=[ProfilerActivity.CUDA]) as session:
            for _call in range(PROFILER_CALLS):
                l2.clear()
                torch.cuda.synchronize()
                function()
                torch.cuda.synchronize()
        events = [
            (event.start_ns(), event.duration_ns())
            for event in session.profiler.kineto_results.events()
            if event.device_type().name == "CUDA" and not event.is_user_annotation()
        ]
        return [duration for _, duration in sorted(events)]

    durations(lambda: None)  # the first session is slow to start
    of_flush = len(durations(lambda: None)) // PROFILER_CALLS
    return _with_errors(
        calls, lambda _, call: quantile(_per_call(durations(call), PROFILER_CALLS, skipped=of_flush), 0.5)
    )


def _with_errors(calls: dict[str, Function], figure: Callable[[str, Function], Any]) -> dict[str, Any]:
    found, errors = each(calls, figure)
    return {"figures": found, "errors": errors}


def stamped_figures(calls: dict[str, Function]) -> dict[str, Any]:
    """Median in nanoseconds by the kernels' own stamps, of those that have some."""
    l2 = L2(DEVICE, "cold-read")

    def figure(_: str, function: Function) -> float:
        assert isinstance(function, Stamped)
        times = []
        for _call in range(EVENT_CALLS):
            l2.clear()
            torch.cuda.synchronize()
            function()
            times.append(function.last_ns())
        return quantile(times, 0.5)

    return _with_errors({name: call for name, call in calls.items() if isinstance(call, Stamped)}, figure)


def _per_call(durations: list[float], n_calls: int, *, skipped: int = 0) -> list[float]:
    """Sums over the kernels of each call but its first `skipped`, of durations in the order of launch."""
    each_call, rest = divmod(len(durations), n_calls)
    if rest or not each_call:
        raise ValueError(f"{len(durations)} records of {n_calls} calls: expected the same number of every call")
    return [sum(durations[i + skipped : i + each_call]) for i in range(0, len(durations), each_call)]


def profile_under_ncu(names: Path) -> None:
    """The child's part: call every kernel between a start and a stop of the profiler; `names` gets their order."""
    calls, _ = build()
    calls = {name: function for name, function in calls.items() if name not in NOT_IN_NCU}
    spin(SPIN_S)
    l2 = L2(DEVICE, "cold-read")
    for function in calls.values():
        for _ in range(3):
            function()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        torch.cuda._sleep(1)
        torch.cuda.profiler.stop()
        for _ in range(NCU_CALLS):
            l2.clear()
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            function()
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
    names.write_text(json.dumps(list(calls)))


def ncu_figures() -> dict[str, Any]:
    """Per kernel ncu's median in nanoseconds, the kernels per call, and their names. One child profiles them all."""
    with tempfile.TemporaryDirectory() as folder:
        log, names = Path(folder) / "ncu.csv", Path(folder) / "names.json"
        options = ["--clock-control", "none", "--cache-control", "none", "--metrics", METRIC]
        options += ["--csv", "--page", "raw", "--print-units", "base"]
        options += ["--profile-from-start", "off", "--target-processes", "application-only"]
        script = (sys.executable, str(Path(__file__)), "--child", "ncu", "--write", str(names))
        try:
            child(_ncu(), *options, "--log-file", str(log), *script, limit_s=NCU_LIMIT_S)
        except ChildError as error:
            said = log.read_text()[-1500:] if log.is_file() else "nothing"
            raise ChildError(f"{error}; ncu said: {said}") from error
        return read_ncu(log.read_text(), json.loads(names.read_text()))


def _ncu() -> str:
    found = find_ncu()
    if found is None:
        raise FileNotFoundError("ncu is neither on PATH nor in the CUDA toolkit's usual place")
    return found


def read_ncu(text: str, names: list[str]) -> dict[str, Any]:
    """Read ncu's raw page: a header, a row of units, and a row per kernel, in order of launch.

    Raises:
        ValueError: not one marker per name, or a unit that is no time.
    """
    rows = list(csv.DictReader(line for line in text.splitlines() if line.startswith('"')))
    units = [row[METRIC] for row in rows if not row["ID"]]
    if len(units) != 1 or units[0] not in NS_PER_UNIT:
        raise ValueError(f"ncu: unit of {METRIC} reads {units}, expected one of {', '.join(NS_PER_UNIT)}")
    groups: list[list[tuple[str, float]]] = []
    for row in rows:
        if not row["ID"]:
            continue
        if MARKER in row["Kernel Name"]:
            groups.append([])
        elif groups:
            groups[-1].append((row["Kernel Name"], float(row[METRIC].replace(",", "")) * NS_PER_UNIT[units[0]]))
    if len(groups) != len(names):
        raise ValueError(f"ncu: {len(groups)} markers of {len(names)} kernels in {len(rows)} rows")

    def figure(name: str, _: Function) -> dict[str, Any]:
        group = groups[names.index(name)]
        per_call = _per_call([duration_ns for _, duration_ns in group], NCU_CALLS)
        first = [kernel for kernel, _ in group[: len(group) // NCU_CALLS]]
        return {"ns": quantile(per_call, 0.5), "n_kernels": len(first), "names": first}

    return _with_errors({name: lambda: None for name in names}, figure)


def profiler_in_child() -> Any:
    """torch.profiler in a process of its own, since it takes over CUPTI's clock and buffers."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "profiler.json"
        script = (sys.executable, str(Path(__file__)), "--child", "profiler", "--write", str(found))
        child(*script, limit_s=PROFILER_LIMIT_S)
        return json.loads(found.read_text())


def rows_of(found: dict[str, Any], names: list[str]) -> list[dict[str, Any]]:
    """The table in microseconds. `kernels` is `kernel_ns`, where ncu saw as many kernels; `graphbench` is busy time."""
    rows = []
    for name in names:
        mine, ncu = _figure(found, "graphbench", name), _figure(found, "ncu", name)
        comparable = mine and ncu and mine["n_kernels"] == [ncu["n_kernels"]]
        rows.append(
            {
                "kernel": name,
                "per call": mine["n_kernels"][0] if mine else None,
                "ncu us": ncu["ns"] / 1e3 if ncu else None,
                "kernels us": mine["kernel_ns"] / 1e3 if comparable else None,
                "deviation %": 100 * (mine["kernel_ns"] / ncu["ns"] - 1) if comparable else None,
                "graphbench us": mine["busy_ns"] / 1e3 if mine else None,
                **{
                    f"{other} us": figure / 1e3 if (figure := _figure(found, other, name)) else None
                    for other in ("stamped", "events", "do_bench", "torch_profiler")
                },
            }
        )
    return rows


def _figure(found: dict[str, Any], instrument: str, name: str) -> Any:
    return found.get(instrument, {}).get("figures", {}).get(name)


def _why(found: dict[str, Any], name: str) -> str:
    return "ncu profiles kernels, and this is a copy" if name in NOT_IN_NCU else why_left_out(found, name)


PARTS = {
    "graphbench": graphbench_figures,
    "stamped": stamped_figures,
    "events": event_figures,
    "do_bench": do_bench_figures,
}


def main() -> None:
    """Ask all instruments, or in a child process one that needs a process of its own."""
    options = parser(__doc__)
    options.add_argument("--child", choices=["ncu", "profiler"])
    options.add_argument("--write", type=Path)
    chosen = options.parse_args()
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # one kernel; no pool of workers under ncu
    if chosen.child == "ncu":
        profile_under_ncu(chosen.write)
        return
    calls, errors = build()
    spin(SPIN_S)
    if chosen.child == "profiler":
        chosen.write.write_text(json.dumps(profiler_figures(calls)))
        return
    report = Report(chosen.output)
    report.found["not_built"] = errors
    names = [*calls, *errors]
    for name, part in PARTS.items():
        report.part(name, part, calls)
    report.part("ncu", ncu_figures)
    report.part("torch_profiler", profiler_in_child)
    rows = report.part("table", rows_of, report.found, names)
    if rows:
        left_out = {row["kernel"]: _why(report.found, row["kernel"]) for row in rows if row["deviation %"] is None}
        report.part("summary", accuracy, rows, left_out)
        print(table(rows))
    print(json.dumps({key: report.found.get(key) for key in ("summary", "not_built", "seconds")}, indent=1))
    for instrument in ("graphbench", "ncu", "stamped", "events", "do_bench", "torch_profiler"):
        print(instrument, "errors:", report.found[instrument].get("errors") or report.found[instrument].get("error"))


if __name__ == "__main__":
    main()
