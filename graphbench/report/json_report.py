"""The whole document as JSON for other programs: every sample a number, nothing packed. Reads back as a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphbench.document import dumps
from graphbench.records import ProfileRecord
from graphbench.report.base import RenderOptions, check_options

if TYPE_CHECKING:
    from typing_extensions import Unpack


class JsonReporter:
    """The document itself; takes no options."""

    suffix = ".json"

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The JSON text.

        Raises:
            UsageError: any option.
        """
        check_options("json", options, ())
        return dumps(record, compact=False)
