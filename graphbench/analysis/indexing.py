"""Which ops use the integers that they are given as places in a tensor. Pure."""

from __future__ import annotations

import re
from typing import Final

ROWS: Final = re.compile(r"embedding(_bag|_renorm_?)?|_embedding_bag(_forward_only)?")
"""Rows of a table."""
ALONG: Final = re.compile(r"(index_(select|add|copy|fill|reduce)|gather|scatter(_add|_reduce)?|take_along_dim)_?")
"""Places along a dimension."""
INDEXED: Final = re.compile(
    r"getitem|setitem|index|(index_put|_unsafe_index|_unsafe_index_put|_index_put_impl|_unsafe_masked_index\w*)_?"
)
"""Places in several dimensions."""
CLASSES: Final = re.compile(r"cross_entropy|nll_loss2?d?(_forward)?|nll_loss(_nd)?")
"""Classes."""
FLAT: Final = ("take", "put_", "put")
"""Places in a tensor as if it were flat."""
ITEMS: Final = ("getitem", "setitem")
"""Which index with tensors only if they are given some."""


def indexes(op: str) -> bool:
    """Whether an op, named without namespace and overload, surely reads integers as places in a tensor."""
    if op in ITEMS:
        return False
    return op in FLAT or any(kind.fullmatch(op) for kind in (ROWS, ALONG, INDEXED, CLASSES))
