"""Ops of a profile as an op list: a file that measures them again without the model, elsewhere too. Pure, no torch."""

from __future__ import annotations

from graphbench.report.op_list.export import op_list

__all__ = ["op_list"]
