"""Stand-alone scripts that repeat a row's measurement, and the ncu command lines that run them. Pure."""

from graphbench.report.repro.ncu import ncu_command
from graphbench.report.repro.script import repro

__all__ = ["ncu_command", "repro"]
