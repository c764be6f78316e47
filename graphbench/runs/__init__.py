"""Runs that outlive their process: a journal of what was measured, and a supervisor that starts again."""
