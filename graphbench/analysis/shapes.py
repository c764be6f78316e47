"""What a node is called with, in words: its op type, and the shapes and dtypes of the tensors that it reads. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.views import outputs_text
from graphbench.measurements import TensorSpec
from graphbench.records import RegionRecord


def call_texts(region: RegionRecord) -> dict[str, str]:
    """Such as `linear bf16[8192,768] bf16[3072,768]`, for every node of a region by name.

    Nodes with equal texts are equal launches as far as shapes and dtypes tell. What an op reads that is no tensor is
    left out; `?` stands for what the region does not have.
    """
    known: dict[str, Sequence[TensorSpec] | None] = {
        entry.name: None if entry.kind == "value" else (entry.spec,) if entry.spec else () for entry in region.inputs
    }
    known.update((node.name, node.outputs if node.kind in TIMED_KINDS else None) for node in region.nodes)
    texts: dict[str, str] = {}
    for node in region.nodes:
        read = [_text(known.get(name, ())) for name in node.inputs]
        texts[node.name] = " ".join([node.op_type, *(text for text in read if text)])
    return texts


def _text(specs: Sequence[TensorSpec] | None) -> str:
    """`None` is no tensor; no specs at all are not known."""
    if specs is None:
        return ""
    return outputs_text(specs) or "?"
