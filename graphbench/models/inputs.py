"""Input tensors: the spec grammar (`x=f32[16,3,224,224]`) and the values that specs get.

Parsing needs no torch; only making tensors imports it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphbench.errors import UsageError, first_line

if TYPE_CHECKING:
    import torch

SYNTAX = """an input is NAME=DTYPE[SIZES], for instance
        x=f32[16,3,224,224]  or  input_ids=i64[1,128]<32000
        NAME= may be left out: such inputs go by position, in the order given
        DTYPE is one of f16 bf16 f32 f64 c64 f8e4m3fn f8e5m2
        i8 i16 i32 i64 u8 bool
        SIZES are separated by commas; [] is a scalar
        <N     for integers: values from 0 to N-1; without it 0 and 1
        >=M<N  values from M to N-1
        several inputs in one text are separated by spaces:
        --example-inputs "ids=i64[1,128]<1000 mask=i64[1,128]"  is one set"""

FROM_PYTHON = """not Python: {"ids": torch.randint(0, 1000, (1, 128))} is written  ids=i64[1,128]<1000
        """

DTYPES: Mapping[str, str] = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "bool": "bool",
}
FLOAT_DTYPES = ("f16", "bf16", "f32", "f64")
_RANGES: Mapping[str, tuple[int, int]] = {  # the least value, and the largest bound
    "i8": (-(2**7), 2**7),
    "u8": (0, 2**8),
    "i16": (-(2**15), 2**15),
    "i32": (-(2**31), 2**31),
    "i64": (-(2**63), 2**63 - 1),
}
_UNBOUNDED = 2
_TOKEN = re.compile(r"\s*(?:(?P<word>[A-Za-z_]\w*)|(?P<number>-?[0-9]+)|(?P<mark>>=|[=\[\],<]))")
_MOST_ELEMENTS = 2**63 - 1  # of a tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One input. `name` is `None` for a positional one; `bound` limits integers to `least <= value < bound`.

    `dtype` is a short name of `DTYPES`; `shape` counts elements.
    """

    dtype: str
    shape: tuple[int, ...]
    name: str | None = None
    bound: int | None = None
    least: int = 0

    @property
    def is_float(self) -> bool:
        """Whether its values are floating-point numbers."""
        return self.dtype in FLOAT_DTYPES

    def __str__(self) -> str:
        name = f"{self.name}=" if self.name else ""
        least = f">={self.least}" if self.least else ""
        bound = f"{least}<{self.bound}" if self.bound is not None else ""
        return f"{name}{self.dtype}[{','.join(map(str, self.shape))}]{bound}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a model is called with: `model(*args, **kwargs)`. `origin` says where it came from, for messages."""

    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object]
    origin: str


