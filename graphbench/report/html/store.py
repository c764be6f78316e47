"""What a page shows only when asked, as compressed text: details of rows, code, samples; equal things once. Pure."""

from __future__ import annotations

import base64
import json
import operator
import zlib
from collections.abc import Sequence

from graphbench.measurements import JsonValue
from graphbench.report.html.model import Detail

CHUNK_CHARACTERS = 400_000
"""So much JSON is compressed together: as much as a browser unpacks before anybody notices."""
THOUSANDTHS = 1000
_LEVEL = 5
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class Store:
    """Values by number, in chunks. `starts` are the numbers of the first value of each chunk."""

    def __init__(self) -> None:
        self.has_samples = False
        self.starts: list[int] = []
        self._chunks: list[str] = []
        self._open: list[str] = []
        self._size = self._count = 0
        self._texts: dict[str, int] = {}
        self._series: dict[tuple[float, ...], int] = {}

    def add(self, value: JsonValue) -> int:
        """Keep a value; its number."""
        written = _ENCODER.encode(value)
        if not self._open:
            self.starts.append(self._count)
        self._open.append(written)
        self._size += len(written)
        self._count += 1
        if self._size >= CHUNK_CHARACTERS:
            self._close()
        return self._count - 1

    def add_text(self, text: str) -> int:
        """Keep a text; equal ones have one number."""
        if text not in self._texts:
            self._texts[text] = self.add(text)
        return self._texts[text]

    def add_series(self, values: tuple[float, ...]) -> int:
        """Keep samples as `short_series` writes them; equal ones have one number."""
        self.has_samples = True
        if values not in self._series:
            self._series[values] = self.add(short_series(values))
        return self._series[values]

    def add_detail(self, detail: Detail) -> int:
        """Keep what a click on a row shows, with numbers in the place of code and samples."""
        code = detail.code
        return self.add(
            {
                "kind": detail.kind,
                "title": detail.title,
                "facts": [[name, text] for name, text in detail.facts],
                "links": [[head, list(ids)] for head, ids in detail.links],
                "samples": [[series.name, self.add_series(series.values_ns)] for series in detail.samples],
                "code": None
                if code is None
                else {
                    "language": code.language,
                    "line": code.line,
                    "source": self.add_text(code.source),
                    "call": self.add_text(code.call),
                },
            }
        )

    def chunks(self) -> Sequence[str]:
        """All values: each chunk is a JSON list, compressed by zlib, in base64."""
        self._close()
        return self._chunks

    def _close(self) -> None:
        if self._open:
            self._chunks.append(packed(f"[{','.join(self._open)}]"))
            self._open, self._size = [], 0


def packed(text: str) -> str:
    """A text compressed by zlib, in base64."""
    return base64.b64encode(zlib.compress(text.encode(), _LEVEL)).decode()


def script_json(value: object) -> str:
    """JSON in ASCII that may stand within a `script` element: nothing in it can end that, or begin a comment."""
    return _ENCODER.encode(value).translate(_ESCAPES)


def short_series(values_ns: Sequence[float]) -> dict[str, JsonValue]:
    """Samples as `(base + n) / scale` nanoseconds, for whole numbers `n`: half the digits, and quicker to compress.

    What is no whole number of nanoseconds is kept to a thousandth of one.
    """
    scaled, scale = list(map(int, values_ns)), 1
    if any(map(operator.ne, scaled, values_ns)):
        scaled, scale = [round(THOUSANDTHS * value) for value in values_ns], THOUSANDTHS
    base = min(scaled, default=0)
    return {"scale": scale, "base": base, "over": [value - base for value in scaled]}
