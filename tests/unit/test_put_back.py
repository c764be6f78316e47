"""What is changed for a while is put back by whoever ends last, once, and the latest first."""

from __future__ import annotations

import pytest

from graphbench.put_back import all_put_back, put_back, replaced


class Owner:
    name = "own"


class Heir(Owner):
    pass


def test_an_attribute_is_what_it_was_also_when_the_block_raises() -> None:
    seen: list[str] = []

    def fails() -> None:
        with replaced(Owner, "name", "stand-in"):
            seen.append(Owner.name)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert [*seen, Owner.name] == ["stand-in", "own"]


def test_an_inherited_attribute_is_inherited_again() -> None:
    with replaced(Heir, "name", "stand-in"):
        assert (Heir.name, Owner.name) == ("stand-in", "own")
    assert "name" not in vars(Heir)


def test_an_exit_that_never_ran_is_made_up_for_by_the_block_around_it() -> None:
    undone: list[str] = []
    missed, last = put_back(lambda: undone.append("missed")), put_back(lambda: undone.append("last"))
    with all_put_back():
        with put_back(lambda: undone.append("outer")):
            missed.__enter__()
            assert undone == []
        assert undone == ["missed", "outer"]
        last.__enter__()
    assert undone == ["missed", "outer", "last"]


def test_an_exit_that_comes_too_late_undoes_nothing_again() -> None:
    undone: list[str] = []
    late = put_back(lambda: undone.append("once"))
    with all_put_back():
        late.__enter__()
    late.__exit__(None, None, None)
    assert undone == ["once"]


def test_an_undo_that_raises_leaves_the_others_to_the_block_around_it() -> None:
    undone: list[str] = []

    def fails() -> None:
        if not undone:
            undone.append("tried")
            raise KeyError

    with pytest.raises(KeyError), all_put_back(), put_back(lambda: undone.append("outer")), put_back(fails):
        pass
    assert undone == ["tried", "outer"]


def test_an_undo_that_always_raises_is_told_and_keeps_no_other() -> None:
    undone: list[str] = []

    def fails() -> None:
        undone.append("tried")
        raise RuntimeError("the device is lost")

    def block() -> None:
        with put_back(lambda: undone.append("outer")), put_back(fails):
            pass

    with pytest.raises(RuntimeError, match="the device is lost"), all_put_back():
        block()
    assert undone == ["tried", "outer"]
