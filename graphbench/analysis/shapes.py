"""What a node is called with, in words: its op type, and the shapes and dtypes of the tensors that it reads. Pure."""

from __future__ import annotations

from typing import Final

from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.views import outputs_text
from graphbench.records import InputRecord, RegionRecord

UNKNOWN: Final = "?"


def call_texts(region: RegionRecord) -> dict[str, str]:
    """Such as `linear bf16[8192,768] bf16[3072,768]`, for every node of a region by name.

    Nodes with equal texts are equal launches as far as shapes and dtypes tell. What an op reads that is no tensor is
    left out; `?` stands for what the region does not have.
    """
    known = {entry.name: "" if entry.kind == "value" else _input_text(entry) for entry in region.inputs}
    for node in region.nodes:
        tensors = node.kind in TIMED_KINDS
        known[node.name] = (outputs_text(node.outputs, node.symbolic) or UNKNOWN) if tensors else ""
    texts: dict[str, str] = {}
    for node in region.nodes:
        read = [known.get(name, UNKNOWN) for name in node.inputs]
        texts[node.name] = " ".join([node.op_type, *(text for text in read if text)])
    return texts


def _input_text(entry: InputRecord) -> str:
    return outputs_text((entry.spec,), (entry.symbolic,)) if entry.spec is not None else UNKNOWN
