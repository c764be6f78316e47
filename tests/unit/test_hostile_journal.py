"""A run's directory from anybody: its journal is read or refused by name, and no line of it becomes another number."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbench import cli, document
from graphbench.errors import GraphbenchError, ProfileFormatError
from graphbench.measurements import NOT_MEASURED
from graphbench.records import ProfileRecord, RegionRecord, Side
from graphbench.runs.entries import (
    Begun,
    Conditions,
    Entry,
    KnownRegion,
    MeasuredRegion,
    RecordedStep,
    SideRow,
    Started,
    UnitRow,
)
from graphbench.runs.journal import JOURNAL, Contents, Journal, read_journal
from graphbench.runs.partial import read_partial
from tests.hostile import FIXED, RECORDS, Mutator, faults, outcome, renderings
from tests.samples import cpu_profile
from tests.step_samples import training_step

STARTED = Started(
    schema_version=document.SCHEMA_VERSION, graphbench="0.1.0", command=("--model", "hf:gpt2"), folder="/"
)


def entries_of(record: ProfileRecord, command: tuple[str, ...] = STARTED.command) -> Iterator[Entry]:
    """What a run that measured a profile would have noted, its first region done and the others not."""
    yield dataclasses.replace(STARTED, command=command)
    yield Conditions(
        created=record.created,
        subject=record.subject,
        environment=record.environment,
        policy=record.policy,
        breaks=record.breaks,
        recompiles=record.recompiles,
    )
    for index, region in enumerate(record.regions):
        yield from _region_entries(region)
        if index == 0:
            yield MeasuredRegion(region=region)
    if record.step is not None:
        yield RecordedStep(step=record.step)


def _region_entries(region: RegionRecord) -> Iterator[Entry]:
    empty = {"isolated": NOT_MEASURED, "in_graph": NOT_MEASURED}
    nodes = tuple(
        dataclasses.replace(node, **empty, backward_isolated=NOT_MEASURED, backward_in_graph=NOT_MEASURED)
        for node in region.nodes
    )
    kernels = tuple(dataclasses.replace(kernel, **empty) for kernel in region.kernels)
    sides = {name: Side() for name in ("eager", "eager_backward", "forward", "backward")}
    yield KnownRegion(region=dataclasses.replace(region, nodes=nodes, kernels=kernels, **sides))
    yield SideRow(
        region=region.key,
        row="eager",
        side=region.eager,
        rows=tuple((node.name, node.in_graph) for node in region.nodes),
    )
    for row in (*region.nodes, *region.kernels):
        name = getattr(row, "key", None) or row.name
        yield Begun(region=region.key, kind="isolated", row=name)
        yield UnitRow(region=region.key, kind="isolated", row=name, measurement=row.isolated)


def journal_of(folder: Path, *entries: Entry) -> bytes:
    """Write a journal and return its bytes."""
    journal = Journal.open(folder)
    for entry in entries:
        journal.append(entry)
    journal.close()
    return (folder / JOURNAL).read_bytes()


def signed(plain: Any) -> bytes:
    """A line whose checksum fits, whatever it says."""
    text = json.dumps(plain).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def test_every_damaged_journal_loses_its_damaged_lines_and_nothing_else(tmp_path: Path) -> None:
    content = journal_of(tmp_path, *entries_of(training_step()))
    whole, wrong = read_journal(tmp_path).entries, []
    for name, damaged in faults(content, seed=3):
        (tmp_path / JOURNAL).write_bytes(damaged)
        found = outcome(lambda: read_journal(tmp_path)) or Contents(())
        lines = damaged.count(b"\n") if name.startswith("cut") else len(whole) - 2  # a flipped line end costs two lines
        if not set(map(repr, found.entries)) <= set(map(repr, whole)) or len(found.entries) < lines:
            wrong.append(name)
        if len(found.entries) < len(whole) and not found.dropped and not name.startswith("cut"):
            wrong.append(f"{name}: not told")
    assert wrong == []


@pytest.mark.parametrize("make", RECORDS)
def test_a_partial_profile_without_any_one_line_still_adds_up(tmp_path: Path, make: Any) -> None:
    lines = journal_of(tmp_path, *entries_of(make())).splitlines(keepends=True)
    for index in range(2, len(lines)):
        (tmp_path / JOURNAL).write_bytes(b"".join([*lines[:index], *lines[index + 1 :]]))
        document.check(read_partial(tmp_path))


@settings(FIXED, max_examples=120)
@given(st.sampled_from(RECORDS), st.randoms(use_true_random=False))
def test_a_journal_whose_lines_say_anything_is_shown_or_refused(
    tmp_path_factory: pytest.TempPathFactory, make: Any, draw: Random
) -> None:
    folder = tmp_path_factory.mktemp("run")
    lines = [json.loads(line[9:]) for line in journal_of(folder, *entries_of(make())).splitlines()]
    at = draw.randrange(1, len(lines))
    lines[at] = Mutator(lines[at]).mutated(draw, draw.choice([1, 2]))
    if draw.random() < 0.5:
        lines.insert(draw.randrange(len(lines)), draw.choice(lines))
    (folder / JOURNAL).write_bytes(b"".join(map(signed, lines)))
    record = outcome(lambda: read_partial(folder))
    for _, render in renderings(record) if record is not None else ():
        outcome(render)


def test_lines_of_few_bytes_cannot_claim_memory_without_end(tmp_path: Path) -> None:
    content = journal_of(tmp_path, *entries_of(cpu_profile()))
    lines = [signed(["Begun", [{"constant": index, "n": 1_000_000}], {}]) for index in range(1000)]
    (tmp_path / JOURNAL).write_bytes(content + b"".join(lines))
    assert "of constant columns" in " ".join(outcome(lambda: read_journal(tmp_path).dropped) or ())


def test_a_journal_longer_than_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / JOURNAL).open("wb") as stream:
        stream.truncate(document.MAX_FILE_BYTES + 1)
    with pytest.raises(ProfileFormatError, match=r"found a file of 1\.00 GiB"):
        read_journal(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        ("--help",),
        ("--resume", "{folder}"),
        ("--res", "{folder}"),
        ("--model", "hf:gpt2", "--worker", "3:1:/elsewhere"),
        ("--model", "hf:gpt2", "--op", "x"),
        ("--custom-model-file", "evil.py", "--model-class", "Net"),
        (),
    ],
)
def test_a_run_that_a_journal_would_start_otherwise_is_refused(
    tmp_path: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> int:
        raise AssertionError("it was started")

    monkeypatch.setattr("graphbench.cli.run.supervise", never)
    monkeypatch.setattr("graphbench.cli.run.work", never)
    words = tuple(word.format(folder=tmp_path) for word in command)
    journal_of(tmp_path, *entries_of(cpu_profile(), words))
    assert cli.main(["run", "--resume", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.startswith("graphbench: error: ")) == ("", True)


def test_only_the_model_file_that_is_named_again_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []

    def start(run: object, *_: object, **__: object) -> int:
        started.append(run)
        return 0

    monkeypatch.setattr("graphbench.cli.run.supervise", start)
    monkeypatch.setattr("graphbench.cli.run.work", start)
    evil, mine = tmp_path / "evil.py", tmp_path / "mine.py"
    for file in (evil, mine):
        file.write_text("")
    journal_of(tmp_path, *entries_of(cpu_profile(), ("--custom-model-file", str(evil), "--model-class", "Net")))
    resume = ["run", "--resume", str(tmp_path), "--custom-model-file"]
    assert cli.main([*resume, str(mine)]) == 2
    assert started == []
    assert cli.main([*resume, str(evil)]) == 0
    assert len(started) == 1


def test_a_journal_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / JOURNAL).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GraphbenchError):
        Journal.open(tmp_path)
    assert (tmp_path / "elsewhere").read_text() == "mine"


@pytest.mark.parametrize(
    ("saved", "shown"), [("2000-01-01T00:00:00+00:00", True), ("2100-01-01T00:00:00+00:00", False)]
)
def test_a_profile_that_a_run_was_to_replace_is_not_shown_as_that_run_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], saved: str, shown: bool
) -> None:
    journal_of(tmp_path, *entries_of(cpu_profile()))
    document.write(dataclasses.replace(cpu_profile(), created=saved), tmp_path / "profile.json")
    assert cli.main(["show", str(tmp_path)]) == 0
    assert ("a partial profile" in capsys.readouterr().out) is shown


def test_a_partial_profile_says_so_before_its_totals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal_of(tmp_path, *entries_of(cpu_profile()))
    assert cli.main(["show", str(tmp_path)]) == 0
    found = " ".join(capsys.readouterr().out.split())
    told = "warning: a partial profile: the run was cut short; totals are of what it measured (1 of 1 region whole)"
    assert found.count("a partial profile") == found[: found.index("coverage:")].count(told) == 1
