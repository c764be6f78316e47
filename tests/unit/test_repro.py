"""What `export` writes: which row a name means, what becomes code and what never does, and the ncu command line."""

from __future__ import annotations

import ast
import dataclasses
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from graphbench import cli, document
from graphbench.condition_records import Ambient, AutocastState
from graphbench.device_records import DeviceKernel, TritonConfig
from graphbench.errors import UsageError
from graphbench.measurements import CacheState, JsonValue, Measurement, TensorSpec
from graphbench.records import GraphInput, InputRecord, NodeRecord, ProfileRecord
from graphbench.report.repro import ncu_command, repro
from graphbench.report.repro.bounds import Step, bounds
from graphbench.report.repro.rows import find_row
from graphbench.report.repro.script import _configuration
from tests import factories
from tests.hostile import FORGED, TEXTS
from tests.step_samples import training_step

AMBIENT = Ambient(
    grad_enabled=True,
    inference_mode=False,
    autocast=(AutocastState(device_type="cpu", enabled=False, dtype="bfloat16"),),
    autocast_cache=True,
    default_dtype="float32",
    fp32_precision=(("mkldnn.matmul", "none"),),
    deterministic=False,
    deterministic_warn_only=False,
    sdpa_backends=("math",),
    flags=(("cudnn.enabled", True),),
    num_threads=2,
)


def arguments(*args: JsonValue, **kwargs: JsonValue) -> JsonValue:
    return {"args": {"tuple": list(args)}, "kwargs": {"dict": [[key, value] for key, value in kwargs.items()]}}


def called(name: str, callee: str, *args: JsonValue, **changes: Any) -> NodeRecord:
    return dataclasses.replace(
        factories.node(name, 5000.0), **{"callee": callee, "arguments": arguments(*args), **changes}
    )


LINEAR = called("linear", "torch._C._nn.linear", {"node": "x"}, {"node": "w"})


def profile(*nodes: NodeRecord, inputs: dict[str, TensorSpec] | None = None, **changes: Any) -> ProfileRecord:
    """Nodes that read the inputs `x` and `w`, in one region."""
    given = {"x": factories.spec(4, 16), "w": factories.spec(8, 16), **(inputs or {})}
    region = dataclasses.replace(
        factories.region(nodes),
        inputs=tuple(InputRecord(name=name, source=name, kind="tensor", spec=spec) for name, spec in given.items()),
        ambient=AMBIENT,
        **changes,
    )
    return factories.profile(region)


def body(script: str) -> list[str]:
    """The statements of the script's `call`."""
    call = next(
        entry for entry in ast.parse(script).body if isinstance(entry, ast.FunctionDef) and entry.name == "call"
    )
    return [ast.unparse(entry) for entry in call.body]


def constant(script: str, name: str) -> Any:
    """What a script assigns to a name at its top."""
    entries = [entry for entry in ast.parse(script).body if isinstance(entry, ast.Assign)]
    value = next(entry.value for entry in entries if ast.unparse(entry.targets[0]) == name)
    return ast.literal_eval(value)


# Which row is meant


def test_a_node_is_named_with_and_without_its_region() -> None:
    record = profile(LINEAR)
    assert find_row(record, "linear") == find_row(record, "r0/linear")


def test_a_name_of_two_regions_is_refused_with_both() -> None:
    record = factories.profile(factories.region([LINEAR]), factories.region([LINEAR], key="r1"))
    with pytest.raises(UsageError, match="r0/linear, r1/linear"):
        find_row(record, "linear")
    assert find_row(record, "r1/linear").region.key == "r1"


def test_backward_in_front_is_the_backward_of_the_node_unless_a_post_grad_node_has_that_name() -> None:
    node = factories.node("mul", 10.0, backward=20.0)
    alone = factories.profile(factories.region([node]))
    assert find_row(alone, "backward:mul") == find_row(alone, "mul", backward=True)
    both = factories.profile(factories.region([node], post_grad=(factories.post_grad("mul", 7.0, phase="backward"),)))
    assert not find_row(both, "backward:mul").backward
    assert find_row(both, "mul", backward=True).backward


def test_a_kernel_is_named_by_its_key_or_without_the_phase() -> None:
    record = factories.profile(factories.region(kernels=[factories.kernel("cpp_fused_add_0", 5.0, handle=3)]))
    assert find_row(record, "forward/cpp_fused_add_0:3") == find_row(record, "cpp_fused_add_0:3")


