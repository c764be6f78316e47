"""Pieces of HTML for notebooks: no script and no style sheet, whatever is shown is escaped, in light and in dark.

They stand on the page's own background and take its colour, so that no theme makes them unreadable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from graphbench.plaintext import quoted

LONGEST: Final = 400
"""Characters of a cell or a line; what is longer ends in `…`."""
_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
_RULE: Final = "1px solid rgba(128,128,128,.4)"
_CELL: Final = "padding:.15em .6em;background:none;border:0;vertical-align:top;text-align:"
_TABLE: Final = "border-collapse:collapse;margin:.4em 0;font-variant-numeric:tabular-nums;color:inherit"


def text(value: str, limit: int = LONGEST) -> str:
    """A text in one line, escaped for content and for attributes."""
    return quoted(value, limit).translate(_ESCAPES)


def block(parts: Iterable[str]) -> str:
    """A whole fragment. What stands in it is no formula, whatever dollar signs a name has.

    Source: the class names that MathJax 2 and 3, which notebooks use, leave alone by default.
    """
    return f'<div class="tex2jax_ignore mathjax_ignore">{"".join(parts)}</div>'


def line(value: str, *, strong: bool = False) -> str:
    """A line of prose."""
    shown = text(value)
    return f'<div style="margin:.15em 0">{f"<strong>{shown}</strong>" if strong else shown}</div>'


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], aligns: Sequence[str], caption: str = "") -> str:
    """A table of texts; a line break in a header is kept.

    Args:
        headers: one a column.
        rows: cells, one for every header.
        aligns: `left` or `right`, likewise.
        caption: what stands above it.
    """
    told = f'<caption style="text-align:left;color:inherit">{text(caption)}</caption>' if caption else ""
    head = "".join(
        f'<th scope="col" style="{_CELL}{align};border-bottom:{_RULE}">{_header(header)}</th>'
        for header, align in zip(headers, aligns, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row, aligns))}</tr>" for row in rows)
    return f'<table style="{_TABLE}">{told}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def facts(entries: Iterable[tuple[str, str]]) -> str:
    """A table of two columns: what, and its value."""
    rows = "".join(
        f'<tr><th scope="row" style="{_CELL}left;font-weight:normal;opacity:.8">{text(name)}</th>{_cell(value)}</tr>'
        for name, value in entries
    )
    return f'<table style="{_TABLE}"><tbody>{rows}</tbody></table>'


def _header(value: str) -> str:
    return "<br>".join(text(part) for part in value.split("\n"))


def _cell(value: str, align: str = "left") -> str:
    return f'<td style="{_CELL}{align}{";white-space:nowrap" if align == "right" else ""}">{text(value)}</td>'
