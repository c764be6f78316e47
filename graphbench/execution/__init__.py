"""Runs captured regions again: eager node by node, compiled kernel by kernel. Isolates and times nothing itself."""
