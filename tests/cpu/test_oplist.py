"""Op lists measured: values, strides, state, backward, sweeps; and a profile's ops that go out and come back."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import graphbench
from graphbench import cli, document
from graphbench.api import Profile
from graphbench.capture import ambient
from graphbench.errors import CaptureError, UsageError
from graphbench.measuring import op_region
from graphbench.models import op_state
from graphbench.models.op_calls import BuiltOp, build_op, function_of
from graphbench.models.oplist import OpEntry, parse_op_list
from graphbench.models.yaml_cursor import parse_yaml
from graphbench.records import NOT_SELECTED, NodeRecord
from graphbench.report.op_list import op_list
from tests.cpu.stories import clean, compiled
from tests.pages import Block, blocks

EXAMPLES = [block for block in blocks("yaml") if block.page.stem == "op-list"]
QUICK: dict[str, Any] = {"warmup": 1, "repeat": 3, "ceilings": "off", "progress": False, "device": "cpu"}
CPU = torch.device("cpu")


def written(tmp_path: Path, ops: str) -> Path:
    file = tmp_path / "ops.yaml"
    file.write_text(f"op-list: 1\n{ops}", encoding="utf-8")
    return file


def measured(tmp_path: Path, ops: str, **options: Any) -> dict[str, NodeRecord]:
    """The nodes by name of a list's profile."""
    profile = graphbench.measure_ops(written(tmp_path, ops), **{**QUICK, **options})
    return {node.name: node for region in profile.record.regions for node in region.nodes}


def built(fields: str, seed: int = 0) -> torch.Tensor:
    """The tensor that these fields make."""
    (op,) = parse_op_list(
        parse_yaml(f"op-list: 1\nops:\n  - {{target: torch.relu, args: [{{tensor: {{{fields}}}}}]}}\n", "ops.yaml")
    ).ops
    (tensor,) = build_op(op, CPU, seed).args
    assert isinstance(tensor, torch.Tensor)
    return tensor


def test_a_tensor_has_its_shape_strides_offset_and_dtype() -> None:
    tensor = built("shape: [2, 3], stride: [1, 2], storage_offset: 4, dtype: float16")
    found = tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype
    assert found == ((2, 3), (1, 2), 4, torch.float16)


def test_equal_seeds_give_equal_values() -> None:
    assert torch.equal(built("shape: [8]", 1), built("shape: [8]", 1))
    assert not torch.equal(built("shape: [8]", 1), built("shape: [8]", 2))


def test_values_of_a_large_tensor_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphbench.models.op_calls.DRAWN_ELEMENTS", 8)
    row = built("shape: [20]")
    assert torch.equal(row[8:16], row[:8])
    assert torch.equal(row[16:], row[:4])
    assert not torch.equal(row[:4], row[4:8])


@pytest.mark.parametrize("dtype", ["i8", "u8", "int32", "int64"])
def test_integers_lie_below_their_bound(dtype: str) -> None:
    tensor = built(f"shape: [1000], dtype: {dtype}, values: {{below: 7}}")
    assert set(tensor.tolist()) == set(range(7))


def test_value_policies_are_what_they_are_called() -> None:
    uniform = built("shape: [1000], values: {uniform: [2, 3]}")
    assert 2 <= float(uniform.min()) < 2.1
    assert 2.9 < float(uniform.max()) <= 3
    assert built("shape: [3], values: ones").tolist() == [1, 1, 1]
    assert built("shape: [3], values: zeros, dtype: int8").tolist() == [0, 0, 0]
    assert built("shape: [2, 3], values: arange").tolist() == [[0, 1, 2], [0, 1, 2]]
    rows = built("shape: [2, 50], dtype: i64, values: permutation")
    assert [sorted(row) for row in rows.tolist()] == [list(range(50))] * 2
    assert rows[0].tolist() != rows[1].tolist()
    for fields in ("values: sorted", "dtype: i64, values: {sorted: 9}"):
        row = built(f"shape: [3, 40], {fields}")
        assert torch.equal(row, row.sort(-1).values)
    part = built("shape: [10000], dtype: bool, values: {mask: 0.1}").float().mean()
    assert 0.08 < float(part) < 0.12


def test_a_causal_mask_is_true_or_zero_up_to_the_diagonal() -> None:
    assert built("shape: [2, 3, 3], dtype: bool, values: causal")[1].tolist() == torch.ones(3, 3).tril().bool().tolist()
    added = built("shape: [2, 2], values: causal").tolist()
    assert added == [[0.0, float("-inf")], [0.0, 0.0]]


