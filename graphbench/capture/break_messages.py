"""Reads Dynamo's messages about graph breaks: reason, advice, and the name of what it could not trace. No torch import.

Source: `torch._dynamo.exc.format_graph_break_message` and `unimplemented`, torch 2.11, 2.13 and 2.14.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphbench.errors import first_line

FOLLOWED_BY = re.compile(r"\n+\*\*\* While handling this graph break, another graph break occurred: \*\*\*\n+")
HINT = re.compile(r"^ {2}Hint: (.+(?:\n {4}.+)*)", re.MULTILINE)
CONTEXT = re.compile(r"^ {2}Developer debug context: (.*)", re.MULTILINE)
USERS_WORDS = re.compile(r"Message: (?!None$)(.+)$|\(reason: (?!None\))(.+)\)$", re.MULTILINE)
NAMES = (
    re.compile(r"Called `([\w.]+)\(\)`"),
    re.compile(r"call_method \w+\(.*?\) (\w+)"),
    re.compile(r"^method: <.*?>\.(\w+),"),
    re.compile(r"<(?:bound method|built-in function|built-in method|function) ([\w.<>]+)"),
    re.compile(r"builtin (\w+) \["),
    re.compile(r"qualname: ([\w.]+)"),
    re.compile(r"\baten\.(\w+)"),
)
BRANCH = "attempted to jump with"
DISABLED = "`torch.compiler.disable()`d"
FILLER = ("This graph break may have been caused by an earlier graph break.",)
"""How hints begin that say nothing which the reason does not."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a message says. `called` names the call that stopped Dynamo, as Dynamo does, or is empty."""

    reason: str
    hint: str
    called: str = ""
    is_branch: bool = False
    is_disabled: bool = False


def parse(text: str) -> Message:
    """Read one message. Where a break led to another one, the first names what was called, and both are reasons."""
    parts = FOLLOWED_BY.split(text)
    contexts = [match[1] for match in CONTEXT.finditer(parts[0])]
    hints = [" ".join(match[1].split()) for part in parts for match in HINT.finditer(part)]
    return Message(
        reason="; ".join(_reason(part) for part in parts),
        hint=" ".join(dict.fromkeys(hint for hint in hints if not hint.startswith(FILLER))),
        called=next((found for context in contexts if (found := _called(context))), ""),
        is_branch=any(BRANCH in context for context in contexts),
        is_disabled=DISABLED in first_line(parts[0]),
    )


def steps(text: str) -> list[str]:
    """The messages that one after the other grew into this one: Dynamo counts each."""
    ends = [match.start() for match in FOLLOWED_BY.finditer(text)]
    return [*(text[:end] for end in ends), text]


def _reason(part: str) -> str:
    reason = first_line(part)
    if reason.endswith(":"):
        reason = f"{reason} {first_line(part.partition(reason)[2])}"
    words = USERS_WORDS.search(part)
    return f"{reason}: {words[1] or words[2]}" if words else reason


def _called(context: str) -> str:
    return next((match[1] for name in NAMES if (match := name.search(context))), "")
