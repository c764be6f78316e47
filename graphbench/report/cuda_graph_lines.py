"""What is said of CUDA graphs: that they were asked for in vain, or what replaying them saves."""

from __future__ import annotations

from collections.abc import Iterator

from graphbench.analysis.graph_replays import SAME_KERNELS, GraphReplay, Pair, graph_notes, graph_replays
from graphbench.device_records import NO_GRAPHS, OUTSIDE_GRAPHS, REPLAY_MOVED
from graphbench.plaintext import clean
from graphbench.records import ProfileRecord
from graphbench.units import count_text, format_duration, format_percent


def unused_lines(record: ProfileRecord) -> list[str]:
    """Warnings that CUDA graphs were asked for in vain."""
    return [
        f"warning: {NO_GRAPHS}: {', '.join(note.of)}: {clean(note.why)}: asking for them changes nothing here"
        for note in graph_notes(record)
        if not note.used
    ]


def graph_lines(record: ProfileRecord) -> list[str]:
    """What replays save, which kernels no graph holds, and a warning where the kernels are not the same."""
    many = len(record.regions) > 1
    lines = []
    for replay in graph_replays(record):
        of = f"{replay.region} {replay.phase}" if many else replay.phase
        parts = list(_parts(replay))
        lines += (
            [f"CUDA graphs: {of}: {'; '.join(parts)}"] if len(parts) > 1 else []
        )  # the number alone is said elsewhere
        differ = replay.kernels_differ
        if differ is not None and abs(differ) > SAME_KERNELS:
            lines.append(
                f"warning: CUDA graphs: {of}: kernels take {format_percent(abs(differ))} "
                f"{'more' if differ > 0 else 'less'} under replay than launched one by one"
            )
    outside = [note for note in graph_notes(record) if note.used]
    lines += [f"{OUTSIDE_GRAPHS}: {', '.join(note.of)}: {clean(note.why)}" for note in outside]
    moved = (note for region in record.regions for note in region.notes if note.startswith(REPLAY_MOVED))
    return [*lines, *(f"warning: {clean(note)}" for note in moved)]


def _parts(replay: GraphReplay) -> Iterator[str]:
    """Such as `35 kernels in 1 graph`, `issuing takes 12 µs instead of 640 µs`."""
    graphs = f" in {count_text(replay.graphs, 'graph')}" if replay.graphs else ""
    yield f"{count_text(replay.nodes, 'kernel')}{graphs}"
    yield from _instead("issuing takes", replay.host)
    yield from _instead("idle time between kernels", replay.idle)
    yield from _instead("wall", replay.wall)
    differ = replay.kernels_differ
    if differ is not None and abs(differ) <= SAME_KERNELS:
        yield f"kernels' own time is the same ({100 * differ:+.1f} %)"
    if replay.beside_ns:
        yield f"copies beside the graphs take {format_duration(replay.beside_ns)}"


def _instead(what: str, pair: Pair) -> Iterator[str]:
    if pair.replayed is not None and pair.without is not None:
        yield f"{what} {format_duration(pair.replayed)} instead of {format_duration(pair.without)}"