def test_a_mask_that_is_expanded_is_filled_once() -> None:
    tensor = built("shape: [4, 3, 3], stride: [0, 3, 1], dtype: bool, values: causal")
    assert tensor.untyped_storage().nbytes() == 9
    assert torch.equal(tensor[3], torch.ones(3, 3).tril().bool())


def test_tensors_of_one_storage_share_it() -> None:
    text = """op-list: 1
ops:
  - target: torch.add
    args:
      - tensor: {shape: [4], storage: both}
      - tensor: {shape: [4], storage: both, storage_offset: 2}
"""
    (op,) = parse_op_list(parse_yaml(text, "ops.yaml")).ops
    first, second = build_op(op, CPU, 0).args
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert torch.equal(first[2:], second[:2])


def test_every_op_is_a_node_with_its_result_its_line_and_its_work(tmp_path: Path) -> None:
    nodes = measured(
        tmp_path,
        """ops:
  - name: mm
    target: torch.matmul
    args:
      - tensor: {shape: [n, 64]}
      - tensor: {shape: [64, n], stride: [1, 64]}
    sweep: {n: [16, 32]}
  - target: Tensor.masked_fill
    args: [{tensor: {shape: [8, 8]}}, {tensor: {shape: [8, 8], dtype: bool, values: causal}}, -inf]
""",
    )
    assert list(nodes) == ["mm[n=16]", "mm[n=32]", "masked_fill"]
    assert [node.isolated.status for node in nodes.values()] == ["ok"] * 3
    assert [node.outputs[0].shape for node in nodes.values()] == [(16, 16), (32, 32), (8, 8)]
    lines = [node.source.line for node in nodes.values() if node.source is not None]
    assert lines == [3, 3, 9]
    work = nodes["mm[n=16]"].isolated.work
    assert work is not None
    assert work.flops == 2 * 16 * 16 * 64
    assert {node.isolated.values for node in nodes.values()} == {"synthetic"}


def test_the_profile_is_whole_and_says_that_nothing_was_compiled(tmp_path: Path) -> None:
    profile = graphbench.measure_ops(written(tmp_path, "ops:\n  - {target: torch.ones, args: [4]}\n"), **QUICK)
    profile.check()
    (region,) = profile.record.regions
    assert (region.key, region.kernels, region.forward.run) == ("ops", (), None)
    assert "no compiled side" in region.forward.reason
    profile.save(tmp_path / "p.json")
    assert graphbench.load(tmp_path / "p.json").record == profile.record
    assert "op list: 1 op," in str(profile)
    assert "coverage" not in str(profile)


def test_values_are_not_made_up_a_second_time(tmp_path: Path) -> None:
    index = (
        "ops:\n  - {target: torch.nn.functional.embedding, args: [{tensor: {shape: [4], dtype: i64, values: zeros}},"
    )
    nodes = measured(tmp_path, f"{index} {{tensor: {{shape: [1, 8]}}}}]}}\n", values="synthetic")
    assert nodes["embedding"].isolated.status == "ok"


def test_equal_ops_on_other_values_are_measured_each(tmp_path: Path) -> None:
    op = "    target: torch.sort\n    args: [{tensor: {shape: [64], values: VALUES}}]\n"
    names = {"random": "normal", "again": "normal", "ordered": "sorted"}
    nodes = measured(
        tmp_path, "ops:\n" + "".join(f"  - name: {k}\n{op.replace('VALUES', v)}" for k, v in names.items())
    )
    assert [nodes[name].isolated.shared_with for name in names] == [None, "random", None]


def test_the_backward_is_measured_where_it_is_asked_for_and_there_is_one(tmp_path: Path) -> None:
    text = """ops:
  - {name: with, target: torch.sin, args: [{tensor: {shape: [64], requires_grad: true}}]}
  - {name: without, target: torch.cos, args: [{tensor: {shape: [64]}}]}
  - {name: off, target: torch.tan, args: [{tensor: {shape: [64], requires_grad: true}}], state: {grad: false}}
"""
    trained = measured(tmp_path, text, train=True)
    assert [node.backward_isolated.status for node in trained.values()] == ["ok", "skipped", "skipped"]
    assert trained["with"].outputs[0].requires_grad
    plain = measured(tmp_path, text)
    assert {node.backward_isolated.status for node in plain.values()} == {"skipped"}
    assert not plain["with"].outputs[0].requires_grad


