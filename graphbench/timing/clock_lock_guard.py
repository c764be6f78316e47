"""The guardian of a locked GPU clock: a process that outlives the one that locks it, and lets the clock go.

    python -m graphbench.timing.clock_lock_guard UUID PARENT

It says `ready` on stdout, then waits for a line on stdin or for the end of the process PARENT, however that ends.
Unless the line is `dismiss`, it resets the clock. When that fails it says why, and its exit status is 1. No torch
import.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import Final

from graphbench.errors import SetupError
from graphbench.timing.nvml import Nvml

READY: Final = "ready\n"
DISMISS: Final = "dismiss\n"
RESTORE: Final = "restore\n"

_LINE_BYTES: Final = 64
_LOOK_S: Final = 0.2


def main(uuid: str, parent: int) -> int:
    """Guard the clock of one GPU on behalf of the process `parent`. Returns the exit status."""
    # What ends a whole job is sent to this process as well: the parent ends of it, and then there is something to do.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    try:
        nvml = Nvml(uuid)
        _tell(READY)
        if _last_word(parent) != DISMISS:
            nvml.reset_sm_clock()
    except SetupError as error:
        if os.getppid() == parent:
            _tell(f"{error.message}\n")
        else:  # Nobody else is left to tell the user.
            sys.stderr.write(f"graphbench: {error.message}\n  hint: {by_hand(uuid)}\n")
        return 1
    return 0


def by_hand(uuid: str) -> str:
    """What a user does when nothing else could let the clock go."""
    return f"reset it by hand: sudo nvidia-smi -i {uuid} -rgc"


def _tell(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def _last_word(parent: int) -> str:
    """The parent's line, empty when it is gone.

    The end of the pipe does not come when the parent leaves a forked child, which still holds it open: so the parent is
    looked for as well.
    """
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], _LOOK_S)
        if readable:
            return os.read(sys.stdin.fileno(), _LINE_BYTES).decode()
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
