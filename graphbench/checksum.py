"""The checksum of a saved profile: without it a flipped bit in a packed column would read as another time.

It is the first field of the file, `{"sha256":"<64 digits>",`, over the UTF-8 text of everything behind it. A profile
without the field is read too: another program that writes profiles leaves it out, and one that edits them removes it.
"""

from __future__ import annotations

import hashlib
import json

from graphbench.errors import ProfileFormatError

FIELD = "sha256"


def with_checksum(text: str) -> str:
    """A JSON object's compact text with its checksum as first field; `text` has other fields."""
    rest = text.removeprefix("{")
    return _head(hashlib.sha256(encoded(rest)).hexdigest()) + rest


def encoded(text: str) -> bytes:
    """The bytes that a checksum is of. Text from a file has no surrogates, which UTF-8 lacks; any other may."""
    return text.encode("utf-8", "surrogatepass")


def verify(digest: object, content: bytes, path: str) -> None:
    """Prove that a file is what its checksum was made of.

    Args:
        digest: the value of the field, from the parsed text.
        content: the whole file, field included.
        path: what to call it in messages.

    Raises:
        ProfileFormatError: it is not.
    """
    head = _head(digest).encode()
    if not content.startswith(head) or hashlib.sha256(memoryview(content)[len(head) :]).hexdigest() != digest:
        raise ProfileFormatError(
            path,
            None,
            "a profile that was damaged or edited after it was written",
            f"one that fits its checksum (field {FIELD})",
            hint=f"take another copy, or measure again; if it was edited on purpose, remove the field {FIELD}",
        )


def _head(digest: object) -> str:
    return f'{{"{FIELD}":{json.dumps(digest)},'
