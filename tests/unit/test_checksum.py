"""What was written reads back as the very same record or is refused: no flipped bit becomes another number."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphbench import document
from graphbench.errors import ProfileFormatError
from graphbench.records import ProfileRecord
from tests.factories import measurement, node, profile, region
from tests.samples import cpu_profile, gpu_profile

DAMAGED = "damaged or edited after it was written"
FAULTS = 200


def packed_profile() -> ProfileRecord:
    """A profile with packed columns, where most flips leave valid JSON of the right types."""
    return profile(region([node(f"n{i}", measurement(*(1000.0 + i * k for k in range(100)))) for i in range(20)]))


def faults(content: bytes, seed: int) -> Iterator[tuple[str, bytes]]:
    """Seeded damages of a file: most of them one flipped bit, some a cut."""
    draw = random.Random(seed)
    for index in range(FAULTS):
        at = draw.randrange(len(content))
        if index % 4 == 3:
            yield f"cut after {at} bytes", content[:at]
            continue
        bit = draw.randrange(8)
        yield f"bit {bit} of byte {at}", content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def test_the_checksum_is_the_first_field_of_a_saved_profile() -> None:
    text = document.dumps(cpu_profile())
    assert next(iter(json.loads(text))) == "sha256"
    assert text.startswith('{"sha256":"')


@pytest.mark.parametrize("make", [cpu_profile, gpu_profile, packed_profile])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_flipped_bit_and_every_cut_is_refused_by_name(make: object, seed: int, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    document.write(make(), file)  # type: ignore[operator]
    whole, wrong = document.read(file), []
    for name, content in faults(file.read_bytes(), seed):
        file.write_bytes(content)
        try:
            if document.read(file) != whole:
                wrong.append(f"{name}: another record")
        except ProfileFormatError as error:
            if str(file) not in error.message:
                wrong.append(f"{name}: {error.message}")
    assert wrong == []


def test_another_number_in_a_packed_column_is_told_as_damage() -> None:
    text = document.dumps(packed_profile())
    start = text.index('{"u2":"') + len('{"u2":"')
    other = "B" if text[start] == "A" else "A"
    with pytest.raises(ProfileFormatError, match=DAMAGED) as caught:
        document.loads(text[:start] + other + text[start + 1 :])
    assert "remove the field sha256" in (caught.value.hint or "")


def test_a_profile_that_was_edited_on_purpose_reads_without_the_field() -> None:
    plain = json.loads(document.dumps(cpu_profile()))
    plain["subject"] = "renamed"
    with pytest.raises(ProfileFormatError, match=DAMAGED):
        document.loads(json.dumps(plain))
    del plain["sha256"]
    assert document.loads(json.dumps(plain, indent=2)).subject == "renamed"


@pytest.mark.parametrize("digest", [None, 3, "", "0" * 64, ["x"], {"a": "b"}, "\ud800"])
def test_a_checksum_that_is_none_is_refused(digest: object) -> None:
    plain = json.loads(document.dumps(cpu_profile()))
    with pytest.raises(ProfileFormatError, match=DAMAGED):
        document.loads(json.dumps({**plain, "sha256": digest}))


def test_the_plain_form_is_for_other_programs_and_has_none() -> None:
    assert "sha256" not in json.loads(document.dumps(cpu_profile(), compact=False))


def test_text_that_utf_8_lacks_and_that_a_terminal_obeys_is_written_escaped_and_reads_back_equal(
    tmp_path: Path,
) -> None:
    hostile = "\udcff \x9b31m \u202e \u2028 \x7f é 漢"  # a file name that is no UTF-8 has lone surrogates
    record = profile(region([node("a", 5.0)]), subject=hostile)
    for compact in (True, False):
        text = document.dumps(record, compact=compact)
        assert not any(character in text for character in "\udcff\x9b\u202e\u2028\x7f")
        assert document.loads(text) == record
    document.write(record, tmp_path / "p.json")
    assert document.read(tmp_path / "p.json") == record
