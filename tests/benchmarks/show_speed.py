"""How long `graphbench show` and `diff` take to start, and on profiles of 10,000 nodes.

Bars: start below 0.3 s without importing torch; 10,000 nodes: `show` below 2 s, `diff` of two below 5 s. Run from the
repository root: `python tests/benchmarks/show_speed.py [--output results.json]`. Needs neither torch nor a GPU. Two
profiles: every row with 200 samples of its own, and 80 % of the rows measured in the place of an equal one. Start is
the whole command on a profile of three nodes; `diff` compares with a profile of which every time is another, the most
that there can be to tell. CPU times tell whether wall times had the machine to themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphbench import document
from graphbench.condition_records import Environment, Policy
from graphbench.device_records import DeviceKernel
from graphbench.measurements import Comparison, Measurement, RunRecord, Samples, SourceLine, TensorSpec
from graphbench.records import Fate, KernelRecord, NodeRecord, NodeRole, PostGradNode, ProfileRecord, RegionRecord, Side
from graphbench.report import REPORTERS

NODES_PER_KERNEL = 3
KERNEL = DeviceKernel(
    name="void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
    grid=(2048, 1, 1),
    block=(128, 1, 1),
    registers=32,
    static_shared_bytes=0,
    dynamic_shared_bytes=0,
    local_bytes=0,
    stream=7,
    device=0,
)
START_NODES = 3
COMMANDS = {"show": ("show", "{0}"), "diff": ("diff", "{0}", "{1}")}
IMPORTED = "import sys; from graphbench.cli import main; main(sys.argv[1:]); print('torch' in sys.modules)"
ISOLATED_SAMPLES = 200
RUN_SAMPLES = 50  # in-graph samples: `measuring.runs.MOST_RUNS`


class Maker:
    """Makes measurements of random whole nanoseconds; after the first few, `shared` of them repeat an earlier one."""

    def __init__(self, seed: int, shared: float) -> None:
        self._random = random.Random(seed)
        self._shared = shared
        self._own: list[tuple[str, Measurement]] = []

    def isolated(self, row: str) -> Measurement:
        """The measurement of a row, or of an earlier one in its place."""
        if self._own and self._random.random() < self._shared:
            first, measurement = self._random.choice(self._own)
            return replace(measurement, shared_with=first)
        self._own.append((row, self._measurement(ISOLATED_SAMPLES)))
        return self._own[-1][1]

    def in_graph(self) -> Measurement:
        """Samples of labelled runs: never shared."""
        return self._measurement(RUN_SAMPLES)

    def _measurement(self, n: int) -> Measurement:
        middle = self._random.randrange(2_000, 200_000)
        busy = tuple(float(middle + self._random.randrange(middle // 10)) for _ in range(n))
        zero = (0.0,) * n
        samples = Samples(
            busy_ns=busy,
            host_ns=tuple(float(self._random.randrange(9_000, 90_000)) for _ in range(n)),
            span_ns=busy,
            kernel_ns=busy,
            copy_ns=zero,
            memset_ns=zero,
            n_kernels=(1,) * n,
        )
        return Measurement(
            status="ok",
            timer="cupti",
            cache="cold-read",
            values="captured",
            samples=samples,
            warmup=50,
            device_kernels=(KERNEL,),
            fidelity=Comparison(equal=True, max_abs=0.0),
        )


def make_profile(n_nodes: int, shared: float, seed: int = 0) -> ProfileRecord:
    """A region of a GPU with one kernel per three nodes; its times are those of `seed`."""
    maker = Maker(seed, shared)
    spec = TensorSpec(shape=(16, 512, 1024), stride=(524_288, 1024, 1), dtype="bfloat16", device="cuda:0")
    nodes, post_grad, kernels = [], [], []
    for first in range(0, n_nodes, NODES_PER_KERNEL):
        names = [f"hidden_states_{index}" for index in range(first, min(first + NODES_PER_KERNEL, n_nodes))]
        kernel = f"triton_poi_fused_add_mul_native_layer_norm_{first}"
        key = f"forward/{kernel}:{first}"
        for name in names:
            nodes.append(_node(name, spec, key, maker))
            post_grad.append(_post_grad(name, spec))
        kernels.append(_kernel(kernel, key, first, names, maker))
    return ProfileRecord(
        schema_version=document.SCHEMA_VERSION,
        graphbench="benchmark",
        created="2026-01-01T00:00:00+00:00",
        subject=f"{n_nodes} synthetic nodes",
        environment=Environment(torch="none", python=platform.python_version(), platform="", cpu="", num_threads=1),
        policy=Policy(timer="cupti", cache="cold-read", values="captured"),
        regions=(
            RegionRecord(
                key="r0",
                compile_id="0/0",
                status="ok",
                device="cuda:0",
                calls=1,
                nodes=tuple(nodes),
                post_grad=tuple(post_grad),
                kernels=tuple(kernels),
                eager=_side([node.in_graph for node in nodes]),
                forward=_side([kernel.in_graph for kernel in kernels]),
            ),
        ),
    )


def _node(name: str, spec: TensorSpec, key: str, maker: Maker) -> NodeRecord:
    return NodeRecord(
        name=name,
        op="call_function",
        op_type="add",
        kind="compute",
        inputs=("x",),
        arguments=[{"node": "x"}, 1.0],
        outputs=(spec,),
        module="model.layers.11.mlp",
        source=SourceLine(file="/home/someone/project/model.py", line=123, function="forward", code="x = x + 1.0"),
        fate=Fate(kind="fused", kernels=(key,)),
        isolated=maker.isolated(name),
        in_graph=maker.in_graph(),
    )


def _post_grad(name: str, spec: TensorSpec) -> PostGradNode:
    return PostGradNode(
        name=f"{name}_aten",
        phase="forward",
        op="call_function",
        target="aten.add.Tensor",
        inputs=("x",),
        sources=(name,),
        callee="torch.ops.aten.add.Tensor",
        arguments={"args": {"tuple": [{"node": "x"}, 1.0]}, "kwargs": {"dict": []}},
        outputs=(spec,),
    )


def _kernel(name: str, key: str, handle: int, nodes: list[str], maker: Maker) -> KernelRecord:
    executes = tuple(f"{node}_aten" for node in nodes)
    roles = tuple(
        NodeRole(node=node, role="executes", post_grad=(f"{node}_aten",), moved_bytes=33_554_432) for node in nodes
    )
    return KernelRecord(
        key=key,
        phase="forward",
        name=name,
        handle=handle,
        kind="triton",
        calls=1,
        executes=executes,
        roles=roles,
        isolated=maker.isolated(key),
        in_graph=maker.in_graph(),
        difference=Comparison(equal=True, max_abs=0.0),
    )


def _side(rows: list[Measurement]) -> Side:
    busy = tuple(map(sum, zip(*(row.samples.busy_ns for row in rows if row.samples), strict=True)))
    zero = (0.0,) * RUN_SAMPLES
    run = RunRecord(busy_ns=busy, wall_ns=busy, unattributed_ns=zero, overlap_ns=zero, timer="cupti")
    return Side(run=run, plain=replace(rows[0], shared_with=None), wall_ns=busy)


def measure(record: ProfileRecord, other: ProfileRecord, repeats: int) -> dict[str, Any]:
    """Times of one profile and of its comparison with another, in seconds: medians of `repeats` fresh processes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        start = time.perf_counter()
        document.write(record, path)
        seconds = {"write": time.perf_counter() - start}
        document.write(other, _other(path))
        parts = [json.loads(run_python(__file__, "--parts", str(path))) for _ in range(repeats)]
        return {
            "file_bytes": path.stat().st_size,
            **{f"{name}_s": round(value, 3) for name, value in seconds.items()},
            **{f"{name}_s": round(statistics.median(part[name] for part in parts), 3) for name in parts[0]},
            **_commands(path, repeats),
        }


