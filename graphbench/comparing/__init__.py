"""Implementations of one thing, timed against each other: A B C C B A, on inputs that none of them may change."""
