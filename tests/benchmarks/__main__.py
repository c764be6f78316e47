"""All benchmarks of DESIGN section 8 in one command, or the table of an earlier run.

Run from the repository root: `python -m tests.benchmarks`. Finished parts are kept: a second call with the same output
goes on with what is missing. Exit code 1 when a bar is missed or a script failed.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.catalogue import BENCHMARKS, SCRIPTS, Benchmark
from tests.benchmarks.children import ChildError
from tests.benchmarks.results_file import ResultsError, continued, read, text, unmet, write
from tests.benchmarks.runner import Budget, machine_name, plan, probe, run_all


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and print the table."""
    options = _parser().parse_args(arguments)
    try:
        if options.list:
            for one in BENCHMARKS:
                print(f"{one.name:18s} {one.seconds:4.0f} s  {', '.join(one.needs) or '-'}")
                print("".join(f"    {bar.what}: {bar.limit}\n" for bar in one.bars), end="")
            return 0
        if options.report:
            results = read(options.report)
        else:
            return _run(options)
    except (ResultsError, ChildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(text(results))
    return 1 if unmet(results) else 0


def _run(options: argparse.Namespace) -> int:
    # Started in the background of a shell, Ctrl-C is ignored; a part that runs too long is ended by it.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    budget = Budget(options.budget_seconds)
    environment, has = probe()
    output: Path = options.output or SCRIPTS / "results" / f"{machine_name(environment)}.json"
    results = continued(output, environment, has)
    todo, left = plan(results, _chosen(options), again=options.again, has=has)
    for line in left:
        _say(line)
    try:
        run_all(results, todo, budget, output, _say)
    except KeyboardInterrupt:
        _say("interrupted; finished parts are kept")
    write(results, output)
    print(text(results))
    print(f"\nwritten to {output}")
    return 1 if unmet(results) else 0


def _chosen(options: argparse.Namespace) -> list[Benchmark]:
    return [one for one in BENCHMARKS if one.name in (options.only or [one.name]) and one.name not in options.skip]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    names = [one.name for one in BENCHMARKS]
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=names, help="run this one; repeatable")
    parser.add_argument("--skip", action="append", choices=names, default=[], help="leave this one out; repeatable")
    parser.add_argument("--again", action="store_true", help="also run what is finished, in place of what it found")
    parser.add_argument(
        "--budget-seconds", type=float, metavar="S", help="start only what fits into this time; a later call goes on"
    )
    parser.add_argument(
        "--output", type=Path, help="results as JSON; default: tests/benchmarks/results, named by the machine"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="print the table of a results file; needs no torch")
    parser.add_argument("--list", action="store_true", help="what there is, what it takes and needs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
