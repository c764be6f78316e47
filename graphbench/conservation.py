"""The proof that a profile is whole: references resolve, samples are complete, and rows add up to their totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from graphbench.cost_checks import check_costs
from graphbench.errors import ConservationError, ProfileFormatError
from graphbench.measurements import EVENT_TIMERS, Measurement, RunRecord
from graphbench.plaintext import quoted
from graphbench.records import Phase, ProfileRecord, RegionRecord, Side
from graphbench.step_records import END, START, TIMELINE_KINDS, StepRecord

RELATIVE_TOLERANCE = 0.005
ABSOLUTE_TOLERANCE_NS = 1000.0
WRAPPER_TIMERS = ("wallclock", *EVENT_TIMERS)
_COLUMNS = ("busy_ns", "host_ns", "span_ns", "kernel_ns", "copy_ns", "memset_ns", "n_kernels")
_RUN_COLUMNS = ("busy_ns", "wall_ns", "unattributed_ns", "overlap_ns", "wrapper_ns", "beside_ns")
_TIMELINE_COLUMNS = ("kinds", "rows", "event_names", "durations_ns", "lanes", "devices")
Where = tuple[str, ...]  # joined only for a message
_columns_of = attrgetter(*_COLUMNS)
_run_columns_of = attrgetter(*_RUN_COLUMNS)


def post_grad_row(phase: Phase, name: str) -> str:
    """`forward:relu`: how `shared_with` names a post-grad node, since a Dynamo node may have the same name."""
    return f"{phase}:{name}"


def check(record: ProfileRecord, *, path: str = "profile") -> None:
    """Prove that a profile is whole and that its times are conserved.

    Structure: keys and names are unique, roles, fates and rows refer to what exists, a measurement is `ok` exactly when
    it has samples and otherwise says why not, its columns are equally long, a shared one has the samples of the row
    that it names, and one timer made everything. A step's rows lie in its places and user phases, and its timeline
    names its rows. No size is negative, and what nodes hold at a region's peak adds up to it. Costs
    are as `check_costs` says.
    Sums, per sample, within 0.5 % or 1 µs: on a device rows + beside + unattributed - overlap = busy; in a run with a
    `wrapper_ns` column rows + wrapper - overlap = busy, and on the CPU = wall, while events leave out the host's part
    of it and know no overlap. Rows without a time explain nothing.

    Args:
        record: the profile.
        path: file that it is read from or written to, for messages.

    Raises:
        ProfileFormatError: the structure is broken.
        ConservationError: rows do not add up to their run.
    """
    _check_unique(path, "regions", (region.key for region in record.regions))
    for region in record.regions:
        _check_region(path, region)
        _check_shared(path, region)
        _check_memory(path, region)
    check_costs(path, record)
    _check_walls(path, record)
    _check_outer_references(path, record)
    if record.step:
        _check_step(path, record.step)
        _check_timeline(path, record.step)
    proven: dict[int, int] = {}
    timer = record.policy.timer
    for where, measurement in _measurements(record):
        _check_measurement(path, where, measurement, timer, proven)
    for run_where, run, rows in _runs(record):
        _check_run(path, run_where, run, timer)
        _check_sums(path, run_where, run, rows)


def _fail(path: str, field: str, found: str, expected: str) -> ProfileFormatError:
    return ProfileFormatError(path, field, found, expected, hint="the profile is damaged; measure again")


def _check_unique(path: str, where: str, keys: Iterable[object]) -> None:
    double = [key for key, count in Counter(keys).items() if count > 1]
    if double:
        raise _fail(path, where, f"{double[0]!r} twice", "unique names")


def _check_region(path: str, region: RegionRecord) -> None:
    where = f"regions[{region.key}]"
    _check_unique(path, f"{where}.nodes", (node.name for node in region.nodes))
    _check_unique(path, f"{where}.kernels", (kernel.key for kernel in region.kernels))
    _check_unique(path, f"{where}.post_grad", ((node.phase, node.name) for node in region.post_grad))
    if region.status != "ok" and not region.reason:
        raise _fail(path, f"{where}.reason", f"no reason for status {region.status}", "a reason")
    nodes = {node.name for node in region.nodes}
    kernels = {kernel.key for kernel in region.kernels}
    post_grad = {(node.phase, node.name) for node in region.post_grad}
    for node in region.nodes:
        _check_known(path, f"{where}.nodes[{node.name}].fate.kernels", node.fate.kernels, kernels, "a kernel's key")
    for kernel in region.kernels:
        here = f"{where}.kernels[{kernel.key}]"
        _check_known(path, f"{here}.roles", (role.node for role in kernel.roles), nodes, "a node's name")
        read = [name for role in kernel.roles for name in role.post_grad]
        for name in (*kernel.executes, *read):
            if (kernel.phase, name) not in post_grad:
                raise _fail(path, here, f'"{name}"', f"a {kernel.phase} post-grad node's name")
    _check_executed_once(path, region)


def _check_executed_once(path: str, region: RegionRecord) -> None:
    """A node that several kernels execute falls to each in part, and the parts add up to it; views move nothing."""
    views = {(node.phase, node.name) for node in region.post_grad if node.is_view or node.target == "getitem"}
    parts: dict[tuple[str, str], list[float]] = {}
    for kernel in region.kernels:
        known = dict(kernel.parts)
        where = f"regions[{region.key}].kernels[{kernel.key}]"
        _check_known(path, f"{where}.recomputes", kernel.recomputes, set(kernel.executes), "a node that it executes")
        _check_known(path, f"{where}.parts", known, set(kernel.executes), "a node that it executes")
        if any(not 0 < part <= 1 for part in known.values()):
            raise _fail(path, f"{where}.parts", f"{sorted(known.values())}", "fractions above 0, at most 1")
        for name in set(kernel.executes) - set(kernel.recomputes):
            parts.setdefault((kernel.phase, name), []).append(known.get(name, 1.0))
    for (phase, name), shares in parts.items():
        if (phase, name) not in views and abs(sum(shares) - 1.0) > RELATIVE_TOLERANCE:
            where = f"regions[{region.key}].kernels: parts of {phase} post-grad node {name}"
            raise _fail(path, where, f"{sum(shares):g} times the node", "once")


def _check_known(path: str, where: str, names: Iterable[str], known: set[str], expected: str) -> None:
    for name in names:
        if name not in known:
            raise _fail(path, where, f'"{name}"', expected)


def _check_outer_references(path: str, record: ProfileRecord) -> None:
    kernels = {region.key: {kernel.key for kernel in region.kernels} for region in record.regions}
    for index, graph_break in enumerate(record.breaks):
        if graph_break.region is not None and graph_break.region not in kernels:
            raise _fail(path, f"breaks[{index}].region", f'"{graph_break.region}"', "a region's key")
    for index, recompile in enumerate(record.recompiles):
        if recompile.region is not None and recompile.region not in kernels:
            raise _fail(path, f"recompiles[{index}].region", f'"{recompile.region}"', "a region's key")
    for index, row in enumerate(record.step.rows if record.step else ()):
        if row.region is not None and row.region not in kernels:
            raise _fail(path, f"step.rows[{index}].region", f'"{row.region}"', "a region's key")
        if row.kernel is not None and row.kernel not in kernels.get(row.region or "", ()):
            raise _fail(path, f"step.rows[{index}].kernel", f'"{row.kernel}"', f"a kernel's key of region {row.region}")


def _check_step(path: str, step: StepRecord) -> None:
    """Names are unique, rows lie in places and user phases that exist, shared measurements are those of other rows."""
    _check_unique(path, "step.rows", (row.name for row in step.rows))
    _check_unique(path, "step.places", (place.key for place in step.places))
    _check_unique(path, "step.user_phases", (phase.name for phase in step.user_phases))
    graphs = {place.key for place in step.places if place.kind == "graph"} | {END}
    places = {place.key for place in step.places} | {START}
    phases = {phase.name for phase in step.user_phases} | {""}
    for place in step.places:
        where = f"step.places[{place.key}]"
        _check_known(path, f"{where}.followed_by", place.followed_by, graphs, f"a graph of the step, or {END}")
        _check_signs(path, where, (place.host_ns, place.calls))
    for phase in step.user_phases:
        _check_signs(path, f"step.user_phases[{phase.name}]", (phase.host_ns, phase.calls))
    for index, row in enumerate(step.rows):
        where = f"step.rows[{index}]"
        _check_known(path, f"{where}.place", (row.place,), places, "a place of the step")
        _check_known(path, f"{where}.user_phase", (row.user_phase,), phases, "a user phase of the step")
        _check_signs(path, where, (row.calls, row.copied_bytes))
    _check_shared_rows(path, "step", "isolated", {row.name: row.isolated for row in step.rows})


def _check_timeline(path: str, step: StepRecord) -> None:
    timeline = step.timeline
    n_events = len(timeline.starts_ns)
    for name in _TIMELINE_COLUMNS:
        column = getattr(timeline, name)
        if len(column) != n_events:
            expected = f"{n_events}, as in starts_ns"
            raise _fail(path, f"step.timeline.{name}", f"{len(column)} entries", expected)
    for name, lowest, count, what in (
        ("kinds", 0, len(TIMELINE_KINDS), "a kind of event"),
        ("rows", -1, len(step.rows), "a row of the step, or -1"),
        ("event_names", 0, len(timeline.names), "one of its names"),
    ):
        column = getattr(timeline, name)
        if column and not (lowest <= min(column) and max(column) < count):
            wrong = min(column) if min(column) < lowest else max(column)
            raise _fail(path, f"step.timeline.{name}", f"{wrong}", f"the position of {what}")
    _check_signs(path, "step.timeline.durations_ns", timeline.durations_ns)
    if any(later < earlier for earlier, later in zip(timeline.starts_ns, timeline.starts_ns[1:], strict=False)):
        raise _fail(path, "step.timeline.starts_ns", "an event before the one in front of it", "events by start")


def _sides(region: RegionRecord) -> tuple[tuple[str, Side], ...]:
    return (
        ("eager", region.eager),
        ("eager_backward", region.eager_backward),
        ("forward", region.forward),
        ("backward", region.backward),
    )


def _measurements(record: ProfileRecord) -> Iterator[tuple[Where, Measurement]]:
    for region in record.regions:
        where = f"regions[{region.key}]"
        for node in region.nodes:
            yield (where, ".nodes[", node.name, "].isolated"), node.isolated
            yield (where, ".nodes[", node.name, "].in_graph"), node.in_graph
            yield (where, ".nodes[", node.name, "].backward_isolated"), node.backward_isolated
            yield (where, ".nodes[", node.name, "].backward_in_graph"), node.backward_in_graph
        for entry in region.post_grad:
            yield (where, ".post_grad[", post_grad_row(entry.phase, entry.name), "].isolated"), entry.isolated
        for kernel in region.kernels:
            yield (where, ".kernels[", kernel.key, "].isolated"), kernel.isolated
            yield (where, ".kernels[", kernel.key, "].in_graph"), kernel.in_graph
        for name, side in _sides(region):
            yield (where, f".{name}.plain"), side.plain
    if record.step:
        for index, row in enumerate(record.step.rows):
            yield (f"step.rows[{index}].in_graph",), row.in_graph
            yield (f"step.rows[{index}].isolated",), row.isolated


def _check_measurement(path: str, where: Where, measurement: Measurement, timer: str, proven: dict[int, int]) -> None:
    samples = measurement.samples
    if (measurement.status == "ok") != (samples is not None):
        found = f"status {measurement.status} {'without' if samples is None else 'with'} samples"
        raise _fail(path, "".join(where), found, "samples exactly when the status is ok")
    if measurement.status != "ok" and not measurement.reason:
        raise _fail(path, "".join((*where, ".reason")), f"no reason for status {measurement.status}", "a reason")
    if measurement.timer != timer and (measurement.timer is not None or samples is not None):
        raise _fail(
            path, "".join((*where, ".timer")), str(measurement.timer), f"{timer}, the timer of the whole profile"
        )
    if samples is not None:
        _check_columns(path, (*where, ".samples"), _COLUMNS, _columns_of(samples), proven)
    if measurement.batch_ns is not None:
        _check_columns(path, where, ("batch_ns",), (measurement.batch_ns,), {})


def _check_columns(
    path: str,
    where: Where,
    names: tuple[str, ...],
    columns: tuple[tuple[float, ...] | None, ...],
    proven: dict[int, int],
) -> None:
    """`columns[0]` is busy time. `proven`: lengths of columns found free of negative values, by identity."""
    length = len(columns[0] or ())
    if not length:
        raise _fail(path, "".join((*where, ".", names[0])), "no samples", "at least one")
    for name, column in zip(names, columns, strict=True):
        if column is None or proven.get(id(column)) == length:
            continue
        if len(column) != length and name != "host_ns":  # taken in calls of their own
            raise _fail(path, "".join((*where, ".", name)), f"{len(column)} samples", f"{length}, as in {names[0]}")
        if column and min(column) < 0:
            _check_signs(path, "".join((*where, ".", name)), column)
        proven[id(column)] = len(column)


def _check_signs(path: str, where: str, column: Sequence[float]) -> None:
    if column and min(column) < 0:
        raise _fail(path, where, f"{min(column)}", "no negative value")


def _check_walls(path: str, record: ProfileRecord) -> None:
    for region in record.regions:
        for name, side in _sides(region):
            _check_signs(path, f"regions[{region.key}].{name}.wall_ns", side.wall_ns)
            _check_signs(path, f"regions[{region.key}].{name}.host_ns", side.host_ns)
    if record.step:
        _check_signs(path, "step.plain_wall_ns", record.step.plain_wall_ns)


def _check_memory(path: str, region: RegionRecord) -> None:
    """Nodes hold the region's peak together, or nothing is known of either; the node that it is reached at is one."""
    where = f"regions[{region.key}]"
    sizes = [region.captured_bytes, region.spilled_bytes]
    sizes += [side.peak_bytes for _, side in _sides(region) if side.peak_bytes is not None]
    held = [node.peak_bytes for node in region.nodes if node.peak_bytes is not None]
    _check_signs(path, f"{where}: its sizes", [*sizes, *held])
    if (region.peak_node is None) != (region.peak_bytes is None):
        raise _fail(path, f"{where}.peak_node", f"{region.peak_node}", "a node exactly when there is a peak")
    if region.peak_bytes is None:
        if held:
            raise _fail(path, f"{where}.nodes", "a peak_bytes", "none, as the region has no peak")
        return
    _check_known(path, f"{where}.peak_node", (str(region.peak_node),), {node.name for node in region.nodes}, "a node")
    if sum(held) != region.peak_bytes or len(held) != len(region.nodes):
        found = f"{region.peak_bytes} bytes, of which {len(held)} of {len(region.nodes)} nodes hold {sum(held)}"
        raise _fail(path, f"{where}.peak_bytes", found, "what all nodes hold together")


