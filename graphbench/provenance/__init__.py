"""Pure attribution: which op a kernel belongs to. No torch."""
