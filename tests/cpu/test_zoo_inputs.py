"""What zoo models are called with: inferred inputs fit, over kinds of models; tiny configurations, random weights."""

from __future__ import annotations

import pytest
import torch

from graphbench.errors import SetupError
from graphbench.models.inputs import Inputs, as_inputs, make_inputs
from graphbench.models.packages import import_optional
from graphbench.models.sources import BuiltModel, ModelSource, build_model

LAYERS = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
WORDS = {**LAYERS, "vocab_size": 50}
DECODER = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "vocab_size": 60,
}
BART = {**DECODER, "max_position_embeddings": 32}
WHISPER = {
    **DECODER,
    "max_source_positions": 20,
    "max_target_positions": 12,
    "num_mel_bins": 8,
    "pad_token_id": 0,
    "decoder_start_token_id": 1,
}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "vocab_size": 50}
SOUND = {**LAYERS, "conv_dim": (8,) * 7, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
PICTURE = {**LAYERS, "image_size": 32, "patch_size": 16}
CLIP = {"text_config": {**WORDS, "max_position_embeddings": 12}, "vision_config": PICTURE, "projection_dim": 8}
GPT2 = {"n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 50, "n_positions": 16}


def needs(package: str) -> None:
    """Skip where an optional package is missing or does not import."""
    try:
        import_optional(package)
    except SetupError as error:
        pytest.skip(error.message)


def build(name: str, arguments: dict[str, object], *, train: bool = False) -> BuiltModel:
    torch.manual_seed(0)
    return build_model(ModelSource(name=name, arguments=arguments, batch_size=2, train=train))


def inputs_of(built: BuiltModel) -> Inputs:
    if built.make_example is not None:
        return as_inputs(built.make_example(), origin=built.example_origin, device="cpu")
    assert built.specs
    return make_inputs(built.specs, device="cpu", seed=0)


def called(built: BuiltModel) -> object:
    inputs = inputs_of(built)
    with torch.no_grad():
        result: object = built.module(*inputs.args, **inputs.kwargs)
    return result


@pytest.mark.parametrize(
    ("name", "arguments", "specs"),
    [
        ("hf:bert", WORDS, "input_ids=i64[2,128]<50"),
        ("hf:gpt2", GPT2, "input_ids=i64[2,16]<50"),
        ("hf:t5", T5, "input_ids=i64[2,128]<50 decoder_input_ids=i64[2,128]<50"),
        ("hf:bart", BART, "input_ids=i64[2,32]<60 decoder_input_ids=i64[2,32]<60"),
        ("hf:whisper", WHISPER, "input_features=f32[2,8,40] decoder_input_ids=i64[2,12]<60"),
        ("hf:wav2vec2", SOUND, "input_values=f32[2,16000]"),
        ("hf:vit", PICTURE, "pixel_values=f32[2,3,32,32]"),
        ("hf:videomae", {**PICTURE, "num_frames": 4}, "pixel_values=f32[2,4,3,32,32]"),
        ("hf:clip", CLIP, "input_ids=i64[2,12]<50 pixel_values=f32[2,3,32,32]"),
        ("hf:BertForSequenceClassification", WORDS, "input_ids=i64[2,128]<50"),
        ("hf:GPT2ForSequenceClassification", GPT2, "input_ids=i64[2,16]<50"),
        ("hf:BertForMultipleChoice", WORDS, "input_ids=i64[2,2,128]<50"),
    ],
)
def test_inferred_inputs_of_transformers_fit(name: str, arguments: dict[str, object], specs: str) -> None:
    needs("transformers")
    built = build(name, arguments)
    assert " ".join(map(str, built.specs)) == specs
    called(built)


@pytest.mark.parametrize(
    ("name", "arguments", "specs"),
    [
        ("hf:gpt2", GPT2, "input_ids=i64[2,16]<50 labels=i64[2,16]<50"),
        ("hf:BertForMaskedLM", WORDS, "input_ids=i64[2,128]<50 labels=i64[2,128]<50"),
        ("hf:BertForSequenceClassification", {**WORDS, "num_labels": 3}, "input_ids=i64[2,128]<50 labels=i64[2]<3"),
        ("hf:BertForTokenClassification", {**WORDS, "num_labels": 3}, "input_ids=i64[2,128]<50 labels=i64[2,128]<3"),
        (
            "hf:BertForQuestionAnswering",
            WORDS,
            "input_ids=i64[2,128]<50 start_positions=i64[2]<128 end_positions=i64[2]<128",
        ),
        ("hf:BertForMultipleChoice", WORDS, "input_ids=i64[2,2,128]<50 labels=i64[2]<2"),
        ("hf:ViTForImageClassification", {**PICTURE, "num_labels": 3}, "pixel_values=f32[2,3,32,32] labels=i64[2]<3"),
        ("hf:T5ForConditionalGeneration", T5, "input_ids=i64[2,128]<50 labels=i64[2,128]<50"),
        (
            "hf:WhisperForConditionalGeneration",
            WHISPER,
            "input_features=f32[2,8,40] labels=i64[2,12]<60",
        ),
    ],
)
def test_a_model_that_is_trained_gets_what_its_own_loss_is_computed_from(
    name: str, arguments: dict[str, object], specs: str
) -> None:
    needs("transformers")
    built = build(name, arguments, train=True)
    assert " ".join(map(str, built.specs)) == specs
    loss = getattr(called(built), "loss", None)
    assert isinstance(loss, torch.Tensor)
    assert loss.isfinite()


def test_inputs_that_cannot_be_inferred_are_not_guessed() -> None:
    needs("transformers")
    tiny = {"hidden_size": 16, "n_layer": 1, "n_head": 1}
    assert build("hf:decision_transformer", tiny).specs == ()


def test_an_image_in_the_place_of_a_placeholder_is_left_out_with_the_placeholder() -> None:
    needs("transformers")
    text = {**WORDS, "model_type": "llama", "num_key_value_heads": 2, "max_position_embeddings": 16}
    vision = {**PICTURE, "model_type": "clip_vision_model"}
    built = build("hf:llava", {"text_config": text, "vision_config": vision, "image_token_index": 40})
    assert [str(spec) for spec in built.specs] == ["input_ids=i64[2,16]<40"]
    called(built)


@pytest.mark.parametrize(
    ("name", "arguments", "specs"),
    [
        ("resnet18", {}, "f32[2,3,224,224]"),
        ("lraspp_mobilenet_v3_large", {}, "f32[2,3,224,224]"),
        ("r3d_18", {}, "f32[2,3,16,112,112]"),
        ("mvit_v2_s", {}, "f32[2,3,16,224,224]"),
        ("s3d", {}, "f32[2,3,16,224,224]"),
        ("swin3d_t", {}, "f32[2,3,16,224,224]"),
        ("raft_small", {}, "f32[2,3,224,224] f32[2,3,224,224]"),
        ("inception_v3", {"init_weights": False}, "f32[2,3,299,299]"),
    ],
)
def test_inferred_inputs_of_torchvision_fit(name: str, arguments: dict[str, object], specs: str) -> None:
    needs("torchvision.models")
    with torch.device("meta"):
        built = build(f"torchvision:{name}", arguments)
    assert " ".join(map(str, built.specs)) == specs
    inputs = make_inputs(built.specs, device="meta", seed=0)
    with torch.device("meta"), torch.no_grad():
        built.module.eval()(*inputs.args, **inputs.kwargs)


@pytest.mark.parametrize("train", [False, True])
def test_a_detector_is_called_with_a_list_of_images_and_in_training_with_boxes(train: bool) -> None:
    needs("torchvision.models")
    built = build("torchvision:ssdlite320_mobilenet_v3_large", {}, train=train)
    built.module.train(train)
    result = called(built)
    kinds = {key for entry in result for key in entry} if isinstance(result, list) else set(result)  # type: ignore[call-overload]
    assert kinds == ({"bbox_regression", "classification"} if train else {"boxes", "labels", "scores"})


@pytest.mark.parametrize(
    ("name", "arguments", "specs"),
    [("test_vit", {"in_chans": 1}, "f32[2,1,160,160]"), ("test_resnet", {"in_chans": 5}, "f32[2,5,160,160]")],
)
def test_inferred_inputs_of_timm_fit(name: str, arguments: dict[str, object], specs: str) -> None:
    needs("timm")
    built = build(f"timm:{name}", arguments)
    assert " ".join(map(str, built.specs)) == specs
    called(built)
