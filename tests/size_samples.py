"""A graph that takes any sizes, as a profile has it: a region for every group of sizes, of known growth."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from graphbench.records import InputRecord, ProfileRecord, RegionRecord, Side
from tests.factories import node, profile, region, spec, steady

US = 1000.0
SETS = tuple((batch, length) for batch in (2, 4, 8) for length in (64, 128))


def called_with(batch: int, length: int) -> tuple[InputRecord, ...]:
    """What Dynamo hands to a graph of any sizes: the sizes, the tensor that has them, a weight."""
    return (
        InputRecord(name="s1", source="L['x'].size()[0]", kind="value", value=batch, symbolic=("s1",)),
        InputRecord(name="s2", source="L['x'].size()[1]", kind="value", value=length, symbolic=("s2",)),
        InputRecord(
            name="l_x_", source="L['x']", kind="tensor", spec=spec(batch, length, 16), symbolic=("s1", "s2", "16")
        ),
        InputRecord(name="w", source="L['self'].w", kind="parameter", spec=spec(16, 16)),
    )


def group(key: str, batch: int, length: int, base: str = "r1", **changes: object) -> RegionRecord:
    """Attention, which grows as the square of the length, and a linear layer; both as the batch."""
    attend = dataclasses.replace(
        node("attend", steady(0.02 * US * batch * length**2 / 64), op_type="scaled_dot_product_attention"),
        outputs=(spec(batch, length, 16),),
        symbolic=(("s1", "s2", "16"),),
    )
    project = node("project", steady(US * batch * length), op_type="linear")
    found = region(
        [attend, project],
        key=key,
        eager=Side(plain=steady(9 * US * batch * length)),
        forward=Side(plain=steady(3 * US * batch * length), compile_ns=None if key != base else 10**9),
    )
    return dataclasses.replace(
        found,
        inputs=called_with(batch, length),
        sizes=(("s1", batch), ("s2", length)),
        shapes_of="" if key == base else base,
        calls=batch,
        **changes,  # type: ignore[arg-type]
    )


def six_groups(sets: Sequence[tuple[int, int]] = SETS) -> ProfileRecord:
    """A profile of one graph on several sets."""
    keys = ["r1", *(f"r1.{number}" for number in range(2, len(sets) + 1))]
    return profile(*(group(key, *sizes) for key, sizes in zip(keys, sets, strict=True)))
