"""Small configurations of the models that people compile, with a batch each. Random weights, no download."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

Batch = Mapping[str, Any]


@dataclass(frozen=True)
class Example:
    """A model and how to call it: `model(**batch)`, of which `result` picks what is differentiated."""

    model: nn.Module
    batch: Batch
    result: Callable[[Any], torch.Tensor]


def _logits(output: Any) -> torch.Tensor:
    return output.logits


def _hidden(output: Any) -> torch.Tensor:
    return output.last_hidden_state


def _itself(output: torch.Tensor) -> torch.Tensor:
    return output


def _tokens(vocabulary: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, vocabulary, shape)


def resnet() -> Example:
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[2, 1], layer_type="basic")
    return Example(ResNetModel(config), {"pixel_values": torch.randn(2, 3, 32, 32)}, _hidden)


def vit() -> Example:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=16, patch_size=8
    )
    return Example(ViTModel(config, add_pooling_layer=False), {"pixel_values": torch.randn(2, 3, 16, 16)}, _hidden)


def swin() -> Example:
    from transformers import SwinConfig, SwinModel

    config = SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[2], num_heads=[2], window_size=4, drop_path_rate=0.0
    )
    return Example(SwinModel(config, add_pooling_layer=False), {"pixel_values": torch.randn(1, 3, 32, 32)}, _hidden)


def convnext() -> Example:
    from transformers import ConvNextConfig, ConvNextModel

    config = ConvNextConfig(patch_size=4, hidden_sizes=[8, 16], depths=[1, 1], num_stages=2)
    return Example(ConvNextModel(config), {"pixel_values": torch.randn(2, 3, 32, 32)}, _hidden)


def bert() -> Example:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=100
    )
    return Example(BertModel(config, add_pooling_layer=False), {"input_ids": _tokens(100, 2, 16)}, _hidden)


def gpt2() -> Example:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=100, use_cache=False)
    return Example(GPT2LMHeadModel(config), {"input_ids": _tokens(100, 2, 16)}, _logits)


def llama() -> Example:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=100,
        use_cache=False,
    )
    return Example(LlamaForCausalLM(config), {"input_ids": _tokens(100, 2, 16)}, _logits)


def t5() -> Example:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        d_model=32, d_kv=16, d_ff=64, num_layers=1, num_decoder_layers=1, num_heads=2, vocab_size=100, use_cache=False
    )
    batch = {"input_ids": _tokens(100, 2, 16), "decoder_input_ids": _tokens(100, 2, 8)}
    return Example(T5ForConditionalGeneration(config), batch, _logits)


def mixture_of_experts() -> Example:
    return Example(MixtureOfExperts(32, 64, 4, 2), {"x": torch.randn(16, 32)}, _itself)


def unet() -> Example:
    return Example(UNet(8), {"x": torch.randn(2, 3, 16, 16)}, _itself)


def lstm() -> Example:
    return Example(Recurrent(16, 4), {"x": torch.randn(2, 4, 16)}, _itself)


def detection() -> Example:
    return Example(DetectionHead(8, 3), {"x": torch.randn(2, 8, 8, 8)}, _itself)


class MixtureOfExperts(nn.Module):
    """Every expert computes every token, the router weighs the best few: no shape depends on data."""

    def __init__(self, width: int, hidden: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) / hidden**0.5)
        self.chosen = chosen

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(self.chosen, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        gates = torch.zeros(x.shape[0], self.up.shape[0], dtype=x.dtype, device=x.device).scatter(-1, chosen, weights)
        hidden = F.silu(torch.einsum("td,edh->eth", x, self.up))
        return torch.einsum("eth,ehd,te->td", hidden, self.down, gates)


class UNet(nn.Module):
    """One step down, one step up, group norms, a skip connection that is concatenated."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(2, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.leave = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = F.silu(self.enter(x))
        below = F.silu(self.norm(self.down(F.max_pool2d(skip, 1))))
        return self.leave(torch.cat([skip, self.up(below)], 1))


class Recurrent(nn.Module):
    """An LSTM cell unrolled over a few steps, then a projection."""

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(width, width)
        self.head = nn.Linear(width, 4)
        self.steps = steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        for step in range(self.steps):
            state = self.cell(x[:, step], state)
        return self.head(state[0])


class DetectionHead(nn.Module):
    """Scores and boxes of every cell; those above a threshold are kept, so shapes depend on the data."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.score = nn.Conv2d(width, classes, 1)
        self.box = nn.Conv2d(width, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.tower(x)
        scores = self.score(features).flatten(2).sigmoid().amax(1).flatten()
        boxes = self.box(features).flatten(2).transpose(1, 2).flatten(0, 1).exp()
        order = scores.argsort(descending=True)[:32]
        kept = order[scores[order] > 0.4]
        return torch.cat([boxes[kept], scores[kept, None]], 1)


MODELS: Mapping[str, Callable[[], Example]] = {
    "resnet": resnet,
    "vit": vit,
    "swin": swin,
    "convnext": convnext,
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "t5": t5,
    "mixture_of_experts": mixture_of_experts,
    "unet": unet,
    "lstm": lstm,
    "detection": detection,
}


def run_once(build: Callable[[], Example], mode: str, device: str) -> None:
    """Compile a model with graphbench and run it: `inference`, or `training` with its backward."""
    torch.manual_seed(0)
    example = build()
    model = example.model.to(device).train(mode == "training")
    batch = {name: value.to(device) for name, value in example.batch.items()}
    compiled = torch.compile(model, backend="graphbench")
    if mode == "training":
        example.result(compiled(**batch)).square().mean().backward()
    else:
        with torch.no_grad():
            compiled(**batch)
