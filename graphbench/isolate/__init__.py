"""One node or kernel call alone: copies of its tensors, what it writes, how it is repeated. Knows no graphs."""
