"""The models of `zoo.py`: what is run of each, in words of the command line. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

SMALL = ("num_hidden_layers=4",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooEntry:
    """One model and how it is run. `arguments` are `--model-arg`s, `more` further words of `graphbench run`."""

    model: str
    arguments: tuple[str, ...] = ()
    batch: int = 8
    dtype: str = "f32"
    train: bool = False
    more: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the row is called."""
        return f"{self.model} train" if self.train else self.model

    def words(self, device: str) -> list[str]:
        """The command line after `graphbench run`; on the CPU with a batch of one and in float32."""
        on_gpu = device.startswith("cuda")
        words = ["--model", self.model, "--device", device]
        words += [word for argument in self.arguments for word in ("--model-arg", argument)]
        words += ["--batch-size", str(self.batch if on_gpu else 1), *self.more]
        words += ["--dtype", self.dtype] if on_gpu and self.dtype != "f32" else []
        return [*words, "--train"] if self.train else words


def _vision(*names: str, batch: int = 8) -> tuple[ZooEntry, ...]:
    return tuple(ZooEntry(model=f"torchvision:{name}", batch=batch) for name in names)


def _timm(*names: str) -> tuple[ZooEntry, ...]:
    return tuple(ZooEntry(model=f"timm:{name}") for name in names)


def _text(name: str, *arguments: str, layers: tuple[str, ...] = SMALL, train: bool = False) -> ZooEntry:
    return ZooEntry(model=f"hf:{name}", arguments=(*layers, *arguments), dtype="bf16", batch=4, train=train)


MODELS: tuple[ZooEntry, ...] = (
    *_vision("resnet18", "resnet50", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny", "swin_t", "vit_b_16"),
    *_timm("vit_small_patch16_224", "mixer_s32_224", "convnextv2_atto", "levit_128", "poolformer_s12"),
    _text("gpt2", layers=("n_layer=4",)),
    _text("bert"),
    _text("llama", "hidden_size=1024", "intermediate_size=2816", "num_attention_heads=16", "num_key_value_heads=4"),
    _text("mistral", "hidden_size=1024", "intermediate_size=2816", "num_attention_heads=16", "num_key_value_heads=4"),
    _text("qwen2", "hidden_size=1024", "intermediate_size=2816", "num_attention_heads=16", "num_key_value_heads=4"),
    _text("t5", layers=("num_layers=4",)),
    _text("distilbert", layers=("n_layers=4",)),
    _text("camembert"),
    _text("electra"),
    _text("opt"),
    _text("gpt_neox", "hidden_size=1024", "intermediate_size=4096", "num_attention_heads=16"),
    _text("phi", "hidden_size=1024", "intermediate_size=4096", "num_attention_heads=16"),
    _text("bloom", "hidden_size=1024", "n_head=16", layers=("n_layer=4",)),
    _text("mamba", "hidden_size=512"),
    _text("deberta-v2"),
    _text("bart", layers=("encoder_layers=4", "decoder_layers=4")),
    _text("whisper", layers=("encoder_layers=4", "decoder_layers=4")),
    _text("clip", layers=()),
    _text("mixtral", "hidden_size=512", "intermediate_size=1024", "num_local_experts=4"),
    _text("vit"),
    *_vision("fcn_resnet50", "r3d_18", batch=2),
    *_vision("inception_v3", "densenet121", "shufflenet_v2_x1_0", "regnet_y_400mf"),
    *_timm("xcit_nano_12_p16_224", "efficientvit_b0", "hrnet_w18_small"),
    ZooEntry(model="torchvision:resnet18", train=True),
    _text("bert", train=True),
    _text(
        "llama",
        "hidden_size=1024",
        "intermediate_size=2816",
        "num_attention_heads=16",
        "num_key_value_heads=4",
        train=True,
    ),
)
