"""The probe of other profilers: CUPTI serves one at a time, and those that inject themselves slow kernels down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from graphbench.doctor.finding import Finding, State
from graphbench.doctor.machine import Machine
from graphbench.errors import GraphbenchError

INJECTIONS: Final = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
"""Libraries that CUDA and NVTX load into every process: how nsys, ncu and others come in."""
KINETO_DAEMON: Final = "KINETO_USE_DAEMON"


def profilers(machine: Machine) -> Iterator[Finding]:
    """Who else may be profiling this process. What profiles others on the GPU cannot be seen from here."""
    on_gpu = bool(machine.torch.gpus)
    tool = machine.attached_tool()
    if tool:
        yield _finding("problem" if on_gpu else "warning", f"{tool} is attached to this process", "run without it")
        return
    injected = [f"{name}={machine.environ[name]}" for name in INJECTIONS if machine.environ.get(name)]
    if injected:
        fix = f"unset {' '.join(entry.partition('=')[0] for entry in injected)}"
        yield _finding("warning", f"injected into every process that uses CUDA: {', '.join(injected)}", fix)
        return
    if machine.environ.get(KINETO_DAEMON):
        found = f"{KINETO_DAEMON} is set: torch's own profiler may take CUPTI as a process starts"
        yield _finding("warning", found, f"unset {KINETO_DAEMON}")
        return
    client = _client(machine) if on_gpu else ""
    if client:
        found = f"CUPTI is held by {client}: records may go there"
        yield _finding("warning", found, "run without it; CUPTI records above says whether they arrive all the same")
        return
    yield _finding("ok", "none seen in this process", "")


def _client(machine: Machine) -> str:
    try:
        return machine.cupti_client()
    except GraphbenchError:
        return ""  # the probe of libcupti says what is wrong with it


def _finding(state: State, found: str, fix: str) -> Finding:
    return Finding(check="other profilers", state=state, found=found, fix=fix)
