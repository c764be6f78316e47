"""One model compiled in several ways: timed whole against each other, and profiled where Inductor compiled it."""
