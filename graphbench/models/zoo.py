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
from graphbench.models.transformers_inputs import IMAGE_SIZE, infer_inputs

if TYPE_CHECKING:
    import torch

_INCEPTION_SIZE = 299
_DETECTION_SIZE = 320
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
        make_example: makes what no spec can say, as lists of images: a tensor, a tuple, or a dict by name.
    """

    module: torch.nn.Module
    specs: tuple[InputSpec, ...] = ()
    make_example: Callable[[], object] | None = None


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
        return ZooModel(module=module, make_example=partial(_detection_example, batch_size, train))
    if ".video" in family:
        size = _CLIP_SIZE if family.endswith(".resnet") else IMAGE_SIZE
        shape = (batch_size, 3, _CLIP_FRAMES, size, size)
        return ZooModel(module=module, specs=(InputSpec(dtype="f32", shape=shape),))
    if ".optical_flow" in family:
        return ZooModel(module=module, specs=(_image(batch_size, 3, IMAGE_SIZE, IMAGE_SIZE),) * 2)
    size = _INCEPTION_SIZE if name == "inception_v3" else IMAGE_SIZE
    wanted = arguments.get("image_size", size)
    size = wanted if isinstance(wanted, int) else size
    return ZooModel(module=module, specs=(_image(batch_size, 3, size, size),))


def _detection_example(batch_size: int, train: bool) -> tuple[object, ...]:
    """Images as a detector takes them, each with one box where it is to be trained.

    Source: `torchvision.models.detection.generalized_rcnn.GeneralizedRCNN.forward` (torchvision 0.29).
    """
    import torch

    images = [torch.rand(3, _DETECTION_SIZE, _DETECTION_SIZE) for _ in range(batch_size)]
    corner = _DETECTION_SIZE / 2
    box = {"boxes": torch.tensor([[0.0, 0.0, corner, corner]]), "labels": torch.ones(1, dtype=torch.int64)}
    return (images, [dict(box) for _ in images]) if train else (images,)


def _has_backbone(family: str) -> bool:
    """Whether a torchvision family would download a backbone's weights unless told not to."""
    return ".detection" in family or ".segmentation" in family


def _build_timm(name: str, arguments: Mapping[str, object], batch_size: int, train: bool) -> ZooModel:
    """Source: `timm.create_model`, a model's `pretrained_cfg["input_size"]` (timm 1.0)."""
    subject = f"timm:{name}"
    if "checkpoint_path" in arguments:  # which timm reads with `torch.load(weights_only=False)`, in some releases
        raise UsageError(
            f"{subject}: --model-arg checkpoint_path: timm may run code of the file that it reads",
            hint=f"--checkpoint {arguments['checkpoint_path']} loads weights without",
            subject=subject,
        )
    timm = import_optional("timm")
    if not timm.is_model(name):
        raise _unknown(subject, name, timm.list_models(), "timm.list_models('*vit*') lists the names like vit")
    module = construct(subject, lambda: timm.create_model(name, pretrained=False, **arguments))
    configuration = getattr(module, "pretrained_cfg", None) or {}
    channels, height, width = configuration.get("input_size") or (3, IMAGE_SIZE, IMAGE_SIZE)
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
    model_class = _model_class(transformers, name)
    configuration_class = (
        _configuration_class(transformers, name, subject) if model_class is None else model_class.config_class
    )
    _check_fields(configuration_class, arguments, subject)
    configuration = construct(subject, lambda: configuration_class(**arguments))
    _set_defaults(configuration, arguments, name)
    factory = transformers.AutoModelForCausalLM if _is_causal(transformers, configuration) else transformers.AutoModel
    build = factory.from_config if model_class is None else model_class
    module = construct(subject, lambda: build(configuration))
    return ZooModel(module=module, specs=infer_inputs(module, batch_size, train=train))


def _set_defaults(configuration: Any, arguments: Mapping[str, object], name: str) -> None:
    """What a forward over a whole batch needs, where the user said nothing else."""
    parts = [configuration, getattr(configuration, "text_config", None)]
    for part in [part for part in parts if getattr(part, "use_cache", False)]:
        if "use_cache" not in arguments:
            part.use_cache = False  # one pass over a whole batch: nothing would ever read the cache
    if name.endswith("SequenceClassification") and _lacks(configuration, "pad_token_id"):
        configuration.pad_token_id = 0  # without one, decoders classify a single sequence only
    if getattr(configuration, "is_encoder_decoder", False) and _lacks(configuration, "decoder_start_token_id"):
        configuration.decoder_start_token_id = 0  # what labels are shifted behind


def _lacks(configuration: Any, field: str) -> bool:
    return getattr(configuration, field, None) is None


def _model_class(transformers: Any, name: str) -> Any:
    """A model's class of that name, as `BertForSequenceClassification`, else `None`."""
    found = getattr(transformers, name, None) if name[:1].isupper() and not name.endswith("Config") else None
    is_model = isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)
    return found if is_model and getattr(found, "config_class", None) is not None else None


def _configuration_class(transformers: Any, name: str, subject: str) -> Any:
    mapping = transformers.CONFIG_MAPPING
    if name in mapping:
        return mapping[name]
    found = getattr(transformers, name, None) if name.endswith("Config") else None
    if found is None or not hasattr(found, "model_type"):
        classes = [entry for entry in dir(transformers) if entry.endswith("Config") or "For" in entry]
        hint = "a model type such as gpt2, a configuration class such as LlamaConfig, or a model class such as "
        hint += "BertForMaskedLM, not a checkpoint; the types: list(transformers.CONFIG_MAPPING)"
        raise _unknown(subject, name, [*mapping, *classes], hint)
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


ZOOS: Mapping[str, Builder] = {
    "torchvision": _build_torchvision,
    "timm": _build_timm,
    "hf": _build_transformers,
}
