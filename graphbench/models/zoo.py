"""Models of torchvision, timm and transformers by name: random weights, no download, and what they are called with."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from graphbench.errors import CaptureError, UsageError, first_line, raised_by
from graphbench.models.inputs import InputSpec
from graphbench.models.packages import import_optional
from graphbench.models.plugins import distribution_of, load_zoo, plugin_zoos

if TYPE_CHECKING:
    import torch

SEQUENCE_LENGTH = 128
_IMAGE_SIZE = 224
_INCEPTION_SIZE = 299
_CLIP_FRAMES, _CLIP_SIZE = 16, 112
_SHORTEST_WITHIN, _MOST_WITHIN = 4, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooModel:
    """What a zoo's builder returns: a module on the CPU, and what it is called with.

    Plug-in zoos (`graphbench.models.plugins`) return it too; `graphbench.models.inputs.parse_inputs` makes specs of
    texts such as `"x=f32[1,3,224,224]"`.

    Attributes:
        module: the model, with random weights.
        specs: one input each; those without a name are passed by position. Empty when they cannot be inferred: the
            user is then asked for them.
    """

    module: torch.nn.Module
    specs: tuple[InputSpec, ...] = ()


Builder = Callable[[str, Mapping[str, object], int, bool], ZooModel]
"""Builds a model from its name in the zoo, `--model-arg` values, the batch size of its inputs, and whether it is to be
trained: inputs then hold what its loss is computed from."""


def zoo_names() -> tuple[str, ...]:
    """Every zoo that there is, graphbench's own first."""
    return (*ZOOS, *(name for name in plugin_zoos() if name not in ZOOS))


def find_zoo(zoo: str) -> Builder | None:
    """The builder of a zoo: graphbench's own, else a plug-in's, else `None`.

    Raises:
        SetupError: a plug-in cannot be used.
    """
    if zoo in ZOOS:
        return ZOOS[zoo]
    plugged_in = load_zoo(zoo)
    return None if plugged_in is None else partial(_build_plugged_in, zoo, plugged_in)


def passed_over(zoo: str) -> str:
    """What to tell of a plug-in that has the name of one of graphbench's own zoos, "" where none has."""
    others = distribution_of(zoo) if zoo in ZOOS else ""
    return f"{zoo}: is graphbench's own zoo; the one of {others} is not used" if others else ""


def construct(subject: str, build: Callable[[], Any]) -> Any:
    """Call a constructor that is not ours, and say so if it raises.

    Raises:
        CaptureError: whatever it raised, in one line.
    """
    try:
        return build()
    except Exception as error:
        raise CaptureError(
            f"{subject}: its constructor raised {type(error).__name__}: {first_line(error)}",
            hint="check --model-arg; --debug shows the traceback",
            subject=subject,
        ) from error


def _build_plugged_in(
    zoo: str, builder: Any, name: str, arguments: Mapping[str, object], batch_size: int, train: bool
) -> ZooModel:
    who = f"{zoo}:{name}: zoo {zoo!r} of {distribution_of(zoo)}"
    with raised_by(who, hint="check --model-arg; --debug shows the traceback", subject=f"{zoo}:{name}"):
        built = builder(name, arguments, batch_size, train)
    if not isinstance(built, ZooModel):
        raise CaptureError(
            f"{who} returned a {type(built).__name__}, expected a graphbench.models.zoo.ZooModel",
            hint=f"tell the authors of {distribution_of(zoo)}",
            subject=f"{zoo}:{name}",
        )
    return built


def _unknown(subject: str, name: str, known: Iterable[str], otherwise: str) -> UsageError:
    """The error that suggests names like this one, or such as occur in it, or else says where names are listed."""
    names = {entry.casefold(): entry for entry in known}
    word = name.casefold()
    near = difflib.get_close_matches(word, list(names), n=3)
    if not near:  # a checkpoint's name contains that of its model: bert-base-uncased
        within = sorted((entry for entry in names if len(entry) >= _SHORTEST_WITHIN and entry in word), key=len)
        near = within[: -_MOST_WITHIN - 1 : -1]
    hint = f"did you mean {' or '.join(names[entry] for entry in near)}?" if near else otherwise
    return UsageError(f"model {subject}: no such model", hint=hint, subject=subject)


def _image(batch_size: int, channels: int, height: int, width: int, name: str | None = None) -> InputSpec:
    return InputSpec(name=name, dtype="f32", shape=(batch_size, channels, height, width))


def _build_torchvision(name: str, arguments: Mapping[str, object], batch_size: int, train: bool) -> ZooModel:
    """Source: `torchvision.models.list_models`, `get_model_builder` (torchvision 0.29)."""
    models = import_optional("torchvision.models")
    subject = f"torchvision:{name}"
    known = models.list_models()
    if name not in known:
        raise _unknown(subject, name, known, "torchvision.models.list_models() lists the names")
    family = models.get_model_builder(name).__module__
    weights = {"weights": None, "weights_backbone": None} if _has_backbone(family) else {"weights": None}
    module = construct(subject, lambda: models.get_model(name, **{**weights, **arguments}))
    if ".detection" in family:
        return ZooModel(module=module, specs=())  # called with a list of images, which no spec can say
    if ".video" in family:
        shape = (batch_size, 3, _CLIP_FRAMES, _CLIP_SIZE, _CLIP_SIZE)
        return ZooModel(module=module, specs=(InputSpec(dtype="f32", shape=shape),))
    if ".optical_flow" in family:
        return ZooModel(module=module, specs=(_image(batch_size, 3, _IMAGE_SIZE, _IMAGE_SIZE),) * 2)
    size = _INCEPTION_SIZE if name == "inception_v3" else _IMAGE_SIZE
    wanted = arguments.get("image_size", size)
    size = wanted if isinstance(wanted, int) else size
    return ZooModel(module=module, specs=(_image(batch_size, 3, size, size),))


