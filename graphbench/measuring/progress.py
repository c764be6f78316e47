"""The progress bar of a measurement: what is being measured, how much is left, and how long that may take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tqdm import tqdm

_NAME_LENGTH: Final = 40
_DELAY_S: Final = 2.0


class Progress:
    """Counts units. A second pass, over some rows only, counts those.

    Args:
        bar: of tqdm.
    """

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._again = False

    def tick(self) -> None:
        """A unit is done."""
        if not self._again:
            self._bar.update()

    def watch(self, row: str) -> None:
        """A unit is about to be measured."""
        if self._again:
            self._bar.update()
        self._bar.set_postfix_str(row[:_NAME_LENGTH], refresh=False)

    def again(self, n_rows: int) -> None:
        """From now on, so many rows are measured again; only they are watched."""
        self._again = True
        self._bar.set_description_str("measuring again", refresh=False)
        self._bar.reset(total=n_rows)


@contextmanager
def progress(total: int, wanted: bool | None) -> Iterator[Progress]:
    """A bar on stderr for anything over two seconds; when not told otherwise, only on a terminal."""
    disabled = None if wanted is None else not wanted
    with tqdm(
        total=total,
        desc="measuring",
        unit="unit",
        file=sys.stderr,
        delay=_DELAY_S,
        leave=False,
        disable=disabled,
        dynamic_ncols=True,
    ) as bar:
        yield Progress(bar)
