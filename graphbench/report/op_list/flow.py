"""YAML in flow style, as `graphbench.models.yaml_cursor` reads it. Pure text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from graphbench.plaintext import clean

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-/]{0,120}")
_WORDS: Final = frozenset(["true", "false", "null", "inf", "nan"])


def flow(value: object) -> str:
    """A value on one line: mappings, lists, texts, numbers, `None`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{flow(key)}: {flow(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow, value))}]"
    text = clean(str(value))
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text, ensure_ascii=False)
