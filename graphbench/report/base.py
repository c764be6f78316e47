"""What every reporter promises, and the options that they share. A reporter is a pure function of a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypedDict

from graphbench.errors import UsageError
from graphbench.records import ProfileRecord

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_WIDTH = 100
WIDE_WIDTH = 200
LEAST_WIDTH = 60
"""Below it tables are no tables any more: their rows are cut, which a line at the end says."""


class RenderOptions(TypedDict, total=False):
    """Options of `render`; each reporter takes some of them.

    `top` rows a table; `sort` key; `wide` for all columns; `width` of a line in characters; `table` for those that
    render one table at a time: `nodes`, `fusions`, `gaps`, `places`, `step`, `breaks`, `opportunities` or `sizes`.
    `group_by` (one of `analysis.group_by.GROUP_BY`) puts a table of groups in the place of nodes and fusions; `depth`
    cuts module paths. `fold` (one of `analysis.fold_choice.FOLD_CHOICES`) makes repeated layers one row of nodes and
    fusions; `blocks` draws bars and samples of block elements beside the numbers. `metric` of an overlay: one of
    `graph.overlay.METRICS`. `select`: shell-style patterns of the nodes that a picture shows.
    """

    top: int | None
    sort: str
    wide: bool
    width: int
    table: str
    group_by: str
    depth: int
    metric: str
    select: Sequence[str]
    fold: str
    blocks: bool


class Reporter(Protocol):
    """Turns a record into text. `suffix` is the usual ending of a file with it, such as `.csv`."""

    @property
    def suffix(self) -> str:
        """Usual file name ending, with the dot."""

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The text of a whole report.

        Raises:
            UsageError: an option that this reporter does not take, or a value that it does not know.
        """


def check_options(reporter: str, options: Mapping[str, object], accepted: tuple[str, ...]) -> None:
    """Refuse options that a reporter would ignore.

    Raises:
        UsageError: naming the option and those that are taken.
    """
    for name in options:
        if name not in accepted:
            known = ", ".join(accepted) or "none"
            raise UsageError(
                f"the {reporter} report takes no option {name!r}", hint=f"its options: {known}", subject=name
            )
