"""Tensors of an op list: shape, layout, dtype, and which values they get. No torch import."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from graphbench.models.inputs import DTYPES as SHORT_DTYPES
from graphbench.models.sizes import LARGEST, Sizes, read_size
from graphbench.models.yaml_cursor import Cursor, shown
from graphbench.torch_names import DTYPES

ValueKind = Literal["normal", "uniform", "zeros", "ones", "below", "sorted", "permutation", "arange", "causal", "mask"]
VALUE_KINDS: Final[tuple[ValueKind, ...]] = get_args(ValueKind)
STORAGE: Final = ", storage "
"""Stands in a profile between a tensor's values and the name of the storage that it shares."""
MOST_ELEMENTS: Final = 1 << 34
MOST_DIMENSIONS: Final = 25
DEFAULT_BOUND: Final = 2
_FIELDS: Final = ("shape", "dtype", "stride", "storage_offset", "values", "requires_grad", "device", "storage")
_GIVEN: Final = {"uniform": "[low, high]", "below": "N", "mask": "the part that is true, from 0 to 1"}
_FITS: Final[Mapping[str, tuple[str, ...]]] = {
    "normal": ("float",),
    "uniform": ("float",),
    "below": ("integer",),
    "sorted": ("float", "integer"),
    "permutation": ("integer",),
    "arange": ("float", "integer"),
    "causal": ("float", "bool"),
    "mask": ("bool",),
}
"""Which tensors a value policy is for; those that are missing are for all."""
_WORDS: Final = {"float": "floating-point tensors", "integer": "integer tensors", "bool": "tensors of bools"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Which values a tensor gets.

    `normal` (mean 0, deviation 1), `uniform` from `numbers[0]` to `numbers[1]`, `zeros`, `ones`; `below`: integers from
    0 to `numbers[0]` - 1; `sorted` along the last dimension, integers likewise below `numbers[0]`; `permutation` and
    `arange` of the last dimension; `causal`: true, or 0, up to the diagonal and false, or -inf, above; `mask`: true
    with probability `numbers[0]`.
    """

    kind: ValueKind
    numbers: tuple[float, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.kind, *map(_short, self.numbers)])


def _short(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEntry:
    """A tensor of an op. `shape`, `stride` and `storage_offset` in elements; `dtype` is torch's name.

    Tensors of one `storage` share memory, whose values are those of the first; "" for one of its own. `on_host`: on the
    CPU, whichever device is measured.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    values: Values
    storage_offset: int = 0
    requires_grad: bool = False
    on_host: bool = False
    storage: str = ""

    @property
    def extent(self) -> int:
        """Elements from the start of the storage to the tensor's last one."""
        if 0 in self.shape:
            return self.storage_offset
        steps = sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))
        return self.storage_offset + 1 + steps


def value_class(dtype: str) -> str:
    """`float` (complex ones too), `integer` or `bool`."""
    if dtype == "bool":
        return "bool"
    return "integer" if dtype.removeprefix("u").startswith("int") else "float"


