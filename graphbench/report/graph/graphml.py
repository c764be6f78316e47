"""The graph of a profile as GraphML, for yEd, Gephi, Cytoscape and whatever reads a graph with networkx."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from graphbench.analysis.graph import profile_graph
from graphbench.records import ProfileRecord
from graphbench.report.base import RenderOptions, check_options
from graphbench.report.graph.vertices import printable

if TYPE_CHECKING:
    from typing_extensions import Unpack


class GraphmlReporter:
    """Nodes, post-grad nodes and kernels of all regions with typed attributes, as `analysis.graph` describes them.

    Times are nanoseconds, sizes bytes, `share` and `limit` fractions of 1. What is not known is left out.
    """

    suffix = ".graphml"

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The XML text. `networkx.read_graphml` reads back the same vertices, edges and values.

        Source: `networkx.write_graphml_xml`, networkx 3.6; with lxml, `write_graphml` would write it otherwise.

        Raises:
            UsageError: an option: this format takes none.
        """
        check_options("graphml", options, ())
        import networkx

        stream = io.BytesIO()
        networkx.write_graphml_xml(printable(profile_graph(record)), stream, named_key_ids=True)
        return stream.getvalue().decode()
