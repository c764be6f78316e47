"""What a profile says of costs is proven when it is read: signs, references, reasons."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.condition_records import Ceiling
from graphbench.cost_checks import check_costs
from graphbench.errors import ProfileFormatError
from graphbench.measurements import Work
from graphbench.records import FusionRefusal, ProfileRecord, Traffic
from tests.factories import ceilings, kernel, node, profile, region, steady, worked


def with_work(work: Work) -> ProfileRecord:
    measured = dataclasses.replace(steady(10.0), work=work)
    return profile(region([node("relu", measured)]))


def with_traffic(traffic: Traffic) -> ProfileRecord:
    return profile(region([], [kernel("mm", 10.0, traffic=(traffic,))]))


def test_costs_that_make_sense_pass() -> None:
    linear = node("linear", worked(steady(10.0), 100, 20, flops=1000))
    traffic = (Traffic(buffer="buf0", writer="forward/mm:0", read_bytes=4), Traffic(buffer="buf1", written_bytes=4))
    kernels = [kernel("mm", 10.0), kernel("relu", 10.0, traffic=traffic)]
    check_costs("p.json", profile(region([linear], kernels), ceilings=ceilings()))


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (Work(read_bytes=-1, written_bytes=0), "at least 0"),
        (Work(flops=-1, arithmetic="float32", read_bytes=0, written_bytes=0), "at least 0"),
        (Work(flops=1, read_bytes=0, written_bytes=0), "arithmetic"),
        (Work(arithmetic="float32", read_bytes=0, written_bytes=0), "arithmetic"),
        (Work(read_bytes=1, reason="half of it"), "one direction"),
        (Work(), "why there are no bytes"),
    ],
)
def test_work_that_makes_no_sense_is_refused(work: Work, message: str) -> None:
    with pytest.raises(ProfileFormatError, match=message):
        check_costs("p.json", with_work(work))


@pytest.mark.parametrize(
    ("traffic", "message"),
    [
        (Traffic(buffer="buf0", read_bytes=-4), "at least 0"),
        (Traffic(buffer="buf0", writer="forward/gone:7", read_bytes=4), "a kernel's key"),
    ],
)
def test_traffic_that_makes_no_sense_is_refused(traffic: Traffic, message: str) -> None:
    with pytest.raises(ProfileFormatError, match=message):
        check_costs("p.json", with_traffic(traffic))


def test_a_refusal_names_kernels_that_are_there() -> None:
    found = region([], [kernel("mm", 10.0)])
    refusal = FusionRefusal(first="forward/mm:0", second="forward/gone:1", reason="no shared data")
    with pytest.raises(ProfileFormatError, match="forward/gone:1"):
        check_costs("p.json", profile(dataclasses.replace(found, refusals=(refusal,))))


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_ceiling_is_above_zero(value: float) -> None:
    entry = Ceiling(device="cpu", kind="copy", value=value, measured="2026-01-02T03:04:05+00:00")
    with pytest.raises(ProfileFormatError, match="above 0"):
        check_costs("p.json", profile(region(), ceilings=(entry,)))


def test_a_device_has_one_ceiling_of_a_kind() -> None:
    with pytest.raises(ProfileFormatError, match="twice"):
        check_costs("p.json", profile(region(), ceilings=(*ceilings(), *ceilings())))
