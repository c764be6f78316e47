"""Which flags of a run lead to somebody's code. A run that goes on runs it only where it is named again."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from graphbench.cli.execution_flags import INDUCTOR
from graphbench.cli.model_flags import CHECKPOINT, UNSAFE_LOAD
from graphbench.errors import UsageError
from graphbench.models.losses import FLAG as LOSS
from graphbench.models.losses import function_source
from graphbench.models.sources import ModelSource

BESIDE_RESUME: Final = ("custom_model_file", "model", "checkpoint", "unsafe_load", "loss", "inductor")
"""Where arguments keep what may be named again."""


@dataclass(frozen=True, slots=True)
class Code:
    """One thing that runs code.

    `words` name it from any folder, but for modules, which are looked for in `folder`; `name` and `folder` are what has
    to be the same.
    """

    words: tuple[str, ...]
    name: str
    folder: Path | None = None


def code_of(arguments: argparse.Namespace, folder: Path) -> tuple[Code, ...]:
    """The code that a command line runs when it is given in a folder.

    Raises:
        UsageError: a `--loss` that is neither a word nor `MODULE:FUNCTION`.
    """
    found = []
    if arguments.custom_model_file is not None:
        file = str(Path(folder, arguments.custom_model_file).resolve())
        found.append(Code(("--custom-model-file", file), file))
    if arguments.model is not None and ModelSource(name=arguments.model, arguments={}).module_path is not None:
        found.append(Code(("--model", arguments.model), arguments.model, folder.resolve()))
    if arguments.checkpoint is not None and arguments.unsafe_load:
        file = str(Path(folder, arguments.checkpoint).resolve())
        found.append(Code((CHECKPOINT, file, UNSAFE_LOAD), file))
    function = function_source(arguments.loss) if arguments.loss is not None else None
    if function is not None and function.file is not None:
        text = f"{Path(folder, function.file).resolve()}:{function.name}"
        found.append(Code((LOSS, text), text))
    elif function is not None:
        found.append(Code((LOSS, arguments.loss), arguments.loss, folder.resolve()))
    # Some of Inductor's options name compilers, which are programs that run.
    found += [Code((INDUCTOR, text), f"{INDUCTOR} {text}") for text in arguments.inductor]
    return tuple(found)


def check_named_again(given: argparse.Namespace, wanted: Sequence[Code], run: Path) -> None:
    """Refuse to run code because a journal says so, and flags beside `--resume` that name other code.

    Args:
        given: the command line with `--resume`.
        wanted: the code that the run was started with.
        run: its directory.

    Raises:
        UsageError: naming what is missing, or what is given beside.
    """
    named = code_of(given, Path.cwd())
    allowed = {(code.words[0], code.name, code.folder) for code in named}
    lacking = [code.name for code in wanted if (code.words[0], code.name, code.folder) not in allowed]
    if lacking:
        raise UsageError(
            f"the run of {run} runs the code of {' and '.join(lacking)}: name it again to allow it",
            hint=resume_command(run, wanted),
            subject=lacking[0],
        )
    known = {word for code in wanted for word in code.words}
    for name in BESIDE_RESUME:
        flag = f"--{name.replace('_', '-')}"
        if getattr(given, name) and flag not in known:
            raise not_beside_resume(flag)
    for code in named:
        if (code.words[0], code.name) not in {(other.words[0], other.name) for other in wanted}:
            raise not_beside_resume(" ".join(code.words))


def not_beside_resume(flag: str) -> UsageError:
    """The error for an option that a run which goes on cannot have."""
    return UsageError(
        f"{flag} with --resume: a run goes on with the options that it was started with",
        hint=f"leave out {flag}, or start a new run",
        subject=flag,
    )


def resume_command(run: Path, code: Sequence[Code]) -> str:
    """The command that goes on with a run, and allows its code."""
    folder = next((each.folder for each in code if each.folder is not None), None)
    words = shlex.join(["graphbench", "run", "--resume", str(run), *(word for each in code for word in each.words)])
    return words if folder is None or folder == Path.cwd() else f"cd {shlex.quote(str(folder))} && {words}"
