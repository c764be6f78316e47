"""Live steps with what is not plain torch: tensors of other classes, and graphs that another backend compiled."""

from __future__ import annotations

import torch

from tests.cpu.stories import compiled
from tests.live import calls, code_of, gap_rows, recorded

EYE = torch.eye(8)


def square(x: torch.Tensor) -> torch.Tensor:
    return x @ x


# tensor subclasses


def test_what_torch_asks_a_subclass_about_itself_is_no_row() -> None:
    parts = [torch.ones(3, 4), torch.ones(2, 4)]
    ragged = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    doubled = ragged * 2
    assert [entry.op_type for entry in recorded(lambda: doubled + ragged).rows] == ["add"]


def test_a_ragged_view_that_requires_grad_does_not_wait_for_itself() -> None:
    parts = [torch.ones(3, 4), torch.ones(2, 4)]

    def step() -> None:
        ragged = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
        (ragged * 2).sum().backward()

    assert calls(recorded(step), "mul", phase="forward") == 1


# what another backend compiled


def test_what_another_backend_compiled_is_told() -> None:
    model = torch.compile(lambda x: (x.sin() @ x).cos())

    def step() -> None:
        model(EYE)
        EYE.sinh()

    found = recorded(step)
    assert found.compiled
    assert found.notes[0].startswith("compiled graphs that are no regions ran 1x, made by another backend")
    assert [code_of(row) for row in gap_rows(found, "mm")] == ["model = torch.compile(lambda x: (x.sin() @ x).cos())"]


def test_what_graphbench_compiled_is_no_other_backends() -> None:
    model = compiled(square)
    assert not any("another backend" in note for note in recorded(lambda: model(EYE)).notes)
