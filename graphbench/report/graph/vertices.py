"""The graph of a profile with names that every format can hold: no character that is obeyed instead of shown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from graphbench.plaintext import clean

if TYPE_CHECKING:
    import networkx


def unique_names(names: Iterable[str]) -> Mapping[str, str]:
    """A printable name for each name, no two alike: names that differ in what does not print only get a number."""
    found: dict[str, str] = {}
    names = list(dict.fromkeys(names))
    taken = {name for name in names if name == clean(name)}
    for name in names:
        shown = name if name in taken else clean(name)
        number = 2
        while shown != name and shown in taken:
            shown = f"{clean(name)}#{number}"
            number += 1
        taken.add(shown)
        found[name] = shown
    return found


def printable(graph: networkx.DiGraph[str]) -> networkx.DiGraph[str]:
    """A copy of the graph in which every text is one printable line, and each attribute has one type of number.

    Control characters, lone surrogates and what reverses the direction of text become a dot in the middle.
    """
    import networkx

    names = unique_names(graph)
    widened = _with_fractions(graph)
    made: networkx.DiGraph[str] = networkx.DiGraph()
    made.graph.update(_cleaned(graph.graph, widened))
    for vertex, attributes in graph.nodes(data=True):
        made.add_node(names[vertex], **_cleaned(attributes, widened))
    for source, target, attributes in graph.edges(data=True):
        made.add_edge(names[source], names[target], **_cleaned(attributes, widened))
    return made


def _with_fractions(graph: networkx.DiGraph[str]) -> set[str]:
    """Names of attributes that are not whole somewhere: a column of medians has 12.0 as well as 12.5."""
    every = (attributes for _, attributes in graph.nodes(data=True))
    return {name for attributes in every for name, value in attributes.items() if isinstance(value, float)}


def _cleaned(attributes: Mapping[str, object], widened: set[str]) -> dict[str, object]:
    return {
        name: str(clean(value))  # a plain one: writers know no kinds of texts
        if isinstance(value, str)
        else float(value)
        if name in widened and isinstance(value, (int, float))
        else value
        for name, value in attributes.items()
    }