def start(repeats: int) -> dict[str, Any]:
    """Times of both commands on a tiny profile, in seconds, and which of them imported torch."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        for seed, file in enumerate((path, _other(path))):
            document.write(make_profile(START_NODES, 0.0, seed), file)
        importing = [
            name for name in COMMANDS if run_python("-c", IMPORTED, *_command(name, path)).split()[-1] == "True"
        ]
        return _commands(path, repeats) | {"torch_imported": importing}


def _commands(path: Path, repeats: int) -> dict[str, Any]:
    """Medians of `repeats` fresh processes of each command, wall and CPU, and all wall times."""
    found: dict[str, Any] = {}
    for name in COMMANDS:
        walls, cpus = zip(*(_timed(name, path) for _ in range(repeats)), strict=True)
        found[f"{name}_s"] = round(statistics.median(walls), 3)
        found[f"{name}_cpu_s"] = round(statistics.median(cpus), 3)
        found[f"{name}_all_s"] = [round(wall, 3) for wall in walls]
    return found


def _command(name: str, path: Path) -> list[str]:
    """A command line; `diff` compares the profile with the other one."""
    return [part.format(path, _other(path)) for part in COMMANDS[name]]


def _other(path: Path) -> Path:
    return path.with_name("other.json")


def _timed(name: str, path: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one command in a fresh process."""
    before, begin = os.times(), time.perf_counter()
    run_python("-m", "graphbench", *_command(name, path))
    wall_s, after = time.perf_counter() - begin, os.times()
    cpu_s = sum(getattr(after, part) - getattr(before, part) for part in ("children_user", "children_system"))
    return wall_s, cpu_s


def run_python(*arguments: str) -> str:
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout


def _parts(path: Path) -> dict[str, float]:
    start = time.perf_counter()
    record = document.read(path)
    loaded = time.perf_counter()
    REPORTERS["table"].render(record)
    return {"load": loaded - start, "render": time.perf_counter() - loaded}


def main() -> None:
    """Measure both profiles, or in a fresh process the parts of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path(os.devnull), help="results as JSON")
    parser.add_argument("--parts", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.parts:
        print(json.dumps(_parts(options.parts)))
        return
    results: dict[str, Any] = {"python": platform.python_version(), "cores": os.cpu_count(), "nodes": options.nodes}
    results["start"] = start(options.repeats)
    for name, shared in (("nothing_shared", 0.0), ("80_percent_shared", 0.8)):
        sides = [make_profile(options.nodes, shared, seed) for seed in (0, 1)]
        results[name] = measure(*sides, options.repeats)
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