def test_ops_run_in_the_state_that_they_ask_for(tmp_path: Path) -> None:
    linear = "target: torch.nn.functional.linear, args: [{tensor: {shape: [8, 8]}}, {tensor: {shape: [8, 8]}}]"
    profile = graphbench.measure_ops(
        written(
            tmp_path,
            f"""ops:
  - {{name: plain, {linear}}}
  - {{name: cast, {linear}, state: {{autocast: bfloat16}}}}
  - {{name: double, target: torch.ones, args: [4], state: {{default_dtype: float64}}}}
""",
        ),
        **QUICK,
    )
    assert [region.key for region in profile.record.regions] == ["ops", "ops2", "ops3"]
    dtypes = {node.name: node.outputs[0].dtype for region in profile.record.regions for node in region.nodes}
    assert dtypes == {"plain": "float32", "cast": "bfloat16", "double": "float64"}
    cast = profile.record.regions[1].ambient
    assert cast is not None
    assert [entry.enabled for entry in cast.autocast] == [True]
    assert torch.get_default_dtype() is torch.float32


def test_nothing_of_the_world_has_moved(tmp_path: Path) -> None:
    torch.manual_seed(3)
    before, generators = ambient.current(), torch.get_rng_state()
    state = "state: {grad: true, autocast: bfloat16, deterministic: warn, num_threads: 1}\n"
    measured(tmp_path, f"{state}ops:\n  - {{target: torch.dropout, args: [{{tensor: {{shape: [64]}}}}, 0.5, true]}}\n")
    assert ambient.current() == before
    assert torch.equal(torch.get_rng_state(), generators)


def test_an_op_that_writes_its_argument_finds_it_as_it_was(tmp_path: Path) -> None:
    tensor = "{tensor: {shape: [1000], dtype: i64, values: ones}}"
    nodes = measured(tmp_path, f"ops:\n  - {{target: Tensor.cumsum_, args: [{tensor}, 0]}}\n")
    fidelity = nodes["cumsum_"].isolated.fidelity
    assert fidelity is not None
    assert fidelity.equal


def test_what_an_op_raises_is_the_reason_of_its_row(tmp_path: Path) -> None:
    nodes = measured(
        tmp_path,
        """ops:
  - {name: wrong, target: torch.matmul, args: [{tensor: {shape: [2, 3]}}, {tensor: {shape: [2, 3]}}]}
  - {name: arity, target: torch.relu, args: [1, 2, 3]}
  - {name: right, target: torch.ones, args: [4]}
""",
    )
    assert [node.isolated.status for node in nodes.values()] == ["failed", "failed", "ok"]
    assert "cannot be multiplied" in nodes["wrong"].isolated.reason
    assert nodes["arity"].isolated.reason.startswith("alone it raises TypeError")


def test_an_op_that_does_not_fit_is_skipped_with_the_figure(tmp_path: Path) -> None:
    nodes = measured(
        tmp_path, "ops:\n  - {target: torch.relu, args: [{tensor: {shape: [1000000]}}]}\n", memory_budget=1000
    )
    assert nodes["relu"].isolated.status == "skipped"
    assert "its tensors need 3.81 MiB" in nodes["relu"].isolated.reason


def test_an_op_that_torch_does_not_have_is_named_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ops.yaml:3: relo: target torch.relo: torch .* has no such op") as caught:
        measured(tmp_path, "ops:\n  - {target: torch.relo, args: [{tensor: {shape: [2]}}]}\n")
    assert "relu" in str(caught.value.hint)
    with pytest.raises(UsageError, match="has no such op"):
        measured(tmp_path, "ops:\n  - {target: Tensor.masked_fil, args: [{tensor: {shape: [2]}}]}\n")


def test_only_selected_ops_are_measured(tmp_path: Path) -> None:
    text = (
        "ops:\n  - {target: torch.ones, args: [{size: n}], sweep: {n: [2, 4]}}\n  - {target: torch.zeros, args: [4]}\n"
    )
    nodes = measured(tmp_path, text, select="ones[n=4]")
    assert [node.isolated.reason for node in nodes.values()] == [NOT_SELECTED, "", NOT_SELECTED]
    nodes = measured(tmp_path, text, exclude="zeros")
    assert [node.isolated.status for node in nodes.values()] == ["ok", "ok", "skipped"]
    with pytest.raises(UsageError, match="no node, op type, module or kernel matches"):
        measured(tmp_path, text, select="nothing")


def test_limited_time_goes_where_it_matters(tmp_path: Path) -> None:
    text = """ops:
  - {name: large, target: torch.matmul, args: [{tensor: {shape: [128, 128]}}, {tensor: {shape: [128, 128]}}]}
  - {name: small, target: torch.ones, args: [4]}
"""
    nodes = measured(tmp_path, text, max_seconds=1.0, warmup=None, repeat=None, measure_ms=20.0)
    samples = {name: node.isolated.samples for name, node in nodes.items()}
    assert samples["large"] is not None
    assert len(samples["large"].busy_ns) >= 10