def test_an_unknown_row_names_those_of_a_similar_name() -> None:
    with pytest.raises(UsageError, match="linear") as caught:
        find_row(profile(LINEAR), "linaer")
    assert caught.value.hint == "rows of a similar name: linear"


def test_a_gap_op_is_refused_as_one() -> None:
    record = training_step()
    assert record.step is not None
    name = next(row.name for row in record.step.rows if row.kernel is None)
    with pytest.raises(UsageError, match="is a gap op"):
        find_row(record, name)


# What a script says


def test_a_script_makes_the_recorded_call_on_the_recorded_tensors() -> None:
    script = repro(profile(LINEAR), "linear")
    assert body(script) == ["return torch._C._nn.linear(x, w)"]
    assert "'x': Spec((4, 16), (16, 1), 'float32', 'cpu', 0, 0, False, False, 0)," in script
    assert constant(script, "MEASURED")["median_ns"] == 5000.0


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"slice": [None, 3, None]}, "slice(None, 3, None)"),
        ({"tuple": [1]}, "(1,)"),
        ({"list": [{"node": "x"}, {"ellipsis": True}]}, "[x, ...]"),
        ({"dtype": "bfloat16"}, "torch.bfloat16"),
        ({"device": "cuda:1"}, "torch.device('cuda:1')"),
        ({"memory_format": "channels_last"}, "torch.channels_last"),
        ({"float": "-inf"}, "float('-inf')"),
        ({"complex": [1.0, -2.0]}, "complex(1.0, -2.0)"),
        ("bij,bjk->bik", "'bij,bjk->bik'"),
        (1e-05, "1e-05"),
    ],
)
def test_every_kind_of_argument_is_rebuilt(value: JsonValue, written: str) -> None:
    script = repro(profile(called("f", "torch.f", {"node": "x"}, value)), "f")
    assert body(script) == [f"return torch.f(x, {written})"]


def test_a_method_is_called_on_its_first_argument() -> None:
    node = called("add_", "add_", {"node": "x"}, 1.0, op="call_method")
    assert body(repro(profile(node), "add_")) == ["return x.add_(1.0)"]


def test_a_size_is_computed_from_the_recorded_one() -> None:
    size = called("mul", "_operator.mul", {"node": "s0"}, 2, kind="host", outputs=())
    record = profile(size, called("view", "view", {"node": "x"}, {"node": "mul"}, op="call_method"))
    given = InputRecord(name="s0", source="s0", kind="value", value=32)
    region = dataclasses.replace(record.regions[0], inputs=(*record.regions[0].inputs, given))
    assert body(repro(dataclasses.replace(record, regions=(region,)), "view")) == ["return x.view(operator.mul(32, 2))"]


def test_a_view_and_what_it_views_share_storage_and_keep_their_distance() -> None:
    base = dataclasses.replace(factories.spec(4, 16), storage_offset=100)
    part = dataclasses.replace(base, shape=(4, 8), storage_offset=104)
    view = called(
        "part", "narrow", {"node": "x"}, 1, 4, 8, op="call_method", kind="view", outputs=(part,), inputs=("x",)
    )
    matmul = called("mm", "torch.mm", {"node": "x"}, {"node": "part"})
    script = repro(profile(view, matmul, inputs={"x": base}), "mm")
    assert "'x': Spec((4, 16), (16, 1), 'float32', 'cpu', 0, 4, " in script  # 100 elements are 400 bytes: 16 beyond 384
    assert "'part': Spec((4, 8), (16, 1), 'float32', 'cpu', 0, 8, " in script


def test_autocast_and_grad_mode_are_those_that_the_graph_had_set_before_the_node() -> None:
    enter = called(
        "_enter_autocast", "torch.amp.autocast_mode._enter_autocast", "cpu", {"dtype": "float16"}, True, None
    )
    leave = called("_exit_autocast", "torch.amp.autocast_mode._exit_autocast", {"node": "_enter_autocast"})
    off = called("_set_grad_enabled", "torch._C._set_grad_enabled", False)
    states = [dataclasses.replace(entry, kind="state", outputs=(), op_type=entry.name) for entry in (enter, off, leave)]
    inside, after = (dataclasses.replace(LINEAR, name=name) for name in ("inside", "after"))
    record = profile(LINEAR, states[0], states[1], inside, states[2], after)
    found = [constant(repro(record, name), "STATE") for name in ("linear", "inside", "after")]
    assert [state["grad"] for state in found] == [True, False, False]
    assert [state["autocast"] for state in found] == [
        (("cpu", "bfloat16", False),),
        (("cpu", "float16", True),),
        (("cpu", "bfloat16", False),),
    ]


