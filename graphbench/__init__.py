"""What every op of a compiled model costs, which kernel it ended up in, and whether that fusion paid."""

from graphbench.api import Profile, diff, load, measure, profile, reset
from graphbench.errors import GraphbenchError

__all__ = ["GraphbenchError", "Profile", "diff", "load", "measure", "profile", "reset"]
