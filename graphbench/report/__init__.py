"""Reports: pure functions of a saved record. `REPORTERS` holds one per format, by the name used on the command line."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from graphbench.report.base import RenderOptions, Reporter

_CLASSES = {
    "table": ("graphbench.report.table", "TableReporter"),
    "csv": ("graphbench.report.csv_report", "CsvReporter"),
    "json": ("graphbench.report.json_report", "JsonReporter"),
    "markdown": ("graphbench.report.markdown", "MarkdownReporter"),
    "html": ("graphbench.report.html.reporter", "HtmlReporter"),
    "trace": ("graphbench.report.trace.reporter", "TraceReporter"),
    "graphml": ("graphbench.report.graph.graphml", "GraphmlReporter"),
    "dot": ("graphbench.report.graph.dot", "DotReporter"),
    "model-explorer": ("graphbench.report.graph.overlay", "ModelExplorerReporter"),
    "model-explorer-graph": ("graphbench.report.graph.model_explorer", "ModelExplorerGraphReporter"),
}


FORMATS = tuple(_CLASSES)


class _Reporters(Mapping[str, Reporter]):
    """A reporter is imported when it is asked for: a command starts in a blink, and pays for no other."""

    def __getitem__(self, name: str) -> Reporter:
        module, reporter = _CLASSES[name]
        made: Reporter = getattr(importlib.import_module(module), reporter)()
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


REPORTERS: Mapping[str, Reporter] = _Reporters()

__all__ = ["FORMATS", "REPORTERS", "RenderOptions", "Reporter"]
