"""What must hold for every measured model: nothing unattributed, no kernel without owner, no node without fate."""

from __future__ import annotations

from typing import Any

import graphbench
from graphbench.analysis.summary import ProfileSummary, summary
from graphbench.records import ProfileRecord
from tests.suite.models import MODELS, run_once
from tests.suite.owners import executed_times, lacks_of_training, not_once, unowned

MODES = ("inference", "training")


def measured(name: str, mode: str, device: str, **options: Any) -> ProfileRecord:
    """Compile a model of the suite, run it once in a mode, and measure what that ran."""
    graphbench.reset()
    run_once(MODELS[name], mode, device)
    record = graphbench.measure(progress=False, **options).record
    graphbench.reset()
    return record


def faults(record: ProfileRecord, mode: str) -> list[str]:
    """Everything about a profile's map that is not as it must be."""
    found = [] if record.regions else ["no region"]
    for region in record.regions:
        found += [f"{region.key}: no owner of {key}" for key in unowned(region.kernels)]
        counts = not_once(executed_times(region.post_grad, region.kernels))
        found += [f"{region.key}: {name} executed {count} times" for name, count in counts.items()]
        found += [f"{region.key}: {note}" for note in region.notes if "could not be mapped" in note]
        if mode == "training":
            found += [f"{region.key}: {what}" for what in lacks_of_training(region)]
    whole: ProfileSummary = summary(record)
    found += [f"unknown fate of {name}" for name in whole.unknown_fate]
    if whole.coverage.attributed != 1.0 or whole.coverage.dropped:
        found.append(f"attributed {whole.coverage.attributed}, dropped {whole.coverage.dropped}")
    found += [f"no time of {entry.row}: {entry.reason}" for entry in whole.not_measured if entry.status == "failed"]
    return found
