"""A profile as a trace for Perfetto and chrome://tracing: a slice a row, arrows from nodes to kernels. Pure."""

from __future__ import annotations

from graphbench.report.trace.reporter import TraceReporter

__all__ = ["TraceReporter"]