def largest_integer(dtype: str) -> int:
    """The largest value of an integer dtype, and never more than fits 64 bits with a sign."""
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    return min(LARGEST, (1 << bits) - 1 if dtype.startswith("u") else (1 << (bits - 1)) - 1)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor of this shape without gaps, the last dimension innermost."""
    return tuple(math.prod(max(1, size) for size in shape[index + 1 :]) for index in range(len(shape)))


def read_tensor(cursor: Cursor, sizes: Sizes) -> TensorEntry:
    """A tensor.

    Raises:
        UsageError: a field that does not fit.
    """
    fields = cursor.fields(_FIELDS, f"a tensor, with {', '.join(_FIELDS)}")
    if "shape" not in fields:
        raise cursor.error("the field `shape`", found="none")
    shape = _sizes(fields["shape"], sizes)
    dtype = _dtype(fields["dtype"]) if "dtype" in fields else "float32"
    stride = _sizes(fields["stride"], sizes) if "stride" in fields else contiguous(shape)
    if len(stride) != len(shape):
        raise fields["stride"].error(f"{len(shape)} steps, one of each dimension of `shape`")
    entry = TensorEntry(
        shape=shape,
        stride=stride,
        dtype=dtype,
        values=_values(fields["values"], dtype, sizes) if "values" in fields else default_values(dtype),
        storage_offset=read_size(fields["storage_offset"], sizes) if "storage_offset" in fields else 0,
        requires_grad=_requires_grad(fields, dtype),
        on_host=_on_host(fields["device"]) if "device" in fields else False,
        storage=fields["storage"].text("the name of a storage") if "storage" in fields else "",
    )
    if math.prod(shape) > MOST_ELEMENTS or entry.extent > MOST_ELEMENTS:
        raise cursor.error(f"at most {MOST_ELEMENTS} elements", found=f"{max(math.prod(shape), entry.extent)}")
    return entry


def default_values(dtype: str) -> Values:
    """What a tensor gets that does not say: normal numbers, integers 0 and 1, bools that are true half of the time."""
    kind = value_class(dtype)
    if kind == "float":
        return Values(kind="normal")
    return Values(kind="below", numbers=(DEFAULT_BOUND,)) if kind == "integer" else Values(kind="mask", numbers=(0.5,))


def check_storages(where: Cursor | None, tensors: Mapping[str, TensorEntry]) -> None:
    """Refuse tensors that share a storage and differ in dtype or device.

    Raises:
        UsageError: naming both.
    """
    first: dict[str, tuple[str, TensorEntry]] = {}
    for name, entry in tensors.items():
        if not entry.storage:
            continue
        other, known = first.setdefault(entry.storage, (name, entry))
        if (known.dtype, known.on_host) != (entry.dtype, entry.on_host) and where is not None:
            raise where.error(
                "tensors of one storage to have one dtype and device",
                found=f"{other} of {known.dtype} and {name} of {entry.dtype} on storage {shown(entry.storage)}",
            )


def _sizes(cursor: Cursor, sizes: Sizes) -> tuple[int, ...]:
    found = tuple(read_size(entry, sizes) for entry in cursor.items("sizes"))
    if len(found) > MOST_DIMENSIONS:
        raise cursor.error(f"at most {MOST_DIMENSIONS} dimensions")
    return found


def _dtype(cursor: Cursor) -> str:
    name = SHORT_DTYPES.get(str(cursor.entry.value), cursor.entry.value)
    return name if isinstance(name, str) and name in DTYPES else cursor.chosen(DTYPES, "a dtype")


def _requires_grad(fields: Mapping[str, Cursor], dtype: str) -> bool:
    if "requires_grad" not in fields or not fields["requires_grad"].flag():
        return False
    if value_class(dtype) != "float":
        raise fields["requires_grad"].error(
            "false: only floating-point tensors can require grad", found=f"true for {dtype}"
        )
    return True


def _on_host(cursor: Cursor) -> bool:
    cursor.chosen(("cpu",), "cpu, or no `device`: then the tensor is on the device that is measured")
    return True


def _values(cursor: Cursor, dtype: str, sizes: Sizes) -> Values:
    name, given = _policy(cursor)
    fits = _FITS.get(name, (value_class(dtype),))
    if value_class(dtype) not in fits:
        raise cursor.error(
            f"a value policy for {dtype}", found=f"{name}, which is for {' and '.join(_WORDS[kind] for kind in fits)}"
        )
    integers = name == "below" or (name == "sorted" and value_class(dtype) == "integer")
    if given is None:
        if name in _GIVEN or integers:
            raise cursor.error(f"{{{name}: {_GIVEN.get(name, 'N')}}}", found=f"{name} without a value")
        return Values(kind=name)
    if integers:
        return Values(kind=name, numbers=(read_size(given, sizes, least=1, most=largest_integer(dtype) + 1),))
    if name == "uniform":
        bounds = [entry.number("a number") for entry in given.items("[low, high]")]
        if len(bounds) != 2 or bounds[0] > bounds[1]:
            raise given.error("[low, high], the lower one first")
        return Values(kind=name, numbers=tuple(bounds))
    if name == "mask":
        part = given.number("a number from 0 to 1")
        if not 0 <= part <= 1:
            raise given.error("a number from 0 to 1")
        return Values(kind=name, numbers=(part,))
    raise given.error(f"`values: {name}` alone")


def _policy(cursor: Cursor) -> tuple[ValueKind, Cursor | None]:
    """The name of a value policy, and what stands behind it."""
    value = cursor.entry.value
    if isinstance(value, dict):
        entries = cursor.mapping("values")
        if len(entries) == 1 and (name := next(iter(entries))) in VALUE_KINDS:
            return next(kind for kind in VALUE_KINDS if kind == name), entries[name]
        raise cursor.error(f"one of {', '.join(VALUE_KINDS)} and its value")
    name = cursor.chosen(VALUE_KINDS, "a value policy")
    return next(kind for kind in VALUE_KINDS if kind == name), None
