"""The pytest plugin: what the fixture calls, where it saves, and that no torch is imported for who does not use it."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from graphbench import document
from graphbench.plugins.pytest_plugin import path_of
from tests.factories import node, profile, region

pytest_plugins = ("pytester",)

STUBS = """\
import sys
import pytest
from graphbench import api
from graphbench.document import read

EVENTS = []

@pytest.fixture(autouse=True)
def no_torch(monkeypatch):
    monkeypatch.setattr(api, "reset", lambda: EVENTS.append("reset"))
    monkeypatch.setattr(api, "profile", lambda fn, *args, **options: EVENTS.append((args, options)) or made(fn))

def made(fn):
    return api.Profile(read(fn()))
"""


@pytest.fixture
def inner(pytester: pytest.Pytester, tmp_path: Path) -> pytest.Pytester:
    """A project whose tests profile by reading `after.json`, which is twice as slow as `before.json`."""
    for name, ns in (("before", 100.0), ("after", 200.0)):
        document.write(profile(region([node("relu", ns)])), tmp_path / f"{name}.json")
    pytester.makeconftest(
        f"{STUBS}\nAFTER, BEFORE = {str(tmp_path / 'after.json')!r}, {str(tmp_path / 'before.json')!r}\n"
    )
    return pytester


def run(inner: pytest.Pytester, *words: str) -> pytest.RunResult:
    registered = importlib.metadata.entry_points(group="pytest11", name="graphbench")
    plugin = "graphbench" if registered else "graphbench.plugins.pytest_plugin"
    return inner.runpytest_subprocess("-p", plugin, *words)


def test_the_fixture_profiles_in_a_session_of_its_own(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        """
        import conftest

        def test_it(graphbench_profile):
            found = graphbench_profile(lambda: conftest.AFTER, 1, 2, repeat=3)
            assert found.record.regions[0].nodes[0].name == "relu"
            assert conftest.EVENTS == ["reset", ((1, 2), {"repeat": 3})]
            assert graphbench_profile.saved == []

        def test_afterwards():
            assert conftest.EVENTS[-1] == "reset"
        """
    )
    run(inner).assert_outcomes(passed=2)


def test_profiles_are_saved_under_the_tests_id_and_numbered(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        test_speed="""
        import conftest, pytest

        class TestModel:
            @pytest.mark.parametrize("size", ["a/b", "2"])
            def test_step(self, graphbench_profile, size):
                for _ in range(2):
                    graphbench_profile(lambda: conftest.AFTER)
        """
    )
    for _ in range(2):  # a second run writes its own files again
        run(inner, "--graphbench-dir", "kept").assert_outcomes(passed=2)
    folder = inner.path / "kept" / "test_speed.py" / "TestModel"
    names = ["test_step[2]-2.json", "test_step[2].json", "test_step[a%2Fb]-2.json", "test_step[a%2Fb].json"]
    assert sorted(file.name for file in folder.iterdir()) == names
    assert document.read(folder / names[0]).regions[0].nodes[0].name == "relu"


def test_nothing_is_saved_without_the_option(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        "import conftest\ndef test_it(graphbench_profile):\n    graphbench_profile(lambda: conftest.AFTER)"
    )
    run(inner).assert_outcomes(passed=1)
    assert list(inner.path.rglob("*.json")) == []


def test_a_regression_fails_the_test_and_says_which_row(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        """
        import conftest

        def test_slower(graphbench_profile):
            graphbench_profile.check(graphbench_profile(lambda: conftest.AFTER), conftest.BEFORE)

        def test_faster(graphbench_profile):
            graphbench_profile.check(graphbench_profile(lambda: conftest.BEFORE), conftest.AFTER)

        def test_allowed(graphbench_profile):
            graphbench_profile.check(graphbench_profile(lambda: conftest.AFTER), conftest.BEFORE, allowed=2.0)
        """
    )
    result = run(inner)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*regression: r0/relu: 100*before, 200*after, 100*slower; allowed are 5*"])


def test_torch_is_not_imported_for_tests_that_do_not_use_it(inner: pytest.Pytester) -> None:
    inner.makepyfile("import sys\ndef test_it():\n    assert not {'torch', 'numpy', 'networkx'} & set(sys.modules)")
    run(inner).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("test", "path"),
    [
        ("tests/test_a.py::test_b", "tests/test_a.py/test_b"),
        ("test_a.py::TestB::test_c[1-x]", "test_a.py/TestB/test_c[1-x]"),
        ("test_a.py::test_b[../../etc]", "test_a.py/test_b[..%2F..%2Fetc]"),
        ("../test_a.py::test_b", "%2E%2E/test_a.py/test_b"),
        ("test_a.py::test_b[ä%]", "test_a.py/test_b[%C3%A4%25]"),
    ],
)
def test_the_path_of_a_test_stays_inside_the_folder_and_can_be_read(test: str, path: str) -> None:
    assert path_of(test) == Path(path)


def test_long_names_that_begin_alike_have_paths_of_their_own() -> None:
    paths = [path_of(f"test_a.py::test_b[{'x' * 400}{last}]") for last in "ab"]
    assert paths[0] != paths[1]
    assert max(len(part) for path in paths for part in path.parts) <= 200
