"""What a model raises when it runs, told in one line: torch's actual complaint, and the place in the user's code."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from graphbench import api
from graphbench.errors import CaptureError, GraphbenchError, first_line

_DYNAMO_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_DYNAMO_OP = re.compile(
    r"(?:run FX node with fake tensors|debug context): call_\w+ (?:<(?:built-in )?(?:function|method) )?([\w.]+)"
)
_WRAPPING = "Dynamo failed to run FX node"
_CACHED_CODE_LENGTH = 40
_TWO_DEVICES = re.compile(r"different devices|same device")  # torch's words, eager and on fake tensors, 2.11 to 2.14
_DEVICE_HINT = "let the model make it with device=x.device of an input, or hold it in a buffer: those follow --device"
_HINT = "does the model run without torch.compile on these inputs? --debug shows the traceback"


class ExplainedCall:
    """The profiled call, whose errors name the model, what was wrong and where.

    Args:
        call: runs the model once.
        subject: what to call the model.
        hint: what to do about an error; by default to make tensors on the right device where it is about those, else
            to try without torch.compile.
    """

    def __init__(self, call: Callable[[], object], subject: str, *, hint: str | None = None) -> None:
        self.returned = False
        self._call = call
        self._subject = subject
        self._hint = hint

    def __call__(self) -> object:
        """Run the model.

        Raises:
            CaptureError: whatever it raised, in one line.
        """
        try:
            result = self._call()
        except GraphbenchError:
            raise
        except Exception as error:
            inner = getattr(error, "inner_exception", None)  # torch wraps what a backend raises
            if isinstance(inner, GraphbenchError):
                raise inner from error
            cause = actual_cause(error)
            devices = _TWO_DEVICES.search(str(cause)) is not None
            raised = f"{type(cause).__name__}{_op(error) if devices else ''}"
            raise CaptureError(
                f"{self._subject}: running it raised {raised}: {first_line(cause)}{_place(error)}",
                hint=self._hint or (_DEVICE_HINT if devices else _HINT),
                subject=self._subject,
            ) from error
        self.returned = True
        return result


def actual_cause(error: BaseException) -> BaseException:
    """What an op said, where Dynamo only tells that running it on fake tensors failed; else the error itself.

    Source: `torch._dynamo.exc.TorchRuntimeError` and the exceptions that led to it (torch 2.13 and 2.14).
    """
    if not isinstance(error, torch._dynamo.exc.TorchRuntimeError):
        return error
    cause: BaseException | None = error
    while cause is not None:
        if not type(cause).__module__.startswith("torch._dynamo") and not str(cause).startswith(_WRAPPING):
            return cause
        cause = cause.__cause__ or cause.__context__
    return error


def _op(error: BaseException) -> str:
    """The op that Dynamo was running, "" where it does not say.

    Source: `torch._dynamo.utils.get_fake_value`, whose messages quote the node, torch 2.11, 2.13 and 2.14.
    """
    found = _DYNAMO_OP.search(str(error))
    return f" in {found[1]}" if found else ""


def _place(error: BaseException) -> str:
    """Where the user's code stood: as Dynamo's text says, else the innermost frame that is the user's.

    Source: `torch._dynamo.exc.augment_exc_message`, "from user code:" and its innermost frame last (torch 2.13).
    """
    told = _DYNAMO_FRAME.findall(str(error).partition("from user code:")[2])
    frames = [(Path(file), line, function) for file, line, function in told]
    raised = traceback.extract_tb(error.__traceback__)
    frames = frames or [(Path(frame.filename), str(frame.lineno), frame.name) for frame in raised]
    own = [frame for frame in frames if _is_users(frame[0])]
    if not own:
        return ""
    file, line, function = own[-1]
    return f" ({file.name}:{line}, in {function})"


def _is_users(file: Path) -> bool:
    """Whether a file is neither torch's, nor graphbench's, nor code that Inductor generated.

    Source: `torch._inductor.codecache.get_path`: `wx/cwxhnpu....py`, a hash in a folder of two of its letters
    (torch 2.13).
    """
    if file.name.startswith("<"):
        return False
    generated = len(file.stem) > _CACHED_CODE_LENGTH and file.parent.name == file.stem[1:3]
    libraries = {Path(torch.__file__).parent, Path(api.__file__).parent}
    return not generated and not libraries & set(file.parents)
