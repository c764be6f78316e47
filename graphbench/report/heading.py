"""The first lines of a report: of what, on what and how it was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphbench.condition_records import Ceiling, Environment, Policy
from graphbench.measurements import EVENT_TIMERS, TimerName
from graphbench.plaintext import clean
from graphbench.records import ProfileRecord
from graphbench.units import count_text, format_bytes, format_duration, format_rate


def heading_lines(record: ProfileRecord) -> list[str]:
    """Title, environment, policy, and what its timer's times are where that is not what one expects."""
    return [
        f"graphbench profile of {clean(record.subject) or 'a model'} ({record.created})",
        _environment(record.environment),
        policy_text(record.policy, record.environment),
        *timer_lines(record.policy.timer),
        *ceiling_lines(record.ceilings),
    ]


def _environment(environment: Environment) -> str:
    parts = [f"torch {environment.torch}", f"Python {environment.python}"]
    if environment.gpu:
        clock = f", SM {environment.sm_clock_mhz} MHz" if environment.sm_clock_mhz else ""
        l2 = f", L2 {format_bytes(environment.gpu_l2_bytes)}" if environment.gpu_l2_bytes else ""
        parts.append(f"{environment.gpu}{l2}{clock}")
        parts += [f"{name} {value}" for name, value in _gpu_software(environment) if value]
    parts.append(f"{environment.cpu}, {environment.num_threads} threads")
    return "on: " + clean(" | ".join(parts))


def _gpu_software(environment: Environment) -> Iterator[tuple[str, str | None]]:
    yield "CUDA", environment.cuda
    yield "driver", environment.driver
    # The record holds "VERSION (PATH)"; where it lies matters to who repairs an installation, not here.
    yield "CUPTI", environment.libcupti.split(" (")[0] if environment.libcupti else None
    yield "Triton", environment.triton


def policy_text(policy: Policy, environment: Environment) -> str:
    """The line that says how it was measured."""
    amount, budget = f"{policy.min_samples} to {policy.max_samples} samples a row", f" in {policy.measure_ms:g} ms"
    if policy.repeat is not None:
        amount, budget = count_text(policy.repeat, "sample"), ""
    if policy.noise is not None:
        budget += f" and on until the median is known to {100 * policy.noise:g} % or {policy.noise_ms:g} ms are up"
    if policy.max_seconds is not None:
        budget += f", what matters least only roughly: {policy.max_seconds:g} s in all"
    warmup = f"{policy.warmup_ms:g} ms warm-up" if policy.warmup is None else count_text(policy.warmup, "warm-up")
    grain = environment.stamp_grain_ns
    stamps = f", stamps in steps of {grain} ns" if grain is not None and policy.timer != "wallclock" else ""
    parts = [f"timer {policy.timer}{stamps}", f"cache {policy.cache}", f"values {policy.values}"]
    parts.append(f"{amount}{budget}, {warmup}")
    parts += [f"batches of {policy.batch} calls"] if policy.batch is not None else []
    budget_bytes = policy.memory_budget_bytes
    parts += [f"copies within {format_bytes(budget_bytes)}"] if budget_bytes is not None else []
    locked = policy.lock_gpu_clock_mhz
    parts += [f"SM clock locked to {locked} MHz"] if locked is not None else []
    parts += [f"only {_patterns(policy.select)}"] if policy.select else []
    parts += [f"without {_patterns(policy.exclude)}"] if policy.exclude else []
    parts += [f"only regions {_patterns(policy.only_regions)}"] if policy.only_regions else []
    return f"how: {' | '.join(parts)}"


def _patterns(patterns: Sequence[str]) -> str:
    return clean(", ".join(patterns))


def ceiling_lines(ceilings: Sequence[Ceiling]) -> list[str]:
    """What each device was seen to do, such as `ceilings of cuda:0: copy 4.12 TB/s, ... (measured 2026-01-02)`."""
    lines = []
    for device in dict.fromkeys(entry.device for entry in ceilings):
        mine = [entry for entry in ceilings if entry.device == device]
        beyond = [entry for entry in mine if entry.within_bytes is None]
        known = ", ".join(f"{entry.arithmetic or entry.kind} {_ceiling(entry)}" for entry in beyond)
        fastest = max((entry.value for entry in mine if entry.within_bytes is not None), default=None)
        known += f", copy in warm caches up to {format_rate(fastest, 'B/s')}" if fastest else ""
        when = " and ".join(dict.fromkeys(entry.measured[:10] for entry in mine))
        cached = ", cached" if all(entry.cached for entry in mine) else ""
        cached = ", partly cached" if not cached and any(entry.cached for entry in mine) else cached
        lines.append(f"ceilings of {clean(device)}: {clean(known)} (measured {clean(when)}{cached})")
    return lines


def _ceiling(entry: Ceiling) -> str:
    if entry.kind == "launch":
        return format_duration(entry.value, digits=3)
    return format_rate(entry.value, "FLOP/s" if entry.kind == "matmul" else "B/s")


def timer_lines(timer: TimerName) -> list[str]:
    """What busy time is for a timer that only sees events."""
    if timer not in EVENT_TIMERS:
        return []
    return [f"timer {timer}: busy is the time between two events: launch gaps are in it; not comparable with cupti"]
