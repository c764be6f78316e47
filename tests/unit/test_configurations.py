"""Several configurations of one model, the part without torch: nodes joined over profiles, wall verdicts, text."""

from __future__ import annotations

from typing import Any

import pytest

from graphbench.analysis.configurations import REST, ConfigurationRow, NodesAcross, nodes_across
from graphbench.cli import parse
from graphbench.cli.configurations import files_of, parse_names
from graphbench.errors import UsageError
from graphbench.measurements import Comparison
from graphbench.records import ProfileRecord
from graphbench.report.configurations_table import SHOWN_NODES, configuration_parts
from graphbench.report.grid import text_of
from tests.factories import FAILED, executes, kernel, node, profile, region


def one(*kernels: Any, nodes: tuple[str, ...] = ("linear", "gelu")) -> ProfileRecord:
    return profile(region([node(name, 1.0) for name in nodes], list(kernels)))


def times(found: NodesAcross) -> dict[str, tuple[float | None, ...]]:
    return {row.name: row.times_ns for row in found.rows}


# nodes


def test_a_node_stands_with_its_part_of_its_kernels_under_every_configuration() -> None:
    apart = one(kernel("mm", 40.0, roles=(executes("linear"),)), kernel("g", 10.0, roles=(executes("gelu"),)))
    fused = one(kernel("mm_g", 30.0, roles=(executes("linear", 200), executes("gelu", 100))))
    found = nodes_across({"default": apart, "max-autotune": fused})
    assert found.names == ("default", "max-autotune")
    assert times(found) == {"linear": (40.0, 20.0), "gelu": (10.0, 10.0)}
    assert found.totals_ns == (50.0, 30.0)


def test_the_most_expensive_node_comes_first() -> None:
    found = nodes_across(
        {
            "a": one(kernel("m", 1.0, roles=(executes("linear"),)), kernel("g", 2.0, roles=(executes("gelu"),))),
            "b": one(kernel("m", 9.0, roles=(executes("linear"),)), kernel("g", 2.0, roles=(executes("gelu"),))),
        }
    )
    assert list(times(found)) == ["linear", "gelu"]


def test_forward_and_backward_are_added() -> None:
    record = one(
        kernel("m", 4.0, roles=(executes("linear"),)),
        kernel("b", 6.0, phase="backward", roles=(executes("linear"),)),
    )
    assert times(nodes_across({"a": record})) == {"linear": (10.0,)}


def test_what_belongs_to_no_row_is_a_row_so_that_all_add_up() -> None:
    record = one(
        kernel("m", 4.0, roles=(executes("linear"),)),
        kernel("seed", 1.5),
        kernel("g", 2.0, handle=1, roles=(executes("gelu"),)),
        kernel("h", FAILED, handle=2, roles=(executes("gelu"),)),
    )
    found = nodes_across({"a": record})
    assert times(found) == {"linear": (4.0,), REST: (3.5,)}
    assert sum(row.times_ns[0] or 0.0 for row in found.rows) == found.totals_ns[0]


def test_a_node_that_one_graph_lacks_is_told() -> None:
    both = one(kernel("m", 4.0, roles=(executes("linear"),)))
    other = one(kernel("m", 4.0, roles=(executes("relu"),)), nodes=("linear", "relu"))
    found = nodes_across({"a": both, "b": other})
    assert found.notes == ("the graphs of a and b differ: r0/gelu, r0/relu",)
    assert times(found) == {"linear": (4.0, None), "relu": (None, 4.0)}


def test_without_profiles_there_are_no_nodes() -> None:
    assert nodes_across({}).rows == ()


# wall times


def walls(own: tuple[tuple[float, ...], ...], first: tuple[tuple[float, ...], ...]) -> ConfigurationRow:
    return ConfigurationRow(name="b", kind="inductor", wall_ns=own, baseline_wall_ns=first)


def test_wall_times_decide_where_both_halves_bear_it_out() -> None:
    slow, fast = ((100.0,) * 5, (100.0,) * 5), ((50.0,) * 5, (50.0,) * 5)
    assert (walls(fast, slow).wall_verdict, walls(slow, fast).wall_verdict) == ("faster", "slower")
    assert walls(fast, slow).wall_p50_ns == 50.0


def test_a_half_that_says_otherwise_makes_it_unclear() -> None:
    first = ((100.0,) * 5, (100.0,) * 5)
    assert walls(((50.0,) * 9, (101.0,)), first).wall_verdict == "unclear"


def test_the_baseline_has_no_verdict() -> None:
    first = ((100.0,), (100.0,))
    assert walls(first, first).wall_verdict is None


# text


def rendered(*rows: ConfigurationRow, nodes: NodesAcross | None = None) -> str:
    return text_of(configuration_parts(rows, nodes or nodes_across({}), subject="Net", policy=None, environment=None))


def test_a_wrong_result_is_told() -> None:
    wrong = Comparison(equal=False, max_abs=0.5)
    assert "! b: its result is not eager's (max diff 5.0e-01)" in rendered(
        ConfigurationRow(name="b", kind="backend", difference=wrong)
    )


def test_why_there_is_no_profile_is_told() -> None:
    row = ConfigurationRow(name="default", kind="inductor", no_profile="no kernels")
    assert "– default: no profile: no kernels" in rendered(row)


def test_nodes_beyond_the_first_are_summed() -> None:
    names = tuple(f"n{i}" for i in range(SHOWN_NODES + 2))
    record = one(*(kernel(f"k{name}", 2.0, roles=(executes(name),)) for name in names), nodes=names)
    lines = rendered(nodes=nodes_across({"default": record})).splitlines()
    assert [line.split() for line in lines if " more" in line] == [["2", "more", "4.00"]]
    assert [line.split() for line in lines if line.startswith("all kernels")] == [["all", "kernels", "64.0"]]


# the command line


def arguments(*words: str) -> Any:
    return parse(["run", "--model", "hf:gpt2", *words])


def test_names_are_taken_apart_at_commas() -> None:
    assert parse_names(arguments("--compare", "eager, default,max-autotune")) == ("eager", "default", "max-autotune")
    assert parse_names(arguments()) == ()


@pytest.mark.parametrize(
    "words", [("--wide",), ("--group-by", "module"), ("--compile-mode", "default"), ("--replace", "gelu=a:b")]
)
def test_what_is_for_one_configuration_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=f"{words[0]} with --compare"):
        parse_names(arguments("--compare", "eager,default", *words))


def test_every_configuration_may_leave_a_profile(tmp_path: Any) -> None:
    assert files_of(("eager", "default"), tmp_path) == {
        "report": tmp_path / "report.txt",
        "eager": tmp_path / "profile-eager.json",
        "default": tmp_path / "profile-default.json",
    }
    assert files_of(("eager",), None) == {}
