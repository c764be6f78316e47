"""`graphbench docs`: what it lists and prints, and that pages are packaged and name only what there is."""

from __future__ import annotations

import configparser
import fnmatch
import re
from pathlib import Path

import pytest

from graphbench import cli
from graphbench.cli.config import flags_of
from graphbench.cli.docs import FOLDER, pages, title_of

ROOT = Path(__file__).parents[2]
MARKDOWN = sorted(file for file in pages().values() if file.suffix == ".md")
REFERRED = re.compile(r"`graphbench docs ([\w.-]+)`")
OF_PYTEST = {"--graphbench-dir"}
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def flags() -> set[str]:
    """Every word that some command takes as a flag."""
    parser = cli.build_parser()
    children = next(action.choices for action in parser._actions if isinstance(action.choices, dict))
    return {word for each in (parser, *children.values()) for action in each._actions for word in action.option_strings}


def test_the_list_has_every_page_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docs"]) == 0
    printed = capsys.readouterr().out
    for name, file in pages().items():
        assert re.search(rf"^{re.escape(name)} +{re.escape(title_of(file))}$", printed, re.MULTILINE)


def test_a_page_is_printed_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docs", "glossary"]) == 0
    assert capsys.readouterr().out == (FOLDER / "glossary.md").read_text(encoding="utf-8")


def test_an_unknown_page_is_an_error_that_names_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docs", "nonsense"]) == 2
    assert "how-it-measures" in capsys.readouterr().err


@pytest.mark.parametrize("command", cli.commands(), ids=lambda command: command.name)
def test_every_command_has_a_page(command: cli.Command[object]) -> None:
    assert command.name in pages()


def test_every_page_is_packaged() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    patterns = setup["options.package_data"]["graphbench"].split()
    names = [file.relative_to(FOLDER.parent).as_posix() for file in FOLDER.iterdir()]
    assert [name for name in names if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)] == []


@pytest.mark.parametrize("file", MARKDOWN, ids=lambda file: file.stem)
def test_a_page_begins_with_its_title(file: Path) -> None:
    assert file.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("file", MARKDOWN, ids=lambda file: file.stem)
def test_flags_that_a_page_names_exist(file: Path) -> None:
    text = FENCED.sub("", file.read_text(encoding="utf-8"))
    named = {
        flag for code in re.findall(r"`([^`]+)`", text) for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", code)
    }
    assert named - flags() - OF_PYTEST == set()


@pytest.mark.parametrize("command", cli.commands(), ids=lambda command: command.name)
def test_a_commands_page_names_all_its_flags_or_the_page_that_does(command: cli.Command[object]) -> None:
    parser = cli.Parser(prog=command.name)
    command.prepare_parser(parser)
    text = pages()[command.name].read_text(encoding="utf-8")
    text += "".join(pages()[name].read_text(encoding="utf-8") for name in REFERRED.findall(text))
    assert [name for name in flags_of(parser) if not re.search(rf"`--{name}[` ]", text)] == []


@pytest.mark.parametrize("file", MARKDOWN, ids=lambda file: file.stem)
def test_pages_that_a_page_refers_to_exist(file: Path) -> None:
    named = REFERRED.findall(file.read_text(encoding="utf-8"))
    assert [name for name in named if name not in pages()] == []


def test_what_a_page_is_quoted_with_stands_on_it() -> None:
    quoted = re.findall(r"(?<![*\w])\*([\w ]+)\*(?!\*)", (FOLDER / "html.md").read_text(encoding="utf-8"))
    templates = "".join(
        file.read_text(encoding="utf-8") for file in (ROOT / "graphbench/report/html/templates").iterdir()
    )
    assert quoted
    assert [words for words in quoted if words not in templates] == []
