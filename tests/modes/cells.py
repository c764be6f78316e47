"""One cell of the table: a mode, inference or training, a model. What came of it, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

import graphbench
from graphbench.analysis.summary import summary
from graphbench.analysis.totals import Basis
from graphbench.errors import GraphbenchError, first_line
from tests.modes.models import batch, made
from tests.modes.modes import BACKEND, MODES, Kind, Mode
from tests.suite.checks import faults

MEASURED = "measured"
BEYOND_TORCH = "torch cannot compile it"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a cell. `verdict` is `measured` or the sentence of refusal; times are medians in nanoseconds.

    `eager_ns` and `compiled_ns`: whole runs without labels, backward included. `faults` is what should not be.
    """

    mode: str
    kind: Kind
    model: str
    verdict: str
    regions: int = 0
    nodes: int = 0
    kernels: int = 0
    attributed: float | None = None
    eager_ns: float | None = None
    compiled_ns: float | None = None
    faults: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def mode_named(name: str) -> Mode:
    """The mode of that name."""
    return next(mode for mode in MODES if mode.name == name)


def run_cell(mode: Mode, kind: Kind, model: str, device: str) -> Outcome:
    """Compile, call and measure in a mode."""
    graphbench.reset()
    try:
        with mode.around():
            try:
                _call(mode, kind, model, device)
                record = graphbench.measure(progress=False, warmup=1, repeat=3).record
            except Exception as error:
                refused = error if isinstance(error, GraphbenchError) else getattr(error, "inner_exception", None)
                if isinstance(refused, GraphbenchError):
                    return Outcome(mode=mode.name, kind=kind, model=model, verdict=refused.message)
                graphbench.reset()
                if not torch_raises(mode, kind, model, device):
                    raise
                verdict = f"{BEYOND_TORCH}: {first_line(error)}"
                return Outcome(mode=mode.name, kind=kind, model=model, verdict=verdict)
    finally:
        graphbench.reset()
    whole = summary(record)
    times: dict[Basis, Any] = {line.basis: line for line in whole.before_after if line.part in ("both", "forward")}
    plain = times.get("plain")
    return Outcome(
        mode=mode.name,
        kind=kind,
        model=model,
        verdict=MEASURED,
        regions=len(record.regions),
        nodes=whole.nodes.timed,
        kernels=whole.kernels.timed,
        attributed=whole.coverage.attributed,
        eager_ns=plain.eager_ns if plain else None,
        compiled_ns=plain.compiled_ns if plain else None,
        faults=tuple(faults(record, kind)),
    )


def torch_raises(mode: Mode, kind: Kind, model: str, device: str) -> bool:
    """Whether plain Inductor cannot compile a cell either."""
    BACKEND[:] = ["inductor"]
    try:
        _call(mode, kind, model, device)
    except Exception:  # noqa: BLE001 - whatever it is: the question is whether there is any
        return True
    finally:
        BACKEND[:] = ["graphbench"]
    return False


def _call(mode: Mode, kind: Kind, model: str, device: str) -> None:
    eager = made(model, device).train(kind == "training")
    compiled = mode.compile(eager)
    with torch.set_grad_enabled(kind == "training"):
        for x in map(mode.prepare, mode.batches(batch(model, device))):
            with mode.calling(device):
                result = compiled(x)
            if kind == "training":
                result.sum().backward()
