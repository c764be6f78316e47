"""What a click on a group shows: the nodes and kernels that fall into it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from graphbench.analysis.digest import Digest
from graphbench.analysis.group_by import GroupBy
from graphbench.analysis.group_homes import homes_of
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.unfused import PHASES
from graphbench.plaintext import clean
from graphbench.records import ProfileRecord
from graphbench.report.html.model import Detail, addressed, kernel_id, node_id


def group_id(by: GroupBy, group: str) -> str:
    """How a group is named on a page: `group/module/encoder.layer.*`."""
    return addressed(f"group/{by}/{group}")


def group_details(record: ProfileRecord, ways: Sequence[GroupBy], digest: Digest) -> dict[str, Detail]:
    """The details of all groups, by id; nodes and kernels in program order.

    Args:
        record: a profile.
        ways: ways to group.
        digest: statistics already computed for it.
    """
    found: dict[str, Detail] = {}
    for by in ways:
        for group, (nodes, kernels) in _members(record, by, digest).items():
            links = (("nodes", tuple(nodes)), ("kernels that work for them", tuple(kernels)))
            identity = group_id(by, group)
            found[identity] = Detail(
                id=identity, kind="group", title=clean(group), links=tuple(link for link in links if link[1])
            )
    return found


def _members(record: ProfileRecord, by: GroupBy, digest: Digest) -> dict[str, tuple[dict[str, None], dict[str, None]]]:
    """Ids of the nodes and of the kernels of each group, each once."""
    members: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    homes_in = homes_of(record, by, None, digest)
    for region in record.regions:
        homes = homes_in(region)
        for node in region.nodes:
            if node.kind in TIMED_KINDS:
                for home in (home for phase in PHASES for home in homes.of_node(node, phase)):
                    members.setdefault(home.group, ({}, {}))[0][node_id(region, node)] = None
        for kernel in region.kernels:
            for home in homes.of_kernel(kernel):
                members.setdefault(home.group, ({}, {}))[1][kernel_id(region, kernel)] = None
    return members
