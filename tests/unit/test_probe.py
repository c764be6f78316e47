"""What a probe finds of a module that is as expected, or differs in one way: the difference is named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from graphbench.probes.probe import Probe


class Kernel:
    """As torch's classes: a declared field, one that only its code sets, a method, a text that it writes."""

    declared: int

    def __init__(self) -> None:
        self.assigned = 1

    def write(self, name: str, handle: int) -> str:
        return f"# [mark] {name}:{handle}"

    @classmethod
    def made(cls, name: str) -> Any:
        def inside(text: str) -> str:
            return f"inner text {text}"

        return inside(name)


def announce(schedule: Any, name: str, is_extern: bool = False) -> str:
    return f"{schedule}{name}{is_extern}"


@pytest.fixture(autouse=True)
def _module(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = ModuleType("probed")
    vars(module).update(Kernel=Kernel, announce=announce, PREFIX="resume_in", count=len)
    monkeypatch.setitem(sys.modules, "probed", module)
    return


FITS = {
    "exists": Probe("probed.Kernel.write"),
    "all parameters": Probe("probed.announce", parameters=("schedule", "name", "is_extern")),
    "call by position and name": Probe("probed.announce", given=(2, ("is_extern",))),
    "call without the defaults": Probe("probed.announce", given=(2, ())),
    "built in": Probe("probed.count", given=(1, ())),
    "declared and assigned": Probe("probed.Kernel", has=("declared", "assigned", "write")),
    "text of a method": Probe("probed.Kernel.write", writes=("# [mark] ",)),
    "text of a function inside": Probe("probed.Kernel", writes=("inner text ",)),
    "name of a function inside": Probe("probed.Kernel.made", writes=("inside",)),
    "value": Probe("probed.PREFIX", value="resume_in"),
}


@pytest.mark.parametrize("kind", FITS)
def test_what_is_as_expected_has_no_fault(kind: str) -> None:
    assert FITS[kind].fault() == ""


DIFFERS = {
    "gone": (Probe("probed.renamed"), "probed.renamed is not there (module 'probed' has no attribute 'renamed')"),
    "module gone": (Probe("unprobed.x"), "unprobed.x is not there (No module named 'unprobed')"),
    "other parameters": (
        Probe("probed.announce", parameters=("schedule", "name")),
        "probed.announce takes (schedule, name, is_extern), expected (schedule, name)",
    ),
    "no such keyword": (
        Probe("probed.announce", given=(2, ("graph",))),
        "probed.announce takes (schedule, name, is_extern), expected (2 by position, graph)",
    ),
    "too few by position": (
        Probe("probed.announce", given=(1, ())),
        "probed.announce takes (schedule, name, is_extern), expected (1 by position)",
    ),
    "no function": (Probe("probed.PREFIX", given=(1, ())), "probed.PREFIX takes (), expected (1 by position)"),
    "field gone": (Probe("probed.Kernel", has=("assigned", "gone")), "probed.Kernel has no gone"),
    "other text": (Probe("probed.Kernel.write", writes=("[Mark]",)), "probed.Kernel.write does not write '[Mark]'"),
    "other value": (
        Probe("probed.PREFIX", value="resumed_in"),
        "probed.PREFIX is 'resume_in', expected 'resumed_in'",
    ),
}


@pytest.mark.parametrize("kind", DIFFERS)
def test_a_difference_is_named(kind: str) -> None:
    probe, expected = DIFFERS[kind]
    assert probe.fault() == expected


def test_a_module_that_cannot_be_imported_is_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "torn.py").write_text("raise RuntimeError('no driver')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert Probe("torn.x").fault() == "torn.x cannot be looked at (RuntimeError: no driver)"
