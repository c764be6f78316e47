"""Commands in process groups of their own, with a time limit. Imports no torch."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess

GRACE_S = 10.0
"""How long an interrupted child may take to end its own children."""


class ChildError(RuntimeError):
    """A child process failed, or ran past its limit."""


class TooLongError(ChildError):
    """A child process ran past its limit, and was killed with its children."""


def child(*command: str, limit_s: float) -> str:
    """Standard output of a command in a process group of its own.

    Raises:
        ChildError: it failed, with the end of what it said.
        TooLongError: it ran past `limit_s`.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        out, err = process.communicate()
        said = (out + err)[-1500:]
        raise TooLongError(f"{' '.join(command)}: ran past {limit_s:.0f} s; said last: {said}") from None
    except BaseException:  # an interrupted benchmark leaves no child behind that disturbs the next one
        _kill(process)
        raise
    if process.returncode != 0:
        raise ChildError(f"{' '.join(command)}: exit status {process.returncode}: {(out + err)[-3000:]}")
    return out


def _kill(process: subprocess.Popen[str]) -> None:
    """Interrupt the process, so that it ends children in groups of their own, then kill what is left of its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def find_ncu() -> str | None:
    """Path of Nsight Compute's command line."""
    return shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
