"""When tables are folded by repeated layers: declared once, for the command line, Python and reports. Pure."""

from __future__ import annotations

from typing import Final, Literal, get_args

from graphbench.errors import UsageError

FoldChoice = Literal["auto", "always", "never"]
FOLD_CHOICES: Final[tuple[FoldChoice, ...]] = get_args(FoldChoice)
FOLD_ABOVE: Final = 60
"""Rows of a table above which `auto` folds it, where that saves a third of them."""
LEAST_SAVED: Final = 1 / 3


def checked_fold(choice: str, *, wide: bool) -> FoldChoice:
    """What `fold` asks for: by itself no table is folded of which all columns are wanted, since most are of one row.

    Raises:
        UsageError: no such choice.
    """
    known = next((known for known in FOLD_CHOICES if known == choice), None)
    if known is None:
        hint = f"fold {', '.join(FOLD_CHOICES[:-1])} or {FOLD_CHOICES[-1]}"
        raise UsageError(f"cannot fold {choice!r}", hint=hint, subject="fold")
    return "never" if wide and known == "auto" else known


def worth_folding(rows: int, folds: int, choice: FoldChoice) -> bool:
    """Whether a table of `rows` is shown as `folds`: where it is long and that saves a third, or whenever asked to."""
    if choice == "auto":
        return rows > FOLD_ABOVE and rows - folds >= rows * LEAST_SAVED
    return choice == "always" and folds < rows