def test_an_op_whose_tensors_cannot_be_made_a_second_time_keeps_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def once(op: OpEntry, device: torch.device, seed: int) -> BuiltOp:
        made.append(op.name)
        if made.count(op.name) > 1:
            raise RuntimeError("no memory left")
        return build_op(op, device, seed)

    monkeypatch.setattr(op_region, "build_op", once)
    text = "ops:\n  - {name: one, target: torch.relu, args: [{tensor: {shape: [64, 64]}}]}\n"
    node = measured(tmp_path, text, max_seconds=60.0, warmup=None, repeat=None, measure_ms=2.0)["one"]
    assert made == ["one", "one"]
    assert (node.isolated.status, node.isolated.reason, len(node.outputs)) == ("ok", "", 1)


def test_custom_ops_of_a_named_module_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "graphbench_test_ops.py").write_text(
        "import torch\n"
        "library = torch.library.Library('graphbench_test', 'DEF')\n"
        "library.define('twice(Tensor x) -> Tensor')\n"
        "library.impl('twice', lambda x: x * 2, 'CompositeExplicitAutograd')\n"
    )
    (tmp_path / "graphbench_test_raises.py").write_text("raise RuntimeError('no kernels here')\n")
    monkeypatch.chdir(tmp_path)
    text = "ops:\n  - {target: torch.ops.graphbench_test.twice, args: [{tensor: {shape: [4]}}]}\n"
    with pytest.raises(UsageError, match="custom op"):
        measured(tmp_path, text)
    with pytest.raises(UsageError, match="--import no_such_module"):
        measured(tmp_path, text, imports=["no_such_module"])
    with pytest.raises(CaptureError, match="it raised RuntimeError: no kernels here"):
        measured(tmp_path, text, imports=["graphbench_test_raises"])
    nodes = measured(tmp_path, text, imports=["graphbench_test_ops"])
    assert (nodes["twice"].op_type, nodes["twice"].isolated.status) == ("graphbench_test.twice", "ok")


def test_the_names_of_states_are_those_of_the_ambient_state() -> None:
    assert op_state.FP32_SETTINGS == ambient.FP32_SETTINGS
    assert op_state.SDPA == ambient.SDPA
    assert set(op_state.FLAGS) == set(ambient.FLAGS)


def test_nothing_that_a_list_may_call_reaches_out_of_torch() -> None:
    """Of all names in torch's modules, those that pass as ops are torch's own, or stubs of types."""
    n_ops = 0
    for root in ("torch", "torch.nn.functional", "torch.functional", "torch.linalg", "torch.special", "torch.fft"):
        owner = functools.reduce(getattr, root.split(".")[1:], torch)
        for name in dir(owner):
            text = f"op-list: 1\nops:\n  - {{target: {root}.{name}, args: [1]}}\n"
            try:
                found = parse_op_list(parse_yaml(text, "ops.yaml"))
                function = function_of(found, found.ops[0])
            except UsageError:
                continue
            n_ops += 1
            module = getattr(function, "__module__", None) or "torch"
            assert module.partition(".")[0] in ("torch", "typing", "typing_extensions", "builtins"), f"{root}.{name}"
            assert function not in (eval, exec, compile, open, __import__, getattr, setattr), f"{root}.{name}"
    assert n_ops > 500


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_every_example_of_the_page_is_measured(block: Block, tmp_path: Path) -> None:
    nodes = measured(tmp_path, block.code.removeprefix("op-list: 1\n"))
    assert {node.isolated.status for node in nodes.values()} == {"ok"}


