"""Whether a model ran where `--device` says: a time from another device must never be a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from graphbench.errors import CaptureError
from graphbench.models.placement import is_there
from graphbench.regions import Region
from graphbench.session import current
from graphbench.tensors import tensors_of

if TYPE_CHECKING:
    from graphbench.cli.execute import PreparedJob

HINT = "let the model make it with device=x.device of an input, or hold it in a buffer; it was moved with .to()"


def checked_once(call: Callable[[], object], built: PreparedJob) -> Callable[[], object]:
    """The call, which the first time it returns looks where its ops ran."""
    pending = [True]

    def checked() -> object:
        result = call()
        if pending:
            pending.clear()
            check_devices(result, current().regions, built.device, built.subject)
        return result

    return checked


def check_devices(result: object, regions: Sequence[Region], device: torch.device, subject: str) -> None:
    """Refuse what ran on another device than the one that was asked for. Beside a GPU, ops on the CPU are none such.

    Args:
        result: what the model returned.
        regions: the graphs that it ran.
        device: what was asked for.
        subject: the model, for messages.

    Raises:
        CaptureError: an op or a result is on another device, or nothing is on this one.
    """
    places = [(tensor.device, "its result") for tensor in tensors_of(result)]
    places += [place for region in regions for place in _made_by(region)]
    for found, what in places:
        if not is_there(found, device) and found.type != "cpu":
            raise CaptureError(f"{subject}: {what} is on {found}, but --device is {device}", hint=HINT, subject=subject)
    if places and not any(is_there(found, device) for found, _ in places):
        raise CaptureError(
            f"{subject}: everything ran on {places[0][0]}, but --device is {device}",
            hint=f"does the model move its inputs? --device {places[0][0].type} measures it there",
            subject=subject,
        )


def _made_by(region: Region) -> Iterator[tuple[torch.device, str]]:
    for node in region.nodes:
        place = f" ({node.source.file}:{node.source.line})" if node.source is not None else ""
        for spec in node.outputs:
            yield torch.device(spec.device), f"what {node.name} makes{place}"
