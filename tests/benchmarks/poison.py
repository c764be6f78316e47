"""What disturbs the CUPTI timer: the same op must read the same within 1 %, or be refused by name.

One process, in this order: torch.profiler before, inside and around a measurement, another CUPTI client, the timed
code's own external correlation ids, a fork, an attached tool. After every case the undisturbed op is measured again.
Run from the repository root: `python tests/benchmarks/poison.py --output results.json`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from children import ChildError, child
from cupti import cupti
from harness import DEVICE, Report, busy_p50_ns, described, measured, parser, spin, table
from judging import as_expected, refused_by

from graphbench import errors
from graphbench.condition_records import Policy
from graphbench.errors import GraphbenchError
from graphbench.timing import cupti_setup
from graphbench.timing.base import Session
from graphbench.timing.cupti import CuptiTimer

TOLERANCE = 0.01
ELEMENTS = 64 << 20
FORK_LIMIT_S = 10.0
TOOL_LIMIT_S = 60.0
CUSTOM0, CUSTOM2 = 3, 5
"""`CUpti_ExternalCorrelationKind`; the timer's labels are of kind CUSTOM2."""
FOREIGN_ID: Final = 1 << 40
SMALL_ID: Final = 20
"""An id that a session's own labels may have too, if they are counted up from a small number."""
UNDISTURBED = Policy(timer="cupti", cache="warm", values="captured", warmup=5, repeat=50)
FEW = Policy(timer="cupti", cache="warm", values="captured", warmup=1, repeat=10)
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)


class NotTestedError(RuntimeError):
    """The disturbance itself could not be brought about."""


@dataclass(frozen=True, slots=True)
class Case:
    """A disturbed measurement: `run` returns the op's median in nanoseconds or raises.

    `expected` are its outcomes, `same` or `not tested`, and the classes of the errors that may refuse it.
    """

    name: str
    run: Callable[[], float]
    expected: tuple[str, ...]
    cleanup: Callable[[], None] = lambda: None


class Op:
    """An add of 256 MiB per tensor: larger than L2, so that what ran before does not change its time."""

    def __init__(self) -> None:
        self.timer = CuptiTimer(DEVICE, "warm")
        self._x, self._y = (torch.randn(ELEMENTS, device=DEVICE) for _ in range(2))
        self._z = torch.empty_like(self._x)

    def call(self) -> None:
        """The op, once."""
        torch.add(self._x, self._y, out=self._z)

    def p50_ns(self, call: Callable[[], object] | None = None, policy: Policy = UNDISTURBED) -> float:
        """The median of the op, or of a disturbed call of it."""
        return busy_p50_ns(measured(self.timer, "add", call or self.call, policy))

    def profiled(self) -> None:
        """The op inside a torch.profiler session of its own."""
        with torch.profiler.profile():
            self.call()
            torch.cuda.synchronize()

    def after_profiler(self) -> float:
        """The op after a profiler session has ended."""
        self.profiled()
        return self.p50_ns()

    def around_profiler(self) -> float:
        """The op while a profiler session is open."""
        with torch.profiler.profile():
            return self.p50_ns(policy=FEW)

    def with_subscriber(self) -> float:
        """The op while somebody holds CUPTI's callback subscription."""
        with subscriber():
            return self.p50_ns()

    def labelled(self, kind: int, identifier: int) -> None:
        """The op under an external id of its own."""
        cupti.activity_push_external_correlation_id(kind, identifier)
        self.call()
        cupti.activity_pop_external_correlation_id(kind)

    def partly_labelled(self) -> None:
        """The op twice, the second time under an id that another sample's label may have."""
        self.call()
        self.labelled(CUSTOM2, SMALL_ID)

    def never_popped(self) -> None:
        """The op under an external id that stays pushed."""
        cupti.activity_push_external_correlation_id(CUSTOM2, FOREIGN_ID)
        self.call()

    def recorded(self) -> float:
        """The op by the bare timer, without the loop's calls before the session."""

        def body(session: Session) -> None:
            with session.label("add", 0):
                self.call()

        return self.timer.record(body).rows["add"][0].busy_ns


@contextlib.contextmanager
def subscriber() -> Iterator[None]:
    """Hold CUPTI's callback subscription.

    Raises:
        NotTestedError: CUPTI refused, since somebody else holds it (status 39).

    Source: `cuptiSubscribe`, `cuptiUnsubscribe` (cupti_callbacks.h of CUDA 13.0).
    """
    native = ctypes.CDLL(cupti_setup.load().path)
    handle = ctypes.c_void_p()
    ignore = _CALLBACK(lambda *_: None)
    status = native.cuptiSubscribe(ctypes.byref(handle), ignore, None)
    if status != 0:
        raise NotTestedError(f"cuptiSubscribe returned {status}; 39: another client of this process holds it")
    try:
        yield
    finally:
        native.cuptiUnsubscribe(handle)


def pop_everything() -> None:
    """Take back what this thread has pushed and not popped."""
    with contextlib.suppress(cupti.cuptiError):
        for _ in range(10_000):
            cupti.activity_pop_external_correlation_id(CUSTOM2)


