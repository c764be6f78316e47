"""Every code block of README.md and the pages: known languages, Python that compiles, command lines that parse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphbench import cli
from tests.pages import (
    PAGES,
    READ,
    RUN,
    SHOWN,
    Block,
    blocks,
    blocks_of,
    command_lines,
    graphbench_call,
    graphbench_calls,
)

# Flags that need a GPU; a block that has one cannot run here and must say so.
ON_A_GPU = ("--l2", "--lock-gpu-clock", "--batch-execute")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_are_of_known_languages(page: Path) -> None:
    assert {block.language for block in blocks_of(page)} <= {*RUN, *READ, *SHOWN}


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles(block: Block) -> None:
    compile(block.code, str(block), "exec")


@pytest.mark.parametrize("block", blocks("sh"), ids=str)
def test_command_lines_parse_also_where_they_cannot_run(block: Block) -> None:
    for call in graphbench_calls(block.code):
        words = [word for word in call.words if word != "..."]
        assert cli.parse(words).command.name == next(word for word in words if word[0] != "-")


@pytest.mark.parametrize("block", blocks("sh"), ids=str)
def test_what_needs_a_gpu_or_another_program_says_that_it_is_not_run(block: Block) -> None:
    if block.not_run is None:
        assert not [flag for flag in ON_A_GPU if flag in block.code]
        assert all(graphbench_call(line) is not None for line in command_lines(block.code))


@pytest.mark.parametrize("block", [block for block in blocks(*RUN) if block.not_run is not None], ids=str)
def test_a_block_that_is_not_run_says_why(block: Block) -> None:
    assert block.not_run is not None
    assert len(block.not_run.split()) >= 3


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_configuration_is_taken(block: Block, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(block.code, encoding="utf-8")
    parsed: Any = cli.parse(["run", "--model", "torchvision:resnet18"], tmp_path)
    assert parsed.defaults is not None


@pytest.mark.parametrize("command", cli.commands(), ids=lambda command: command.name)
def test_every_example_of_a_help_is_a_command_line(command: Any) -> None:
    for example in command.examples:
        for call in graphbench_calls(example):
            assert cli.parse(call.words).command is command


def test_the_parts_of_a_command_line_are_told_apart() -> None:
    code = "# comment\ngraphbench show a \\\n  --wide  # why\npip install x && graphbench docs > out.md\n"
    assert command_lines(code) == ["graphbench show a    --wide  # why", "pip install x", "graphbench docs > out.md"]
    show, docs = graphbench_calls(code)
    assert (show.words, docs.words, docs.output) == (("show", "a", "--wide"), ("docs",), "out.md")
    evaluated = graphbench_call('eval "$(graphbench completion bash)"')
    assert evaluated is not None
    assert evaluated.words == ("completion", "bash")


def test_the_comment_above_a_block_says_why_it_is_not_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: needs a GPU -->\n```sh\nx\n```\n\ntext\n\n```sh\ny\n```\n", encoding="utf-8")
    assert [(block.line, block.not_run) for block in blocks_of(page)] == [(2, "needs a GPU"), (8, None)]


def test_the_comment_above_a_block_names_the_file_that_holds_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- file: ops.yaml -->\n\n```yaml\nops: []\n```\n\n```yaml\na: 1\n```\n", encoding="utf-8")
    assert [(block.file, block.code) for block in blocks_of(page)] == [("ops.yaml", "ops: []\n"), (None, "a: 1\n")]
