"""Op lists: what a file of ops means, and what is refused, with file, line and field."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphbench import cli, document
from graphbench.errors import UsageError
from graphbench.models.oplist import OpEntry, OpList, parse_op_list, read_op_list, refuse_unknown_ops
from graphbench.models.yaml_cursor import DEEPEST, MOST_BYTES, parse_yaml
from graphbench.records import OP_LIST_REGION, OP_LIST_SIDE, InputRecord, NodeRecord, ProfileRecord, Side
from graphbench.report import REPORTERS
from graphbench.report.op_list import op_list
from tests import factories
from tests.hostile import FORGED, TEXTS
from tests.step_samples import training_step
from tests.unit.test_repro import AMBIENT, arguments, called

RELU = "  - target: torch.relu\n    args: [{tensor: {shape: [2]}}]\n"


def parsed(text: str) -> OpList:
    return parse_op_list(parse_yaml(f"op-list: 1\n{text}", "ops.yaml"))


def ops(text: str) -> tuple[OpEntry, ...]:
    return parsed(f"ops:\n{text}").ops


def one(**fields: Any) -> OpEntry:
    """The op of `torch.relu` with the given fields, as YAML."""
    given = {"target": "torch.relu", "args": "[{tensor: {shape: [2]}}]", **fields}
    (found,) = ops("".join(f"  {' ' if i else '-'} {key}: {value}\n" for i, (key, value) in enumerate(given.items())))
    return found


def tensor(fields: str) -> Any:
    return one(args=f"[{{tensor: {{{fields}}}}}]").tensors["arg0"]


def refusal(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parsed(text)
    return caught.value


def test_an_op_has_its_target_and_a_tensor_by_its_argument() -> None:
    found = one(name="first")
    assert (found.name, found.target, found.args) == ("first", "torch.relu", ({"node": "arg0"},))
    entry = found.tensors["arg0"]
    assert (entry.shape, entry.stride, entry.dtype, str(entry.values)) == ((2,), (1,), "float32", "normal")


def test_an_op_without_a_name_is_called_as_what_it_calls() -> None:
    assert one(target="torch.ops.aten.relu_.default").name == "relu_"
    assert one().name == "relu"


def test_strides_are_those_without_gaps_unless_given() -> None:
    assert tensor("shape: [2, 3, 4]").stride == (12, 4, 1)
    assert tensor("shape: [2, 3], stride: [1, 2], storage_offset: 5").extent == 5 + 1 + 1 + 4


def test_short_dtypes_are_those_of_input_specs() -> None:
    assert tensor("shape: [2], dtype: bf16").dtype == "bfloat16"


@pytest.mark.parametrize(
    ("written", "prototype"),
    [
        ("1", 1),
        ("1e-06", 1e-06),
        ("true", True),
        ("null", None),
        ("mean", "mean"),
        ("'1'", "1"),
        ("no", "no"),
        ("inf", {"float": "inf"}),
        ("-.inf", {"float": "-inf"}),
        ("[1, null]", {"list": [1, None]}),
        ("{tuple: [1, 2]}", {"tuple": [1, 2]}),
        ("{slice: [null, 2, null]}", {"slice": [None, 2, None]}),
        ("{ellipsis: true}", {"ellipsis": True}),
        ("{complex: [1, 2]}", {"complex": [1.0, 2.0]}),
        ("{dtype: float16}", {"dtype": "float16"}),
        ("{memory_format: channels_last}", {"memory_format": "channels_last"}),
        ("{device: measured}", {"device": "measured"}),
    ],
)
def test_an_argument_is_kept_as_a_profile_keeps_it(written: str, prototype: object) -> None:
    assert one(args=f"[{{tensor: {{shape: [2]}}}}, {written}]").args[1] == prototype


def test_a_named_tensor_is_one_tensor_wherever_it_is_named() -> None:
    found = one(target="torch.add", tensors="{x: {shape: [2]}}", args="[{tensor: x}, {tensor: x}]")
    assert found.args == ({"node": "x"}, {"node": "x"})
    assert list(found.tensors) == ["x"]


def test_a_list_may_hold_tensors() -> None:
    found = one(target="torch.cat", args="[[{tensor: {shape: [2]}}, {tensor: {shape: [3]}}]]")
    assert found.args == ({"list": [{"node": "arg0_0"}, {"node": "arg0_1"}]},)


def test_a_sweep_takes_every_combination_and_names_it() -> None:
    found = ops("  - {name: mm, target: torch.relu, args: [{size: n}, {size: n*m}], sweep: {n: [1, 2], m: [3, 5]}}\n")
    assert [op.name for op in found] == ["mm[n=1,m=3]", "mm[n=1,m=5]", "mm[n=2,m=3]", "mm[n=2,m=5]"]
    assert [op.args for op in found] == [(1, 3), (1, 5), (2, 6), (2, 10)]
    assert {op.base for op in found} == {"mm"}


def test_zip_takes_its_sizes_together_with_every_combination_of_a_sweep() -> None:
    found = ops("  - {target: torch.relu, args: [{size: n-m}], zip: {n: [8, 9], m: [1, 2]}, sweep: {k: [0, 1]}}\n")
    assert [op.name.removeprefix("relu") for op in found] == [
        "[n=8,m=1,k=0]",
        "[n=8,m=1,k=1]",
        "[n=9,m=2,k=0]",
        "[n=9,m=2,k=1]",
    ]


def test_sizes_reach_shapes_strides_offsets_and_bounds() -> None:
    fields = "shape: [n, '2*n'], stride: ['2*n', 1], storage_offset: n//2, dtype: i64, values: {below: n+1}"
    found = one(args=f"[{{tensor: {{{fields}}}}}]", sweep="{n: 4}").tensors["arg0"]
    assert (found.shape, found.stride, found.storage_offset, str(found.values)) == ((4, 8), (8, 1), 2, "below 5")


def test_an_ops_own_state_overrides_the_files() -> None:
    text = "state: {grad: true, autocast: bfloat16, flags: {cudnn.benchmark: true}}\nops:\n"
    own = "    state: {autocast: false, flags: {cudnn.enabled: false}}\n"
    first, second = parsed(f"{text}{RELU}    name: a\n{RELU}    name: b\n{own}").ops
    assert (first.state.grad, first.state.autocast) == (True, "bfloat16")
    assert (second.state.grad, second.state.autocast) == (True, "")
    assert dict(second.state.flags) == {"cudnn.benchmark": True, "cudnn.enabled": False}


@pytest.mark.parametrize(("dtype", "expected"), [("f32", "normal"), ("i64", "below 2"), ("bool", "mask 0.5")])
def test_values_have_a_default_by_dtype(dtype: str, expected: str) -> None:
    assert str(tensor(f"shape: [2], dtype: {dtype}").values) == expected


@pytest.mark.parametrize(
    "target",
    [
        "torch.load",
        "torch.hub.load",
        "torch.save",
        "torch.os.system",
        "torch.utils.cpp_extension.load_inline",
        "torch.ops.higher_order.cond",
        "torch.ops.aten.from_file",
        "torch.compile",
        "torch._import_dotted_name",
        "os.system",
        "builtins.eval",
        "torch.set_default_device",
        "torch.manual_seed",
        "torch._initExtension",
        "operator.attrgetter",
        "operator.call",
        "math.__loader__.load_module",
        "Tensor.__class__",
        "Tensor.__reduce_ex__",
        "Tensor.register_hook",
        "my_module.function",
        *(text for text in TEXTS if text),
    ],
)
def test_nothing_but_ops_of_torch_is_called(target: str) -> None:
    import json

    with pytest.raises(UsageError):
        ops(f"  - target: {json.dumps(target)}\n    args: [{{tensor: {{shape: [2]}}}}]\n")


def test_a_custom_op_needs_a_module_that_somebody_named() -> None:
    found = parsed("ops:\n  - {target: torch.ops.mine.fast, args: [1]}\n")
    with pytest.raises(UsageError, match=r"ops.yaml:3: fast: torch.ops.mine.fast is a custom op") as caught:
        refuse_unknown_ops(found, ())
    assert "--import" in str(caught.value.hint)
    refuse_unknown_ops(found, ("my_module",))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("ops:\n  - target: torch.relu\n    arg: [1]\n", 4, "ops[0].arg: found the field 'arg', expected one of name"),
        ("ops:\n  - args: [1]\n", 3, "the field `target`"),
        ("ops:\n  - target: torch.relu\n    args: [{tensor: {shape: [-1]}}]\n", 4, "shape[0]: found -1"),
        ("ops:\n  - target: torch.relu\n    args: [{tensor: {shape: [n]}}]\n", 4, "nothing gives n a value"),
        (
            "ops:\n  - target: torch.relu\n    args: [{tensor: {shape: [2], dtype: flot32}}]\n",
            4,
            "found 'flot32', expected a dtype",
        ),
        ("ops:\n  - target: torch.relu\n    args:\n      - {shape: [2]}\n", 5, "found the kind 'shape'"),
        (
            "ops:\n  - {target: torch.relu, args: [{tensor: x}]}\n",
            3,
            "found 'x', expected the name of one of `tensors`",
        ),
        (f"ops:\n{RELU}{RELU}", 5, "found the name 'relu', as in line 3"),
        ("ops:\n  - {target: torch.relu, args: [1], zip: {n: [1, 2], m: [1]}}\n", 3, "other lengths (n: 2, m: 1)"),
        ("ops:\n  - {target: Tensor.relu, args: [1]}\n", 3, "a tensor as the first of `args`"),
        ("state: {autocst: float16}\nops: []\n", 2, "state.autocst"),
        ("ops:\n  - {target: torch.relu, args: [{tensor: {shape: [2], dtype: i8, values: {below: 129}}}]}\n", 3, "128"),
        ("ops:\n  - {target: torch.relu, args: [{tensor: {shape: [2], dtype: i64, values: normal}}]}\n", 3, "normal"),
        ("ops:\n  - {target: torch.relu, tensors: {x: {shape: [2]}}, args: [1]}\n", 3, "tensors.x: found one that"),
        ("ops: []\n", 2, "at least one op"),
    ],
)
def test_an_error_names_file_line_and_field(text: str, line: int, words: str) -> None:
    error = refusal(text)
    assert error.message.startswith(f"ops.yaml:{line}: ")
    assert words in error.message


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    assert "float32" in str(
        refusal("ops:\n  - {target: torch.relu, args: [{tensor: {dtype: flot32, shape: []}}]}\n").hint
    )
    assert refusal("ops:\n  - {target: torch.Tensor.relu}\n").hint == "a tensor's method is written Tensor.relu"


def test_the_version_is_asked_for_and_another_one_refused() -> None:
    with pytest.raises(UsageError, match="`op-list: 1`, the version of the format"):
        parse_op_list(parse_yaml("ops: []", "ops.yaml"))
    with pytest.raises(UsageError, match="found 2, expected 1"):
        parse_op_list(parse_yaml("op-list: 2\nops: []", "ops.yaml"))


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1, 1]\nb: &b [*a, *a]\nops: *b\n",
        "ops: !!python/object/apply:os.system ['x']\n",
        f"ops: {'[' * (DEEPEST + 1)}{']' * (DEEPEST + 1)}\n",
        f"ops:\n  - {{target: torch.relu, args: [{'9' * 5000}]}}\n",
        "ops:\n  - {target: torch.relu, args: [{tensor: {shape: [10000000000, 10000000000]}}]}\n",
        "ops:\n  - {target: torch.relu, args: [{tensor: {shape: [2], stride: [10000000000000]}}]}\n",
        "ops:\n  - {target: torch.relu, args: [{tensor: {shape: ['(' ]}}]}\n",
        f"ops:\n  - {{target: torch.relu, args: [{{size: {'1+' * 5000}1}}]}}\n",
        "ops:\n  - {target: torch.relu, args: [{size: '9**9**9'}]}\n",
        "ops:\n  - {target: torch.relu, args: [{size: '9000000000*9000000000'}]}\n",
        "ops:\n  - {target: torch.relu, args: [{size: '1//0'}]}\n",
        "ops:\n  - {target: torch.relu, args: [{size: n}], sweep: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "
        + ", ".join(f"m{i}: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]" for i in range(20))
        + "}}\n",
        "? [a]\n: 1\n",
        "ops: []\nops: []\n",
        "ops: []\n--- {}\n",
        "ops: \x00\n",
        "ops: [\n",
    ],
)
def test_hostile_files_are_one_clear_error(text: str) -> None:
    assert str(refusal(text)).startswith("ops.yaml")


@pytest.mark.parametrize("text", FORGED)
def test_no_text_of_a_file_can_forge_the_terminal(text: str) -> None:
    import json

    message = str(refusal(f"ops:\n  - target: {json.dumps(text)}\n"))
    assert all(line.isprintable() for line in message.splitlines())
    assert len(message) < 1000


def test_files_that_are_too_large_missing_or_no_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ops.yaml"
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_op_list(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="no UTF-8"):
        read_op_list(file)
    with file.open("wb") as stream:
        stream.truncate(MOST_BYTES + 1)
    with pytest.raises(UsageError, match="more than"):
        read_op_list(file)


def test_reading_an_op_list_needs_no_torch() -> None:
    code = "import sys, graphbench.models.oplist, graphbench.report.op_list; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def profile(*nodes: NodeRecord, device: str = "cpu", **changes: Any) -> ProfileRecord:
    """Nodes that read the inputs `x`, `w` and `i`, in one region of a device."""
    given = {
        "x": dataclasses.replace(factories.spec(4, 16), device=device, requires_grad=True),
        "w": dataclasses.replace(factories.spec(8, 16), device=device),
        "i": dataclasses.replace(factories.spec(4, 3), dtype="int64", device=device),
    }
    region = dataclasses.replace(
        factories.region(nodes),
        device=device,
        inputs=tuple(InputRecord(name=name, source=name, kind="tensor", spec=spec) for name, spec in given.items()),
        ambient=changes.pop("ambient", AMBIENT),
    )
    return factories.profile(region, **changes)


LINEAR = called("linear", "torch._C._nn.linear", {"node": "x"}, {"node": "w"})


def exported(record: ProfileRecord, *select: str) -> tuple[OpEntry, ...]:
    return parse_op_list(parse_yaml(op_list(record, select), "ops.yaml")).ops


def test_an_exported_op_has_the_nodes_call_and_tensors() -> None:
    (op,) = exported(profile(LINEAR))
    assert (op.name, op.target, op.args) == ("linear", "torch._C._nn.linear", ({"node": "t0"}, {"node": "t1"}))
    assert [entry.shape for entry in op.tensors.values()] == [(4, 16), (8, 16)]
    assert [entry.requires_grad for entry in op.tensors.values()] == [True, False]


def test_equal_nodes_are_exported_once_with_their_number() -> None:
    twice = profile(LINEAR, dataclasses.replace(LINEAR, name="linear_1"))
    assert [op.name for op in exported(twice)] == ["linear"]
    assert "# 2 equal nodes: linear, linear_1" in op_list(twice)


def test_the_ambient_state_is_exported() -> None:
    (op,) = exported(profile(LINEAR, ambient=dataclasses.replace(AMBIENT, grad_enabled=False, deterministic=True)))
    assert (op.state.grad, op.state.autocast, op.state.deterministic) == (False, "", True)
    assert (op.state.sdpa, dict(op.state.fp32_precision)) == (("math",), {"mkldnn.matmul": "none"})
    assert op.state.num_threads is None  # the machine's


def test_autocast_that_the_graph_entered_is_the_state_of_the_ops_inside() -> None:
    enter = called("enter", "torch.amp.autocast_mode._enter_autocast", op_type="_enter_autocast", kind="state")
    enter = dataclasses.replace(enter, arguments=arguments("cpu", {"dtype": "bfloat16"}, True, None))
    inside = dataclasses.replace(LINEAR, name="inside")
    assert [(op.name, op.state.autocast) for op in exported(profile(LINEAR, enter, inside))] == [
        ("linear", ""),
        ("inside", "bfloat16"),
    ]


def test_indices_stay_below_what_they_index() -> None:
    node = called("rows", "torch.nn.functional.embedding", {"node": "i"}, {"node": "w"})
    (op,) = exported(profile(node))
    assert str(op.tensors["t0"].values) == "below 8"


def test_what_a_search_needs_sorted_is_sorted() -> None:
    (op,) = exported(profile(called("found", "torch.bucketize", {"node": "x"}, {"node": "w"})))
    assert [entry.values.kind for entry in op.tensors.values()] == ["normal", "sorted"]


def test_a_gpus_profile_names_no_gpu() -> None:
    node = called("made", "torch.ones_like", {"node": "x"})
    node = dataclasses.replace(node, arguments=arguments({"node": "x"}, device={"device": "cuda:0"}))
    text = op_list(profile(node, device="cuda:0"))
    assert "cuda:0" not in text.partition("ops:")[2]
    (op,) = parse_op_list(parse_yaml(text, "ops.yaml")).ops
    assert op.kwargs == {"device": {"device": "measured"}}
    assert not op.tensors["t0"].on_host


def test_a_tensor_on_the_host_stays_there() -> None:
    record = profile(LINEAR, device="cuda:0")
    (region,) = record.regions
    inputs = [
        dataclasses.replace(entry, spec=factories.spec(8, 16)) if entry.name == "w" else entry
        for entry in region.inputs
    ]
    record = dataclasses.replace(record, regions=(dataclasses.replace(region, inputs=tuple(inputs)),))
    (op,) = exported(record)
    assert [entry.on_host for entry in op.tensors.values()] == [False, True]


def test_views_of_one_storage_share_it_with_offsets_cut_to_what_aligns() -> None:
    first, second = (
        called(
            name,
            "narrow",
            {"node": "x"},
            op="call_method",
            kind="view",
            inputs=("x",),
            outputs=(dataclasses.replace(factories.spec(4), storage_offset=offset),),
        )
        for name, offset in (("a", 32), ("b", 36))
    )
    (op,) = exported(profile(first, second, called("sum", "torch.add", {"node": "a"}, {"node": "b"})))
    assert [(entry.storage, entry.storage_offset) for entry in op.tensors.values()] == [("s0", 0), ("s0", 4)]


def test_only_what_is_selected_is_exported() -> None:
    relu = called("relu", "torch.relu", {"node": "x"}, op_type="relu")
    assert [op.name for op in exported(profile(LINEAR, relu), "re*")] == ["relu"]
    with pytest.raises(UsageError, match="no node, op type, module or kernel matches") as caught:
        op_list(profile(LINEAR, relu), ("rely",))
    assert "relu" in str(caught.value.hint)


def test_what_cannot_be_exported_is_listed_with_its_reason() -> None:
    opaque = called("mine", "my_package.kernels.fast", {"node": "x"})
    text = op_list(profile(LINEAR, opaque))
    assert "#   mine: my_package.kernels.fast is called, which is no op of torch" in text
    assert [op.name for op in parse_op_list(parse_yaml(text, "x")).ops] == ["linear"]


def test_a_list_of_nothing_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"mine: my_package\.kernels\.fast is called"):
        op_list(profile(called("mine", "my_package.kernels.fast", {"node": "x"})))


def test_custom_ops_are_exported_and_say_what_they_need() -> None:
    record = profile(called("fast", "torch.ops.mine.fast.default", {"node": "x"}))
    assert [op.target for op in exported(record)] == ["torch.ops.mine.fast.default"]
    assert "--import MODULE" in op_list(record)


def test_gap_ops_are_named_as_without_arguments() -> None:
    record = dataclasses.replace(training_step(), regions=profile(LINEAR).regions, step=training_step().step)
    text = op_list(record)
    assert "gap ops, of whose arguments a profile holds none:" in text
    assert record.step is not None
    assert any(f"#   {row.op_type}" in text for row in record.step.rows if row.kernel is None)


@pytest.mark.parametrize("text", [*TEXTS, *FORGED])
def test_no_text_of_a_profile_gets_out_of_its_place(text: str) -> None:
    node = dataclasses.replace(LINEAR, name=text, module=text, arguments=arguments({"node": "x"}, {"node": "w"}, text))
    record = profile(node, LINEAR, subject=text)
    found = {op.name: op for op in exported(record)}
    assert set(found) <= {text, "op0", "linear"}
    assert found["linear"].module == LINEAR.module
    assert all(line.isprintable() for line in op_list(record).splitlines())


def ops_profile() -> ProfileRecord:
    """A profile of an op list, as measuring makes it."""
    side = Side(reason=OP_LIST_SIDE)
    (region,) = profile(LINEAR, dataclasses.replace(LINEAR, name="slow[n=2]")).regions
    region = dataclasses.replace(
        region, key=OP_LIST_REGION, eager=side, eager_backward=side, forward=side, backward=side, kernels=()
    )
    return factories.profile(region)


@pytest.mark.parametrize("name", ["table", "markdown"])
def test_a_report_of_an_op_list_says_nothing_of_what_was_not_compiled(name: str) -> None:
    text = REPORTERS[name].render(ops_profile())
    assert "op list: 2 ops" in text
    for word in ("kernels", "coverage", "Fusions", "speedup", "graph breaks", "gaps", "not measured", "compiling"):
        assert word not in text, word


def test_an_op_list_profile_is_whole(tmp_path: Path) -> None:
    document.write(ops_profile(), tmp_path / "p.json")
    assert document.read(tmp_path / "p.json") == ops_profile()


def test_the_values_of_an_op_list_survive_an_export() -> None:
    record = ops_profile()
    (region,) = record.regions
    sources = {"x": "uniform 0.5 2", "w": "normal, storage both", "i": "i"}
    inputs = [dataclasses.replace(entry, source=sources[entry.name]) for entry in region.inputs]
    record = dataclasses.replace(record, regions=(dataclasses.replace(region, inputs=tuple(inputs)),))
    op, *_ = exported(record)
    assert [str(entry.values) for entry in op.tensors.values()] == ["uniform 0.5 2", "normal"]


def saved(tmp_path: Path, record: ProfileRecord) -> Path:
    path = tmp_path / "p.json"
    document.write(record, path)
    return path


def test_export_writes_a_list_that_run_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, target = saved(tmp_path, profile(LINEAR)), tmp_path / "ops.yaml"
    assert cli.main(["export", str(path), "--format", "op-list", "-o", str(target)]) == 0
    assert "graphbench run --op-list" in capsys.readouterr().err
    assert [op.name for op in read_op_list(target).ops] == ["linear"]
    assert cli.main(["export", str(path), "--format", "op-list", "-o", str(target)]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "op-list", "--row", "linear"], "--row with --format op-list"),
        (["--format", "op-list", "--backward"], "--backward with --format op-list"),
        (["--select", "x"], "--select with --format repro: it is for --format op-list or dot"),
        ([], "--format repro without --row"),
        (["-o", "page.html"], "for page.html add --format html"),
        (["-o", "step.json"], "or another --format"),
    ],
)
def test_each_format_of_export_has_its_own_flags(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["export", str(saved(tmp_path, profile(LINEAR))), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "timm:x"], "--model with --op-list"),
        (["--input", "f32[2]"], "--input with --op-list"),
        (["--compile-mode", "default"], "--compile-mode with --op-list"),
        (["--compare", "eager,inductor"], "--compare with --op-list"),
    ],
)
def test_flags_about_a_model_are_refused_beside_an_op_list(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "--op-list", "ops.yaml", *words]) == 2
    assert message in capsys.readouterr().err


def test_import_is_for_op_lists_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--model", "timm:x", "--import", "os"]) == 2
    assert "--import os without --op-list" in capsys.readouterr().err
