"""The releases of torch that graphbench is tested with. No imports: asked also where torch is missing."""

from __future__ import annotations

from typing import Final

OLDEST_TORCH: Final = (2, 11)
NEWEST_TORCH: Final = (2, 14)
CHECKED: Final = "2.11, 2.13 and 2.14"


def torch_release(version: str) -> tuple[int, int]:
    """Major and minor of a version such as `2.11.0a0+vendor`."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
