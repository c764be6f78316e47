"""A model of equal layers, as few nodes and kernels as show how layers repeat."""

from __future__ import annotations

from graphbench.measurements import TensorSpec
from graphbench.records import Fate, KernelRecord, NodeRecord, ProfileRecord
from tests.factories import executes, kernel, node, profile, region, spec

LAYERS = 4
SMALL, LARGE = spec(4, 8), spec(4, 32)


def layer(index: int, *, up_ns: float = 20_000.0, up: TensorSpec = LARGE) -> list[NodeRecord]:
    """What one layer does: a norm, a product, an activation in the layer itself, and two sums."""
    at, number = f"model.layers.{index}", "" if index == 0 else f"_{index}"
    fused = Fate(kind="fused", kernels=(f"forward/triton_poi_fused_gelu_add_{index}:{10 + index}",))
    return [
        node(f"norm{number}", 5_000.0, op_type="layer_norm", module=f"{at}.norm", outputs=(SMALL,), fate=fused),
        node(f"linear{number}", up_ns, op_type="linear", module=f"{at}.mlp.up_proj", outputs=(up,), fate=fused),
        node(f"gelu{number}", 3_000.0, op_type="gelu", module=at, outputs=(LARGE,), fate=fused),
        node(f"hidden{2 * index}", 1_000.0, op_type="add", module=at, outputs=(SMALL,), fate=fused, line=5),
        node(f"hidden{2 * index + 1}", 2_000.0, op_type="add", module=at, outputs=(SMALL,), fate=fused, line=9),
    ]


def kernels(index: int) -> list[KernelRecord]:
    number = "" if index == 0 else f"_{index}"
    return [
        kernel("extern_kernels.mm", 18_000.0, kind="extern", handle=index, roles=(executes(f"linear{number}"),)),
        kernel(
            f"triton_poi_fused_gelu_add_{index}",
            4_000.0,
            kind="triton",
            handle=10 + index,
            roles=(executes(f"gelu{number}", 300), executes(f"hidden{2 * index}")),
        ),
    ]


def repeated(layers: int = LAYERS, *, head_ns: float = 50_000.0) -> ProfileRecord:
    nodes = [node("embedding", 7_000.0, module="model.embed", outputs=(SMALL,))]
    made: list[KernelRecord] = []
    for index in range(layers):
        nodes += layer(index)
        made += kernels(index)
    nodes.append(node("logits", head_ns, op_type="linear", module="head", outputs=(LARGE,)))
    return profile(region(nodes, made))
