"""Pausing Python's cycle collector: while very many records are made, and while samples are taken."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from graphbench.put_back import put_back


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the cycle collector out of what happens inside; its state is put back afterwards."""
    with put_back(gc.enable if gc.isenabled() else gc.disable):
        gc.disable()
        yield
