"""`python -m graphbench`: the same program as the `graphbench` command."""

from __future__ import annotations

import sys

from graphbench.cli import main

if __name__ == "__main__":
    sys.exit(main())