def test_a_kernel_is_the_nodes_that_it_executes_and_returns_what_others_read() -> None:
    def op(name: str, *args: JsonValue, **changes: Any) -> Any:
        inputs = tuple(arg["node"] for arg in args if isinstance(arg, dict) and isinstance(arg["node"], str))
        made = {"callee": f"torch.ops.aten.{name}.default", "arguments": arguments(*args), "inputs": inputs}
        return dataclasses.replace(
            factories.post_grad(name, 5.0), outputs=(factories.spec(4, 16),), **{**made, **changes}
        )

    nodes = (
        op("relu", {"node": "p"}),
        op("neg", {"node": "relu"}),
        op("exp", {"node": "neg"}),
        op("abs", {"node": "exp"}),
    )
    fused = factories.kernel("cpp_fused", 9.0, post_grad=("relu", "neg", "exp"))
    reader = factories.kernel("cpp_reader", 9.0, handle=1, post_grad=("abs",))
    given = GraphInput(name="p", phase="forward", spec=factories.spec(4, 16))
    region = dataclasses.replace(factories.region(kernels=[fused, reader], post_grad=nodes), ambient=AMBIENT)
    script = repro(factories.profile(dataclasses.replace(region, graph_inputs=(given,))), fused.key)
    assert body(script) == [
        "relu = torch.ops.aten.relu.default(p)",
        "neg = torch.ops.aten.neg.default(relu)",
        "exp = torch.ops.aten.exp.default(neg)",
        "return (exp,)",
    ]
    assert constant(script, "COMPILED") is True


# Integers lie inside what they index


INDEX = factories.spec(3, dtype="int64")
SPECS = {"i": INDEX, "table": factories.spec(50, 8), "x": factories.spec(5, 9), "j": INDEX}


@pytest.mark.parametrize(
    ("step", "bound"),
    [
        (Step(result="r", op="embedding", args=[{"node": "i"}, {"node": "table"}]), 50),
        (Step(result="r", op="index_select", args=[{"node": "x"}, 1, {"node": "i"}]), 9),
        (Step(result="r", op="gather", args=[{"node": "x"}, -2, {"node": "i"}]), 5),
        (Step(result="r", op="cross_entropy", args=[{"node": "x"}, {"node": "i"}]), 9),
        (Step(result="r", op="index", args=[{"node": "x"}, {"list": [None, {"node": "i"}]}]), 9),
        (Step(result="r", op="getitem", args=[{"node": "x"}, {"node": "i"}]), 5),
        (Step(result="r", op="one_hot", args=[{"node": "i"}, 7]), 7),
    ],
)
def test_indices_stay_below_the_size_that_they_index(step: Step, bound: int) -> None:
    assert bounds([step], SPECS.get) == {"i": bound}


def test_a_bound_on_a_result_is_one_on_the_integers_that_it_came_from() -> None:
    steps = [
        Step(result="j", op="where", args=[{"node": "mask"}, {"node": "i"}, 0]),
        Step(result="r", op="gather", args=[{"node": "x"}, 1, {"node": "j"}]),
    ]
    assert bounds(steps, SPECS.get) == {"i": 9, "j": 9}


