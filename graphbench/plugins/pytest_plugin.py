"""A pytest plugin: the fixture `graphbench_profile`, and `--graphbench-dir` to keep what it measured.

pytest loads it by its entry point, in every run of every project: torch is imported only where the fixture is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from graphbench.api import Profile

OPTION: Final = "--graphbench-dir"
_LONGEST_NAME: Final = 200  # file systems take 255 bytes, and a number and an ending follow
_KEPT: Final = "[]=,+@ "


class ProfileCall:
    """What the fixture gives: call it as `graphbench.profile`.

    Args:
        folder: where profiles of this test go, without ending; `None` for nowhere.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = folder
        self.saved: list[Path] = []

    def __call__(self, fn: Callable[..., Any], *args: Any, **options: Any) -> Profile:
        """Profile a step or a model; see `graphbench.profile`.

        Raises:
            GraphbenchError: what `graphbench.profile` raises, or the profile cannot be saved.
        """
        from graphbench import api

        found = api.profile(fn, *args, **options)
        if self._path is not None:
            number = len(self.saved) + 1
            path = self._path.with_name(self._path.name + (f"-{number}" if number > 1 else "") + ".json")
            path.parent.mkdir(parents=True, exist_ok=True)
            found.save(path, overwrite=True)  # of an earlier run of this very test
            self.saved.append(path)
        return found

    def check(self, profile: Profile, baseline: str | PathLike[str] | Profile, *, allowed: float = 0.05) -> None:
        """Fail the test if anything became slower than in a baseline, beyond the noise and by more than is allowed.

        Judged as by `graphbench diff BASELINE PROFILE --fail-on-regression`.

        Args:
            profile: what was measured.
            baseline: a profile, or the file of one.
            allowed: slowdown that passes, as a fraction: 0.05 for 5 %.

        Raises:
            UsageError: the two cannot be compared, so that nothing was judged.
        """
        __tracebackhide__ = True
        from graphbench import api
        from graphbench.cli.diff import regression

        found = api.diff(baseline, profile)
        slower = regression(found.result, allowed, asked_by="graphbench_profile.check")
        if slower:
            pytest.fail(f"{slower}\n\n{found}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    parser.getgroup("graphbench").addoption(
        OPTION,
        metavar="DIR",
        help="save profiles of the fixture graphbench_profile as DIR/TEST.json, a second one as DIR/TEST-2.json",
    )


@pytest.fixture
def graphbench_profile(request: pytest.FixtureRequest) -> Iterator[ProfileCall]:
    """`graphbench_profile(fn_or_module, *args, **options)` is `graphbench.profile`, in a session of this test's own."""
    from graphbench import api

    folder: str | None = request.config.getoption(OPTION)
    base = None if folder is None else request.config.invocation_params.dir / folder / path_of(request.node.nodeid)
    api.reset()
    yield ProfileCall(base)
    api.reset()


def path_of(test: str) -> Path:
    """Where the profiles of a test go, without ending: `tests/test_a.py::TestB::test_c[1]` is a path of four parts.

    No two tests have one path: what cannot be part of a name is escaped, and what is too long ends in a digest.
    """
    file, *names = test.split("::")
    return Path(*(_name(part) for part in (*file.split("/"), *names)))


def _name(part: str) -> str:
    name = quote(part, safe=_KEPT)
    name = name.replace(".", "%2E") if not name.strip(".") else name  # `.` and `..` are folders already
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 17]}~{hashlib.sha256(part.encode()).hexdigest()[:16]}"