def _check_shared(path: str, region: RegionRecord) -> None:
    """A row measured in the place of another one has its very samples: nothing else could have been measured."""
    calls = {node.name: node.isolated for node in region.nodes}
    calls |= {post_grad_row(node.phase, node.name): node.isolated for node in region.post_grad}
    calls |= {kernel.key: kernel.isolated for kernel in region.kernels}
    _check_shared_rows(path, f"regions[{region.key}]", "isolated", calls)
    backwards = {node.name: node.backward_isolated for node in region.nodes}
    _check_shared_rows(path, f"regions[{region.key}]", "backward_isolated", backwards)


def _check_shared_rows(path: str, owner: str, field: str, rows: Mapping[str, Measurement]) -> None:
    for name, measurement in rows.items():
        first = measurement.shared_with
        if first is None:
            continue
        where = f"{owner}.{name}.{field}.shared_with"
        if first not in rows or rows[first].shared_with is not None:
            raise _fail(path, where, f'"{first}"', "another row that was measured itself")
        if rows[first].samples is not measurement.samples and rows[first].samples != measurement.samples:
            raise _fail(path, where, f'other samples than those of "{first}"', "the same samples")


def _runs(record: ProfileRecord) -> Iterator[tuple[str, RunRecord, list[Measurement]]]:
    """Every labelled run with the rows that must explain it."""
    for region in record.regions:
        where = f"regions[{region.key}]"
        if region.eager.run:
            yield f"{where}.eager", region.eager.run, [node.in_graph for node in region.nodes]
        if region.eager_backward.run:
            yield (
                f"{where}.eager_backward",
                region.eager_backward.run,
                [node.backward_in_graph for node in region.nodes],
            )
        for phase, side in (("forward", region.forward), ("backward", region.backward)):
            if side.run:
                yield f"{where}.{phase}", side.run, [k.in_graph for k in region.kernels if k.phase == phase]
    if record.step:
        yield "step", record.step.run, [row.in_graph for row in record.step.rows]


