"""A stand-alone Python script that repeats one row's measurement with plain torch. Pure text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final

from graphbench.analysis.stats import quantile
from graphbench.errors import UsageError
from graphbench.measurements import EVENT_TIMERS, TensorSpec
from graphbench.plaintext import clean
from graphbench.records import KernelRecord, NodeRecord, PostGradNode, ProfileRecord
from graphbench.report.repro.bounds import DEFAULT_BOUND, bounds, is_integer, needs_positive, values_matter
from graphbench.report.repro.draft import Built, Draft, kernel_draft, node_draft, post_grad_draft
from graphbench.report.repro.expressions import NotRebuilt
from graphbench.report.repro.harness import HARNESS
from graphbench.report.repro.rows import Row, find_row
from graphbench.report.repro.state import state_before, state_below

ALIGNMENT_BYTES: Final = 64
_DIGITS: Final = re.compile(r"(\d+)(?:_|fn|$)")
_OPTION: Final = re.compile(r"[a-z_][a-z0-9_.]{0,80}")
_NO_OPTIONS: Final = ("triton.cudagraphs", "triton.cudagraph_trees")  # kernels were measured outside their replay


def repro(record: ProfileRecord, row: str, *, backward: bool = False) -> str:
    """A script that repeats a row's measurement: its call, on tensors of the recorded layout, in the recorded state.

    Values are synthetic. Nothing of the profile gets into it but names, numbers and calls of torch's own ops.

    Args:
        record: the profile.
        row: a node, a post-grad node or a kernel, as `rows.find_row` takes it.
        backward: the backward of the node of that name is meant.

    Raises:
        UsageError: no such row, or several; or one that cannot be rebuilt, and why.
    """
    found = find_row(record, row, backward=backward)
    try:
        return _script(record, found)
    except NotRebuilt as error:
        message = f"{found.name}: no script can repeat it: {error.message}"
        raise UsageError(message, hint="export a row of torch's own ops", subject=found.name) from error


def _script(record: ProfileRecord, row: Row) -> str:
    draft = _draft(row)
    devices = [built.spec.device for built in draft.tensors.values()] or [row.region.device]
    device = next((name for name in devices if name != "cpu"), devices[0])
    if not device.startswith(("cpu", "cuda")):
        raise NotRebuilt(f"it ran on {device}, and scripts time the CPU and CUDA devices only")
    if device.startswith("cuda") and row.measurement.timer in EVENT_TIMERS:
        raise NotRebuilt("it was timed between events, with which torch.profiler's device times are not to be compared")
    inputs = ", ".join(built.variable for built in draft.tensors.values())
    body = [f"    {line}" for line in [*draft.lines, f"return {draft.result}"]]
    lines = [
        *_head(row, draft),
        "",
        f"ROW = {clean(row.name)!a}",
        f"DEVICE = {device!r}",
        f"BACKWARD = {row.backward}",
        f"COMPILED = {draft.compiled}",
        f"OPTIONS = {_options(record)!r}",
        *_budget(record),
        *_dictionary("MEASURED", _measured(record, row)),
        *_dictionary("STATE", _state(row)),
        f"LOWEST = {0 if needs_positive(draft.steps) else -1}  # of floats",
        'Spec = namedtuple("Spec", "shape stride dtype device storage offset requires_grad leaf below")',
        "TENSORS = {",
        *_tensors(draft),
        "}",
        "",
        "",
        f"def call({inputs}):",
        *body,
        "",
        "",
        "",
    ]
    return "\n".join(lines) + HARNESS


def _draft(row: Row) -> Draft:
    if isinstance(row.of, NodeRecord):
        return node_draft(row.region, row.of, backward=row.backward)
    return post_grad_draft(row.region, row.of) if isinstance(row.of, PostGradNode) else kernel_draft(row.region, row.of)


def _state(row: Row) -> dict[str, object]:
    return state_before(row.region, row.of) if isinstance(row.of, NodeRecord) else state_below(row.region)


def _head(row: Row, draft: Draft) -> Iterator[str]:
    yield '"""Repeats a row of a graphbench profile with plain torch: see ROW. graphbench itself is not needed.'
    yield ""
    yield "Values are synthetic, drawn from a seed: floats from LOWEST to 1, integers below the bounds in TENSORS."
    matters = values_matter(draft.steps)
    if matters:
        ops = ", ".join(sorted(op for op in matters if op.isascii() and op.isidentifier()))
        yield f"What values they are given may change the time of: {ops}."
    if isinstance(row.of, KernelRecord) and draft.compiled:
        yield "The kernel is compiled anew from the post-grad nodes that it executes: Inductor may choose differently"
        yield "than in the whole graph. On the CPU the time includes the guards and the wrapper of torch.compile."
        yield from _configuration(row.of)
    yield '"""'
    yield ""
    yield from ("import contextlib", "import gc", "import operator", "import statistics", "import sys", "import time")
    yield "from collections import namedtuple"
    yield ""
    yield "import torch"
    if "torch.ops.prims.inductor_" in "".join([*draft.lines, draft.result]):
        yield "import torch._inductor.inductor_prims  # registers the ops"


