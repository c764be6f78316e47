"""Records what Inductor said of its kernels for every model of the suite: the raw material of owners and fates.

Run from the repository root: `python tests/data/record_provenance.py --device cuda --output FOLDER [--only NAME ...]`.
Writes `FOLDER/NAME.MODE.json.gz`. Nothing is timed. Beside it, what upstream's own provenance tells of each kernel.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import graphbench
from graphbench import session
from graphbench.execution.interpreter import run_eager
from graphbench.execution.replay import shadow
from graphbench.inductor import compile as inductor
from graphbench.inductor.sites import instrument
from graphbench.regions import Region
from graphbench.tensors import shares_storage, tensors_of
from tests.suite.models import MODELS, Example, run_once

MODES = ("inference", "training")


def main() -> None:
    """Record every model asked for, in both modes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=sorted(MODELS))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.only or MODELS:
        for mode in MODES:
            start = time.perf_counter()
            found = recorded(MODELS[name], mode, options.device)
            path = options.output / f"{name}.{mode}.json.gz"
            path.write_bytes(gzip.compress(json.dumps(found, separators=(",", ":")).encode(), mtime=0))
            seconds = time.perf_counter() - start
            print(f"{path.name}: {len(found['regions'])} regions, {seconds:.1f} s", file=sys.stderr, flush=True)  # noqa: T201


def recorded(build: Callable[[], Example], mode: str, device: str) -> dict[str, Any]:
    """Compile and run one model, and collect what the map is made of."""
    graphbench.reset()
    with upstream() as kernels:
        run_once(build, mode, device)
    regions = [region for region in session.current().regions if region.capture is not None]
    found = {"torch": torch.__version__, "device": device, "regions": [_region(region) for region in regions]}
    return found | {"upstream": kernels}


@contextmanager
def upstream() -> Iterator[list[dict[str, Any]]]:
    """What torch's own provenance says of every kernel, graph by graph, read when each has been compiled.

    Source: `torch._inductor.debug.create_kernel_information_json`, torch 2.11.
    """
    from torch._inductor import debug

    found: list[dict[str, Any]] = []
    mapped = inductor._mapped

    def noting(phase: Any, *rest: Any) -> Any:
        found.append({"phase": phase, "kernels": debug.create_kernel_information_json()})
        return mapped(phase, *rest)

    inductor._mapped = noting
    try:
        yield found
    finally:
        inductor._mapped = mapped


def _region(region: Region) -> dict[str, Any]:
    views = _views(region)
    output = next(node for node in region.gm.graph.nodes if node.op == "output")
    nodes = [dataclasses.asdict(node) for node in region.nodes]
    for node in nodes:
        node["kind"] = "view" if node["name"] in views else node["kind"]
    kept = ("name", "op_type", "kind", "inputs", "module")
    graphs = [graph for graph in region.graphs if graph.artifact is not None]
    return {
        "key": region.key,
        "nodes": [{name: node[name] for name in kept} for node in nodes],
        "results": [source.name for source in output.all_input_nodes],
        "graphs": [
            {
                "phase": graph.phase,
                "fault": graph.fault,
                "vanished": {name: [fate.kind, fate.note] for name, fate in graph.vanished.items()},
                "post_grad": [_slim(node) for node in graph.post_grad],
                "kernels": [dataclasses.asdict(kernel) for kernel in graph.kernels],
                "sites": [dataclasses.asdict(site) for site in instrument(graph.artifact.source_code).sites],
            }
            for graph in graphs
        ],
    }


def _slim(node: Any) -> dict[str, Any]:
    found = dataclasses.asdict(node)
    found.pop("isolated")
    return found


def _views(region: Region) -> set[str]:
    """Nodes that launch nothing, since their result shares its storage with an argument that was not written."""
    found: set[str] = set()
    assert region.capture is not None

    def visit(node: Any, args: Any, kwargs: Any, call: Callable[[], Any]) -> Any:
        given = tensors_of((args, kwargs))
        versions = [None if tensor.is_inference() else tensor._version for tensor in given]
        result = call()
        outputs = tensors_of(result)
        same = versions == [None if tensor.is_inference() else tensor._version for tensor in given]
        if outputs and same and all(shares_storage(output, given) for output in outputs):
            found.add(node.name)
        return result

    run_eager(region.gm, shadow(region.capture.values), visit)
    return found


if __name__ == "__main__":
    main()
