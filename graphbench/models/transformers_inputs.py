"""What a transformers model is called with, inferred from its `forward`, its class and its configuration.

Checked on transformers 5: `main_input_name`, the parameters of `forward`, and the names of configuration fields. What
is not sure to fit is not guessed: without specs the user is asked for inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any, Final

from graphbench.models.inputs import InputSpec

SEQUENCE_LENGTH: Final = 128
IMAGE_SIZE: Final = 224
_SAMPLES: Final = 16_000  # of sound: a second
_FRAMES: Final = 1024  # of a spectrogram, where the model takes any number
_CHOICES: Final = 2
_PARTS: Final = ("text_config", "vision_config", "audio_config")
_PLACEHOLDERS: Final = ("image_token_id", "image_token_index", "video_token_id", "audio_token_id")
_LABELLED_PER_EXAMPLE: Final = ("SequenceClassification", "ImageClassification", "VideoClassification")
_LABELLED_PER_TOKEN: Final = ("CausalLM", "LMHeadModel", "MaskedLM", "ConditionalGeneration")


def infer_inputs(module: Any, batch_size: int, *, train: bool) -> tuple[InputSpec, ...]:
    """The inputs of a transformers model, by name; none where they cannot be inferred.

    Args:
        module: a `PreTrainedModel`.
        batch_size: their leading size.
        train: also labels, where the model computes its loss from them.
    """
    call = _Call(module, batch_size)
    main = {
        "input_ids": call.text,
        "pixel_values": call.pixels,
        "input_features": call.features,
        "input_values": call.sound,
    }.get(module.main_input_name)
    specs = tuple(main()) if main is not None else ()
    if not specs or not call.required <= {spec.name for spec in specs}:
        return ()
    return call.with_labels(specs) if train else specs


class _Call:
    """One model and what is known of its inputs."""

    def __init__(self, module: Any, batch_size: int) -> None:
        parameters = signature(module.forward).parameters
        self.head = type(module).__name__
        self.batch_size = batch_size
        self.config = module.config
        self.names = set(parameters)
        self.required = {
            name
            for name, entry in parameters.items()
            if entry.default is entry.empty and entry.kind is entry.POSITIONAL_OR_KEYWORD
        }

    def text(self) -> Iterator[InputSpec]:
        """Token ids, and pixels beside them where text and images are encoded apart."""
        vocabulary, pixels = self._field("vocab_size"), "pixel_values" in self.names
        if vocabulary is None or self.names & {"visual_feats", "input_features"}:
            return
        # A model that puts images in the place of placeholders is called with text alone, without any of those.
        placeholders = [found for name in _PLACEHOLDERS if (found := getattr(self.config, name, None)) is not None]
        yield self._ids("input_ids", min([vocabulary, *placeholders]), self._length())
        if getattr(self.config, "is_encoder_decoder", False) and "decoder_input_ids" in self.names:
            yield self._ids("decoder_input_ids", vocabulary, self._length())
        if pixels and not placeholders and getattr(self.config, "use_image_text_embedding", True):
            yield from self.pixels()

    def pixels(self) -> Iterator[InputSpec]:
        """Images, or the frames of a video."""
        if "input_ids" in self.required:
            return
        height, width = self._image_size()
        frames = self._field("num_frames")
        image = (self._field("num_channels") or 3, height, width)
        shape = (self.batch_size, *image) if frames is None else (self.batch_size, frames, *image)
        yield InputSpec(name="pixel_values", dtype="f32", shape=shape)

    def features(self) -> Iterator[InputSpec]:
        """The spectrogram of a model of speech, and the first token ids of the text that it is turned into."""
        bins, positions = self._field("num_mel_bins"), self._field("max_source_positions")
        channels, vocabulary = self._field("input_feat_per_channel"), self._field("vocab_size")
        shape: tuple[int, ...]
        if channels is not None:
            shape = (self.batch_size, _FRAMES, channels)
        elif bins is not None and positions is not None:
            shape = (self.batch_size, bins, 2 * positions)  # the encoder halves the frames
        else:
            return
        yield InputSpec(name="input_features", dtype="f32", shape=shape)
        if "decoder_input_ids" in self.names and vocabulary is not None:
            longest = self._field("max_target_positions") or SEQUENCE_LENGTH
            yield self._ids("decoder_input_ids", vocabulary, min(SEQUENCE_LENGTH, longest))

    def sound(self) -> Iterator[InputSpec]:
        """Samples of sound, or a spectrogram where the model takes one of a fixed length."""
        bins, frames, channels = map(self._field, ("num_mel_bins", "max_length", "audio_channels"))
        shape: tuple[int, ...]
        if "decoder_input_values" in self.names:
            return
        if hasattr(self.config, "conv_stride"):
            shape = (self.batch_size, _SAMPLES)
        elif channels is not None:
            shape = (self.batch_size, channels, _SAMPLES)
        elif bins is not None and frames is not None:
            shape = (self.batch_size, frames, bins)
        else:
            return
        yield InputSpec(name="input_values", dtype="f32", shape=shape)

    def with_labels(self, specs: tuple[InputSpec, ...]) -> tuple[InputSpec, ...]:
        """The inputs with what the model computes its loss from; the first token ids of a decoder come from labels."""
        made = tuple(self._labels(next((spec for spec in specs if spec.bound is not None), specs[0])))
        if not made:
            return specs
        kept = tuple(spec for spec in specs if spec.name != "decoder_input_ids" or made[0].name != "labels")
        return (*kept, *made)

    def _labels(self, text: InputSpec) -> Iterator[InputSpec]:
        size, classes = self.batch_size, self._field("num_labels") or 2
        if self.head.endswith("QuestionAnswering") and "start_positions" in self.names:
            for name in ("start_positions", "end_positions"):
                yield InputSpec(name=name, dtype="i64", shape=(size,), bound=text.shape[-1])
        if "labels" not in self.names:
            return
        if self.head.endswith(_LABELLED_PER_EXAMPLE):
            yield InputSpec(name="labels", dtype="i64", shape=(size,), bound=classes)
        elif self.head.endswith("MultipleChoice"):
            yield InputSpec(name="labels", dtype="i64", shape=(size,), bound=_CHOICES)
        elif self.head.endswith("TokenClassification"):
            yield InputSpec(name="labels", dtype="i64", shape=text.shape, bound=classes)
        elif self.head.endswith(_LABELLED_PER_TOKEN) and text.bound is not None:
            yield InputSpec(name="labels", dtype="i64", shape=text.shape, bound=text.bound)

    def _ids(self, name: str, vocabulary: int, length: int) -> InputSpec:
        shape: tuple[int, ...] = (self.batch_size, length)
        if self.head.endswith("MultipleChoice"):
            shape = (self.batch_size, _CHOICES, length)
        return InputSpec(name=name, dtype="i64", shape=shape, bound=vocabulary)

    def _length(self) -> int:
        return min(SEQUENCE_LENGTH, self._field("max_position_embeddings") or SEQUENCE_LENGTH)

    def _image_size(self) -> tuple[int, int]:
        for part in self._parts():
            match getattr(part, "image_size", None):
                case int(size):
                    return size, size
                case [int(height), int(width)]:
                    return height, width
                case Mapping() as sizes if "height" in sizes:
                    return sizes["height"], sizes["width"]
        return IMAGE_SIZE, IMAGE_SIZE

    def _field(self, name: str) -> int | None:
        """A size of the configuration, or of one of its parts; some have -1 for "any"."""
        found = (getattr(part, name, None) for part in self._parts())
        return next((value for value in found if type(value) is int and value > 0), None)

    def _parts(self) -> list[Any]:
        parts = [self.config, *(getattr(self.config, name, None) for name in _PARTS)]
        return [part for part in parts if part is not None]
