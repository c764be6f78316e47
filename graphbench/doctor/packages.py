"""Probes of Python, torch, the registered backend and optional packages."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from graphbench.doctor.finding import Finding
from graphbench.doctor.machine import Machine
from graphbench.errors import SetupError
from graphbench.probes.relied_on import FEATURES
from graphbench.supported import CHECKED, NEWEST_TORCH, OLDEST_TORCH, torch_release
from graphbench.units import count_text

GROUP: Final = "torch_dynamo_backends"
NAME: Final = "graphbench"
TARGET: Final = "graphbench.session:backend"
OLDEST_PYTHON: Final = (3, 10)
NEWEST_PYTHON: Final = (3, 13)
_INSTALL: Final = "in graphbench's checkout: pip install ."


class Extra(NamedTuple):
    """An optional package: its distribution, the code that must run if it works, and what it is for."""

    distribution: str
    code: str
    purpose: str


EXTRAS: Final = (
    Extra("torchvision", "import torchvision", "for --model torchvision:NAME"),
    Extra("timm", "import timm", "for --model timm:NAME"),
    # Its modules are imported when they are asked for: the package alone would say nothing.
    Extra("transformers", "import transformers.models.gpt2.modeling_gpt2", "for --model hf:NAME"),
    Extra("safetensors", "import safetensors.torch", "for .safetensors files"),
    Extra("plotly", "import plotly", "for pages: report.html, --format html"),
    Extra("jinja2", "import jinja2", "for pages: report.html, --format html"),
    Extra("pandas", "import pandas", "for to_pandas()"),
    Extra("ipython", "import IPython", "for %%graphbench"),
)


def python(machine: Machine) -> Iterator[Finding]:
    """Whether this Python is one that graphbench is tested with."""
    release = sys.version_info[:2]
    fits = OLDEST_PYTHON <= release <= NEWEST_PYTHON
    yield Finding(
        check="Python",
        state="ok" if fits else "warning",
        found=f"{platform.python_version()} ({sys.executable})",
        fix="" if fits else f"graphbench is tested with {_text(OLDEST_PYTHON)} to {_text(NEWEST_PYTHON)}",
    )


def torch(machine: Machine) -> Iterator[Finding]:
    """Whether torch can be imported, and is of a release that graphbench knows."""
    try:
        found = machine.torch
    except SetupError as error:
        fix = f"install torch {_text(OLDEST_TORCH)} to {_text(NEWEST_TORCH)}: pytorch.org names the build for a machine"
        yield Finding(check="torch", state="problem", found=error.message, fix=fix)
        return
    built = f"CUDA {found.cuda}" if found.cuda else f"ROCm {found.rocm}" if found.rocm else "the CPU only"
    about = f"{found.version}, built for {built}"
    release = torch_release(found.version)
    if release < OLDEST_TORCH:
        fix = f"graphbench needs {_text(OLDEST_TORCH)} or newer: it reads parts of Inductor that came with it"
        yield Finding(check="torch", state="problem", found=about, fix=fix)
    elif release > NEWEST_TORCH:
        fix = (
            f"newer than {_text(NEWEST_TORCH)}, the last release that this graphbench is tested with: the next lines "
            "say whether what it relies on is as it was"
        )
        yield Finding(check="torch", state="warning", found=about, fix=fix)
    else:
        yield Finding(check="torch", state="ok", found=about)


def parts(machine: Machine) -> Iterator[Finding]:
    """Whether torch has what each feature relies on beside its public functions, a finding per feature.

    One that differs keeps the feature from being used: the numbers that it would give could be wrong.
    """
    for name, feature in FEATURES.items():
        check, count = f"torch: {name}", sum(not probe.cuda or bool(machine.torch.cuda) for probe in feature.probes)
        differences = machine.torch_faults(name)
        if not count:
            yield Finding(check=check, state="not applicable", found="this torch is built without CUDA")
        elif not differences:
            found = f"{count_text(count, 'part')} as expected, for {feature.what}"
            yield Finding(check=check, state="ok", found=found)
        else:
            lost = feature.without or f"no {feature.what}"
            found = f"{len(differences)} of {count_text(count, 'part')} not as expected: {'; '.join(differences)}"
            fix = f"{lost} with this torch; checked with {CHECKED}: use one of these, or a newer graphbench"
            yield Finding(check=check, state="warning" if feature.without else "problem", found=found, fix=fix)


def backend(machine: Machine) -> Iterator[Finding]:
    """Whether `torch.compile(backend="graphbench")` finds the backend.

    Source: the entry-point group that `torch._dynamo.backends.registry` reads, torch 2.11, 2.13 and 2.14.
    """
    found = machine.entry_points(GROUP, NAME)
    if not found:
        yield Finding(check="backend", state="problem", found=f"no entry point {NAME!r} in {GROUP}", fix=_INSTALL)
    elif set(found) != {TARGET}:
        others = ", ".join(entry for entry in found if entry != TARGET)
        fix = "two packages of one name: uninstall the other, or use a fresh environment"
        yield Finding(check="backend", state="problem", found=f"{NAME!r} leads to {others}, not {TARGET}", fix=fix)
    else:
        yield Finding(check="backend", state="ok", found=f'torch.compile(backend="{NAME}") leads to {TARGET}')


def extra(machine: Machine, package: Extra) -> Finding:
    """Whether an optional package works. It is imported in a process of its own, which it may take down."""
    name, code, purpose = package
    version = machine.distribution(name)
    if version is None:
        found, fix = f"not installed; {purpose}", f"pip install {name}"
        return Finding(check=name, state="not applicable", found=found, fix=fix)
    fault = machine.imported(code)
    if not fault:
        return Finding(check=name, state="ok", found=f"{version}; {purpose}")
    found = f"{version} is installed, but `{code}` fails: {fault}"
    fix = f"it must fit the torch in use; {purpose}, nothing else needs it: reinstall or uninstall it"
    return Finding(check=name, state="warning", found=found, fix=fix)


def _text(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))
