"""Reports: pure functions of a saved record. `REPORTERS` holds one per format, by the name used on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from graphbench.report.base import RenderOptions, Reporter
from graphbench.report.csv_report import CsvReporter
from graphbench.report.json_report import JsonReporter
from graphbench.report.markdown import MarkdownReporter
from graphbench.report.table import TableReporter

REPORTERS: Mapping[str, Reporter] = MappingProxyType(
    {"table": TableReporter(), "csv": CsvReporter(), "json": JsonReporter(), "markdown": MarkdownReporter()}
)

__all__ = ["REPORTERS", "RenderOptions", "Reporter"]
