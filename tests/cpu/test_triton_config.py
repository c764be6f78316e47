"""What is read of Triton's autotuner, on stand-ins with its attributes; tests/gpu reads a real one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphbench.device_records import TritonConfig
from graphbench.inductor.triton_config import triton_config


class Autotuner:
    def __init__(self, *launchers: Any) -> None:
        self.launchers = list(launchers)

    def run(self) -> None:
        pass


def launcher(**others: Any) -> SimpleNamespace:
    config = SimpleNamespace(num_warps=8, num_stages=3, kwargs={"XBLOCK": 1024, "R0_BLOCK": 64})
    return SimpleNamespace(**{"config": config, "n_regs": 40, "n_spills": 0, "shared": 512, **others})


def test_the_chosen_configuration_is_read() -> None:
    assert triton_config(Autotuner(launcher()).run) == TritonConfig(
        num_warps=8,
        num_stages=3,
        blocks=(("XBLOCK", 1024), ("R0_BLOCK", 64)),
        registers=40,
        spills=0,
        shared_bytes=512,
    )


def test_a_count_that_the_compiler_does_not_tell_is_missing_not_zero() -> None:
    found = triton_config(Autotuner(launcher(n_spills=None)).run)
    assert found is not None
    assert found.spills is None


@pytest.mark.parametrize("function", [len, Autotuner().run, Autotuner(launcher(), launcher()).run])
def test_what_is_not_a_tuned_triton_kernel_has_no_configuration(function: Any) -> None:
    assert triton_config(function) is None
