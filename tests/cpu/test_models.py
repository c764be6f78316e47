"""Building models and inputs: the zoos, files of the user, and every way in which they can be wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from graphbench.errors import CaptureError, GraphbenchError, SetupError, UsageError
from graphbench.models.inputs import as_inputs, make_inputs, parse_inputs
from graphbench.models.packages import import_optional
from graphbench.models.saved_inputs import load_inputs
from graphbench.models.sources import BuiltModel, ModelSource, build_model

TINY_GPT2 = {"n_layer": 1, "n_embd": 32, "n_head": 2, "vocab_size": 50, "n_positions": 16}


def build(name: str, *, batch_size: int | None = None, train: bool = False, **arguments: object) -> BuiltModel:
    return build_model(ModelSource(name=name, arguments=arguments, batch_size=batch_size, train=train))


def build_file(path: Path, target: str, *, batch_size: int | None = None, **arguments: object) -> BuiltModel:
    return build_model(ModelSource(file=path, target=target, arguments=arguments, batch_size=batch_size))


def needs(package: str) -> None:
    """Skip where an optional package is missing or does not import."""
    try:
        import_optional(package)
    except SetupError as error:
        pytest.skip(error.message)


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(
        "from torch import nn, randn\n"
        "from width_of import WIDTH\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, width=WIDTH, *, bias=True):\n"
        "        super().__init__()\n"
        "        if width < 1:\n"
        "            raise ValueError('width must be positive')\n"
        "        self.linear = nn.Linear(width, width, bias=bias)\n"
        "    def forward(self, x):\n"
        "        return self.linear(x)\n"
        "def make_net(): return Net(5)\n"
        "def make_nothing(): return 'nothing'\n"
        "NUMBER = 3\n"
        "def example_inputs(batch_size=2): return {'x': randn(batch_size, WIDTH)}\n"
    )
    (tmp_path / "width_of.py").write_text("WIDTH = 7\n")
    return path


# inputs


def test_integers_lie_in_their_range_and_other_kinds_of_numbers_are_made() -> None:
    specs = parse_inputs(["labels=i64[1000]>=-3<2", "wave=c64[4]", "scaled=f8e4m3fn[4]", "steep=f8e5m2[4]"])
    made = make_inputs(specs, device="cpu", seed=0).kwargs
    assert (made["labels"].min(), made["labels"].max()) == (-3, 1)
    dtypes = [made[name].dtype for name in ("wave", "scaled", "steep")]
    assert dtypes == [torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2]


def test_values_have_shape_dtype_and_range() -> None:
    inputs = make_inputs(parse_inputs(["bf16[2,3]", "ids=i64[1000]<7", "flag=bool[5]"]), device="cpu", seed=0)
    (positional,) = inputs.args
    ids, flag = inputs.kwargs["ids"], inputs.kwargs["flag"]
    assert isinstance(positional, torch.Tensor)
    assert isinstance(ids, torch.Tensor)
    assert isinstance(flag, torch.Tensor)
    assert (positional.shape, positional.dtype) == ((2, 3), torch.bfloat16)
    assert set(ids.tolist()) == set(range(7))
    assert flag.dtype == torch.bool


def test_integers_without_bound_are_0_and_1() -> None:
    (values,) = make_inputs(parse_inputs(["u8[1000]"]), device="cpu", seed=0).args
    assert isinstance(values, torch.Tensor)
    assert set(values.tolist()) == {0, 1}


def test_seed_decides_the_values() -> None:
    first, again, other = (make_inputs(parse_inputs(["f32[8]"]), device="cpu", seed=seed).args[0] for seed in (1, 1, 2))
    assert isinstance(first, torch.Tensor)
    assert isinstance(again, torch.Tensor)
    assert isinstance(other, torch.Tensor)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_making_inputs_leaves_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    make_inputs(parse_inputs(["f32[8]", "i64[8]<3"]), device="cpu", seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("saved", "args", "names"),
    [(torch.ones(2), 1, set()), ((torch.ones(2), 3), 2, set()), ({"x": torch.ones(2)}, 0, {"x"})],
    ids=["tensor", "tuple", "dict"],
)
def test_saved_tensors_become_the_arguments(tmp_path: Path, saved: object, args: int, names: set[str]) -> None:
    path = tmp_path / "x.pt"
    torch.save(saved, path)
    inputs = load_inputs(path, device="cpu")
    assert len(inputs.args) == args
    assert set(inputs.kwargs) == names


def test_safetensors_are_arguments_by_name(tmp_path: Path) -> None:
    needs("safetensors.torch")
    path = tmp_path / "x.safetensors"
    import_optional("safetensors.torch").save_file({"x": torch.ones(2)}, path)
    value = load_inputs(path, device="cpu").kwargs["x"]
    assert isinstance(value, torch.Tensor)
    assert torch.equal(value, torch.ones(2))


class Surprise:
    """An object whose unpickling would run code."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('ran')",))


