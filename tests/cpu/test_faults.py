"""Whatever is raised while measuring, the process is as it was, and the next measurement finds the same rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.cpu.campaign import OUTCOMES
from tests.cpu.campaign import Outcome as Told
from tests.cpu.faults import (
    Bench,
    Entry,
    Outcome,
    Touchy,
    inject,
    injections_anywhere,
    named_injections,
    on_the_fake_timer,
    table,
)
from tests.cpu.stories import batch, clean


@pytest.fixture(scope="module")
def campaign() -> Iterator[list[Outcome]]:
    """Every fault, one after the other, on one compiled model, with a backward pending all the while."""
    threads = torch.get_num_threads()
    with clean(), on_the_fake_timer():
        torch.manual_seed(0)
        torch.set_num_threads(1)
        try:
            bench = Bench(Touchy(), batch())
            yield list(_outcomes(bench))
        finally:
            torch.set_num_threads(threads)


def _outcomes(bench: Bench) -> Iterator[Outcome]:
    bench.step()
    parameters = list(bench.net.parameters())
    torch.manual_seed(3)
    expected = torch.autograd.grad(bench.model(bench.x).sum(), parameters)
    torch.manual_seed(3)
    pending = bench.model(bench.x).sum()
    yield from _of_one_entry(bench, "measure")
    found = torch.autograd.grad(pending, parameters)
    assert all(map(torch.equal, found, expected)), "the pending backward gives other gradients"
    yield from _of_one_entry(bench, "profile")
    yield from _of_one_entry(bench, "record")


def _of_one_entry(bench: Bench, entry: Entry) -> Iterator[Outcome]:
    bench.call(entry)
    rows = bench.call(entry)
    named = [injection for injection in named_injections() if injection.entry == entry]
    for injection in (*named, *injections_anywhere(bench, entry)):
        yield inject(bench, injection, rows)


def test_every_fault_leaves_the_process_as_it_was(campaign: list[Outcome]) -> None:
    print(table(campaign))  # noqa: T201 - the campaign's table is what a reader of a failure wants
    OUTCOMES.extend(_told(outcome) for outcome in campaign)
    assert {o.injection.name: o.verdict() for o in campaign if o.verdict()} == {}


def _told(outcome: Outcome) -> Told:
    """An outcome for the table of the whole campaign."""
    injection, verdict = outcome.injection, outcome.verdict()
    named = "" if verdict else "raised, or rows with a reason"
    return Told(
        f"{injection.exception.__name__} in {injection.entry}()", injection.name, named, wrong=not outcome.same_rows
    )


def test_the_campaign_has_faults_enough_and_reaches_all_of_them(campaign: list[Outcome]) -> None:
    assert len(campaign) >= 150
    assert all(o.fired for o in campaign)