def _check_run(path: str, where: str, run: RunRecord, timer: str) -> None:
    _check_columns(path, (where, ".run"), _RUN_COLUMNS, _run_columns_of(run), {})
    if run.timer != timer:
        raise _fail(path, f"{where}.run.timer", run.timer, f"{timer}, the timer of the whole profile")
    if timer != "fake" and (run.wrapper_ns is None) == (timer in WRAPPER_TIMERS):
        place = "between events" if timer in EVENT_TIMERS else "on the CPU"
        expected = f"a column, as of every run {place}" if run.wrapper_ns is None else "none, as of every device run"
        raise _fail(path, f"{where}.run.wrapper_ns", "none" if run.wrapper_ns is None else "a column", expected)
    if run.wrapper_ns is None:
        return
    for name, column in (("unattributed_ns", run.unattributed_ns), ("overlap_ns", run.overlap_ns)):
        if any(column) and (name, timer) != ("overlap_ns", "wallclock"):  # whose labels threads may have open at once
            raise _fail(
                path, f"{where}.run.{name}", f"{max(column)}", "0 beside a `wrapper_ns`, of which it would be a part"
            )


def _check_sums(path: str, where: str, run: RunRecord, rows: list[Measurement]) -> None:
    n_samples = len(run.busy_ns)
    columns = [row.samples.busy_ns for row in rows if row.samples is not None]
    columns = columns or [(0.0,) * n_samples]  # rows that all lack a time explain none of the run's
    wrong = next((len(column) for column in columns if len(column) != n_samples), None)
    if wrong is not None:
        raise _fail(path, f"{where}.run", f"a row with {wrong} in-graph samples", f"{n_samples}, as in the run")
    for index, rows_ns in enumerate(map(sum, zip(*columns, strict=True))):
        busy_ns = run.busy_ns[index]
        if run.wrapper_ns is None:
            beside_ns = run.beside_ns[index] if run.beside_ns else 0.0
            total_ns = rows_ns + beside_ns + run.unattributed_ns[index] - run.overlap_ns[index]
            _compare(path, where, index, "rows + beside + unattributed - overlap", total_ns, "device_busy", busy_ns)
        else:
            total_ns = rows_ns + run.wrapper_ns[index] - run.overlap_ns[index]
            _compare(path, where, index, "rows + wrapper - overlap", total_ns, "busy", busy_ns)
            if run.timer not in EVENT_TIMERS:
                _compare(path, where, index, "busy", busy_ns, "wall", run.wall_ns[index])


def _compare(path: str, where: str, index: int, left: str, left_ns: float, right: str, right_ns: float) -> None:
    # Asked this way round, since a sum that is beyond a float's range compares as neither more nor less.
    if not abs(left_ns - right_ns) <= max(RELATIVE_TOLERANCE * abs(right_ns), ABSOLUTE_TOLERANCE_NS):
        raise ConservationError(
            f"{path}: {quoted(where, 300)}: in sample {index}, {left} is {left_ns:.0f} ns, "
            f"expected {right} = {right_ns:.0f} ns (within 0.5 % or 1 µs)",
            hint="rows were lost or counted twice; measure again, and report it if it happens again",
            subject=where,
        )