def test_saved_code_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save(Surprise(), path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_inputs(path, device="cpu")


@pytest.mark.parametrize("name", ["x.pt", "x.safetensors"])
@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "an empty file"),
        (b"no tensors", "a text file"),
        (b"hello there\n", "a text file"),
        (b"\x80\x02garbage\x00\xff", "a binary file"),
        (b"PK\x03\x04 and no more", "a zip archive, as torch.save writes,"),
    ],
)
def test_broken_file_says_what_it_is_and_what_is_read(tmp_path: Path, name: str, content: bytes, found: str) -> None:
    needs("safetensors.torch")
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_inputs(path, device="cpu")
    assert caught.value.message.startswith(f"example inputs {path}: found {found} that cannot be read: ")
    assert ".pt and .pth files" in str(caught.value.hint)
    assert ".safetensors files" in str(caught.value.hint)


@pytest.mark.parametrize(("name", "message"), [("missing.pt", "no such file"), ("x.npy", "suffix '.npy'")])
def test_wrong_path_is_a_usage_error(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "x.npy").write_text("")
    with pytest.raises(UsageError, match=message):
        load_inputs(tmp_path / name, device="cpu")


def test_only_floats_are_cast() -> None:
    inputs = as_inputs([torch.ones(1), [torch.ones(1, dtype=torch.int64)]], origin="test", device="cpu", dtype="bf16")
    first, (second,) = inputs.args  # type: ignore[misc]
    assert isinstance(first, torch.Tensor)
    assert first.dtype == torch.bfloat16
    assert second.dtype == torch.int64


def test_inputs_of_another_type_are_refused() -> None:
    with pytest.raises(UsageError, match="found int"):
        as_inputs(3, origin="example_inputs()", device="cpu")


# files of the user


def test_class_of_a_file_is_built_and_may_import_its_neighbours(model_file: Path) -> None:
    built = build_file(model_file, "Net", bias=False)
    assert [tuple(p.shape) for p in built.module.parameters()] == [(7, 7)]
    assert built.subject == "net.py:Net"


def test_function_may_build_the_model(model_file: Path) -> None:
    assert next(build_file(model_file, "make_net").module.parameters()).shape == (5, 5)


def test_file_may_name_its_example_inputs(model_file: Path) -> None:
    make_example = build_file(model_file, "Net", batch_size=4).make_example
    assert make_example is not None
    made = make_example()
    assert isinstance(made, dict)
    assert made["x"].shape == (4, 7)


def test_import_path_is_as_before(model_file: Path) -> None:
    before = list(sys.path)
    build_file(model_file, "Net")
    assert sys.path == before


@pytest.mark.parametrize(
    ("target", "arguments", "error", "message"),
    [
        ("Missing", {}, UsageError, "Missing: no such class"),
        ("NUMBER", {}, UsageError, "found int, expected a class or function"),
        ("make_nothing", {}, UsageError, "it made a str"),
        ("Net", {"depth": 3}, UsageError, "unexpected keyword argument 'depth'"),
        ("Net", {"width": -1}, CaptureError, "ValueError: width must be positive"),
    ],
)
def test_wrong_target_is_one_clear_error(
    model_file: Path, target: str, arguments: dict[str, object], error: type[GraphbenchError], message: str
) -> None:
    with pytest.raises(error) as caught:
        build_file(model_file, target, **arguments)
    assert message in caught.value.message


def test_missing_class_error_lists_those_there_are(model_file: Path) -> None:
    with pytest.raises(UsageError) as caught:
        build_file(model_file, "Missing")
    assert caught.value.hint == "modules defined there: Net"


def test_missing_class_error_lists_imported_ones_too(tmp_path: Path) -> None:
    path = tmp_path / "zoo_of_mine.py"
    path.write_text("from torch.nn import Conv2d, ReLU\n")
    with pytest.raises(UsageError) as caught:
        build_file(path, "Missing")
    assert caught.value.hint == "modules defined there: none; imported there: Conv2d, ReLU"
    assert isinstance(build_file(path, "ReLU").module, torch.nn.ReLU)


def test_missing_file_error_names_files_like_it(model_file: Path) -> None:
    with pytest.raises(UsageError, match="no such file") as caught:
        build_file(model_file.parent / "nets.py", "Net")
    assert caught.value.hint == f"did you mean {model_file}?"


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("missing.py", "missing.py: no such file", "pass the Python file that defines the model"),
        (".", "found a folder, expected a Python file", "pass the Python file that defines the model"),
        ("nowhere/net.py", "net.py: no such file", "there is no folder"),
    ],
)
def test_path_without_a_file_says_what_is_there(tmp_path: Path, name: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        build_file(tmp_path / name, "Net")
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "message"), [("import no_such_module", "No module named 'no_such_module'"), ("def", "SyntaxError")]
)
def test_file_that_raises_is_a_capture_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(CaptureError, match=message):
        build_file(path, "Net")
    assert "_graphbench_model_broken" not in sys.modules


# zoos


