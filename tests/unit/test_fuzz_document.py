"""Whatever a profile's file holds, reading it gives a profile or a refusal by name: no other error, code, or hang."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbench import document
from graphbench.errors import ProfileFormatError
from graphbench.records import ProfileRecord
from tests.hostile import FIXED, FORGED, RECORDS, mutator, outcome
from tests.samples import cpu_profile

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4),
    max_leaves=20,
)


@settings(FIXED, max_examples=100)
@given(st.text(st.characters()))
def test_text_is_read_or_refused(text: str) -> None:
    assert outcome(lambda: document.loads(text)) is None


@settings(FIXED, max_examples=100)
@given(JSON)
def test_json_is_read_or_refused(value: Any) -> None:
    assert outcome(lambda: document.loads(json.dumps(value))) is None
    fields = {"schema_version": document.SCHEMA_VERSION, "columns": value, "regions": [value]}
    assert outcome(lambda: document.loads(json.dumps(fields))) is None


@settings(FIXED, max_examples=250)
@given(st.sampled_from(RECORDS), st.booleans(), st.randoms(use_true_random=False), st.integers(1, 4))
def test_a_changed_profile_is_read_or_refused(
    make: Callable[[], ProfileRecord], compact: bool, draw: Random, changes: int
) -> None:
    text = json.dumps(mutator(make, compact).mutated(draw, changes))
    record = outcome(lambda: document.loads(text))
    if record is not None:  # and what was read can be written, and reads back as itself
        assert document.loads(document.dumps(record)) == record


@settings(FIXED, max_examples=100)
@given(st.sampled_from(RECORDS), st.randoms(use_true_random=False), st.integers(1, 3))
def test_a_file_with_flipped_bytes_and_no_checksum_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, make: Callable[[], ProfileRecord], draw: Random, changes: int
) -> None:
    content = bytearray(document.dumps(make(), compact=False).encode())
    for _ in range(changes):
        content[draw.randrange(len(content))] = draw.randrange(256)
    file = tmp_path_factory.getbasetemp() / "flipped.json"
    file.write_bytes(content[: draw.randrange(len(content))] if draw.random() < 0.2 else content)
    outcome(lambda: document.read(file))


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"regions":[', '[{"columns":'])
@pytest.mark.parametrize("depth", [900, 100_000])
def test_deep_nesting_is_refused(opening: str, depth: int) -> None:
    with pytest.raises(ProfileFormatError):
        document.loads(opening * depth)


@pytest.mark.parametrize("digits", [5_000, 1_000_000])
def test_an_integer_of_many_digits_is_refused(digits: int) -> None:
    with pytest.raises(ProfileFormatError):
        document.loads(f'{{"schema_version": {"1" * digits}}}')


@pytest.mark.parametrize(
    "path", [("subject",), ("regions", 0, "key"), ("regions", 0, "nodes", 0, "kind"), ("policy", "timer")]
)
def test_a_message_quotes_hostile_text_in_one_short_line(path: tuple[str | int, ...]) -> None:
    plain = json.loads(document.dumps(cpu_profile(), compact=False))
    target = plain
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = {f"\n{FORGED}\x1b[31m\u202e\udcff" + "x" * 5000: 1}
    plain["regions"][0]["nodes"][1]["fate"]["kernels"] = [f"\n{FORGED}" + "x" * 5000]
    with pytest.raises(ProfileFormatError) as caught:
        document.loads(json.dumps(plain))
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 1000
