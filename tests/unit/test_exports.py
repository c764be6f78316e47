"""The public names survive importing everything: no module rebinds one of them."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "graphbench"

IMPORT_EVERYTHING = """
import importlib, pkgutil, warnings
import graphbench
warnings.simplefilter("ignore")
before = {name: getattr(graphbench, name) for name in graphbench.__all__}
for module in pkgutil.walk_packages(graphbench.__path__, "graphbench."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print([name for name in graphbench.__all__ if getattr(graphbench, name) is not before[name]])
"""


def public_names() -> list[str]:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (names,) = (
        ast.literal_eval(entry.value)
        for entry in tree.body
        if isinstance(entry, ast.Assign) and getattr(entry.targets[0], "id", "") == "__all__"
    )
    return list(names)


def test_no_top_level_module_is_named_like_a_public_name() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert parts & set(public_names()) == set()


@pytest.mark.parametrize("name", ["measure", "profile", "compare", "backward_of", "load", "diff", "reset"])
def test_the_functions_that_the_documentation_names_are_public(name: str) -> None:
    assert name in public_names()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch in a process of its own")
def test_public_names_are_the_same_after_importing_every_module() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING], capture_output=True, text=True, cwd=PACKAGE.parent, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_the_result_of_a_diff_has_its_class_in_the_api() -> None:
    from graphbench.api import ProfileDiff
    from graphbench.report import profile_diff

    assert ProfileDiff is profile_diff.ProfileDiff
