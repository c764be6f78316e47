"""What every op of a compiled model costs, which kernel it ended up in, and whether that fusion paid."""

from graphbench.api import Profile, backward_of, compare, diff, load, measure, profile, reset
from graphbench.bench_protocol import Benchable, BenchInputs
from graphbench.comparing.implementation import Implementation
from graphbench.errors import GraphbenchError
from graphbench.live import Recording, phase, record
from graphbench.options import MeasureOptions
from graphbench.trials import compare_configurations, replace

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
    "phase",
    "profile",
    "record",
    "replace",
    "reset",
]