class _Parser:
    """Recursive descent over one spec; every error names the position at which parsing stopped."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._scan())
        self.index = 0

    def _scan(self) -> Iterator[tuple[str, str, int]]:
        position = 0
        text = self.text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.error("a character that no input has", position + 1)
            kind = str(match.lastgroup)
            yield kind, match.group(kind), match.start(kind) + 1
            position = match.end()

    def error(self, found: str, position: int, expected: str = "") -> UsageError:
        wanted = f", expected {expected}" if expected else ""
        hint = FROM_PYTHON + SYNTAX if "{" in self.text or "(" in self.text else SYNTAX
        return UsageError(
            f"input {self.text!r}: found {found} at position {position}{wanted}", hint=hint, subject=self.text
        )

    def peek(self) -> tuple[str, str, int]:
        if self.index < len(self.tokens):
            return self.tokens[self.index]
        return "end", "", len(self.text.rstrip()) + 1

    def take(self, kind: str, expected: str, value: str | None = None) -> tuple[str, int]:
        found_kind, found, position = self.peek()
        if found_kind != kind or (value is not None and found != value):
            raise self.error(repr(found) if found else "the end", position, expected)
        self.index += 1
        return found, position

    def skip(self, mark: str) -> bool:
        if self.peek()[:2] != ("mark", mark):
            return False
        self.index += 1
        return True

    def parse(self) -> InputSpec:
        found = self._spec()
        self.take("end", "the end of the input")
        return found

    def parse_all(self) -> list[InputSpec]:
        """One spec after the other; a comma may stand between two."""
        found = [self._spec()]
        while self.peek()[0] != "end":
            self.skip(",")
            found.append(self._spec())
        return found

    def _spec(self) -> InputSpec:
        name = None
        word, position = self.take("word", "a name or a dtype")
        if self.skip("="):
            name = word
            word, position = self.take("word", "a dtype")
        if word not in DTYPES:
            raise self.error(repr(word), position, f"a dtype, one of {' '.join(DTYPES)}")
        shape = self._shape()
        least, bound = self._range(word)
        return InputSpec(name=name, dtype=word, shape=shape, bound=bound, least=least)

    def _shape(self) -> tuple[int, ...]:
        self.take("mark", "'['", "[")
        if self.skip("]"):
            return ()
        sizes = [self._size()]
        while self.skip(","):
            sizes.append(self._size())
        position = self.take("mark", "',' or ']'", "]")[1]
        if math.prod(max(size, 1) for size in sizes) > _MOST_ELEMENTS:
            raise self.error(f"{len(sizes)} sizes", position, f"sizes of at most {_MOST_ELEMENTS} elements together")
        return tuple(sizes)

    def _size(self) -> int:
        size, position = self._number("a size")
        if size < 0:
            raise self.error(str(size), position, "a size, at least 0")
        return size

    def _number(self, expected: str) -> tuple[int, int]:
        """A number and its position."""
        text, position = self.take("number", expected)
        digits = text.lstrip("-").lstrip("0") or "0"
        if len(digits) > len(str(_MOST_ELEMENTS)):
            raise self.error(f"a number of {len(digits)} digits", position, f"at most {_MOST_ELEMENTS}")
        return int(digits) * (-1 if text.startswith("-") else 1), position

    def _range(self, dtype: str) -> tuple[int, int | None]:
        """The least value, and the bound that all values are below."""
        position = self.peek()[2]
        given = self.skip(">=")
        least, position_of_least = self._number("a whole number") if given else (0, position)
        if not self.skip("<"):
            if given:
                self.take("mark", "'<' and a bound, as in >=1<10", "<")
            return 0, None
        bound, position_of_bound = self._number("a whole number")
        if dtype not in _RANGES:
            raise self.error(f"a bound for {dtype}", position, "one only for integers")
        lowest, largest = _RANGES[dtype]
        if not lowest <= least < largest:
            raise self.error(str(least), position_of_least, f"{lowest} to {largest - 1} for {dtype}")
        if not least < bound <= largest:
            raise self.error(f"bound {bound}", position_of_bound, f"{least + 1} to {largest} for {dtype}")
        return least, bound


def parse_input(text: str) -> InputSpec:
    """Read one spec.

    Raises:
        UsageError: the text does not follow `SYNTAX`; the message gives the position, counted from 1.

    Example:
        >>> parse_input("input_ids=i64[1,128]<32000").bound
        32000
    """
    return _Parser(text).parse()


def parse_inputs(texts: Iterable[str]) -> tuple[InputSpec, ...]:
    """Read several specs, in order.

    Raises:
        UsageError: one does not parse, or two have the same name.
    """
    return _named_once([parse_input(text) for text in texts])


def parse_input_set(text: str) -> tuple[InputSpec, ...]:
    """Read all inputs of one call from one text, separated by spaces.

    Raises:
        UsageError: the text does not follow `SYNTAX`, or two inputs have the same name.

    Example:
        >>> [spec.shape for spec in parse_input_set("input_ids=i64[1,128]<1000 mask=i64[1,128]")]
        [(1, 128), (1, 128)]
    """
    return _named_once(_Parser(text).parse_all())


def _named_once(specs: list[InputSpec]) -> tuple[InputSpec, ...]:
    names = [spec.name for spec in specs if spec.name is not None]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"input {name!r} is given {names.count(name)} times", hint=SYNTAX, subject=name)
    return tuple(specs)


def make_inputs(specs: Iterable[InputSpec], *, device: str, seed: int, origin: str = "--input") -> Inputs:
    """Fill specs with values: integers uniform in their range, other numbers normally distributed.

    Values are drawn on the CPU, so that they are the same for a seed on every device.

    Args:
        specs: the inputs, in order.
        device: where the tensors go, as `torch.device` reads it.
        seed: the same seed gives the same values.
        origin: what to call the inputs in messages.

    Raises:
        UsageError: torch cannot make one, for want of memory for instance.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    args: list[object] = []
    kwargs: dict[str, object] = {}
    for spec in specs:
        try:
            tensor = _draw(spec, generator).to(device)
        except RuntimeError as error:
            raise UsageError(
                f"input {spec}: it cannot be made: {first_line(error)}",
                hint="does it fit into memory? choose smaller sizes, or a smaller --batch-size",
                subject=str(spec),
            ) from error
        if spec.name is None:
            args.append(tensor)
        else:
            kwargs[spec.name] = tensor
    return Inputs(args=tuple(args), kwargs=kwargs, origin=origin)


def _draw(spec: InputSpec, generator: torch.Generator) -> torch.Tensor:
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[spec.dtype])
    if dtype.is_complex:
        return torch.randn(spec.shape, generator=generator, dtype=dtype)
    if dtype.is_floating_point:
        return torch.randn(spec.shape, generator=generator).to(dtype)
    bound = _UNBOUNDED if spec.bound is None else spec.bound
    return torch.randint(spec.least, bound, spec.shape, generator=generator).to(dtype)


def as_inputs(value: object, *, origin: str, device: str, dtype: str | None = None) -> Inputs:
    """Turn a tensor, a tuple or list, or a dict by name into `Inputs` on `device`.

    Args:
        value: the inputs; their containers may nest.
        origin: where they came from, for messages.
        device: where every tensor goes.
        dtype: what floating-point tensors are cast to (a short name of `DTYPES`), or `None` to leave them.

    Raises:
        UsageError: the value is none of these, or a dict with keys that are no names.
    """
    import torch
    from torch.utils._pytree import tree_map_only

    def place(tensor: torch.Tensor) -> torch.Tensor:
        wanted = getattr(torch, DTYPES[dtype]) if dtype and tensor.is_floating_point() else tensor.dtype
        return tensor.to(device=device, dtype=wanted)

    if isinstance(value, torch.Tensor):
        value = (value,)
    if isinstance(value, tuple | list):
        return Inputs(args=tuple(tree_map_only(torch.Tensor, place, list(value))), kwargs={}, origin=origin)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return Inputs(kwargs=tree_map_only(torch.Tensor, place, dict(value)), origin=origin)
    raise UsageError(
        f"{origin}: found {type(value).__name__}, expected a tensor, a tuple or list of inputs, or a dict by name",
        subject=origin,
    )
