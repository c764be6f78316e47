"""Finds in the user's source what a graph break names: the expression at a position, or the call of a name on a line.

No torch import. Source that cannot be read or parsed gives no cause.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from functools import lru_cache

from graphbench.capture.break_messages import Message

LONGEST = 100
CONVERSIONS = ("bool", "complex", "float", "int")
"""Builtins that read a tensor's value, which Dynamo reports as `item`."""


def code_at(file: str, line: int) -> str:
    """The source line, or nothing when the source is not there."""
    return linecache.getline(file, line).strip()


def at_position(file: str, line: int, columns: tuple[int, int]) -> str:
    """The expression, else the statement, that starts on a line and spans these byte columns of its first and last."""
    fitting = [
        node
        for node in _nodes(file)
        if node.lineno == line and (node.col_offset, node.end_col_offset) == columns
    ]  # fmt: skip
    fitting.sort(key=lambda node: isinstance(node, ast.stmt))
    return _text(file, fitting[0]) if fitting else ""


def on_line(file: str, line: int, message: Message) -> str:
    """What the message names, as the statement on that line has it; nothing where more than one part would fit."""
    nodes = [node for statement in _statements(file, line) for node in _head(statement)]
    if message.is_branch:
        return _only(file, [node for node in _conditions(nodes) if _covers(node, line)])
    return _named(file, _calls(nodes), message, line)


def later_in_function(file: str, line: int, message: Message) -> tuple[int, str] | None:
    """Line and text of the only call below `line` in the same function that the message can mean."""
    function = _function(file, line)
    if function is None or not message.called:
        return None
    name = _plain(message.called)
    fitting = [call for call in _calls(ast.walk(function)) if call.lineno > line and _plain(_name(call)) == name]
    return (fitting[0].lineno, _text(file, fitting[0])) if len(fitting) == 1 else None


def function_name(file: str, line: int) -> str:
    """The innermost function that a line belongs to; empty for a line outside any."""
    function = _function(file, line)
    return function.name if function is not None else ""


def _named(file: str, calls: list[ast.Call], message: Message, line: int) -> str:
    name = _plain(message.called)
    fitting = [call for call in calls if name and _plain(_name(call)) == name]
    if not fitting and name == "item":
        fitting = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in CONVERSIONS]
    return _only(file, fitting) or _only(file, [call for call in fitting if call.lineno == line])


def _only(file: str, nodes: list[ast.Call] | list[ast.expr]) -> str:
    texts = {_text(file, node) for node in nodes}
    return texts.pop() if len(texts) == 1 else ""


def _plain(name: str) -> str:
    """A name as Dynamo, ATen and the user would write it alike: `to_list` and `tolist`, `_unique2` and `unique`."""
    return name.rpartition(".")[2].replace("_", "").rstrip("0123456789")


def _name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _calls(nodes: Iterable[ast.AST]) -> list[ast.Call]:
    return [node for node in nodes if isinstance(node, ast.Call)]


def _head(node: ast.AST) -> Iterator[ast.AST]:
    """A statement without the statements inside it."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt):
            yield from _head(child)


def _conditions(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    for node in nodes:
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs


def _covers(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _statements(file: str, line: int) -> list[ast.stmt]:
    """The innermost statements on a line. Of one with a body of its own, a line of the head is meant."""
    covering = [node for node in _nodes(file) if isinstance(node, ast.stmt) and _covers(node, line)]
    shortest = min((_height(node) for node in covering), default=0)
    return [node for node in covering if _height(node) == shortest]


def _height(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno


def _function(file: str, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    covering = [
        node
        for node in _nodes(file)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _covers(node, line)
    ]
    return max(covering, key=lambda node: node.lineno, default=None)


def _nodes(file: str) -> list[ast.stmt | ast.expr]:
    return _parsed("".join(linecache.getlines(file)))


@lru_cache(maxsize=16)
def _parsed(text: str) -> list[ast.stmt | ast.expr]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # a notebook cell with magic, or a file that changed while it was read
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)]


def _text(file: str, node: ast.AST) -> str:
    """Its source on one line, shortened."""
    text = ast.get_source_segment("".join(linecache.getlines(file)), node) or ""
    if "\n" in text:
        text = ast.unparse(node)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
