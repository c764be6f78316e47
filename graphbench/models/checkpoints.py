"""Weights from a file: read without running its code, fitted to the model's names, or refused with what differs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from graphbench.errors import UsageError, first_line
from graphbench.models.saved_files import SAFETENSORS, check_file, load_saved, readable, refused_code
from graphbench.units import count_text

if TYPE_CHECKING:
    import torch

WHAT: Final = "checkpoint"
INDEX: Final = ".safetensors.index.json"
SUFFIXES: Final = (".pt", ".pth", ".bin", SAFETENSORS)
WRAPPERS: Final = ("state_dict", "model", "model_state_dict")
"""Keys under which training programs keep the weights, beside an optimizer's state and the like."""
PREFIXES: Final = ("module.", "_orig_mod.")
"""What `DistributedDataParallel` and `torch.compile` put before every name."""
_MOST_INDEX_BYTES: Final = 64 << 20
_NAMED: Final = 3
_HINT: Final = "read are .safetensors files, and what torch.save(model.state_dict(), path) writes"


def checkpoint_files(path: Path) -> tuple[Path, ...]:
    """All files that a checkpoint is made of: an index of several names the others.

    Raises:
        UsageError: no such file, another suffix, or an index that names something else than files beside it.
    """
    if path.name.endswith(INDEX):
        return (path, *_shards(path))
    check_file(path, WHAT, SUFFIXES)
    return (path,)


def load_checkpoint(module: torch.nn.Module, path: Path, *, unsafe: bool, subject: str) -> tuple[str, ...]:
    """Load a file's weights into a module on the CPU.

    Args:
        module: gets them.
        path: `.safetensors`, an index of several such files, or a file of `torch.save` (`.pt`, `.pth`, `.bin`).
        unsafe: let a file of `torch.save` run code.
        subject: what to call the model.

    Returns:
        What to tell the user: where in the file the weights were, and which prefix their names had.

    Raises:
        UsageError: the file cannot be read, would run code, or does not fit the module.
    """
    notes: list[str] = []
    state = _unwrapped(_read(path, unsafe=unsafe), path, notes)
    state = _without_prefixes(state, set(module.state_dict()), path, notes)
    notes += _cast(module, state, path)
    _fit(module, state, path, subject)
    return tuple(notes)


def _cast(module: torch.nn.Module, state: Mapping[str, object], path: Path) -> Iterator[str]:
    """What to tell of tensors whose dtype is not the model's: loading casts them, and the model's is measured."""
    expected = module.state_dict()
    casts = Counter(
        (_dtype(value), _dtype(expected[key]))
        for key, value in state.items()
        if _has_shape(value) and _has_shape(expected.get(key))
    )
    for (found, own), number in casts.items():
        if found != own:
            yield f"{WHAT} {path.name}: {count_text(number, 'tensor')} of {found} became {own}, as the model has them"


def _dtype(value: object) -> str:
    return str(getattr(value, "dtype", None)).removeprefix("torch.")


def _read(path: Path, *, unsafe: bool) -> object:
    if path.name.endswith(INDEX):
        loaded: dict[str, object] = {}
        for shard in _shards(path):
            loaded.update(cast("dict[str, object]", _read_one(shard, unsafe=False)))
        return loaded
    return _read_one(path, unsafe=unsafe)


def _read_one(path: Path, *, unsafe: bool) -> object:
    check_file(path, WHAT, SUFFIXES)

    def read() -> object:
        try:
            return load_saved(path, WHAT, device="cpu", unsafe=unsafe)
        except Exception as error:
            named = refused_code(error)
            if named is None:
                raise
            raise UsageError(
                f"{WHAT} {path}: reading it would run code: it names {named}",
                hint="save the weights alone, torch.save(model.state_dict(), path); or, only if you trust who made it, "
                "pass --unsafe-load",
                subject=str(path),
            ) from error

    return readable(path, WHAT, _HINT, read)


def _shards(index: Path) -> tuple[Path, ...]:
    """The files that an index names, each once.

    Source: the layout that transformers 5 writes, `{"weight_map": {name: file}}`.
    """

    def read() -> object:
        if index.stat().st_size > _MOST_INDEX_BYTES:
            raise UsageError(
                f"{WHAT} {index}: found an index of {index.stat().st_size} bytes, expected at most {_MOST_INDEX_BYTES}",
                subject=str(index),
            )
        return json.loads(index.read_text(encoding="utf-8"))

    check_file(index, WHAT, (".json",))
    loaded = readable(index, WHAT, _HINT, read)
    files = loaded.get("weight_map") if isinstance(loaded, dict) else None
    names = list(files.values()) if isinstance(files, dict) else []
    beside = [name for name in names if isinstance(name, str) and Path(name).name == name]
    if not names or len(beside) != len(names):
        raise UsageError(
            f"{WHAT} {index}: found no weight_map of files beside it",
            hint='expected {"weight_map": {"layer.weight": "model-00001-of-00002.safetensors", ...}}',
            subject=str(index),
        )
    found = tuple(index.parent / name for name in dict.fromkeys(beside))
    for file in found:
        check_file(file, WHAT, (SAFETENSORS,))
    return found


