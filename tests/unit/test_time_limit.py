"""The limit on a piece of work: what it stops, and what is no fault of the work."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from graphbench.errors import UnitTimeoutError
from graphbench.measuring.time_limit import time_limit

SUSPENDED = """
import os, signal, time
from graphbench.measuring.time_limit import time_limit
with time_limit(1.0):
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.05)
print("done")
"""


def test_work_that_sleeps_is_stopped() -> None:
    start_s = time.monotonic()
    with pytest.raises(UnitTimeoutError, match=r"not done after 0\.2 s"), time_limit(0.2):
        time.sleep(60)
    assert time.monotonic() - start_s < 30


def test_a_call_that_hears_no_signal_is_found_to_have_taken_too_long() -> None:
    with pytest.raises(UnitTimeoutError, match=r"not done after 0\.05 s"), time_limit(0.05):
        sum(range(30_000_000))


def test_work_that_swallows_the_interrupt_is_found_to_have_taken_too_long() -> None:
    swallowing = contextlib.suppress(BaseException)
    with pytest.raises(UnitTimeoutError, match=r"not done after 0\.05 s"), time_limit(0.05), swallowing:
        time.sleep(60)


def test_the_time_for_which_the_process_was_suspended_does_not_count() -> None:
    process = subprocess.Popen([sys.executable, "-c", SUSPENDED], stdout=subprocess.PIPE, text=True)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    time.sleep(1.5)
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "done\n")
