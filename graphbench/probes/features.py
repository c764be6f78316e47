"""Whether the installed torch has what a feature of graphbench relies on; looked at when it is first used, once."""

from __future__ import annotations

from functools import cache

from graphbench.errors import SetupError
from graphbench.probes.relied_on import FEATURES, FeatureName
from graphbench.supported import CHECKED, NEWEST_TORCH, torch_release

_ASKED: set[FeatureName] = set()
HINT = f"use one of these releases, or a graphbench that is newer: `graphbench doctor` lists what fits ({CHECKED})"


@cache
def faults(name: FeatureName) -> tuple[str, ...]:
    """How the installed torch differs from what a feature relies on, an entry per symbol; empty when it does not."""
    return tuple(fault for probe in FEATURES[name].probes if (fault := probe.fault()))


def why_not(name: FeatureName) -> str:
    """Why a feature cannot be used with the installed torch, as one sentence; "" when it can."""
    _ASKED.add(name)
    found = faults(name)
    if not found:
        return ""
    others = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"torch {_version()} is not as {FEATURES[name].what} needs it: {found[0]}{others}; checked with torch {CHECKED}"
    )


def require(*names: FeatureName) -> None:
    """Go on only if features can be used.

    Raises:
        SetupError: the installed torch differs from what one relies on. The message names feature, release and symbol.
    """
    for name in names:
        reason = why_not(name)
        if reason:
            raise SetupError(reason, hint=HINT, subject=name)


def torch_notes() -> tuple[str, ...]:
    """What a profile has to say of the installed torch: features that were switched off, and that it is newer.

    Of features that nothing asked for so far only a newer torch's are looked at.
    """
    newer = torch_release(_version()) > NEWEST_TORCH
    asked = [name for name in FEATURES if newer or name in _ASKED]
    off = [(name, reason) for name in asked if FEATURES[name].without and (reason := why_not(name))]
    told = [f"{FEATURES[name].without}: {reason}" for name, reason in off]
    if newer:
        count = sum(probe.applies for feature in FEATURES.values() for probe in feature.probes)
        differ = sum(len(faults(name)) for name in FEATURES)
        outcome = f"{differ} of them differ: `graphbench doctor` names them" if differ else "they look as they do there"
        told.append(
            f"torch {_version()} is newer than the releases that graphbench was checked with ({CHECKED}); "
            f"it relies on {count} parts of torch: {outcome}"
        )
    return tuple(told)


def forget() -> None:
    """Look at everything again when it is next asked for."""
    faults.cache_clear()
    _ASKED.clear()


def _version() -> str:
    import torch

    return str(torch.__version__)
