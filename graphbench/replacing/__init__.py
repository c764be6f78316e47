"""Another implementation in a node's place: checked, timed alone, and timed inside the region's graph."""
