"""The runner of the benchmarks: what is run, what is kept, and what the table says of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.catalogue import BENCHMARKS, Benchmark
from tests.benchmarks.children import ChildError, TooLongError, child
from tests.benchmarks.findings import Bar, Finding, Found
from tests.benchmarks.results_file import Part, Results, ResultsError, continued, read, rows, text, unmet, write
from tests.benchmarks.runner import Budget, machine_name, plan, run_all, run_one

ROOT = Path(__file__).parents[2]
HERE = {"python": "3.11.7", "torch": "2.13.0+cpu", "cores": 2}
LATER = "2026-01-01T00:00:00+00:00"


def judge(found: Found) -> tuple[Finding, ...]:
    return (Finding(f"{found['x']}", found["x"] <= 1),)


def benchmark(name: str, seconds: float = 10.0, needs: tuple[str, ...] = ()) -> Benchmark:
    return Benchmark(
        name=name,
        bars=(Bar(f"what {name} is", "<= 1"),),
        command=("script.py", name, "--device", "{device}", "--output", "{output}"),
        judge=judge,
        seconds=seconds,
        limit_s=50.0,
        needs=needs,
    )


class Scripts:
    """Stands for child processes: each writes what it is told to, and may then fail."""

    def __init__(self, **results: Any) -> None:
        self.ran: list[str] = []
        self.limits: list[float] = []
        self.devices: list[str] = []
        self._results = results

    def __call__(self, *command: str, limit_s: float) -> str:
        _, _, name, _, device, _, output = command
        self.ran.append(name)
        self.limits.append(limit_s)
        self.devices.append(device)
        found = self._results.get(name, {"x": 1})
        if isinstance(found, Exception):
            raise found
        Path(output).write_text(found if isinstance(found, str) else json.dumps(found))
        return ""


def script(folder: Path) -> Path:
    """A folder that has the script, empty."""
    (folder / "script.py").touch()
    return folder


def test_a_script_that_is_not_there_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    todo, left = plan(Results(HERE, []), [benchmark("a")], again=False, has=[])
    assert todo == []
    assert left[0].startswith("a: script.py is not there")


def quiet(_: str) -> None:
    pass


def part(x: float, error: str = "") -> Part:
    return Part({"x": x}, 1.0, LATER, error)


def test_each_result_is_written_as_soon_as_it_is_there(tmp_path: Path) -> None:
    results, output = Results(HERE, []), tmp_path / "results.json"
    scripts = Scripts(b=KeyboardInterrupt())

    def run(*command: str, limit_s: float) -> str:
        if command[2] == "b":
            raise KeyboardInterrupt
        return scripts(*command, limit_s=limit_s)

    with pytest.raises(KeyboardInterrupt):
        run_all(results, [benchmark("a"), benchmark("b")], Budget(None), output, quiet, run)
    assert dict(read(output).parts["a"].found) == {"x": 1}


def test_what_does_not_fit_into_the_budget_is_left_and_a_shorter_one_behind_it_is_run(tmp_path: Path) -> None:
    scripts = Scripts()
    todo = [benchmark("long", seconds=40), benchmark("short", seconds=20)]
    run_all(Results(HERE, []), todo, Budget(30, clock=lambda: 0.0), tmp_path / "results.json", quiet, scripts)
    assert (scripts.ran, scripts.limits) == (["short"], [30.0])  # its own limit is longer than the budget


def test_a_script_runs_on_the_gpu_where_there_is_one() -> None:
    scripts = Scripts()
    run_one(benchmark("a"), ["gpu"], 10.0, scripts)
    run_one(benchmark("a"), [], 10.0, scripts)
    assert scripts.devices == ["cuda", "cpu"]


def test_a_finished_part_is_kept_unless_it_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(script(tmp_path))
    results = Results(HERE, [], {"a": part(1), "b": part(1, error="died")})
    chosen = [benchmark("a"), benchmark("b"), benchmark("c")]
    assert [one.name for one in plan(results, chosen, again=False, has=[])[0]] == ["b", "c"]
    assert [one.name for one in plan(results, chosen, again=True, has=[])[0]] == ["a", "b", "c"]


def test_what_a_machine_lacks_is_not_run_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = benchmark("a", needs=("gpu", "ncu"))
    monkeypatch.chdir(script(tmp_path))
    assert plan(Results(HERE, []), [lacking], again=False, has=[])[1] == ["a: needs a CUDA GPU"]
    assert plan(Results(HERE, []), [lacking], again=False, has=["gpu"])[1] == ["a: needs ncu (Nsight Compute)"]
    assert rows(Results(HERE, []), [lacking])[0].finding == Finding("", None, "needs a CUDA GPU")


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (ChildError("exit status 1: Boom"), "exit status 1: Boom"),
        (TooLongError("killed"), "did not end within 10 s"),
        ("{", "wrote results that are no JSON"),
    ],
)
def test_a_script_that_fails_says_why(result: object, error: str) -> None:
    assert error in run_one(benchmark("a"), [], 10.0, Scripts(a=result)).error


def test_what_a_script_found_before_it_died_may_miss_a_bar_but_meets_none() -> None:
    one = [benchmark("a")]
    died = {x: rows(Results(HERE, [], {"a": part(x, error="died")}), one)[0].finding for x in (1, 2)}
    assert died == {1: Finding("1", None, "died"), 2: Finding("2", False)}


def test_a_result_that_cannot_be_judged_is_no_finding() -> None:
    results = Results(HERE, [], {"a": Part({}, 1.0, LATER)})
    assert "cannot be judged" in rows(results, [benchmark("a")])[0].finding.why


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results = Results(HERE, ["gpu"], {"idle": part(1)}, {"a row": "why it is slow"})
    write(results, path)
    assert read(path) == results


def test_numbers_of_another_environment_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write(Results(HERE, [], {"idle": part(1)}), path)
    assert continued(path, HERE, []).finished("idle")
    with pytest.raises(ResultsError, match=r"torch 2\.13\.0\+cpu there, 2\.14\.1 here"):
        continued(path, HERE | {"torch": "2.14.1"}, [])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 2, "parts": {}}'])
def test_a_file_that_is_none_of_results_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(ResultsError):
        read(path)


def test_the_table_shows_a_note_beside_what_it_is_about() -> None:
    results = Results(HERE, ["gpu"], notes={"record decoding, buffers made up": "a slow host"})
    assert text(results).endswith("record decoding, buffers made up: a slow host")


def test_parts_that_shared_the_machine_are_named_below_the_table() -> None:
    parts = {"idle": replace(part(1), load=2.1), "compile": replace(part(1), load=1.9)}
    assert text(Results(HERE, [], parts)).endswith("exceeded the 2 cores, so far from idle: idle (2.1)")


def test_a_missed_bar_and_a_failed_script_are_unmet_and_what_never_ran_is_not() -> None:
    slow = Part({"idle": {"ratio": 1.03, "control_ratio": 1.0}}, 1.0, LATER)
    (missed,) = unmet(Results(HERE, [], {"idle": slow}))
    assert missed.startswith("steady step")
    (failed,) = unmet(Results(HERE, [], {"supervision": Part({}, 1.0, LATER, "died")}))
    assert failed.startswith("supervisor")
    assert unmet(Results(HERE, [])) == []


def test_results_are_named_by_gpu_or_cores_and_torch() -> None:
    assert machine_name(HERE) == "cpu2_torch2.13"
    assert machine_name({"torch": "2.11.0+cu130", "gpu": "NVIDIA H200"}) == "h200_torch2.11"
    assert machine_name({"torch": "2.11.0", "gpu": "NVIDIA A100-SXM4-80GB"}) == "a100-sxm4-80gb_torch2.11"


def test_no_row_has_the_name_of_another_one() -> None:
    names = [bar.what for one in BENCHMARKS for bar in one.bars]
    assert len(names) == len(set(names))


def test_every_benchmark_has_its_script() -> None:
    missing = [one.name for one in BENCHMARKS if not (ROOT / one.command[0]).is_file()]
    assert missing in ([], ["memory"])  # which is being written


def test_every_benchmark_fits_into_ten_minutes() -> None:
    assert [one.name for one in BENCHMARKS if not one.seconds <= one.limit_s <= 560] == []


def test_a_child_that_runs_too_long_is_killed_with_children_of_its_own_that_have_another_group(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    inner = f"import time, pathlib; time.sleep(2); pathlib.Path({str(marker)!r}).touch()"
    outer = (
        f"import sys; from tests.benchmarks.children import child; child(sys.executable, '-c', {inner!r}, limit_s=60)"
    )
    with pytest.raises(TooLongError, match="ran past 1 s"):
        child(sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {outer}", limit_s=1.0)
    time.sleep(1.5)
    assert not marker.exists()


def test_a_report_imports_no_torch(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write(Results(HERE, []), path)
    code = f"import sys; from tests.benchmarks.__main__ import main; main(['--report', {str(path)!r}])"
    said = subprocess.run(
        [sys.executable, "-c", f"{code}; print('torch' in sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.splitlines()[-1] == "False"
