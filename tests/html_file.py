"""What stands in the HTML file of a page, read as its scripts read it. No browser."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any


class HtmlFile:
    """A rendered page: `data` is at once there, details are unpacked on demand."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
        assert len(found) == 1
        self.data: dict[str, Any] = json.loads(found[0])
        packed = re.findall(r'<script type="text/plain" id="chunk-(\d+)">(.*?)</script>', text)
        assert [int(number) for number, _ in packed] == list(range(len(self.data["starts"])))
        self._items = [item for _, chunk in packed for item in json.loads(zlib.decompress(base64.b64decode(chunk)))]

    def table(self, identity: str) -> dict[str, Any]:
        """A table, its columns by key with `values` and `texts` as lists."""
        table = next(dict(entry) for entry in self.data["tables"] if entry["id"] == identity)
        table["columns"] = {column["key"]: _unpacked(column) for column in table["columns"]}
        return table

    def detail(self, identity: str) -> dict[str, Any]:
        """What a click on a row shows, with code and samples in their places."""
        found = dict(self._items[self.data["details"][identity]])
        found["samples"] = {name: _series(self._items[number]) for name, number in found["samples"]}
        found["links"] = dict(found["links"])
        found["facts"] = dict(found["facts"])
        if found["code"] is not None:
            found["code"] = {**found["code"], **{k: self._items[found["code"][k]] for k in ("source", "call")}}
        return found

    def markup(self) -> str:
        """The file without the contents of its scripts and styles."""
        return re.sub(r"(<(script|style)[^>]*>).*?(</\2>)", r"\1\3", self.text, flags=re.DOTALL)


def _unpacked(column: dict[str, Any]) -> dict[str, Any]:
    values = _listed(column["values"])
    return {**column, "values": values, "texts": _listed(column.get("texts", values))}


def _listed(packed: Any) -> list[Any]:
    return packed if isinstance(packed, list) else [packed["pool"][at] for at in packed["at"]]


def _series(packed: dict[str, Any]) -> list[float]:
    return [(packed["base"] + over) / packed["scale"] for over in packed["over"]]
