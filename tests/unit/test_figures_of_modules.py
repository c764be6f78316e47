"""Bars before and after: what is drawn of every group adds up, what is missing is said and not drawn as 0."""

from __future__ import annotations

import pytest

from graphbench.records import Fate
from graphbench.report.html.figures.modules import SHOWN, module_figure, op_type_figure
from graphbench.report.html.model import Figure
from tests.factories import FAILED, executes, kernel, node, profile, region
from tests.samples import cpu_profile, gpu_profile


def bars(figure: Figure | None) -> dict[str, list[float | None]]:
    assert figure is not None
    return {trace["name"]: trace["x"] for trace in figure.traces if trace["type"] == "bar"}


def labels(figure: Figure | None) -> list[str]:
    assert figure is not None
    return list(figure.layout["yaxis"]["ticktext"])


def wide(count: int, depth: int = 1) -> Figure | None:
    """Modules of which each takes less than the one before it."""
    names = [".".join([f"m{i}", *["x"] * (depth - 1)]) for i in range(count)]
    nodes = [node(f"op_{i}", 1000.0 - i, module=name) for i, name in enumerate(names)]
    kernels = [kernel(f"k{i}", 500.0, handle=i, roles=(executes(f"op_{i}"),)) for i in range(count)]
    return module_figure(profile(region(nodes, kernels)))


def test_bars_of_a_side_add_up_to_its_total() -> None:
    figure = op_type_figure(gpu_profile())
    assert figure is not None
    found, unit_ns = bars(figure), {"µs": 1e3, "ms": 1e6}[figure.layout["xaxis"]["title"]["text"][6:8]]
    for side in ("eager", "compiled"):
        drawn = sum(x or 0.0 for name, xs in found.items() if name.startswith(side) for x in xs)
        assert drawn * unit_ns == pytest.approx(figure.totals_ns[side])


def test_inference_has_no_bars_of_a_backward() -> None:
    assert set(bars(op_type_figure(cpu_profile()))) == {"eager forward", "compiled forward"}


def test_small_groups_are_one_bar_and_lose_no_time() -> None:
    figure = wide(SHOWN + 5)
    assert labels(figure)[-1] == "5 other modules"
    assert bars(figure)["compiled forward"][-1] == pytest.approx(2.5)
    assert len(labels(figure)) == SHOWN + 1


def test_paths_are_cut_where_that_leaves_few_enough_modules() -> None:
    nodes = [node(f"op_{i}", 10.0, module=f"{'ab'[i % 2]}.part{i}") for i in range(SHOWN + 4)]
    figure = module_figure(profile(region(nodes)))
    assert labels(figure) == ["a", "b"]
    assert figure is not None
    assert "Paths are cut after 1 part." in figure.caption


def test_one_module_alone_is_no_picture() -> None:
    assert module_figure(profile(region([node("relu", 10.0), node("add", 10.0)]))) is None


def test_what_is_missing_is_told_and_has_no_speedup() -> None:
    nodes = [node("sort", FAILED, module="a"), node("relu", 10.0, module="b")]
    kernels = [kernel("k", 5.0, roles=(executes("relu"),)), kernel("s", 3.0, handle=1, roles=(executes("sort"),))]
    figure = module_figure(profile(region(nodes, kernels)))
    assert figure is not None
    assert "1 time of nodes and kernels missing" in figure.caption
    assert bars(figure)["eager forward"] == [10.0, None]
    words = dict(figure.alternative)
    assert words["a"] == "eager –, compiled 3.00 ns; 1 time missing"
    assert words["b"] == "eager 10.0 ns, compiled 5.00 ns, speedup 2.00x"


def test_without_any_kernel_only_eager_bars_are_drawn() -> None:
    figure = op_type_figure(profile(region([node("relu", 10.0), node("add", 5.0)])))
    assert set(bars(figure)) == {"eager forward"}
    assert figure is not None
    assert figure.totals_ns == {"eager": 15.0}


def test_a_side_of_which_nothing_was_timed_has_no_total() -> None:
    figure = op_type_figure(profile(region([node("relu", 10.0)], [kernel("k", FAILED, roles=(executes("relu"),))])))
    assert figure is not None
    assert figure.totals_ns == {"eager": 10.0}


def test_views_that_cost_nothing_are_no_bar() -> None:
    figure = op_type_figure(
        profile(region([node("relu", 10.0), node("view", 0.0, kind="view", fate=Fate(kind="view"))]))
    )
    assert labels(figure) == ["relu"]


def test_an_op_type_tells_how_many_nodes_it_has_and_not_in_how_many_modules() -> None:
    nodes = [node(f"mul_{i}", 10.0, op_type="mul", module="block") for i in range(3)] + [node("exp", 5.0)]
    figure = op_type_figure(profile(region(nodes)))
    assert labels(figure) == ["mul  ×3", "exp"]
    assert figure is not None
    assert "×n: so many nodes." in figure.caption
