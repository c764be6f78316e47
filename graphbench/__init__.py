"""What every op of a compiled model costs, which kernel it ended up in, and whether that fusion paid."""

from graphbench.api import Profile, backward_of, compare, diff, load, measure, profile, replace, reset
from graphbench.comparing.implementation import Implementation
from graphbench.errors import GraphbenchError
from graphbench.live import Recording, phase, record

__all__ = [
    "GraphbenchError",
    "Implementation",
    "Profile",
    "Recording",
    "backward_of",
    "compare",
    "diff",
    "load",
    "measure",
    "phase",
    "profile",
    "record",
    "replace",
    "reset",
]
