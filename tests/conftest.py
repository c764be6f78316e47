"""Pytest set-up: a fixed terminal, golden texts, and the rules for tests that need a GPU or minutes."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
REQUIRE_GPU = "GRAPHBENCH_REQUIRE_GPU"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("graphbench")
    group.addoption("--update-golden", action="store_true", help="write the golden texts instead of comparing them")
    group.addoption("--slow", action="store_true", help="also run tests that take minutes")


def pytest_configure() -> None:
    """Let Ctrl-C be heard, also by processes that tests start: what a shell runs in the background ignores it.

    The ceilings of this machine are measured once for all tests, in a folder of their own.
    """
    os.environ["GRAPHBENCH_CACHE_DIR"] = tempfile.mkdtemp(prefix="graphbench-tests-")
    atexit.register(shutil.rmtree, os.environ["GRAPHBENCH_CACHE_DIR"], ignore_errors=True)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = _why_not_enough_gpus(_gpus_needed(item))
    if missing:
        pytest.skip(missing)
    chosen = item.config.getoption("--slow") or "slow" in item.config.getoption("markexpr")
    if item.get_closest_marker("slow") and not chosen:
        pytest.skip("takes minutes: run with --slow or -m slow")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Where so many GPUs are required, a skipped GPU test has failed: nobody would notice that it never ran."""
    report = yield
    required = int(os.environ.get(REQUIRE_GPU, "0"))
    if report.skipped and 0 < _gpus_needed(item) <= required:
        report.outcome = "failed"
        report.longrepr = f"{REQUIRE_GPU}={required}, but the test was skipped: {report.longrepr}"
    return report


def _gpus_needed(item: pytest.Item) -> int:
    """0 for a test without marker, else the largest `count` of its `gpu` markers, 1 by default."""
    return max((marker.kwargs.get("count", 1) for marker in item.iter_markers("gpu")), default=0)


@functools.cache
def _why_not_enough_gpus(needed: int) -> str:
    """Why GPU tests cannot run, or an empty string. Imports torch only when such a test was collected."""
    if not needed:
        return ""
    if importlib.util.find_spec("torch") is None:
        return "needs a CUDA GPU: torch is not installed"
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return "" if found >= needed else f"needs {needed} CUDA GPUs, found {found}"


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text must not depend on the terminal that the tests run in."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """`graphbench run` measures in the test's process, where it can be looked at, unless it is told --supervise."""
    monkeypatch.setattr("graphbench.cli.run.SUPERVISE", False)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with `tests/golden/NAME`; `--update-golden` writes it."""

    def compare(text: str, name: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"no {file.name} yet: run with --update-golden and read what it writes"
        assert text == file.read_text(encoding="utf-8")

    return compare
