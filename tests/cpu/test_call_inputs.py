"""What a profile says of the call that it is of."""

from __future__ import annotations

import torch

import graphbench
from graphbench.measuring.call_inputs import input_records
from graphbench.tensors import spec_of


def test_tensors_have_specs_and_other_values_are_kept() -> None:
    x, y = torch.ones(2, 3), torch.ones(4, dtype=torch.int64)
    found = input_records((x, [y, 2]), {"scale": 0.5, "kind": torch.float32})
    assert [(entry.name, entry.source, entry.kind, entry.spec, entry.value) for entry in found] == [
        ("0", "args[0]", "tensor", spec_of(x), None),
        ("1[0]", "args[1][0]", "tensor", spec_of(y), None),
        ("1[1]", "args[1][1]", "value", None, 2),
        ("scale", "kwargs['scale']", "value", None, 0.5),
        ("kind", "kwargs['kind']", "value", None, "torch.float32"),
    ]


def test_what_json_has_no_number_for_is_a_text() -> None:
    found = input_records((float("nan"), float("inf"), 1 << 70), {})
    assert [entry.value for entry in found] == ["nan", "inf", str(1 << 70)]


def test_a_profile_of_a_step_says_what_the_step_was_called_with() -> None:
    x = torch.ones(2, 3)
    profile = graphbench.profile(torch.relu, x, warmup_steps=1, warmup_ms=0, repeat=1, ceilings="off", progress=False)
    assert [(entry.name, entry.spec) for entry in profile.record.inputs] == [("0", spec_of(x))]