@pytest.mark.parametrize(
    ("name", "message"), [("gpt2", "expected ZOO:NAME"), ("hf:", "expected ZOO:NAME"), ("zoo:x", "unknown zoo 'zoo'")]
)
def test_malformed_name_is_a_usage_error(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build(name)


def test_missing_package_says_how_to_install_it() -> None:
    with pytest.raises(SetupError, match="is not installed") as caught:
        import_optional("no_such_package_of_a_zoo.models")
    assert "pip install" in str(caught.value.hint)


def test_package_that_cannot_be_imported_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "built_for_another_torch.py").write_text("raise RuntimeError('operator nms does not exist')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SetupError, match="operator nms does not exist"):
        import_optional("built_for_another_torch")


@pytest.mark.parametrize("name", ["hf:gpt2", "hf:GPT2Config"])
def test_transformers_model_type_and_config_class_are_the_same(name: str) -> None:
    needs("transformers")
    built = build(name, **TINY_GPT2)
    assert type(built.module).__name__ == "GPT2LMHeadModel"
    assert [str(spec) for spec in built.specs] == ["input_ids=i64[1,16]<50"]


def test_transformers_arguments_reach_the_configuration() -> None:
    needs("transformers")
    assert len(build("hf:gpt2", **{**TINY_GPT2, "n_layer": 3}).module.transformer.h) == 3


def test_transformers_field_that_does_not_exist_is_refused() -> None:
    needs("transformers")
    with pytest.raises(UsageError, match="no field 'n_layers'") as caught:
        build("hf:gpt2", n_layers=2)
    assert "n_layer" in str(caught.value.hint)


def test_transformers_cache_is_off_unless_asked_for() -> None:
    needs("transformers")
    assert build("hf:gpt2", **TINY_GPT2).module.config.use_cache is False
    assert build("hf:gpt2", **TINY_GPT2, use_cache=True).module.config.use_cache is True


def test_training_a_language_model_gets_labels() -> None:
    needs("transformers")
    assert [spec.name for spec in build("hf:gpt2", train=True, **TINY_GPT2).specs] == ["input_ids", "labels"]


def test_transformers_encoder_is_no_language_model() -> None:
    needs("transformers")
    tiny = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 32}
    assert type(build("hf:bert", vocab_size=50, **tiny).module).__name__ == "BertModel"


def test_transformers_vision_model_takes_pixels() -> None:
    needs("transformers")
    tiny = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 32}
    built = build("hf:vit", batch_size=2, image_size=32, **tiny)
    assert [str(spec) for spec in built.specs] == ["pixel_values=f32[2,3,32,32]"]


def test_transformers_unknown_name_suggests_a_near_one() -> None:
    needs("transformers")
    with pytest.raises(UsageError, match="no such model") as caught:
        build("hf:LlamaConfg")
    assert "LlamaConfig" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "arguments", "spec"),
    [
        ("resnet18", {}, "f32[4,3,224,224]"),
        ("inception_v3", {"init_weights": False}, "f32[4,3,299,299]"),
        ("vit_b_16", {"image_size": 32}, "f32[4,3,32,32]"),
        ("r3d_18", {}, "f32[4,3,16,112,112]"),
    ],
)
def test_torchvision_inputs_fit_the_model(name: str, arguments: dict[str, object], spec: str) -> None:
    needs("torchvision.models")
    assert [str(entry) for entry in build(f"torchvision:{name}", batch_size=4, **arguments).specs] == [spec]


def test_torchvision_unknown_name_suggests_a_near_one() -> None:
    needs("torchvision.models")
    with pytest.raises(UsageError) as caught:
        build("torchvision:resnet81")
    assert "resnet" in str(caught.value.hint)


def test_torchvision_detection_model_has_no_inferred_inputs() -> None:
    needs("torchvision.models")
    assert build("torchvision:ssdlite320_mobilenet_v3_large").specs == ()


def test_timm_input_size_is_the_models_own() -> None:
    needs("timm")
    assert [str(spec) for spec in build("timm:test_vit").specs] == ["f32[1,3,160,160]"]


def test_timm_arguments_change_the_inputs() -> None:
    needs("timm")
    assert [str(s) for s in build("timm:test_vit", img_size=64, in_chans=1).specs] == ["f32[1,1,64,64]"]


@pytest.mark.parametrize(
    ("package", "name", "hint"),
    [
        ("transformers", "hf:LLaMa", "did you mean llama"),
        ("transformers", "hf:bert-base-uncased", "did you mean bert"),
        ("transformers", "hf:nope", "list(transformers.CONFIG_MAPPING)"),
        ("timm", "timm:resnet81", "did you mean resnet18"),
        ("timm", "timm:nope", "timm.list_models('*vit*')"),
        ("torchvision.models", "torchvision:ResNet18", "did you mean resnet18"),
        ("torchvision.models", "torchvision:nope", "torchvision.models.list_models()"),
    ],
)
def test_unknown_name_of_any_zoo_has_a_hint(package: str, name: str, hint: str) -> None:
    needs(package)
    with pytest.raises(UsageError, match="no such model") as caught:
        build(name)
    assert hint in str(caught.value.hint)
