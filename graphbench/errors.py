"""Every error that graphbench raises, as one tree. Only `cli.main` prints them.

GraphbenchError                 base: message, hint, exit code 1
├─ UsageError                   a wrong option, argument or path                       exit 2
├─ SetupError                   torch, compiler, CUDA or CUPTI missing or unfit        exit 3
├─ CaptureError                 nothing was captured, or the user's code raised
├─ ProvenanceError              Inductor's graph does not fit what was compiled
├─ IsolationError               a node or kernel call cannot be run alone
│  └─ DoesNotFitError           its copies need more memory than there is
├─ TimingError                  a measurement that must not become a number
│  ├─ RecordsLostError          the instrument dropped records
│  ├─ OffThreadLaunchError      kernels that no label claims
│  ├─ AttributionError          a call without a kernel, or a kernel without a call
│  └─ ClockError                the instrument's clock is not in nanoseconds
├─ FaultError                   what kept a unit from being measured: the row says so, the run goes on
│  ├─ RaisedError               it raised, the code of an op say
│  ├─ UnitTimeoutError          it took longer than it may
│  └─ ContextLostError          the device cannot be used any more in this process
├─ JournalError                 a run's journal that cannot be written
├─ ProfileFormatError           a profile that cannot be read
└─ ConservationError            a profile whose rows do not add up
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graphbench.plaintext import clean_lines, quoted

_QUOTED = 300  # characters of what a message quotes of a profile


class GraphbenchError(Exception):
    """Base of all graphbench errors. Message and hint are safe to print, whatever they quote.

    Args:
        message: what failed, on which subject, what was found and what was expected.
        hint: what to do next, or `None`.
        subject: the region, node, kernel, file or option concerned, or `None`.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, subject: str | None = None) -> None:
        super().__init__(clean_lines(message))
        self.message = clean_lines(message)
        self.hint = None if hint is None else clean_lines(hint)
        self.subject = subject

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class UsageError(GraphbenchError):
    """An option, argument or path that cannot be used as given."""

    exit_code = 2


class SetupError(GraphbenchError):
    """The machine or an installed package lacks something that graphbench needs."""

    exit_code = 3


class CaptureError(GraphbenchError):
    """No graph was captured, or the user's own code raised while it ran."""


class ProvenanceError(GraphbenchError):
    """Inductor's records do not fit the graph that was compiled."""


class IsolationError(GraphbenchError):
    """A node or kernel call cannot be run alone on pooled tensors."""


class DoesNotFitError(IsolationError):
    """What a call needs beside its own tensors is more than the memory that is left."""


class TimingError(GraphbenchError):
    """A measurement failed in a way that must not become a number."""


class RecordsLostError(TimingError):
    """The instrument reported lost records, also after re-measuring with larger buffers."""


class OffThreadLaunchError(TimingError):
    """Device work that no label claims: something launched outside the labelled call."""


class AttributionError(TimingError):
    """A labelled call launched nothing although it must, or records contradict each other."""


class ClockError(TimingError):
    """The instrument's time stamps are not nanoseconds of the host's clock."""


class FaultError(GraphbenchError):
    """What kept a unit from being measured. Its row carries the message; the other rows are measured."""


class RaisedError(FaultError):
    """A unit raised something of its own: neither for want of memory nor because the device is lost."""


class UnitTimeoutError(FaultError):
    """A unit took longer than `unit_timeout_s`."""


class ContextLostError(FaultError):
    """The device's context is broken, by a device-side assert say: nothing runs on it any more in this process."""


class JournalError(GraphbenchError):
    """A run's journal cannot be written, on a full disk say."""


class ProfileFormatError(GraphbenchError):
    """A saved profile is unreadable, of a newer schema, or has a wrong field.

    Args:
        path: file that was read.
        field: dotted path of the offending field, or `None` for the whole file.
        found: what was there.
        expected: what should have been there.
    """

    def __init__(self, path: str, field: str | None, found: str, expected: str, *, hint: str | None = None) -> None:
        where = f"{path}: {quoted(field, _QUOTED)}" if field else path
        found, expected = quoted(found, _QUOTED), quoted(expected, 2 * _QUOTED)
        super().__init__(f"{where}: found {found}, expected {expected}", hint=hint, subject=path)
        self.path = path
        self.field = field


class ConservationError(GraphbenchError):
    """Rows of a profile do not add up to the total that they belong to."""


@contextmanager
def raised_by(what: str, *, hint: str, subject: str) -> Iterator[None]:
    """Say of whatever the user's code raises inside who raised it; `what` begins the message.

    Raises:
        CaptureError: anything but graphbench's own errors and interrupts was raised inside.
    """
    try:
        yield
    except GraphbenchError:
        raise
    except Exception as error:
        message = f"{what} raised {type(error).__name__}: {first_line(error)}"
        raise CaptureError(message, hint=hint, subject=subject) from error


def first_line(text: object) -> str:
    """The first line of somebody else's error or reason that says something, or a stand-in.

    One that ends in a colon says something only together with the next.
    """
    lines = (line.strip() for line in str(text).splitlines() if line.strip())
    first = next(lines, "no message")
    return f"{first} {next(lines, '')}".rstrip() if first.endswith(":") else first