def _has_backbone(family: str) -> bool:
    """Whether a torchvision family would download a backbone's weights unless told not to."""
    return ".detection" in family or ".segmentation" in family


def _build_timm(name: str, arguments: Mapping[str, object], batch_size: int, train: bool) -> ZooModel:
    """Source: `timm.create_model`, a model's `pretrained_cfg["input_size"]` (timm 1.0)."""
    timm = import_optional("timm")
    subject = f"timm:{name}"
    if not timm.is_model(name):
        raise _unknown(subject, name, timm.list_models(), "timm.list_models('*vit*') lists the names like vit")
    module = construct(subject, lambda: timm.create_model(name, pretrained=False, **arguments))
    configuration = getattr(module, "pretrained_cfg", None) or {}
    channels, height, width = configuration.get("input_size") or (3, _IMAGE_SIZE, _IMAGE_SIZE)
    match arguments.get("img_size"):
        case int(size):
            height = width = size
        case (int(rows), int(columns)):
            height, width = rows, columns
    asked = arguments.get("in_chans")
    channels = asked if isinstance(asked, int) else channels
    return ZooModel(module=module, specs=(_image(batch_size, channels, height, width),))


def _build_transformers(name: str, arguments: Mapping[str, object], batch_size: int, train: bool) -> ZooModel:
    """Source: `AutoConfig.for_model`, `AutoModelForCausalLM.from_config`, `AutoModel.from_config` (transformers 5)."""
    transformers = import_optional("transformers")
    subject = f"hf:{name}"
    configuration_class = _configuration_class(transformers, name, subject)
    _check_fields(configuration_class, arguments, subject)
    configuration = construct(subject, lambda: configuration_class(**arguments))
    if "use_cache" not in arguments and getattr(configuration, "use_cache", False):
        configuration.use_cache = False  # one pass over a whole batch: nothing would ever read the cache
    causal = _is_causal(transformers, configuration)
    factory = transformers.AutoModelForCausalLM if causal else transformers.AutoModel
    module = construct(subject, lambda: factory.from_config(configuration))
    return ZooModel(module=module, specs=_transformers_specs(module, batch_size, labels=train and causal))


def _configuration_class(transformers: Any, name: str, subject: str) -> Any:
    mapping = transformers.CONFIG_MAPPING
    if name in mapping:
        return mapping[name]
    found = getattr(transformers, name, None) if name.endswith("Config") else None
    if found is None or not hasattr(found, "model_type"):
        classes = [entry for entry in dir(transformers) if entry.endswith("Config")]
        hint = "a model type such as gpt2 or a configuration class such as LlamaConfig, not a checkpoint; the types: "
        raise _unknown(subject, name, [*mapping, *classes], f"{hint}list(transformers.CONFIG_MAPPING)")
    return found


def _check_fields(configuration_class: Any, arguments: Mapping[str, object], subject: str) -> None:
    """Refuse fields that the configuration does not have: it would store and ignore them."""
    default = construct(subject, configuration_class)
    for field in arguments:
        if not hasattr(default, field):
            near = difflib.get_close_matches(field, list(default.to_dict()), n=3)
            raise UsageError(
                f"model {subject}: {configuration_class.__name__} has no field {field!r}",
                hint=f"did you mean {' or '.join(near)}?" if near else "--model-arg sets fields of the configuration",
                subject=subject,
            )


def _is_causal(transformers: Any, configuration: Any) -> bool:
    """Whether the configuration is a decoder's: encoders as BERT also have a causal head, but are not used with it."""
    kind = type(configuration)
    masked = kind in transformers.MODEL_FOR_MASKED_LM_MAPPING
    return kind in transformers.MODEL_FOR_CAUSAL_LM_MAPPING and not masked and not configuration.is_encoder_decoder


def _transformers_specs(module: Any, batch_size: int, *, labels: bool) -> tuple[InputSpec, ...]:
    configuration = module.config
    if module.main_input_name == "pixel_values":
        size = getattr(configuration, "image_size", None) or _IMAGE_SIZE
        height, width = (size, size) if isinstance(size, int) else tuple(size)
        return (_image(batch_size, getattr(configuration, "num_channels", 3), height, width, "pixel_values"),)
    vocabulary = getattr(configuration, "vocab_size", None)
    if module.main_input_name != "input_ids" or not vocabulary:
        return ()
    limit = getattr(configuration, "max_position_embeddings", None) or SEQUENCE_LENGTH
    shape = (batch_size, min(SEQUENCE_LENGTH, limit))
    names = ["input_ids"]
    names += ["decoder_input_ids"] if getattr(configuration, "is_encoder_decoder", False) else []
    names += ["labels"] if labels else []
    return tuple(InputSpec(name=name, dtype="i64", shape=shape, bound=vocabulary) for name in names)


ZOOS: Mapping[str, Builder] = {
    "torchvision": _build_torchvision,
    "timm": _build_timm,
    "hf": _build_transformers,
}
