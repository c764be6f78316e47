"""What a recorded step consists of: by phase and by what ran it, by kind, and by the user's own phases. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from graphbench.analysis.digest import Digest
from graphbench.analysis.gaps import known_sum, whole_ns
from graphbench.analysis.places import count_launches
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.stats import quantile
from graphbench.measurements import EVENT_TIMERS
from graphbench.step_records import GapOpKind, StepPhase, StepRecord, StepRow

PHASES: Final[tuple[StepPhase, ...]] = ("forward", "backward", "optimizer")
PartKind = Literal["part", "rest", "total", "of which", "user phase"]
_KIND_WORDS: Final[tuple[tuple[GapOpKind, str], ...]] = (
    ("copy", "copies"),
    ("sync", "synchronisations"),
    ("collective", "collectives"),
    ("accumulation", "accumulation"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart(ShownRow):
    """Some rows of a step added up. Times in nanoseconds; `None` where no row has one, `missing` counts those without.

    Parts and rests, which no row explains, add up to the total. What is `of which` and `user phase` is among them.
    `host_ns` is the time to issue the calls, `elapsed_ns` the host's in a user phase or in all, Python between the
    calls included. Of a user phase `calls` is how often it was entered.
    """

    kind: PartKind
    name: str
    time_ns: float | None
    share: float | None
    rows: int | None = None
    calls: int | None = None
    launches: int | None = None
    host_ns: float | None = None
    elapsed_ns: float | None = None
    copied_bytes: int = 0
    missing: int = 0


def step_parts(step: StepRecord, digest: Digest | None = None) -> list[StepPart]:
    """A step by phase and by what ran it, with what no row explains, the total, and what the parts consist of.

    `digest` holds statistics already computed for this record.
    """
    adder = _Adder(step, digest or Digest())
    return [*adder.parts(), *adder.rests(), adder.total(), *adder.kinds(), *adder.user_phases()]


class _Adder:
    """Adds up rows of one step."""

    def __init__(self, step: StepRecord, digest: Digest) -> None:
        self._step = step
        self._digest = digest
        self._whole_ns = whole_ns(step)

    def parts(self) -> Iterator[StepPart]:
        """By phase, compiled graphs and gaps apart."""
        for phase in PHASES:
            for word, compiled in (("compiled", True), ("gap", False)):
                rows = [row for row in self._step.rows if row.phase == phase and (row.kernel is not None) == compiled]
                if rows:
                    yield self._part("part", f"{phase}, {word}", rows)

    def rests(self) -> Iterator[StepPart]:
        """What no row explains."""
        run = self._step.run
        if run.beside_ns and any(run.beside_ns):
            yield self._rest("beside CUDA graphs", quantile(run.beside_ns, 0.5))
        if any(run.unattributed_ns) or run.unattributed:
            launched = count_launches(self._step, self._step.rows, self._digest)
            left = None if run.n_kernels is None or launched is None else run.n_kernels - launched
            yield replace(self._rest("unattributed", quantile(run.unattributed_ns, 0.5)), launches=left)
        if run.wrapper_ns is not None:
            name = "between rows, idle or unlabelled" if run.timer in EVENT_TIMERS else "between rows (wrapper)"
            yield self._rest(name, quantile(run.wrapper_ns, 0.5))

    def total(self) -> StepPart:
        """The whole step."""
        found = self._part("total", "total", self._step.rows)
        share = 1.0 if self._whole_ns else None
        run = self._step.run
        elapsed_ns = quantile(run.wall_ns, 0.5)
        return replace(found, time_ns=self._whole_ns, share=share, launches=run.n_kernels, elapsed_ns=elapsed_ns)

    def kinds(self) -> Iterator[StepPart]:
        """Gap ops that do something else than compute; copies by direction."""
        for kind, word in _KIND_WORDS:
            groups: dict[str, list[StepRow]] = {}
            for row in self._step.rows:
                if row.kind == kind:
                    groups.setdefault(row.copied if kind == "copy" else "", []).append(row)
            for direction, rows in groups.items():
                yield self._part("of which", f"{word} {direction}".strip(), rows)

    def user_phases(self) -> Iterator[StepPart]:
        """The user's own phases; each holds what ran in those nested in it."""
        for phase in self._step.user_phases:
            rows = [row for row in self._step.rows if f"{row.user_phase}/".startswith(f"{phase.name}/")]
            yield replace(self._part("user phase", phase.name, rows), calls=phase.calls, elapsed_ns=phase.host_ns)

    def _part(self, kind: PartKind, name: str, rows: Sequence[StepRow]) -> StepPart:
        time_ns = known_sum([self._digest.median(row.in_graph) for row in rows])
        return StepPart(
            kind=kind,
            name=name,
            time_ns=time_ns,
            share=self._share(time_ns),
            rows=len(rows),
            calls=sum(row.calls for row in rows),
            launches=count_launches(self._step, rows, self._digest),
            host_ns=known_sum([self._digest.median(row.in_graph, "host_ns") for row in rows]),
            copied_bytes=sum(row.copied_bytes for row in rows),
            missing=sum(row.in_graph.samples is None for row in rows),
        )

    def _rest(self, name: str, time_ns: float) -> StepPart:
        return StepPart(kind="rest", name=name, time_ns=time_ns, share=self._share(time_ns))

    def _share(self, time_ns: float | None) -> float | None:
        return time_ns / self._whole_ns if time_ns is not None and self._whole_ns else None
