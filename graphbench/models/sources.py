"""A model from what the command line says about it: a zoo's name, or a class or function of a Python file."""

from __future__ import annotations

import ast
import difflib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from graphbench.errors import CaptureError, UsageError, first_line
from graphbench.models.inputs import InputSpec
from graphbench.models.zoo import build_zoo_model, construct

if TYPE_CHECKING:
    import torch

_LONGEST_LITERAL = 10_000  # characters: Python's parser is not meant for more than people write
_WORDS: Mapping[str, object] = {"true": True, "false": False, "none": None, "null": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """What the user said. Either `name` (`zoo:model`) or both `file` and `target` (a class or function in it)."""

    name: str | None = None
    file: Path | None = None
    target: str | None = None
    arguments: Mapping[str, object]
    batch_size: int | None = None
    train: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltModel:
    """A model on the CPU, random weights. Its inputs are known as `specs`, from `make_example`, or not at all."""

    module: torch.nn.Module
    subject: str
    specs: tuple[InputSpec, ...] = ()
    make_example: Callable[[], object] | None = None


def parse_arguments(texts: Iterable[str]) -> dict[str, object]:
    """Read `--model-arg` values: `key=value`, the value a Python literal, else a string.

    Raises:
        UsageError: no `=`, no name before it, the same key twice, or a value nested too deeply.

    Example:
        >>> parse_arguments(["depth=4", "act=gelu", "bias=false"])
        {'depth': 4, 'act': 'gelu', 'bias': False}
    """
    arguments: dict[str, object] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.isidentifier():
            raise UsageError(f"--model-arg {text!r}: expected NAME=VALUE", subject=text)
        if key in arguments:
            raise UsageError(f"--model-arg {key!r} is given twice", subject=key)
        arguments[key] = _literal(key, value)
    return arguments


def _literal(key: str, text: str) -> object:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        value: object = ast.literal_eval(text) if len(text) <= _LONGEST_LITERAL else text
    except (ValueError, SyntaxError, TypeError):  # TypeError: a set of lists, say
        return text
    except (MemoryError, RecursionError) as error:
        raise UsageError(f"--model-arg {key}: a value nested too deeply", subject=key) from error
    return value


def build_model(source: ModelSource) -> BuiltModel:
    """Build what `source` names.

    Raises:
        UsageError: no such zoo, model, file, class or argument.
        SetupError: the zoo's package is missing or does not import.
        CaptureError: the user's file or a constructor raised.
    """
    if source.file is not None and source.target is not None:
        return _build_custom(source, source.file, source.target)
    zoo, separator, name = (source.name or "").partition(":")
    if not separator or not name:
        raise UsageError(
            f"--model {source.name!r}: expected ZOO:NAME",
            hint="for instance torchvision:resnet18, timm:vit_small_patch16_224, hf:gpt2, hf:LlamaConfig",
            subject=source.name,
        )
    batch_size = source.batch_size or 1
    built = build_zoo_model(zoo, name, source.arguments, batch_size=batch_size, train=source.train)
    return BuiltModel(module=built.module, subject=f"{zoo}:{name}", specs=built.specs)


def _build_custom(source: ModelSource, file: Path, target: str) -> BuiltModel:
    import torch

    subject = f"{file.name}:{target}"
    with importable(file.resolve().parent):
        loaded = load_file(file)
        factory = _find_target(loaded, file, target)
        _check_arguments(factory, source.arguments, subject)
        module = construct(subject, lambda: factory(**source.arguments))
    if not isinstance(module, torch.nn.Module):
        raise UsageError(
            f"{subject}: it made a {type(module).__name__}, expected a torch.nn.Module",
            hint="--model-class names a module class, or a function that returns a module",
            subject=subject,
        )
    return BuiltModel(module=module, subject=subject, make_example=_find_example(loaded, file, source.batch_size))


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let the file import its neighbours, as it could if Python ran it."""
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)


def load_file(file: Path, what: str = "model") -> ModuleType:
    """Import a Python file; `what` it defines is for messages.

    Raises:
        UsageError: no such file, or no Python.
        CaptureError: importing it raised.
    """
    if not file.is_file():
        raise _no_file(file, what)
    name = f"_graphbench_model_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{what} file {file}: found suffix {file.suffix!r}, expected .py", subject=str(file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and Dynamo look a class's module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise CaptureError(
            f"{what} file {file}: importing it raised {type(error).__name__}: {first_line(error)}",
            hint="--debug shows the traceback",
            subject=str(file),
        ) from error
    return module


def _no_file(file: Path, what: str) -> UsageError:
    """The error for a path that is no file; its hint names files like it, or what is there instead."""
    near = difflib.get_close_matches(file.name, [path.name for path in file.parent.glob("*.py")], n=3)
    hint = f"pass the Python file that defines the {what}, from here or with its whole path"
    if near:
        hint = f"did you mean {' or '.join(str(file.parent / name) for name in near)}?"
    elif not file.parent.is_dir():
        hint = f"there is no folder {file.parent} either"
    found = "found a folder, expected a Python file" if file.is_dir() else "no such file"
    return UsageError(f"{what} file {file}: {found}", hint=hint, subject=str(file))


def _find_target(loaded: ModuleType, file: Path, target: str) -> Callable[..., object]:
    found: object = getattr(loaded, target, None)
    if not callable(found):
        problem = "no such class" if found is None else f"found {type(found).__name__}, expected a class or function"
        raise UsageError(f"model file {file}: {target}: {problem}", hint=_modules_hint(loaded), subject=target)
    return found


def _modules_hint(loaded: ModuleType) -> str:
    """Which module classes a file defines and which it imports: both can be named."""
    import torch

    classes = {
        name: value.__module__ == loaded.__name__
        for name, value in vars(loaded).items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module)
    }
    defined = [name for name, own in classes.items() if own]
    imported = [name for name, own in classes.items() if not own]
    text = f"modules defined there: {', '.join(defined) or 'none'}"
    return f"{text}; imported there: {', '.join(imported)}" if imported else text


def _check_arguments(factory: Callable[..., object], arguments: Mapping[str, object], subject: str) -> None:
    try:
        signature = inspect.signature(factory)
    except ValueError:
        return  # built in C, without a signature: calling it will tell
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise UsageError(
            f"{subject}: {error}", hint=f"its arguments are {signature}; set them with --model-arg", subject=subject
        ) from error


def _find_example(loaded: ModuleType, file: Path, batch_size: int | None) -> Callable[[], object] | None:
    """The file's `example_inputs()`, which may take `batch_size`."""
    example: object = getattr(loaded, "example_inputs", None)
    if not callable(example):
        return None
    takes_batch_size = "batch_size" in inspect.signature(example).parameters
    if batch_size is not None and not takes_batch_size:
        raise UsageError(
            f"--batch-size {batch_size}: example_inputs() in {file} takes no batch_size",
            hint="give it such a parameter, or describe the inputs with --input",
            subject="--batch-size",
        )
    sizes = {} if batch_size is None else {"batch_size": batch_size}

    def make() -> object:
        try:
            made: object = example(**sizes)
        except Exception as error:
            raise CaptureError(
                f"{file}: example_inputs() raised {type(error).__name__}: {first_line(error)}",
                hint="--debug shows the traceback",
                subject=str(file),
            ) from error
        return made

    return make