def in_fork(run: Callable[[], float]) -> float:
    """What a forked child says of `run`; its error raised here, as far as it has a name of ours.

    Raises:
        GraphbenchError: the child raised one.
        RuntimeError: the child raised anything else, said nothing, or hung.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, json.dumps(outcome_of(run)).encode())
        finally:
            os._exit(0)  # the parent's exit handlers and CUDA context are none of the child's business
    os.close(write_end)
    return told(_read(read_end, pid).decode())


def under(tool: str, *options: str) -> float:
    """What a child process of a CUDA tool says of the undisturbed op.

    Raises:
        NotTestedError: the tool is not there, or its process did not end well.
        GraphbenchError: the child raised one.
        RuntimeError: the child raised anything else.
    """
    path = shutil.which(tool) or shutil.which(tool, path="/usr/local/cuda/bin")
    if path is None:
        raise NotTestedError(f"{tool} is not installed")
    try:
        out = child(path, *options, sys.executable, str(Path(__file__)), "--child", limit_s=TOOL_LIMIT_S)
    except ChildError as error:
        raise NotTestedError(str(error)) from error
    return told(next((line for line in out.splitlines() if line.startswith("{")), ""))


def told(text: str) -> float:
    """The median that another process wrote as JSON; its error raised here, in its own class if that is one of ours."""
    said = json.loads(text or '{"error": "the child said nothing, or hung"}')
    if "ns" in said:
        return float(said["ns"])
    if said.get("outcome") != "refused":
        raise RuntimeError(said["error"])
    name = refused_by(said)
    raise getattr(errors, name)(said["error"].removeprefix(f"{name}: "))


def _read(read_end: int, pid: int) -> bytes:
    """What a child writes until it ends; a child that takes too long is killed."""
    text, end = b"", time.monotonic() + FORK_LIMIT_S
    while select.select([read_end], [], [], max(end - time.monotonic(), 0.0))[0]:
        chunk = os.read(read_end, 65536)
        text += chunk
        if not chunk:
            break
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(read_end)
    os.waitpid(pid, 0)
    return text


def outcome_of(run: Callable[[], float]) -> dict[str, Any]:
    """A number, a refusal by name, or an error of somebody else."""
    try:
        return {"ns": run()}
    except GraphbenchError as error:
        return {"outcome": "refused", "error": described(error)}
    except NotTestedError as error:
        return {"outcome": "not tested", "error": described(error)}
    except Exception as error:  # noqa: BLE001 - an error without a name of ours is what this script looks for
        return {"outcome": "other error", "error": described(error)}


def judged(run: Callable[[], float], reference_ns: float) -> dict[str, Any]:
    """The outcome, where a number within 1 % of the reference is `same` and any other is `wrong`."""
    found = outcome_of(run)
    if "ns" in found:
        found["ratio"] = found["ns"] / reference_ns
        found["outcome"] = "same" if abs(found["ratio"] - 1) <= TOLERANCE else "wrong"
    return found


def disturbed(case: Case, op: Op, reference_ns: float) -> dict[str, Any]:
    """One case: what came of it, and of the undisturbed op afterwards."""
    found = judged(case.run, reference_ns)
    afterwards = judged(op.p50_ns, reference_ns)
    found |= {"expected": list(case.expected), "afterwards": afterwards}
    case.cleanup()
    found["met"] = as_expected(found, case.expected) and afterwards["outcome"] == "same"
    return found


def cases(op: Op) -> list[Case]:
    """All of them, in order."""
    same, refused = ("same",), ("TimingError",)
    return [
        Case("again", op.p50_ns, same),
        Case("subscriber, before any profiler", op.with_subscriber, (*same, *refused)),
        Case("after a profiler session", op.after_profiler, (*same, "ClockError")),
        # It replaces CUPTI's clock and takes its records: whichever is noticed first.
        Case("profiler inside the timed call", lambda: op.p50_ns(op.profiled, FEW), ("ClockError", *refused)),
        Case("profiler around the measurement", op.around_profiler, refused),
        Case("subscriber", op.with_subscriber, (*same, *refused, "not tested")),  # torch.profiler may hold it by now
        Case("ids of kind CUSTOM2", lambda: op.p50_ns(lambda: op.labelled(CUSTOM2, FOREIGN_ID)), refused),
        Case("small ids of kind CUSTOM2", lambda: op.p50_ns(lambda: op.labelled(CUSTOM2, SMALL_ID)), refused),
        Case("small ids of kind CUSTOM2, on a part", lambda: op.p50_ns(op.partly_labelled), refused),
        Case("ids of kind CUSTOM2, never popped", lambda: op.p50_ns(op.never_popped), refused, pop_everything),
        Case("ids of kind CUSTOM0", lambda: op.p50_ns(lambda: op.labelled(CUSTOM0, FOREIGN_ID)), same),
        Case("fork: measure", lambda: in_fork(op.p50_ns), ("SetupError",)),  # by CUDA, before CUPTI is asked
        Case("fork: record", lambda: in_fork(op.recorded), refused),
        Case("ncu attached", lambda: under("ncu", "--profile-from-start", "off"), refused),
        Case("compute-sanitizer attached", lambda: under("compute-sanitizer"), refused),
    ]


def main() -> None:
    """Run every case and write one JSON file."""
    options = parser(__doc__)
    options.add_argument("--child", action="store_true")
    chosen = options.parse_args()
    torch.set_grad_enabled(False)
    op = Op()
    if chosen.child:
        print(json.dumps(outcome_of(op.p50_ns)))
        return
    report = Report(chosen.output)
    spin(1.0)
    before_ns = report.part("before_ns", op.p50_ns)
    rows = []
    for case in cases(op) if before_ns else ():
        found = report.part(case.name, disturbed, case, op, before_ns)
        if found:
            rows.append(
                {
                    "case": case.name,
                    "outcome": found["outcome"],
                    "ratio": found.get("ratio"),
                    "afterwards": found["afterwards"]["outcome"],
                    "met": found["met"],
                    "error": found.get("error", "").splitlines()[:1],
                }
            )
    report.found["met"] = len(rows) == len(cases(op)) and all(row["met"] for row in rows)
    report.write()
    print(table(rows))


if __name__ == "__main__":
    main()
