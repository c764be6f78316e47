"""Text made safe to print: names, reasons and paths come from profiles and models that nobody vouches for.

A terminal obeys control characters, and the marks that reverse the direction of text make one name look like another.
"""

from __future__ import annotations

_SHOWN_INSTEAD = "·"


def clean(text: str) -> str:
    """One line in which every character shows: what `str.isprintable` refuses becomes a dot in the middle."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _SHOWN_INSTEAD for character in text)


def clean_lines(text: str) -> str:
    """Several lines, each as `clean` makes it."""
    return text if text.isprintable() else "\n".join(map(clean, text.split("\n")))


def quoted(text: str, limit: int) -> str:
    """A text for a message: one line of at most `limit` characters."""
    return clean(text if len(text) <= limit else text[: limit - 1] + "…")
