"""Long names in narrow columns: what tells them apart stays, the least informative middle goes. Pure text."""

from __future__ import annotations

import re
from collections.abc import Callable

Shorten = Callable[[str, int], str]

_REDUNDANT = ("triton_", "cpp_fused_", "extern_kernels.", "torch.ops.")
_NAMESPACES = re.compile(r"\b(at::native|c10)::|\(anonymous namespace\)::")
_PHASES = {"forward": "fwd", "backward": "bwd"}
_KERNEL = re.compile(r"[\w.]+:\d+")


def shorten(text: str, width: int) -> str:
    """Cut a text to `width` characters in its middle."""
    if len(text) <= width:
        return text
    keep = max(1, width - 1)
    end = keep // 2
    return text[: keep - end] + "…" + (text[-end:] if end else "")


def shorten_tail(text: str, width: int) -> str:
    """Cut a text to `width` characters in its middle, keeping twice as much of its end as of its start."""
    if len(text) <= width:
        return text
    keep = max(1, width - 1)
    end = (2 * keep + 2) // 3
    return text[: keep - end] + "…" + text[-end:]


def shorten_head(text: str, width: int) -> str:
    """Cut the end of a text."""
    return text if len(text) <= width else text[: max(1, width - 1)] + "…"


def shorten_phase(text: str, width: int) -> str:
    """`forward` as `fwd` where there is no room for it."""
    return text if len(text) <= width else _PHASES.get(text, text[:width])


def shorten_place(text: str, width: int) -> str:
    """Cut a module in which `*` stands for layers: what is above the layers says least, then what they are called.

    `model.layers.*.mlp.up_proj` becomes `layers.*.mlp.up_proj`, then `*.mlp.up_proj`; the number of a stage, as in
    `layer1.*.conv2`, stays as long as it can.
    """
    above, star, within = text.partition(".*")
    if len(text) <= width or not star:
        return shorten_tail(text, width)
    layers = above.rpartition(".")[2]
    least = f"*{within}" if layers.isalpha() else f"{layers}.*{within}"
    return next((form for form in (f"{layers}.*{within}", least) if len(form) <= width), shorten_tail(least, width))


def shorten_source(text: str, width: int) -> str:
    """Cut `file.py:12`: the beginning of the file's name and the whole line number stay."""
    file, colon, line = text.rpartition(":")
    if len(text) <= width or len(line) + 4 > width:
        return shorten_tail(text, width)
    return f"{file[: width - len(line) - 2]}…{colon}{line}"


def shorten_kernel(name: str, width: int) -> str:
    """Cut a kernel's name: its beginning, its last ops and the handle stay, as in `poi_fused__to…add_relu_7:20`."""
    if len(name) <= width:
        return name
    # The last word is number and handle (`7:20`); the words before it join it as long as a beginning still fits.
    words = re.split(r"(?<=[_.])", name)
    tail = words.pop()
    while words and len(words[-1]) + len(tail) <= max(width // 2, min(16, width - 6)):
        tail = words.pop() + tail
    head = width - 1 - len(tail)
    return name[:head] + "…" + tail if head > 2 else shorten_tail(name, width)


def shorten_kernel_of_kind(name: str, width: int) -> str:
    """Cut a kernel's name where another column shows its kind: what only says the kind goes first, from every name."""
    prefix = next((prefix for prefix in _REDUNDANT if name.startswith(prefix)), "")
    return shorten_kernel(name[len(prefix) :].replace(".default:", ":"), width)


def symbol_text(name: str) -> str:
    """A device kernel's C++ name without its return type, its arguments and the namespaces that all have in common.

    `void at::native::vectorized_gather_kernel<16, long>(char*, long)` becomes `vectorized_gather_kernel<16, long>`.
    """
    text = _NAMESPACES.sub("", name).removeprefix("void ")
    depth = 0
    for position, character in enumerate(text):
        if character == "(" and depth == 0 and position:
            return text[:position]
        depth += {"<": 1, ">": -1}.get(character, 0)
    return text


def shorten_symbol(text: str, width: int) -> str:
    """Cut the end of a device kernel's name, but not the number of others behind it, as in `sm90_xmma_gemm_… +2`."""
    name, plus, others = text.rpartition(" +")
    if not plus or not others.isdigit():
        return shorten_head(text, width)
    return f"{shorten_head(name, max(2, width - len(plus + others)))}{plus}{others}"


def shorten_fate(text: str, width: int) -> str:
    """Cut a fate: `fused → triton_poi_fused_add_relu_7:20` becomes `fused→poi_fused_add_relu_7:20`, and then shorter.

    Of several kernels the first is named and the others are counted.
    """
    kind, arrow, target = text.partition(" → ")
    first, *others = target.split(", ")
    if not arrow or not _KERNEL.fullmatch(first):
        return shorten_head(f"{kind}: {target}" if arrow else kind, width)
    more = f" +{len(others)}" if others else ""
    return f"{kind}→{shorten_kernel_of_kind(first, max(4, width - len(kind) - 1 - len(more)))}{more}"