# What is refused, and why


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (called("f", "torch.ops.mine.op.default", {"node": "x"}), "is a custom op"),
        (called("f", "torch.ops.higher_order.cond", {"node": "x"}), "runs graphs or kernels"),
        (called("f", "__main__.mine", {"node": "x"}), "is no op of torch"),
        (called("f", "torch.relu", {"opaque": "mine.Thing", "repr": "<x>"}), "an argument is a mine.Thing"),
        (called("f", "torch.relu", {"node": "nowhere"}), "reads 'nowhere', of which the profile holds nothing"),
        (called("f", "torch.relu", {"node": "f2"}), "'f2' has no strides"),
        (dataclasses.replace(LINEAR, name="f", arguments=None), "holds no arguments"),
        (called("f", "torch.ops.aten._assert_async.msg", {"node": "x"}, "wrong"), "it checks values"),
        (called("f", "f", {"node": "x"}, op="call_module"), "whose code a profile does not hold"),
    ],
)
def test_what_cannot_be_rebuilt_is_refused_by_name(node: NodeRecord, why: str) -> None:
    sparse = called("f2", "torch.relu", outputs=(TensorSpec(shape=(4,), stride=(), dtype="float32", device="cpu"),))
    with pytest.raises(UsageError) as caught:
        repro(profile(sparse, node), "f")
    assert caught.value.message.startswith("r0/f: no script can repeat it: ")
    assert why in caught.value.message


def test_the_backward_of_what_requires_no_grad_is_refused() -> None:
    with pytest.raises(UsageError, match="none of its results requires grad"):
        repro(profile(LINEAR), "linear", backward=True)


@pytest.mark.parametrize(
    ("callee", "op"),
    [
        ("torch.load", "call_function"),
        ("torch.from_file", "call_function"),
        ("torch.os.system", "call_function"),
        ("torch.hub.load", "call_function"),
        ("torch.__getattr__", "call_function"),
        ("torch.get_device_module", "call_function"),
        ("torch.ops.load_library", "call_function"),
        ("os.system", "call_function"),
        ("eval", "call_function"),
        ("torch.relu(x); import os#", "call_function"),
        ("torch.relu\n", "call_function"),
        ("_operator.methodcaller", "call_function"),
        ("__reduce__", "call_method"),
        ("_set_cdata", "call_method"),
        ("untyped_storage", "call_method"),
        ("__class__", "call_method"),
        ("relu().numpy", "call_method"),
    ],
)
def test_nothing_but_ops_is_ever_called(callee: str, op: str) -> None:
    with pytest.raises(UsageError, match=r"is called|is a custom op"):
        repro(profile(called("f", callee, {"node": "x"}, op=op)), "f")


@pytest.mark.parametrize("text", [*TEXTS, "/etc/passwd", "'); import os #", '"""\nimport os'])
def test_texts_of_a_hostile_profile_stay_data_or_are_refused(text: str) -> None:
    plain = [type(entry) for entry in ast.parse(repro(profile(LINEAR), "linear")).body]
    fields: list[NodeRecord] = [
        dataclasses.replace(LINEAR, callee=text),
        dataclasses.replace(LINEAR, arguments=arguments({"node": "x"}, text)),
        dataclasses.replace(LINEAR, arguments=arguments({"node": text}, {"node": "w"})),
        dataclasses.replace(LINEAR, arguments=arguments({"node": "x"}, {"dtype": text})),
        dataclasses.replace(LINEAR, arguments=arguments({"node": "x"}, {"device": text})),
        dataclasses.replace(LINEAR, arguments=arguments({"node": "x"}, **{text: 1})),
        dataclasses.replace(LINEAR, outputs=(dataclasses.replace(factories.spec(4), dtype=text),)),
        dataclasses.replace(LINEAR, isolated=Measurement(status="failed", reason=text)),
        dataclasses.replace(LINEAR, op=text),
    ]
    for node in fields:
        try:
            script = repro(profile(node, inputs={text: factories.spec(4, 16)}), "linear")
        except UsageError:
            continue
        tree = ast.parse(script)
        assert [type(entry) for entry in tree.body] == plain
        names = {entry.id for entry in ast.walk(tree) if isinstance(entry, ast.Name)}
        assert not any(FORGED in name or name == "os" for name in names)


@pytest.mark.parametrize("text", TEXTS)
def test_names_of_regions_and_machines_are_data(text: str) -> None:
    record = profile(LINEAR)
    hardware = dataclasses.replace(record.environment, cpu=text, torch=text)
    region = dataclasses.replace(record.regions[0], key=text)
    script = repro(dataclasses.replace(record, environment=hardware, regions=(region,)), "linear")
    assert constant(script, "ROW").endswith("/linear")
    assert constant(script, "ROW").isprintable()


# ncu


