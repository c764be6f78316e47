"""Measures captured regions and recorded steps: hands isolation, timing and labels to the execution of both sides."""
