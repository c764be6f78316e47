"""The published JSON Schema: generated, complete, and true of profiles; what it refuses, no reader accepts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbench import document
from graphbench.cli.docs import FOLDER
from graphbench.records import ProfileRecord
from graphbench.report import REPORTERS
from graphbench.report.json_schema import profile_schema, schema_text
from graphbench.report.schema_texts import TEXTS
from tests.factories import profile
from tests.hostile import FIXED, RECORDS, mutator, outcome
from tests.recorded import recorded_profile

jsonschema = pytest.importorskip("jsonschema", reason="needs the extra `test`")

FILE = FOLDER / "profile.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(profile_schema())


def printed(record: ProfileRecord) -> Any:
    """What `graphbench show --format json` prints."""
    return json.loads(REPORTERS["json"].render(record))


def classes(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"ProfileRecord": schema, **schema["$defs"]}


def test_the_packaged_schema_is_the_generated_one(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        FILE.write_text(schema_text(), encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == schema_text(), "run with --update-golden"


def test_it_is_a_schema_of_its_dialect() -> None:
    jsonschema.Draft202012Validator.check_schema(profile_schema())


def test_every_class_and_field_is_described() -> None:
    for name, found in classes(profile_schema()).items():
        assert found["description"], name
        assert {field for field, entry in found["properties"].items() if entry["description"]} == set(TEXTS[name])


def test_no_text_is_of_a_field_that_is_gone() -> None:
    assert set(TEXTS) == set(classes(profile_schema()))


@pytest.mark.parametrize("make", [*RECORDS, recorded_profile], ids=lambda make: make.__name__)
def test_profiles_fit(make: Callable[[], ProfileRecord]) -> None:
    VALIDATOR.validate(printed(make()))


def test_an_empty_profile_fits() -> None:
    VALIDATOR.validate(printed(dataclasses.replace(profile(), notes=("nothing",))))


@settings(FIXED, max_examples=60)
@given(st.sampled_from(RECORDS), st.randoms(use_true_random=False), st.integers(1, 3))
def test_whatever_reads_back_fits(make: Callable[[], ProfileRecord], draw: Random, changes: int) -> None:
    record = outcome(lambda: document.loads(json.dumps(mutator(make, False).mutated(draw, changes))))
    if record is not None:
        VALIDATOR.validate(printed(record))


def removed(plain: Any) -> None:
    del plain["regions"][0]["nodes"][0]["fate"]


def added(plain: Any) -> None:
    plain["regions"][0]["colour"] = "red"


def unknown_word(plain: Any) -> None:
    plain["policy"]["timer"] = "sundial"


def text_for_number(plain: Any) -> None:
    plain["regions"][0]["calls"] = "three"


def older(plain: Any) -> None:
    plain["schema_version"] = 1


def pair_of_three(plain: Any) -> None:
    plain["environment"]["options"] = [["a", "b", "c"]]


@pytest.mark.parametrize("spoil", [removed, added, unknown_word, text_for_number, older, pair_of_three])
def test_a_wrong_profile_does_not_fit(spoil: Callable[[Any], None]) -> None:
    plain = printed(RECORDS[0]())
    spoil(plain)
    assert not VALIDATOR.is_valid(plain)
    with pytest.raises(document.ProfileFormatError):
        document.loads(json.dumps(plain))
