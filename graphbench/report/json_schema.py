"""The JSON Schema of a profile as `graphbench show --format json` prints it, made from the records. Pure.

`python -m graphbench.report.json_schema` prints it; the package holds that text as `docs/profile.schema.json`.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import types
import typing
from typing import Any, Literal, Union

from graphbench.document import SCHEMA_VERSION
from graphbench.jsonvalues import INT64
from graphbench.records import ProfileRecord
from graphbench.report.schema_texts import TEXTS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": -INT64, "maximum": INT64 - 1},
    float: {"type": "number"},
}


def profile_schema() -> dict[str, Any]:
    """The schema: an object that holds every field of a record and no other, its parts under `$defs`."""
    definitions: dict[str, Any] = {}
    root = _object(ProfileRecord, definitions)
    root["properties"]["schema_version"] = {
        "const": SCHEMA_VERSION,
        "description": TEXTS["ProfileRecord"]["schema_version"],
    }
    head = {"$schema": DIALECT, "$id": f"urn:graphbench:profile:{SCHEMA_VERSION}", "title": "graphbench profile"}
    return {**head, **root, "$defs": dict(sorted(definitions.items()))}


def schema_text() -> str:
    """The schema as the package holds it."""
    return json.dumps(profile_schema(), indent=2, ensure_ascii=False) + "\n"


def _object(record: type[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a dataclass; those of the classes that it refers to are added to `definitions`."""
    texts, hints = TEXTS[record.__name__], typing.get_type_hints(record)
    names = [entry.name for entry in dataclasses.fields(record)]
    return {
        "description": " ".join(inspect.cleandoc(record.__doc__ or "").split()),
        "type": "object",
        "properties": {name: {**_of(hints[name], definitions), "description": texts[name]} for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _of(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type hint: what `graphbench.codec` reads and writes for it.

    Raises:
        TypeError: the records have a type that this does not know.
    """
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    if dataclasses.is_dataclass(hint):
        name = typing.cast("type[Any]", hint).__name__
        if name not in definitions:
            definitions[name] = {}  # a record that refers to itself finds it
            definitions[name] = _object(typing.cast("type[Any]", hint), definitions)
        return {"$ref": f"#/$defs/{name}"}
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return {"enum": list(args)}
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return {"type": "array", "items": _of(args[0], definitions)}
    if origin is tuple:
        items = [_of(arg, definitions) for arg in args]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if origin in (Union, types.UnionType):
        if any(typing.get_origin(arg) is dict for arg in args):
            return {}  # any JSON value
        others = [arg for arg in args if arg is not type(None)]
        if len(others) == 1:
            return {"anyOf": [_of(others[0], definitions), {"type": "null"}]}
    raise TypeError(f"no JSON Schema for the type hint {hint!r}")


if __name__ == "__main__":
    sys.stdout.write(schema_text())