def _configuration(kernel: KernelRecord) -> Iterator[str]:
    """What Triton's autotuner chose for the kernel of the profile; another choice is another time."""
    config = kernel.config
    if config is not None:
        blocks = [f"{name} {value}" for name, value in config.blocks if name.isascii() and name.isidentifier()]
        yield f"In the profile it ran with {', '.join([*blocks, f'{config.num_warps} warps'])}."


def _budget(record: ProfileRecord) -> Iterator[str]:
    policy = record.policy
    least, most = (policy.min_samples, policy.max_samples) if policy.repeat is None else (policy.repeat, policy.repeat)
    yield f"WARMUP_MS, MEASURE_MS = {float(policy.warmup_ms)!r}, {float(policy.measure_ms)!r}"
    yield f"SAMPLES = ({max(1, least)!r}, {max(1, most)!r})  # at least, at most"


def _measured(record: ProfileRecord, row: Row) -> dict[str, object]:
    measurement, environment = row.measurement, record.environment
    busy_ns = measurement.samples.busy_ns if measurement.samples else ()
    specs = () if isinstance(row.of, KernelRecord) or row.backward else row.of.outputs
    return {
        "median_ns": float(quantile(busy_ns, 0.5)) if busy_ns else None,
        "samples": len(busy_ns),
        "reason": clean(measurement.reason),
        "timer": measurement.timer,
        "cache": measurement.cache or record.policy.cache,
        "inner": max(1, measurement.inner),
        "torch": clean(environment.torch),
        "hardware": clean(environment.cpu if row.region.device == "cpu" else environment.gpu or "an unknown GPU"),
        "outputs": [(spec.dtype, spec.shape, spec.stride) for spec in specs],
    }


def _tensors(draft: Draft) -> Iterator[str]:
    """The script's table of tensors. Offsets are cut to what matters for alignment; integers lie below a bound."""
    limits = bounds(draft.steps, draft.spec)
    sizes = [size for built in draft.tensors.values() for size in built.spec.shape if size > 1]
    default = min(sizes, default=DEFAULT_BOUND)
    storages: dict[tuple[str, str, str], list[Built]] = {}
    for built in draft.tensors.values():
        storages.setdefault((built.storage, built.spec.dtype, built.spec.device), []).append(built)
    for number, together in enumerate(storages.values()):
        aligned = max(1, ALIGNMENT_BYTES // _itemsize(together[0].spec))
        start = min(built.spec.storage_offset for built in together) // aligned * aligned
        for built in together:
            spec = built.spec
            below = max(1, limits.get(built.name, default)) if is_integer(spec) else 0
            layout = f"{spec.shape!r}, {spec.stride!r}, {spec.dtype!r}, {spec.device!r}, {number}"
            facts = f"{spec.storage_offset - start}, {spec.requires_grad}, {built.leaf}, {below}"
            yield f"    {built.variable!r}: Spec({layout}, {facts}),"


def _itemsize(spec: TensorSpec) -> int:
    found = _DIGITS.search(spec.dtype)
    return max(1, int(found[1]) // 8) if found else 1


def _options(record: ProfileRecord) -> dict[str, object]:
    """Inductor's options as far as they are switches and numbers."""
    found: dict[str, object] = {}
    for name, text in record.environment.options:
        try:
            value = ast.literal_eval(text[:40])
        except (ValueError, SyntaxError):
            continue
        if type(value) in (bool, int, float) and _OPTION.fullmatch(name) and name not in _NO_OPTIONS:
            found[name] = value
    return found


def _dictionary(name: str, entries: dict[str, object]) -> Iterable[str]:
    yield f"{name} = {{"
    yield from (f"    {key!a}: {value!a}," for key, value in entries.items())
    yield "}"