def _unwrapped(loaded: object, path: Path, notes: list[str]) -> dict[str, torch.Tensor]:
    """The names and tensors in what a file holds."""
    import torch

    if isinstance(loaded, Mapping):
        wrapper = next((key for key in WRAPPERS if isinstance(loaded.get(key), Mapping | torch.nn.Module)), None)
        if wrapper is not None:
            others = [str(key) for key in loaded if key != wrapper]
            notes.append(f"{WHAT} {path.name}: read from its {wrapper!r}{_left_out(others)}")
            loaded = loaded[wrapper]
    if isinstance(loaded, torch.nn.Module):
        loaded = loaded.state_dict()
    state = dict(loaded) if isinstance(loaded, Mapping) else {}
    odd = next((key for key, value in state.items() if not isinstance(key, str) or not _is_state(key, value)), None)
    if not state or odd is not None:
        found = f"{odd!r}: {type(state[odd]).__name__}" if odd is not None else f"a {type(loaded).__name__}"
        raise UsageError(
            f"{WHAT} {path}: found {found}, expected tensors by name, alone or under one of {', '.join(WRAPPERS)}",
            hint=_HINT,
            subject=str(path),
        )
    return state


def _left_out(others: list[str]) -> str:
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return f"; left out: {', '.join(others[:_NAMED])}{more}" if others else ""


def _is_state(key: str, value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor) or key.endswith("_extra_state")


def _without_prefixes(
    state: dict[str, torch.Tensor], expected: set[str], path: Path, notes: list[str]
) -> dict[str, torch.Tensor]:
    """Take off what wrappers of a model put before all names, unless the model's own names have it too."""
    taken = []
    while prefix := next((each for each in PREFIXES if all(key.startswith(each) for key in state)), None):
        if any(key.startswith(prefix) for key in expected):
            break
        state = {key.removeprefix(prefix): value for key, value in state.items()}
        taken.append(prefix)
    if taken:
        notes.append(f"{WHAT} {path.name}: its names begin with {''.join(taken)}, which was taken off")
    return state


def _fit(module: torch.nn.Module, state: dict[str, torch.Tensor], path: Path, subject: str) -> None:
    """Load, or name what differs. A name that shares its tensor with one that is there, as tied weights do, may lack.

    Source: `torch.nn.Module.load_state_dict`, whose hooks may rename (torch 2.11, 2.13 and 2.14).
    """
    expected = module.state_dict()
    shapes = [
        f"{key}: found {list(value.shape)}, expected {list(expected[key].shape)}"
        for key, value in state.items()
        if _has_shape(value) and _has_shape(expected.get(key)) and value.shape != expected[key].shape
    ]
    missing, unexpected = sorted(set(expected) - set(state)), sorted(set(state) - set(expected))
    if not shapes:
        try:
            keys = module.load_state_dict(state, strict=False)
        except Exception as error:
            raise UsageError(
                f"{WHAT} {path} does not fit {subject}: {first_line(error)}", hint=_FIT_HINT, subject=str(path)
            ) from error
        here = {_place(value) for key, value in expected.items() if key in state}
        missing = [key for key in keys.missing_keys if _place(expected.get(key)) not in here]
        unexpected = list(keys.unexpected_keys)
    found = [
        _told(missing, "missing"),
        _told(unexpected, "unexpected"),
        _told(shapes, "of another shape"),
    ]
    if any(found):
        raise UsageError(
            f"{WHAT} {path} does not fit {subject}: {'; '.join(filter(None, found))}",
            hint=_FIT_HINT,
            subject=str(path),
        )


_FIT_HINT: Final = "is it a checkpoint of this model, built with the same --model-arg values?"


def _told(entries: list[str], problem: str) -> str:
    """`3 missing (a, b, c, ...)`, "" for nothing."""
    if not entries:
        return ""
    more = f", and {len(entries) - _NAMED} more" if len(entries) > _NAMED else ""
    return f"{count_text(len(entries), 'name')} {problem} ({', '.join(entries[:_NAMED])}{more})"


def _has_shape(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and not torch.nn.parameter.is_lazy(value)


def _place(value: object) -> tuple[int, object] | None:
    """Where a tensor's values lie, equal for tied ones."""
    import torch

    from graphbench.tensors import has_storage

    if not isinstance(value, torch.Tensor) or not _has_shape(value) or not has_storage(value) or not value.numel():
        return None
    return value.data_ptr(), value.shape