def on_gpu(*names: str, launches: int = 1, cache: CacheState = "cold-read") -> ProfileRecord:
    measured = factories.steady(5000.0, timer="cupti")
    assert measured.samples is not None
    samples = dataclasses.replace(measured.samples, n_kernels=(launches,) * 10)
    kernels = tuple(DeviceKernel(name=name) for name in names)
    isolated = dataclasses.replace(measured, samples=samples, device_kernels=kernels, cache=cache)
    record = profile(dataclasses.replace(LINEAR, isolated=isolated))
    return dataclasses.replace(record, policy=dataclasses.replace(record.policy, timer="cupti", cache=cache))


def test_ncu_profiles_the_kernels_of_one_call_by_their_plain_names() -> None:
    symbol = "void at::native::(anonymous namespace)::vectorized_gather_kernel<16, long>(char*, long)"
    words = shlex.split(ncu_command(on_gpu(symbol, "triton_poi_fused_0", launches=3), "linear", "my repro.py"))
    assert words[words.index("--kernel-name") + 1] == r"regex:^(vectorized_gather_kernel|triton_.*)$"
    assert words[words.index("--launch-count") + 1] == "3"
    assert words[-3:] == ["python", "my repro.py", "--once"]


def test_ncu_takes_whatever_name_the_script_s_own_compile_gives_a_generated_kernel() -> None:
    words = shlex.split(ncu_command(on_gpu("triton_poi_fused_gelu_mul_0"), "linear", "repro.py"))
    pattern = words[words.index("--kernel-name") + 1].removeprefix("regex:")
    assert re.match(pattern, "triton_poi_fused_add_convert_element_type_erf_mul_0")
    assert not re.match(pattern, "at_native_vectorized_elementwise_kernel")


def test_ncu_clears_its_caches_unless_the_row_was_measured_warm() -> None:
    assert "--cache-control" not in ncu_command(on_gpu("k"), "linear", "repro.py")
    assert "--cache-control none" in ncu_command(on_gpu("k", cache="warm"), "linear", "repro.py")


def test_a_kernels_name_cannot_leave_its_word_of_the_command() -> None:
    words = shlex.split(ncu_command(on_gpu("k'; rm -rf $HOME; `x` |.*"), "linear", "repro.py"))
    assert words[words.index("--kernel-name") + 2 :] == shlex.split(ncu_command(on_gpu("k"), "linear", "repro.py"))[7:]


def test_a_row_without_device_kernels_has_no_ncu_command() -> None:
    with pytest.raises(UsageError, match="found no kernels of a CUDA device"):
        ncu_command(profile(LINEAR), "linear", "repro.py")


# The command


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    document.write(profile(LINEAR), tmp_path / "p.json")
    return tmp_path / "p.json"


def test_export_prints_the_script(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export", str(saved), "--row", "linear"]) == 0
    assert capsys.readouterr().out == repro(document.read(saved), "linear")


def test_export_writes_the_script_and_overwrites_none(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved.with_name("repro.py")
    words = ["export", str(saved), "--row", "linear", "-o", str(file)]
    assert cli.main(words) == 0
    assert file.read_text() == repro(document.read(saved), "linear")
    file.write_text("mine")
    assert cli.main(words) == 2
    assert file.read_text() == "mine"
    assert cli.main([*words, "--force"]) == 0
    assert file.read_text() != "mine"


def test_export_of_an_unknown_row_is_one_error(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export", str(saved), "--row", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("graphbench: error: row nothing: found no such row in the profile\n")


def test_export_as_ncu_prints_the_command_that_runs_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, script = tmp_path / "p.json", tmp_path / "conv.py"
    document.write(on_gpu("triton_poi_fused_0"), file)
    assert cli.main(["export", str(file), "--row", "linear", "--format", "ncu", "-o", str(script)]) == 0
    assert capsys.readouterr().out == ncu_command(document.read(file), "linear", str(script)) + "\n"
    assert script.is_file()


def test_the_script_of_a_generated_kernel_says_what_the_profiles_was_tuned_to() -> None:
    config = TritonConfig(num_warps=8, num_stages=1, blocks=(("XBLOCK", 512), ('"""\nimport os', 1)))
    lines = list(
        _configuration(dataclasses.replace(factories.kernel("triton_poi_0", 1.0, kind="triton"), config=config))
    )
    assert lines == ["In the profile it ran with XBLOCK 512, 8 warps."]
