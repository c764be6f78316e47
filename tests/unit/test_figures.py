"""What holds of every picture: plotly takes it, its totals are the summary's, names are text, colours the page's."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from graphbench.analysis.diff import diff
from graphbench.analysis.gaps import whole_ns
from graphbench.analysis.scaling import scaling
from graphbench.analysis.steps import step_summary
from graphbench.analysis.summary import summary
from graphbench.records import InputRecord, ProfileRecord
from graphbench.report.html.figures import diff_figures, profile_figures, scaling_figures
from graphbench.report.html.model import Figure
from tests.factories import profile, spec
from tests.figure_samples import hostile, strings
from tests.recorded import recorded_profile
from tests.samples import cpu_profile, gpu_profile
from tests.step_samples import training_step

PROFILES = {
    "inference": cpu_profile(),
    "training": gpu_profile(),
    "step": training_step(),
    "recorded": recorded_profile(),
}


def sized(record: ProfileRecord, size: int) -> ProfileRecord:
    given = InputRecord(name="x", source="", kind="tensor", spec=spec(size))
    return replace(record, inputs=(given,))


def all_figures() -> dict[str, Figure]:
    found = {f"{name} {figure.id}": figure for name, record in PROFILES.items() for figure in profile_figures(record)}
    found |= {f"hostile {figure.id}": figure for figure in profile_figures(hostile())}
    found |= {f"diff {f.id}": f for f in diff_figures(diff(cpu_profile(), hostile()))}
    sets = [sized(cpu_profile(), size) for size in (1, 2, 4)]
    return found | {f"scaling {f.id}": f for f in scaling_figures(scaling(sets))}


FIGURES = all_figures()
every_figure = pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)


def of(record: ProfileRecord) -> dict[str, Figure]:
    return {figure.id: figure for figure in profile_figures(record)}


def painted(value: Any) -> Any:
    """The figure as `figures.js` gives it to plotly."""
    if isinstance(value, str):
        return "#808080" if value.startswith(("var(--", "tint(--")) else value
    if isinstance(value, dict):
        return {name: painted(entry) for name, entry in value.items()}
    return [painted(entry) for entry in value] if isinstance(value, (list, tuple)) else value


@every_figure
def test_plotly_knows_every_entry(figure: Figure) -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects", reason="pip install 'torch-graphbench[html]'")
    graph_objects.Figure(data=painted(list(figure.traces)), layout=painted(figure.layout))


@every_figure
def test_a_figure_is_plain_json_without_nan(figure: Figure) -> None:
    text = json.dumps({"traces": figure.traces, "layout": figure.layout}, allow_nan=False)
    assert json.loads(text)["layout"]["height"] > 0


@every_figure
def test_only_svg_traces_are_drawn(figure: Figure) -> None:
    assert {trace["type"] for trace in figure.traces} <= {"bar", "scatter", "icicle", "waterfall"}


@every_figure
def test_all_colours_are_the_pages(figure: Figure) -> None:
    colours = [
        text for key, text in strings([*figure.traces, figure.layout]) if key.lower().endswith(("color", "colors"))
    ]
    assert colours
    assert all(text.startswith(("var(--", "tint(--")) for text in colours)


@every_figure
def test_every_figure_has_title_caption_totals_and_words(figure: Figure) -> None:
    assert figure.title
    assert figure.caption.endswith(".")
    assert figure.totals_ns
    assert all(name and words for name, words in figure.alternative)
    assert figure.alternative


@pytest.mark.parametrize("name", [name for name in FIGURES if name.startswith(("hostile", "diff"))])
def test_what_a_profile_holds_is_text_and_never_markup(name: str) -> None:
    figure = FIGURES[name]
    shown = [
        text for key, text in strings([*figure.traces, figure.layout]) if key not in ("customdata", "ids", "parents")
    ]
    assert any("&lt;b&gt;" in text for text in shown) or "modules" in name or "order" in name
    for text in shown:
        assert "<a" not in text
        assert "<b>x" not in text


@pytest.mark.parametrize("record", PROFILES.values(), ids=PROFILES)
def test_no_row_is_in_a_hover_template(record: ProfileRecord) -> None:
    templates = [text for f in profile_figures(record) for k, text in strings([*f.traces]) if k.endswith("template")]
    assert set(templates) <= {"%{label}  %{percentRoot:.1%}"}


@pytest.mark.parametrize("record", PROFILES.values(), ids=PROFILES)
def test_totals_are_those_of_the_summary(record: ProfileRecord) -> None:
    found, total = of(record), summary(record).total

    def both(*values: float | None) -> float:
        return sum(value for value in values if value is not None)

    eager = both(total.eager_isolated_ns, total.eager_backward_isolated_ns)
    compiled = both(total.forward_isolated_ns, total.backward_isolated_ns)
    for name in ("modules", "op_types"):
        assert found[name].totals_ns == pytest.approx({"eager": eager, "compiled": compiled})
    assert found["flow"].totals_ns == pytest.approx({"compiled": compiled})
    assert found["roofline"].totals_ns == pytest.approx({"nodes": eager, "kernels": compiled})
    assert found["order"].totals_ns == pytest.approx(
        {
            "eager": both(total.eager_in_graph_ns, total.eager_backward_in_graph_ns),
            "compiled": both(total.forward_in_graph_ns, total.backward_in_graph_ns),
        }
    )


@pytest.mark.parametrize("name", ["step", "recorded"])
def test_the_timeline_adds_up_to_the_steps_busy_time(name: str) -> None:
    step = PROFILES[name].step
    assert step is not None
    (total,) = of(PROFILES[name])["timeline"].totals_ns.values()
    assert total == pytest.approx(whole_ns(step))
    assert step_summary(step).on_device


@pytest.mark.parametrize(("name", "record"), PROFILES.items(), ids=PROFILES)
def test_a_click_names_a_row_that_there_is(name: str, record: ProfileRecord) -> None:
    rows = {f"{region.key}/{node.name}" for region in record.regions for node in region.nodes}
    rows |= {f"{region.key}/{kernel.key}" for region in record.regions for kernel in region.kernels}
    rows |= {f"step/{index}" for index in range(len(record.step.rows) if record.step else 0)}
    ids = {id_ for figure in profile_figures(record) for trace in figure.traces for id_ in trace.get("customdata", ())}
    assert len(ids - {""}) > 3
    assert ids - {""} <= rows


def test_the_same_record_gives_the_same_figures() -> None:
    assert profile_figures(copy.deepcopy(gpu_profile())) == profile_figures(gpu_profile())


def test_a_profile_of_nothing_has_no_pictures() -> None:
    assert profile_figures(profile()) == ()
