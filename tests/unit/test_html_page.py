"""The page of one profile: its sections, and what a click on each row shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphbench.analysis.gaps import gap_rows
from graphbench.analysis.generated_code import RegionCode
from graphbench.measurements import SourceLine, TimerName
from graphbench.records import OP_LIST_REGION, FusionRefusal, GeneratedCode, ProfileRecord, Side, Traffic
from graphbench.report.html.details import OF_KERNEL, OF_NODE
from graphbench.report.html.model import Detail, Page, Section, Table, Tile, gap_id, kernel_id, node_id
from graphbench.report.html.page import profile_page
from tests.factories import FAILED, ceilings, cpu_run, executes, kernel, node, profile, region, steady, worked
from tests.recorded import recorded_profile
from tests.step_samples import eager_step, training_step


@pytest.fixture(scope="module")
def record() -> ProfileRecord:
    return recorded_profile()


@pytest.fixture(scope="module")
def page(record: ProfileRecord) -> Page:
    return profile_page(record)


def small(**changes: object) -> ProfileRecord:
    """Two nodes in one kernel."""
    nodes = [node("conv", 9000.0, line=3), node("relu", 2000.0, inputs=("conv",), line=4)]
    made = kernel("cpp_fused", 6000.0, roles=(executes("conv"), executes("relu")))
    return replace(profile(region(nodes, [made])), **changes)  # type: ignore[arg-type]


def section(page: Page, identity: str) -> Section:
    return next(entry for entry in page.sections if entry.id == identity)


def table(page: Page, identity: str) -> Table:
    return next(entry for part in page.sections for entry in part.tables if entry.id == identity)


def links(detail: Detail) -> dict[str, tuple[str, ...]]:
    return dict(detail.links)


def test_sections_go_from_verdicts_to_rows_to_how_it_was_measured(page: Page) -> None:
    order = ["summary", "opportunities", "pictures", "groups", "nodes", "fusions", "step", "breaks", "measured"]
    assert [part.id for part in page.sections if part.id != "notes"] == [*order, "environment"]


def test_every_id_on_a_page_is_there_once(page: Page) -> None:
    ids = [part.id for part in page.sections] + [entry.id for part in page.sections for entry in part.tables]
    ids += [f"figure-{figure.id}" for part in page.sections for figure in part.figures]
    assert len(set(ids)) == len(ids)


def test_every_row_of_nodes_kernels_gap_ops_and_opportunities_has_details(page: Page, record: ProfileRecord) -> None:
    for identity in ("nodes-table", "fusions-table", "gaps", "opportunities-table"):
        assert set(table(page, identity).ids) <= set(page.details), identity
    assert len(table(page, "nodes-table").ids) == len(table(page, "nodes-table").columns[0].values)
    assert all(identity == detail.id for identity, detail in page.details.items())


def test_a_row_of_gap_ops_is_named_by_its_place_in_the_step(page: Page, record: ProfileRecord) -> None:
    assert record.step is not None
    found = table(page, "gaps")
    times = dict(zip(found.ids, next(c.values for c in found.columns if c.key == "in_graph"), strict=True))
    expected = {
        gap_id(record.step.rows.index(row.row)): row.in_graph_ns
        for row in gap_rows(record.step)
        if row.row in record.step.rows
    }
    assert times == expected


def test_nodes_and_kernels_are_linked_both_ways_by_role(page: Page, record: ProfileRecord) -> None:
    roles = 0
    for made in record.regions:
        for entry in made.kernels:
            of_kernel = links(page.details[kernel_id(made, entry)])
            for role in entry.roles:
                of_node = links(page.details[node_id(made, role.node)])
                assert node_id(made, role.node) in of_kernel[OF_KERNEL[role.role]]
                assert kernel_id(made, entry) in of_node[OF_NODE[role.role]]
                roles += 1
    assert roles > 50


def test_every_link_of_nodes_and_kernels_leads_to_details(page: Page) -> None:
    for detail in page.details.values():
        for head, ids in detail.links:
            assert ids, (detail.id, head)
            assert set(ids) <= set(page.details), (detail.id, head)


def test_samples_are_those_of_the_record(page: Page, record: ProfileRecord) -> None:
    entry = record.regions[0].nodes[3]
    shown = {series.name: series.values_ns for series in page.details[node_id("r0", entry)].samples}
    assert entry.isolated.samples is not None
    assert shown["isolated"] == entry.isolated.samples.busy_ns


def test_a_kernel_shows_its_generated_code(page: Page, record: ProfileRecord) -> None:
    made = record.regions[0]
    code, shown = RegionCode(made), 0
    for entry in made.kernels:
        found = page.details[kernel_id(made, entry)].code
        expected = code.of(entry)
        assert (found is None) == (expected is None)
        if found and expected:
            assert (found.line, found.language) == (expected.line, expected.language)
            assert found.source.split() == expected.source.split()
            shown += 1
    assert shown > 10


def test_a_node_shows_its_source_line_with_the_code_there() -> None:
    detail = profile_page(small()).details["r0/conv"]
    assert dict(detail.facts)["source"] == "model.py:3 in forward\nx = conv(x)"


def test_a_node_knows_what_it_reads_and_who_reads_it() -> None:
    details = profile_page(small()).details
    assert links(details["r0/relu"])["inputs"] == ("r0/conv",)
    assert links(details["r0/conv"])["its results go to"] == ("r0/relu",)


def test_a_kernel_knows_what_it_reads_and_what_was_not_fused_with_it_and_why() -> None:
    first = kernel("first", 1000.0)
    second = kernel("second", 1000.0, handle=1)
    second = replace(second, traffic=(Traffic(buffer="buf0", writer=first.key, read_bytes=4),))
    refusal = FusionRefusal(first=first.key, second=second.key, reason="no shared data")
    made = replace(region([], [first, second]), refusals=(refusal,))
    details = profile_page(profile(made)).details
    one, other = details[kernel_id(made, first)], details[kernel_id(made, second)]
    assert links(other)["reads what these wrote"] == (one.id,)
    assert links(one)["what it wrote is read by"] == (other.id,)
    assert links(one)["not fused with"] == (other.id,)
    assert dict(other.facts)["not fused with"] == f"{first.key}: no shared data"


def test_a_time_that_is_missing_says_why() -> None:
    made = profile(region([node("conv", FAILED)]))
    page = profile_page(made)
    assert dict(page.details["r0/conv"].facts)["isolated"] == "failed: ran out of memory"
    missing = table(page, "not-measured")
    assert missing.ids == ("r0/conv",)
    assert {column.key: column.values for column in missing.columns}["why"] == ("ran out of memory",)


def test_a_profile_without_a_step_says_that_gaps_were_not_recorded() -> None:
    assert section(profile_page(small()), "step").lines == ("gaps: not recorded (use graphbench.profile(fn))",)


def test_a_step_shows_its_parts_places_gap_ops_and_breaks() -> None:
    page = profile_page(training_step())
    assert {"step-parts", "step-places", "gaps", "gap-lines", "breaks-table"} <= {
        entry.id for part in page.sections for entry in part.tables
    }


def test_a_graph_break_is_linked_to_the_ops_behind_it() -> None:
    record = training_step()
    page = profile_page(record)
    assert record.step is not None
    detail = next(detail for detail in page.details.values() if detail.kind == "break" and detail.links)
    ((_, ops),) = detail.links
    places = {record.step.rows[int(identity.removeprefix("step/"))].place for identity in ops}
    assert len(places) == 1
    assert all(page.details[identity].kind == "gap" for identity in ops)


def test_a_step_without_compiled_graphs_compares_nothing_and_has_no_kernels() -> None:
    page = profile_page(eager_step())
    assert section(page, "summary").tables == ()
    assert table(page, "gaps").title == "Ops as they ran eagerly"
    assert any(line.startswith("nothing was compiled") for line in section(page, "summary").lines)


def test_an_op_list_has_nodes_and_no_compiled_side() -> None:
    page = profile_page(profile(region([node("linear", 1000.0)], key=OP_LIST_REGION)))
    ids = {part.id for part in page.sections}
    assert "nodes" in ids
    assert not ids & {"fusions", "step", "breaks", "opportunities"}


def test_tiles_say_what_the_summary_says(page: Page) -> None:
    tiles = {tile.label: tile for tile in section(page, "summary").tiles}
    before_after = {column.key: column for column in table(page, "before-after").columns}
    assert tiles["compiled against eager, forward and backward"].value in before_after["speedup"].texts
    assert tiles["kernel time attributed"].value == "100.00 %"


def test_the_environment_tells_every_option_and_input() -> None:
    made = small()
    environment = replace(made.environment, options=(("max_autotune", "True"),))
    facts = dict(section(profile_page(replace(made, environment=environment)), "environment").facts)
    assert facts["option max_autotune"] == "True"
    assert (facts["torch"], facts["cache"], facts["timer"]) == ("2.13.0", "warm", "wallclock")


def test_the_policy_tells_every_digit() -> None:
    made = small()
    policy = replace(made.policy, measure_ms=1234567.5, warmup_ms=25.0, noise=0.01)
    facts = dict(section(profile_page(replace(made, policy=policy)), "environment").facts)
    assert (facts["measure ms"], facts["warmup ms"], facts["noise"]) == ("1234567.5", "25", "0.01")


def test_code_shows_no_character_that_a_reader_could_not_see() -> None:
    made = small()
    entry = replace(made.regions[0].kernels[0], line=1)
    code = GeneratedCode(phase="forward", text="cpp_fused(\x1b[2J\u202e)\tx")
    hostile = replace(made.regions[0], kernels=(entry,), code=(code,))
    found = profile_page(replace(made, regions=(hostile,))).details[kernel_id("r0", entry)].code
    assert found is not None
    assert found.call == "cpp_fused(·[2J·)    x"


def test_unstable_measurements_say_so_in_the_details() -> None:
    warned = replace(steady(1000.0), warnings=("unstable: p90/p50 3.0",))
    page = profile_page(profile(region([node("conv", warned)])))
    assert dict(page.details["r0/conv"].facts)["isolated"].endswith("\n! unstable: p90/p50 3.0")


def test_a_source_without_code_or_function_is_its_file_and_line() -> None:
    entry = replace(node("conv", 1.0), source=SourceLine(file="a.py", line=7))
    page = profile_page(profile(region([entry])))
    assert dict(page.details["r0/conv"].facts)["source"] == "a.py:7"


def test_a_group_leads_to_its_nodes_and_kernels_as_many_as_its_row_counts(page: Page) -> None:
    for by in ("module", "op_type", "kernel"):
        found = table(page, f"groups-{by}")
        columns = {column.key: column.values for column in found.columns}
        for identity, nodes, kernels in zip(found.ids, columns["nodes"], columns["kernels"], strict=True):
            of_group = links(page.details[identity])
            assert len(of_group.get("nodes", ())) == nodes, identity
            assert len(of_group.get("kernels that work for them", ())) == kernels, identity


def test_a_place_of_the_step_leads_to_what_ran_there(page: Page, record: ProfileRecord) -> None:
    assert record.step is not None
    ran = [
        kernel_id(row.region or "", row.kernel) for row in record.step.rows if row.place == "r0/forward" and row.kernel
    ]
    assert links(page.details["place/r0/forward"])["kernels"] == tuple(ran)
    assert ran


def tile(page: Page, label: str) -> Tile:
    return next(entry for entry in section(page, "summary").tiles if entry.label == label)


def half_explained(timer: TimerName) -> Page:
    """A kernel of 600 ns in a run of 1000 ns."""
    ran = steady(600.0, timer=timer)
    run = replace(cpu_run([ran], wrapper_ns=400.0), timer=timer)
    made = kernel("k", 500.0, roles=(executes("relu"),), in_graph=ran)
    return profile_page(profile(region([node("relu", 900.0)], [made], forward=Side(run=run)), timer=timer))


def test_the_tile_of_coverage_says_all_that_its_line_does() -> None:
    made = tile(half_explained("wallclock"), "kernel time attributed")
    assert made.value == "100.00 %"
    assert made.note == "1 kernel, 0 unattributed, 0 dropped, of which 40.0 % between kernels (wrapper)"


def test_of_events_the_tile_of_coverage_tells_what_is_labelled_and_claims_no_more() -> None:
    page = half_explained("cuda-events")
    assert not [entry for entry in section(page, "summary").tiles if entry.label == "kernel time attributed"]
    made = tile(page, "kernel time labelled")
    assert made.value == "60.00 %"
    assert made.note == "1 row; cuda-events cannot tell whether the other 40.0 % was idle or unlabelled work"


def test_kernels_faster_than_their_limit_are_not_told_as_if_they_could_be() -> None:
    made = kernel("k", worked(steady(1000.0), 0, 0), traffic=(Traffic(buffer="b", read_bytes=1000),))
    fast, slow = (
        profile_page(profile(region([node("relu", 2000.0)], [made]), ceilings=ceilings(gb_per_s=rate, launch_ns=1.0)))
        for rate in (0.5, 5.0)
    )
    assert tile(slow, "of the device's limit").note == "200.0 ns at the limit, of 1 of 1 timed kernels"
    assert tile(fast, "of the device's limit").note == (
        "2.000 µs at the limit, of 1 of 1 timed kernels; faster than at the limit, which cannot be: see suspicious"
    )


def test_a_path_that_is_no_utf_8_is_an_id_that_an_address_can_hold() -> None:
    source = SourceLine(file="caf\udce9.py", line=3)
    nodes = [replace(node("conv", 10.0), source=source), node("caf\udce9", 20.0, module="caf\udce9")]
    page = profile_page(profile(region(nodes, [kernel("k\udce9", 5.0, roles=(executes("conv"),))])))
    assert "group/source/caf\\udce9.py:3" in page.details
    ids = [*page.details, *(entry for part in page.sections for made in part.tables for entry in made.ids)]
    assert all(entry.encode() for entry in ids if entry)


def test_a_region_without_a_time_is_no_node_of_its_name() -> None:
    skipped = replace(region([node("r0", FAILED)]), status="skipped", reason="not run")
    found = table(profile_page(profile(skipped)), "not-measured")
    assert found.ids == ("", "r0/r0")
