"""What every op of a compiled model costs, which kernel it ended up in, and whether that fusion paid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphbench.api import Profile, backward_of, compare, diff, load, measure, measure_ops, profile, reset
from graphbench.bench_protocol import Benchable, BenchInputs
from graphbench.comparing.implementation import Implementation
from graphbench.errors import GraphbenchError
from graphbench.live import Recording, phase, record
from graphbench.options import MeasureOptions
from graphbench.series import scaling
from graphbench.trials import compare_configurations, replace

if TYPE_CHECKING:
    from graphbench.plugins.ipython_magic import Shell

__all__ = [
    "BenchInputs",
    "Benchable",
    "GraphbenchError",
    "Implementation",
    "MeasureOptions",
    "Profile",
    "Recording",
    "backward_of",
    "compare",
    "compare_configurations",
    "diff",
    "load",
    "measure",
    "measure_ops",
    "phase",
    "profile",
    "record",
    "replace",
    "reset",
    "scaling",
]


def load_ipython_extension(ipython: Shell) -> None:
    """What `%load_ext graphbench` calls: it brings the cell magic `%%graphbench`."""
    from graphbench.plugins.ipython_magic import register

    register(ipython)
