"""One step of decoding: a small Llama with a static key/value cache, batch 1, whichever release of transformers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

PREFILLED = 100
CACHE_LENGTH = 256


def decode_step(
    *, device: str, dtype: torch.dtype, hidden: int = 1024, layers: int = 4, **compiling: Any
) -> Callable[[], torch.Tensor]:
    """Compile a Llama of random weights, fill its cache, and return what decodes one token, always at the next place.

    Args:
        device: where it runs.
        dtype: of weights and cache.
        hidden: width; the other sizes are in proportion to 2816, 16 heads, 4 key/value heads at 1024.
        layers: how many.
        compiling: keywords of `torch.compile`.

    Returns:
        A call that returns the logits, `[1, 1, 32000]`; there is room for about 150 of them.
    """
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=32000,
        max_position_embeddings=CACHE_LENGTH,
    )
    model = LlamaForCausalLM(config).to(device=device, dtype=dtype).eval()
    known = inspect.signature(LlamaForCausalLM.forward).parameters
    place = {"max_batch_size": 1, "batch_size": 1, "device": device, "dtype": dtype}
    accepted = inspect.signature(StaticCache.__init__).parameters
    given = {name: value for name, value in place.items() if name in accepted}
    if "max_batch_size" in given:
        given.pop("batch_size", None)
    cache = StaticCache(config=config, max_cache_len=CACHE_LENGTH, **given)
    name = "past_key_values" if "past_key_values" in known or "cache" not in known else "cache"

    def call(run: Any, tokens: torch.Tensor, at: int) -> torch.Tensor:
        places = torch.arange(at, at + tokens.shape[1], device=device)
        where: dict[str, Any] = {"position_ids": places[None]}
        if "cache_position" in known:
            where["cache_position"] = places
        with torch.no_grad():
            logits: torch.Tensor = run(input_ids=tokens, use_cache=True, **{name: cache}, **where).logits
        return logits

    torch.manual_seed(0)
    call(model, torch.randint(0, 32000, (1, PREFILLED), device=device), 0)
    compiled = torch.compile(model, backend="graphbench", **compiling)
    token = torch.randint(0, 32000, (1, 1), device=device)
    return lambda: call(compiled, token, PREFILLED)
