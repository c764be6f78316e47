"""A profile as a graph for other programs: GraphML, DOT, and Model Explorer's graph and node data."""
