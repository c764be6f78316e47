"""All probes, in the order of what depends on what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from graphbench.doctor import compilers, gpu, packages, profilers
from graphbench.doctor.finding import Finding
from graphbench.doctor.machine import Machine
from graphbench.doctor.packages import EXTRAS, Extra
from graphbench.errors import GraphbenchError, SetupError, first_line
from graphbench.probes.relied_on import FEATURES

_AT_ONCE: Final = 2


class Probe(NamedTuple):
    """A look at one thing. `checks` names what it tells of, for when it cannot look."""

    checks: tuple[str, ...]
    look: Callable[[Machine], Iterable[Finding]]
    needs_torch: bool = True
    needs_gpu: bool = False


PROBES: Final = (
    Probe(("Python",), packages.python, needs_torch=False),
    Probe(("torch",), packages.torch, needs_torch=False),
    Probe(tuple(f"torch: {name}" for name in FEATURES), packages.parts),
    Probe(("backend",), packages.backend, needs_torch=False),
    Probe(("C++ compiler",), compilers.cpp),
    Probe(("Inductor's cache",), compilers.inductor_cache),
    Probe(("graphbench's cache",), compilers.own_cache, needs_torch=False),
    Probe(("CUDA",), gpu.cuda),
    Probe(("Triton",), compilers.triton, needs_gpu=True),
    Probe(("driver",), gpu.driver, needs_gpu=True),
    Probe(("cupti-python",), gpu.cupti_python, needs_gpu=True),
    Probe(("libcupti", "CUPTI records"), gpu.libcupti, needs_gpu=True),
    Probe(("permission",), gpu.permission, needs_gpu=True),
    Probe(("NVML", "clocks", "clock lock"), gpu.clocks, needs_gpu=True),
    Probe(("other profilers",), profilers.profilers),
)


def examine(machine: Machine) -> list[Finding]:
    """Look at everything. Optional packages are imported in processes of their own meanwhile.

    Never raises what a probe raises: that becomes its finding.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        extras = [pool.submit(packages.extra, machine, extra) for extra in EXTRAS]
        found = [entry for probe in PROBES for entry in _look(probe, machine)]
        return found + [_result(extra, future) for extra, future in zip(EXTRAS, extras, strict=True)]


def _look(probe: Probe, machine: Machine) -> Sequence[Finding]:
    try:
        missing = _missing(probe, machine)
        if missing:
            return [Finding(check=check, state="not applicable", found=missing) for check in probe.checks]
        return list(probe.look(machine))
    except GraphbenchError as error:
        return [_fault(check, error.message, error.hint or "") for check in probe.checks]
    except Exception as error:  # noqa: BLE001 - whatever is broken here is what the user asks about; the rest still counts
        return [_fault(check, f"{type(error).__name__}: {first_line(error)}") for check in probe.checks]


def _result(extra: Extra, future: Future[Finding]) -> Finding:
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001 - as above
        return _fault(extra.distribution, f"{type(error).__name__}: {first_line(error)}")


def _missing(probe: Probe, machine: Machine) -> str:
    """What a probe needs and does not have, "" for nothing."""
    if not probe.needs_torch:
        return ""
    try:
        torch = machine.torch
    except SetupError:
        return "needs torch"
    if probe.needs_gpu and not (torch.gpus and not torch.rocm):
        return gpu.why_no_gpu(machine) or "torch cannot use the GPU: see CUDA"
    return ""


def _fault(check: str, message: str, hint: str = "") -> Finding:
    return Finding(check=check, state="warning", found=f"could not be looked at: {message}", fix=hint)


def problems(findings: Iterable[Finding]) -> Iterator[Finding]:
    """What keeps graphbench from measuring."""
    return (entry for entry in findings if entry.state == "problem")
