"""What a candidate in a node's place gave: alone, and in its graph, predicted and measured. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphbench.analysis.compiled_costs import compiled_costs
from graphbench.analysis.implementations import ImplementationRow
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.stats import Verdict
from graphbench.measurements import Comparison
from graphbench.records import ProfileRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementRow(ShownRow):
    """Original and candidate in one setting: `alone`, `alone, backward`, `in graph` or `in graph, with backward`.

    Both rows are `None` where it was not timed, which `reason` explains. `kernels` are the kernel calls of the compiled
    graphs. `predicted_ns` is what the candidate should save of the original's time, in its graph only.
    """

    setting: str
    original: ImplementationRow | None = None
    candidate: ImplementationRow | None = None
    difference: Comparison | None = None
    kernels: tuple[int, int] | None = None
    predicted_ns: float | None = None
    reason: str = ""

    @property
    def original_ns(self) -> float | None:
        """The original's median."""
        return None if self.original is None else self.original.p50_ns

    @property
    def candidate_ns(self) -> float | None:
        """The candidate's median."""
        return None if self.candidate is None else self.candidate.p50_ns

    @property
    def ratio(self) -> float | None:
        """The candidate's time over the original's: under 1 where it takes less."""
        return None if self.candidate is None else self.candidate.ratio

    @property
    def verdict(self) -> Verdict | None:
        """What the candidate is against the original."""
        return None if self.candidate is None else self.candidate.verdict

    @property
    def saved_ns(self) -> float | None:
        """What the candidate takes less; negative where it takes more."""
        if self.original_ns is None or self.candidate_ns is None:
            return None
        return self.original_ns - self.candidate_ns

    @property
    def predicted_part(self) -> float | None:
        """What it should save, as a part of the original's time."""
        return self.predicted_ns / self.original_ns if self.predicted_ns is not None and self.original_ns else None

    @property
    def saved_part(self) -> float | None:
        """What it saves, as a part of the original's time."""
        return self.saved_ns / self.original_ns if self.saved_ns is not None and self.original_ns else None


@dataclass(frozen=True, slots=True)
class Prediction:
    """What replacing nodes should save in nanoseconds, forward and with the backward, and what that was taken from."""

    forward_ns: float | None
    step_ns: float | None
    how: str


def predict(
    alone: ReplacementRow,
    backward: ReplacementRow | None,
    profile: ProfileRecord | None,
    region: str,
    nodes: Sequence[str],
) -> Prediction:
    """Predict what a candidate saves in its graph, from what it saves alone.

    With a profile: a node's part of its kernels shrinks as its time alone does. Without: the times alone, as they are.

    Args:
        alone: original and candidate alone.
        backward: their backward alone, `None` without one.
        profile: a profile in which the region was measured.
        region: its key.
        nodes: what is replaced.
    """
    found = None if profile is None else next((entry for entry in profile.regions if entry.key == region), None)
    costs = {} if found is None else compiled_costs(found)
    parts = [costs.get(name) for name in nodes]
    forward_ns = _sum([None if part is None else part.forward_ns for part in parts])
    if forward_ns is None:
        count = len(nodes)
        saved, back = alone.saved_ns, None if backward is None else backward.saved_ns
        whole = None if saved is None or (backward is not None and back is None) else saved + (back or 0.0)
        times = "the times alone" + (f", {count} times" if count > 1 else "")
        return Prediction(_scaled(saved, count), _scaled(whole, count), f"from {times}, as if nothing were fused")
    backward_ns = 0.0 if backward is None else _sum([None if part is None else part.backward_ns for part in parts])
    saved = _shrunk(forward_ns, alone)
    back = 0.0 if backward is None else _shrunk(backward_ns, backward)
    return Prediction(
        saved,
        None if saved is None or back is None else saved + back,
        "its part of its kernels' time, shrunk as its time alone",
    )


def _sum(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _scaled(value: float | None, factor: int) -> float | None:
    return None if value is None else value * factor


def _shrunk(part_ns: float | None, row: ReplacementRow) -> float | None:
    return None if part_ns is None or row.ratio is None else part_ns * (1.0 - row.ratio)
