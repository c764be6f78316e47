"""The part of the proof that a profile is whole which is about costs: work, traffic, refused fusions, ceilings."""

from __future__ import annotations

from collections.abc import Iterator

from graphbench.errors import ProfileFormatError
from graphbench.measurements import Measurement, Work
from graphbench.records import ProfileRecord, RegionRecord

_HINT = "the profile is damaged; measure again"


def check_costs(path: str, record: ProfileRecord) -> None:
    """Prove that costs make sense.

    Sizes and counts are not negative, bytes are known or there is a reason, traffic and refusals name kernels that are
    there, ceilings are above 0, and each device has one of each kind and arithmetic.

    Raises:
        ProfileFormatError: they do not.
    """
    for region in record.regions:
        where = f"regions[{region.key}]"
        for name, measured in _measured(region):
            if measured.work is not None:
                _check_work(path, f"{where}.{name}.work", measured.work)
        _check_traffic(path, where, region)
    _check_ceilings(path, record)


def _measured(region: RegionRecord) -> Iterator[tuple[str, Measurement]]:
    for node in region.nodes:
        yield f"nodes[{node.name}].isolated", node.isolated
        yield f"nodes[{node.name}].backward_isolated", node.backward_isolated
    for entry in region.post_grad:
        yield f"post_grad[{entry.phase}:{entry.name}].isolated", entry.isolated


def _check_work(path: str, where: str, work: Work) -> None:
    counts = [count for count in (work.flops, work.read_bytes, work.written_bytes) if count is not None]
    if any(count < 0 for count in counts):
        raise _fail(path, where, f"{min(counts)}", "numbers of at least 0")
    if (work.flops is None) == bool(work.arithmetic):
        raise _fail(path, f"{where}.arithmetic", repr(work.arithmetic), "one exactly where FLOPs are counted")
    if (work.read_bytes is None) != (work.written_bytes is None):
        raise _fail(path, where, "bytes of one direction", "those of both, or of none")
    if work.read_bytes is None and not work.reason:
        raise _fail(path, f"{where}.reason", "no reason", "why there are no bytes")


def _check_traffic(path: str, where: str, region: RegionRecord) -> None:
    keys = {kernel.key for kernel in region.kernels}
    for kernel in region.kernels:
        here = f"{where}.kernels[{kernel.key}].traffic"
        for entry in kernel.traffic:
            if min(entry.read_bytes, entry.written_bytes) < 0:
                raise _fail(path, here, f"{entry.read_bytes} and {entry.written_bytes} bytes", "at least 0")
            if entry.writer and entry.writer not in keys:
                raise _fail(path, f"{here}.writer", repr(entry.writer), "a kernel's key")
    for refusal in region.refusals:
        for key in (refusal.first, refusal.second):
            if key not in keys:
                raise _fail(path, f"{where}.refusals", repr(key), "a kernel's key")


def _check_ceilings(path: str, record: ProfileRecord) -> None:
    known: set[tuple[str, str, str, int | None]] = set()
    for entry in record.ceilings:
        key = (entry.device, entry.kind, entry.arithmetic, entry.within_bytes)
        if not entry.value > 0:
            raise _fail(path, f"ceilings[{entry.kind}].value", f"{entry.value}", "a number above 0")
        if key in known:
            raise _fail(path, "ceilings", f"{key} twice", "one of each kind")
        known.add(key)


def _fail(path: str, field: str, found: str, expected: str) -> ProfileFormatError:
    return ProfileFormatError(path, field, found, expected, hint=_HINT)
