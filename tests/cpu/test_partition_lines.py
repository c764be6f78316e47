"""Which lines of a generated wrapper no CUDA graph holds."""

from __future__ import annotations

from graphbench.inductor.partitions import lines_outside

SOURCE = """
def partition_0(args):
    first()
    return body_0(args)

def body_0(args):
    inside()

def branch_0(args):
    outside()

class Runner:
    def call(self, args):
        self.partitions[0](args)
        between()
        branch_0(args)
"""


def line_of(call: str) -> int:
    return next(number for number, line in enumerate(SOURCE.splitlines(), 1) if line.strip() == call)


def test_what_a_partition_calls_is_inside_and_what_stays_in_the_runner_is_not() -> None:
    lines = {call: line_of(call) for call in ("first()", "inside()", "outside()", "between()")}
    assert lines_outside(SOURCE, lines.values()) == {lines["outside()"], lines["between()"]}


def test_of_a_wrapper_without_partitions_everything_is_outside() -> None:
    source = "class Runner:\n    def call(self, args):\n        kernel()\n"
    assert lines_outside(source, [3]) == {3}
