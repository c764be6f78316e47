"""A model from what the command line says about it: a zoo's name, or something of a Python module or file."""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from graphbench.errors import CaptureError, UsageError, first_line
from graphbench.models.inputs import InputSpec
from graphbench.models.python_files import importable, load_file, load_module
from graphbench.models.zoo import construct, find_zoo, passed_over, zoo_names

if TYPE_CHECKING:
    import torch

_LONGEST_LITERAL = 10_000  # characters: Python's parser is not meant for more than people write
_WORDS: Mapping[str, object] = {"true": True, "false": False, "none": None, "null": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """What the user said. Either `name` (`zoo:model`, `module.path:factory`), or `file` and `target` (something in it).

    `checkpoint` is a file of weights to load; with `unsafe_load` it may run code.
    """

    name: str | None = None
    file: Path | None = None
    target: str | None = None
    arguments: Mapping[str, object]
    batch_size: int | None = None
    train: bool = False
    checkpoint: Path | None = None
    unsafe_load: bool = False

    @property
    def module_path(self) -> str | None:
        """The name, where it is none of a zoo: building it imports a module of the user's."""
        if self.name is None or self.name.partition(":")[0] in zoo_names():
            return None
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltModel:
    """A model on the CPU, with random weights or those of a checkpoint.

    Its inputs are known as `specs`, from `make_example`, or not at all; `example_origin` says whose that is. `notes`
    are to be told to the user.
    """

    module: torch.nn.Module
    subject: str
    specs: tuple[InputSpec, ...] = ()
    make_example: Callable[[], object] | None = None
    example_origin: str = "example_inputs()"
    notes: tuple[str, ...] = ()


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
            raise UsageError(f"--model-arg {text!r}: expected NAME=VALUE", hint="for instance depth=4", subject=text)
        if key in arguments:
            raise UsageError(f"--model-arg {key!r} is given twice", subject=key)
        arguments[key] = literal(f"--model-arg {key}", value)
    return arguments


def literal(flag: str, text: str) -> object:
    """A value of the command line: a Python literal, a word as `true` or `none`, else the text itself.

    Raises:
        UsageError: nested too deeply; `flag` begins the message.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        value: object = ast.literal_eval(text) if len(text) <= _LONGEST_LITERAL else text
    except (ValueError, SyntaxError, TypeError):  # TypeError: a set of lists, say
        return text
    except (MemoryError, RecursionError) as error:
        raise UsageError(f"{flag}: a value nested too deeply", subject=flag) from error
    return value


def build_model(source: ModelSource) -> BuiltModel:
    """Build what `source` names, and load its checkpoint.

    Raises:
        UsageError: no such zoo, model, file, class or argument; or a checkpoint that does not fit, or may not be read.
        SetupError: the zoo's package is missing or does not import.
        CaptureError: the user's file or a constructor raised.
    """
    if source.file is not None and source.target is not None:
        built = _build_of_file(source, source.file, source.target)
    else:
        built = _build_named(source)
    if source.checkpoint is None:
        return built
    from graphbench.models.checkpoints import load_checkpoint

    notes = load_checkpoint(built.module, source.checkpoint, unsafe=source.unsafe_load, subject=built.subject)
    subject = f"{built.subject} with {source.checkpoint.name}"
    return replace(built, subject=subject, notes=(*built.notes, *notes))


def _build_named(source: ModelSource) -> BuiltModel:
    place, colon, name = (source.name or "").partition(":")
    if not colon or not place or not name:
        raise UsageError(
            f"--model {source.name!r}: expected ZOO:NAME or MODULE:FACTORY",
            hint=f"for instance torchvision:resnet18, hf:gpt2, my_package.models:Net; zoos: {', '.join(zoo_names())}",
            subject=source.name,
        )
    if place.endswith(".py"):
        raise UsageError(
            f"--model {source.name}: found a file, expected ZOO:NAME or MODULE:FACTORY",
            hint=f"--custom-model-file {place} --model-class {name}",
            subject=source.name,
        )
    builder = find_zoo(place)
    if builder is None:
        return _build_of_module(source, place, name)
    built = builder(name, source.arguments, source.batch_size or 1, source.train)
    notes = (passed_over(place),) if passed_over(place) else ()
    return BuiltModel(
        module=built.module,
        subject=f"{place}:{name}",
        specs=built.specs,
        make_example=built.make_example,
        example_origin="the zoo",
        notes=notes,
    )


def _build_of_module(source: ModelSource, place: str, target: str) -> BuiltModel:
    """From a module that can be imported, from the current folder also."""
    with importable(Path.cwd()):
        loaded = _load_module(source, place)
        found = _find_target(loaded, f"module {place}", target)
        module = _made(found, source.arguments, f"{place}:{target}", "--model names")
    return BuiltModel(
        module=module, subject=f"{place}:{target}", make_example=_find_example(loaded, place, source.batch_size)
    )


def _load_module(source: ModelSource, place: str) -> ModuleType:
    zoos = ", ".join(zoo_names())
    if not all(part.isidentifier() for part in place.split(".")):
        raise UsageError(f"model {source.name}: unknown zoo {place!r}", hint=f"zoos: {zoos}", subject=source.name)
    try:
        return load_module(place, "")
    except UsageError as error:
        near = difflib.get_close_matches(place.casefold(), zoo_names(), n=1)
        meant = f"did you mean {near[0]}:{(source.name or '').partition(':')[2]}? " if near else ""
        raise UsageError(
            f"model {source.name}: unknown zoo {place!r}, and no module of that name",
            hint=f"{meant}zoos: {zoos}; a module must be importable, or lie in the current folder",
            subject=source.name,
        ) from error


def _build_of_file(source: ModelSource, file: Path, target: str) -> BuiltModel:
    subject = f"{file.name}:{target}"
    with importable(file.resolve().parent):
        loaded = load_file(file)
        found = _find_target(loaded, f"model file {file}", target)
        module = _made(found, source.arguments, subject, "--model-class names")
    return BuiltModel(module=module, subject=subject, make_example=_find_example(loaded, str(file), source.batch_size))


def _made(found: object, arguments: Mapping[str, object], subject: str, flag: str) -> torch.nn.Module:
    """The module that a class or function makes, or that is there already."""
    import torch

    if isinstance(found, torch.nn.Module):
        if arguments:
            raise UsageError(
                f"{subject}: it is a module already, which takes no --model-arg",
                hint=f"leave out --model-arg {next(iter(arguments))}, or name its class",
                subject=subject,
            )
        return found
    assert callable(found)
    factory: Callable[..., object] = found
    _check_arguments(factory, arguments, subject)
    module = construct(subject, lambda: factory(**arguments))
    if not isinstance(module, torch.nn.Module):
        raise UsageError(
            f"{subject}: it made a {type(module).__name__}, expected a torch.nn.Module",
            hint=f"{flag} a module class, a function that returns a module, or a module",
            subject=subject,
        )
    return module


def _find_target(loaded: ModuleType, where: str, target: str) -> object:
    found: object = loaded
    for part in target.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        problem = "no such class" if found is None else f"found {type(found).__name__}, expected a class or function"
        raise UsageError(f"{where}: {target}: {problem}", hint=_modules_hint(loaded), subject=target)
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


def _find_example(loaded: ModuleType, file: str, batch_size: int | None) -> Callable[[], object] | None:
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
                subject=file,
            ) from error
        return made

    return make
