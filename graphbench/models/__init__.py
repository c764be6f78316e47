"""Models by name or file, and the tensors that they are called with."""
