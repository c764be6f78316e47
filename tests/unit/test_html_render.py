"""The HTML file: one file that asks for nothing, in which nobody's text becomes markup or script."""

from __future__ import annotations

import builtins
import re
from typing import Any

import pytest

from graphbench.analysis.generated_code import KernelCode
from graphbench.errors import SetupError, UsageError
from graphbench.report.html import render
from graphbench.report.html.model import Detail, Figure, Page, Section, Series, Table, TableColumn, Tile
from graphbench.report.html.render import render_page, told
from graphbench.report.html.reporter import HtmlReporter
from graphbench.report.html.store import CHUNK_CHARACTERS, Store, script_json, short_series
from tests.hostile import TEXTS, hostile_everywhere
from tests.html_file import HtmlFile
from tests.recorded import recorded_profile
from tests.step_samples import training_step

pytest.importorskip("jinja2")
pytest.importorskip("plotly")
EVIL = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>&\"'"


def page(text: str = "a", **changes: Any) -> Page:
    """A page on which one text stands wherever a text can stand."""
    column = TableColumn(key="name", name=text, kind="text", values=(text,), texts=(text,), help=text, unit=text)
    table = Table(id="t", title=text, columns=(column,), ids=("row",), notes=(text,), empty=text)
    code = KernelCode(language="triton", source=text, call=text, line=1)
    figure = Figure(
        id="f", title=text, caption=text, traces=({"type": "bar", "x": [1], "name": text},), layout={"height": 9}
    )
    detail = Detail(
        id="row",
        kind="node",
        title=text,
        facts=((text, text),),
        links=((text, ("row",)),),
        code=code,
        samples=(Series(name=text, values_ns=(1.0, 2.0)),),
    )
    section = Section(
        id="s",
        title=text,
        tiles=(Tile(label=text, value=text, note=text),),
        lines=(text, f"warning: {text}"),
        facts=((text, text),),
        figures=(figure,),
        tables=(table,),
    )
    made: dict[str, Any] = {"title": text, "lines": (text,), "sections": (section,), "details": {"row": detail}}
    return Page(**{**made, **changes})


def test_no_text_ends_a_script_or_becomes_markup() -> None:
    harmless, hostile = render_page(page("a")), render_page(page(EVIL))
    for tag in ("script", "style", "img", "svg", "iframe", "!--"):
        assert hostile.count(f"<{tag}") == harmless.count(f"<{tag}"), tag
    assert "alert(1)</script>" not in hostile
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in HtmlFile(hostile).markup()


def test_every_text_arrives_as_it_was() -> None:
    found = HtmlFile(render_page(page(EVIL)))
    assert found.table("t")["columns"]["name"]["texts"] == [EVIL]
    detail = found.detail("row")
    assert (detail["title"], detail["facts"], detail["links"]) == (EVIL, {EVIL: EVIL}, {EVIL: ["row"]})
    assert (detail["code"]["source"], detail["code"]["call"]) == (EVIL, EVIL)
    assert detail["samples"] == {EVIL: [1.0, 2.0]}
    assert found.data["figures"]["f"]["traces"][0]["name"] == EVIL


@pytest.mark.parametrize("text", TEXTS)
def test_no_character_is_written_that_does_not_show(text: str) -> None:
    written = render_page(page(text))
    written.encode()  # a lone surrogate cannot be written
    shown = HtmlFile(written).markup()
    assert all(character.isprintable() or character == "\n" for character in shown)


def test_a_page_asks_for_nothing() -> None:
    written = HtmlReporter().render(recorded_profile())
    shown = HtmlFile(written).markup()
    assert re.findall(r'(?:src|href|action|data|poster)="(?!#)([^"]*)"', shown) == ["data:,"]
    for css in re.findall(r"<style>(.*?)</style>", written, re.DOTALL):
        assert "url(" not in css
        assert "@import" not in css


def test_a_page_may_run_nothing_but_its_own_scripts() -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', render_page(page()))
    rules = dict(rule.strip().split(" ", 1) for rule in policy.replace("&#39;", "'").split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'unsafe-inline'"
    assert "connect-src" not in rules  # so that default-src holds
    assert "http" not in policy


def test_the_same_profile_gives_the_same_bytes() -> None:
    assert HtmlReporter().render(training_step()) == HtmlReporter().render(training_step())


def test_a_profile_of_hostile_texts_gives_a_page_with_as_many_scripts_as_another() -> None:
    hostile = hostile_everywhere(training_step(), lambda text: f"{EVIL}{text}")
    plain, written = HtmlReporter().render(training_step()), HtmlReporter().render(hostile)
    assert written.count("<script") == plain.count("<script")
    assert written.count("</script") == plain.count("</script")
    assert "<img" not in written


def test_the_report_takes_no_options() -> None:
    with pytest.raises(UsageError, match="takes no option 'top'"):
        HtmlReporter().render(training_step(), top=3)


@pytest.mark.parametrize("package", ["jinja2", "plotly"])
def test_a_missing_package_is_named_with_what_installs_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == package:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    render._environment.cache_clear()
    render._plotly.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SetupError, match=f"needs {package}") as error:
        render_page(page())
    assert error.value.hint == "pip install 'torch-graphbench[html]'"


def test_plotly_is_left_out_where_nothing_is_drawn() -> None:
    bare = page(sections=(), details={})
    assert 'id="plotly"' not in render_page(bare)
    assert 'id="plotly"' in render_page(page())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("host-bound: r0: issuing", ("host-bound", "r0: issuing", "bad")),
        ("slower than what it replaced: 2 kernels", ("slower than what it replaced", "2 kernels", "bad")),
        ("coverage: attributed 100.00 %", ("coverage", "attributed 100.00 %", "")),
        ("nothing was compiled, every op ran eagerly", ("", "nothing was compiled, every op ran eagerly", "")),
        ("x" * 40 + ": rest", ("", "x" * 40 + ": rest", "")),
    ],
)
def test_a_line_is_told_as_its_head_and_its_text(line: str, expected: tuple[str, str, str]) -> None:
    assert told(line) == expected


def test_json_in_a_script_holds_no_character_that_html_knows() -> None:
    assert script_json(["<!--", "&", "\u2028"]) == '["\\u003c!--","\\u0026","\\u2028"]'


@pytest.mark.parametrize("values", [(1000.0, 1003.0, 1001.0), (0.125, 3.5), (), (2.0**60,)])
def test_samples_are_kept_exactly(values: tuple[float, ...]) -> None:
    packed: Any = short_series(values)
    assert tuple((packed["base"] + over) / packed["scale"] for over in packed["over"]) == values


def test_samples_are_kept_to_a_thousandth_of_a_nanosecond() -> None:
    packed: Any = short_series((1 / 3, 1000.0))
    assert [(packed["base"] + over) / packed["scale"] for over in packed["over"]] == [0.333, 1000.0]


def test_equal_samples_and_equal_code_are_kept_once() -> None:
    store = Store()
    assert store.add_series((1.0, 2.0)) == store.add_series((1.0, 2.0)) != store.add_series((2.0, 1.0))
    assert store.add_text("a") == store.add_text("a") != store.add_text("b")


def test_much_is_kept_in_several_chunks_and_found_again() -> None:
    long = "x" * (CHUNK_CHARACTERS // 2)
    details = {f"row{i}": Detail(id=f"row{i}", kind="other", title=f"{long}{i}") for i in range(5)}
    found = HtmlFile(render_page(page(details=details)))
    assert len(found.data["starts"]) > 1
    assert [found.detail(f"row{i}")["title"][-1] for i in range(5)] == ["0", "1", "2", "3", "4"]
