"""What setup.cfg asks for and packages is what the code needs, no less and no more."""

from __future__ import annotations

import ast
import configparser
import fnmatch
import functools
import re
from pathlib import Path
from typing import Final

import pytest

from graphbench.doctor.packages import EXTRAS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "graphbench"
MODULES: Final = {"pyyaml": "yaml", "cupti-python": "cupti", "nvidia-ml-py": "pynvml", "ipython": "IPython"}
"""How distributions are imported whose names differ from that."""
USED_OTHERWISE: Final = {"numpy", "ipython"}
"""`Tensor.numpy` needs the one, the other imports us."""
OF_THE_MACHINE: Final = {"nvidia-ml-py", "shtab"}
"""What `doctor` tells with something else: clocks, completion."""


def setup() -> configparser.ConfigParser:
    found = configparser.ConfigParser()
    found.read(ROOT / "setup.cfg", encoding="utf-8")
    return found


def distributions(listed: str) -> list[str]:
    return [re.split(r"[<>=; ]", line, maxsplit=1)[0] for line in listed.split("\n") if line]


@functools.cache
def imported() -> frozenset[str]:
    """Top-level names that the package imports, wherever it does, also by a name in quotes."""
    names: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        for entry in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(entry, ast.Import):
                names |= {alias.name.split(".")[0] for alias in entry.names}
            elif isinstance(entry, ast.ImportFrom) and entry.module:
                names.add(entry.module.split(".")[0])
            elif isinstance(entry, ast.Call) and isinstance(entry.func, ast.Name | ast.Attribute):
                called = entry.func.id if isinstance(entry.func, ast.Name) else entry.func.attr
                quoted = entry.args[0] if entry.args and "import" in called else None
                names |= {quoted.value.split(".")[0]} if isinstance(quoted, ast.Constant) else set()
    return frozenset(names)


def is_used(distribution: str) -> bool:
    return distribution in USED_OTHERWISE or MODULES.get(distribution, distribution) in imported()


def test_whatever_is_installed_with_the_package_is_imported_by_it() -> None:
    required = distributions(setup()["options"]["install_requires"])
    assert [name for name in required if not is_used(name)] == []


@pytest.mark.parametrize("extra", ["html", "pandas", "models", "gpu", "notebook", "completion"])
def test_whatever_an_extra_installs_is_imported(extra: str) -> None:
    offered = distributions(setup()["options.extras_require"][extra])
    assert [name for name in offered if not is_used(name)] == []


def test_doctor_knows_what_the_extras_install() -> None:
    extras = setup()["options.extras_require"]
    offered = {name for extra in extras if extra not in ("test", "dev") for name in distributions(extras[extra])}
    assert {extra.distribution for extra in EXTRAS} == offered - OF_THE_MACHINE


def test_an_extra_asks_for_each_distribution_once() -> None:
    extras = setup()["options.extras_require"]
    assert {extra: names for extra in extras if len(set(names := distributions(extras[extra]))) < len(names)} == {}


def test_every_file_of_the_package_is_packaged() -> None:
    patterns = ["*.py", *setup()["options.package_data"]["graphbench"].split()]
    files = [file for file in PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    names = [file.relative_to(PACKAGE).as_posix() for file in files]
    assert [name for name in names if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)] == []
