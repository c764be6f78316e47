"""What of each value a kernel's own post-grad nodes need: all of it, or what they slice, gather, scatter. No torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Touched:
    """What one post-grad node, run alone, reads of others by their names, how much it makes, what it scatters; bytes.

    A view touches nothing; `base` is the node whose memory it shows.
    """

    reads: dict[str, int] = field(default_factory=dict)
    made: int = 0
    scattered: int = 0
    base: str = ""


def needed_bytes(
    touched: Mapping[str, Touched], executed: Sequence[str], kept: Collection[str]
) -> Mapping[str, int] | None:
    """Bytes of every value that a kernel needs, by the name of the node or graph input that it is of.

    A value that stays in the kernel is needed as far as those who read it there are: of a product that is only gathered
    from, what is gathered.

    Args:
        touched: by node, of the whole graph.
        executed: the nodes that the kernel executes, in program order.
        kept: the nodes whose values it writes.

    Returns:
        `None` where some node was not run alone.
    """
    if not executed or any(name not in touched for name in executed):
        return None
    nodes = {name: touched[name] for name in executed}
    written = {touched[name].base or name for name in kept if name in touched}
    readers: dict[str, int] = {}
    for entry in nodes.values():
        for name in entry.reads:
            readers[name] = readers.get(name, 0) + 1
    needed: dict[str, float] = {}
    for name in reversed(executed):
        entry = nodes[name]
        if entry.base:
            continue
        inside = name in readers and name not in written
        part = min(1.0, needed.get(name, 0.0) / entry.made) if inside and entry.made else 1.0
        for read, nbytes in entry.reads.items():
            needed[read] = needed.get(read, 0.0) + part * nbytes
    return {name: round(nbytes) for name, nbytes in needed.items()}


def scattered_bytes(touched: Mapping[str, Touched], executed: Sequence[str], whole: int) -> int | None:
    """Bytes that a kernel puts into a value of `whole` bytes that others began; `None` where it writes all of it.

    A node that scatters makes the whole value anew, or in place no more than what it scatters. Where the kernel makes
    the value that is scattered into as well, as a fill with zeros, nobody began it, whatever lies in the memory.
    """
    nodes = [entry for name in executed if (entry := touched.get(name)) and entry.scattered]
    found = [entry for entry in nodes if entry.made in (whole, entry.scattered)]
    own = {name for name in executed if name in touched and touched[name].made == whole}
    if any(own & entry.reads.keys() for entry in found):
        return None
    return min(whole, sum(entry.scattered for entry in found)) if found else None