class Mixed(nn.Module):
    """An embedding, a sort of positions, a masked softmax, views of one storage and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.project = nn.Linear(32, 64)
        self.register_buffer("edges", torch.tensor([0.1, 0.2, 0.3]))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        left, right = self.project(x).chunk(2, -1)
        scores = (left @ right.transpose(-1, -2)).masked_fill(torch.ones(8, 8).triu(1).bool(), float("-inf"))
        weights = scores.softmax(-1)
        buckets = torch.bucketize(weights, self.edges)
        total = torch.zeros(50, 32).index_add(0, ids[0], functional.gelu(weights @ left)[0].float())
        return total.sum() + buckets.sum()


@functools.cache
def mixed() -> Profile:
    """A training step of it under autocast, measured once for all tests."""
    with clean():
        torch.manual_seed(0)
        model = compiled(Mixed())
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.randint(50, (2, 8)))
        loss.backward()
        return graphbench.measure(warmup=1, repeat=3, ceilings="off", progress=False)


def lists() -> tuple[OpEntry, ...]:
    return parse_op_list(parse_yaml(op_list(mixed().record), "ops.yaml")).ops


def test_an_exported_list_runs_with_the_results_dtypes_strides_and_state_of_the_profile(tmp_path: Path) -> None:
    file = tmp_path / "ops.yaml"
    file.write_text(op_list(mixed().record))
    back = graphbench.measure_ops(file, train=True, **QUICK)
    nodes = {node.name: node for region in back.record.regions for node in region.nodes}
    failed = {name: node.isolated.reason for name, node in nodes.items() if node.isolated.status != "ok"}
    assert not failed
    (region,) = mixed().record.regions
    for node in region.nodes:
        if node.name in nodes:
            expected = [(spec.shape, spec.stride, spec.dtype) for spec in node.outputs]
            found = [(spec.shape, spec.stride, spec.dtype) for spec in nodes[node.name].outputs]
            assert found == expected, node.name
    assert {entry.enabled for entry in back.record.regions[0].ambient.autocast} == {True}  # type: ignore[union-attr]
    (linear,) = [node for node in nodes.values() if node.op_type == "linear"]
    assert linear.outputs[0].dtype == "bfloat16"
    assert linear.backward_isolated.status == "ok"


def test_exported_indices_lie_in_what_they_index() -> None:
    found = {op.base: op for op in lists()}
    embedding = next(op for op in found.values() if op.target.endswith("embedding"))
    assert str(next(iter(embedding.tensors.values())).values) == "below 50"
    index_add = next(op for op in found.values() if op.target.endswith("index_add"))
    assert [str(entry.values) for entry in index_add.tensors.values() if entry.dtype == "int64"] == ["below 50"]
    bucketize = next(op for op in found.values() if op.target.endswith("bucketize"))
    assert [entry.values.kind for entry in bucketize.tensors.values()][1] == "sorted"


def test_exported_views_of_one_storage_share_it() -> None:
    matmul = next(op for op in lists() if "matmul" in op.target)
    first, second = matmul.tensors.values()
    assert first.storage == second.storage != ""
    assert second.storage_offset != first.storage_offset


def test_two_runs_of_one_list_are_joined_node_by_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ops.yaml"
    file.write_text(op_list(mixed().record))
    for name in ("before", "after"):
        words = [
            "run",
            "--op-list",
            str(file),
            "--device",
            "cpu",
            "--repeat",
            "3",
            "--warmup",
            "1",
            "--ceilings",
            "off",
        ]
        assert cli.main([*words, "--output-dir", str(tmp_path / name)]) == 0
    assert (tmp_path / "before" / "nodes.csv").read_text().count("\n") == len(lists()) + 1
    capsys.readouterr()
    files = [str(tmp_path / name / "profile.json") for name in ("before", "after")]
    assert cli.main(["diff", *files]) == 0
    assert "0 added, 0 gone" in capsys.readouterr().out


def test_a_list_that_was_exported_from_a_list_has_the_same_ops(tmp_path: Path) -> None:
    file = tmp_path / "ops.yaml"
    file.write_text(op_list(mixed().record))
    again = op_list(graphbench.measure_ops(file, **QUICK).record)
    found = parse_op_list(parse_yaml(again, "again.yaml")).ops
    assert [(op.target, op.tensors, op.args, op.state) for op in found] == [
        (op.target, op.tensors, op.args, op.state) for op in lists()
    ]


def test_a_run_that_was_cut_short_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "ops:\n  - {target: torch.ones, args: [{size: n}], sweep: {n: [1, 2, 3, 4]}}\n")
    code = (
        "import os, sys\n"
        "from graphbench.measuring.op_region import OpRegion\n"
        "before, count = OpRegion._op, []\n"
        "def stopping(self, op):\n"
        "    count.append(op)\n"
        "    return before(self, op) if len(count) < 3 else os._exit(7)\n"
        "OpRegion._op = stopping\n"
        "from graphbench import cli\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    words = ["run", "--op-list", str(file), "--device", "cpu", "--repeat", "3", "--ceilings", "off", "--no-supervise"]
    folder = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", code, *words, "--output-dir", str(folder)], check=False)
    assert done.returncode == 7
    assert cli.main(["show", str(folder)]) == 0
    assert "2 timed" in capsys.readouterr().out
    assert cli.main(["run", "--resume", str(folder), "--no-supervise"]) == 0
    record = document.read(folder / "profile.json")
    assert [node.isolated.status for node in record.regions[0].nodes] == ["ok"] * 4
    assert any(note.startswith("the run was continued: 2 rows") for note in record.notes)
