"""Runs the cells of the table that a file does not have yet, each mode in a process of its own."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from tests.modes.table import README_MARKS, in_readme, table

LIMIT_S = 400.0
"""A mode that takes longer is ended: the cells that it has finished are kept."""


def key_of(cell: dict[str, Any]) -> tuple[str, str, str]:
    """What tells a cell from the others."""
    return cell["mode"], cell["kind"], cell["model"]


def run_mode(name: str, device: str, done: set[tuple[str, str, str]]) -> None:
    """Run the cells of one mode in this process, and print each as a line of JSON."""
    from tests.modes.cells import mode_named, run_cell
    from tests.modes.models import MODELS

    mode = mode_named(name)
    for kind in mode.kinds:
        for model in MODELS:
            if (name, kind, model) not in done:
                print(json.dumps(run_cell(mode, kind, model, device).plain()), flush=True)


def follow(command: list[str], limit_s: float, keep: Callable[[dict[str, Any]], None]) -> str:
    """Run a process, keep each cell that it prints at once. Empty, or how it ended where that is not well.

    What it writes to stderr goes to a file: a pipe that nobody reads would stop it once full.
    """
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        late = Timer(limit_s, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    keep(json.loads(line))
            process.wait()
        finally:
            over = not late.is_alive()
            late.cancel()
        if not process.returncode:
            return ""
        if over:
            return f"ended after {limit_s:g} s"
        errors.seek(0)
        last = errors.read().strip().splitlines()[-1:] or [""]
        return f"exit {process.returncode}: {last[0][:300]}"


def environment(device: str, at_once: int) -> dict[str, str]:
    """What the cells were run on."""
    import torch

    return {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "command": f"python -m tests.modes --device {device} --at-once {at_once}",
    }


def main(arguments: list[str]) -> int:
    """Run, or print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.modes", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, help="file of cells; those that it has are not run again")
    parser.add_argument("--only", default="", help="only modes with this in their names")
    parser.add_argument("--at-once", type=int, default=1, help="so many processes; times then say little")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="start no mode after so many seconds")
    parser.add_argument("--table", action="store_true", help=f"print README's table, between {README_MARKS[0]}")
    parser.add_argument("--readme", action="store_true", help="put it into README.md")
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.table or given.readme:
        print(table()) if given.table else in_readme()
        return 0
    found = json.loads(given.out.read_text()) if given.out and given.out.exists() else {"cells": []}
    done = {key_of(cell) for cell in found["cells"]}
    if given.mode:
        run_mode(given.mode, given.device, done)
        return 0
    from tests.modes.modes import MODES

    found["environment"] = environment(given.device, given.at_once)
    wanted = [mode.name for mode in MODES if given.only in mode.name]
    lock, started_s = Lock(), time.monotonic()

    def work(name: str) -> None:
        if time.monotonic() - started_s > given.budget_s:
            return
        command = [sys.executable, "-W", "ignore", "-m", "tests.modes", "--device", given.device, "--mode", name]
        command += ["--out", str(given.out)] if given.out else []

        def keep(cell: dict[str, Any]) -> None:
            with lock:
                found["cells"].append(cell)
                if given.out:
                    given.out.write_text(json.dumps(found, indent=1) + "\n")
            print(*key_of(cell), cell["verdict"][:90], *cell["faults"], sep=" | ", flush=True)

        ending = follow(command, LIMIT_S, keep)
        if ending:
            print(name, ending, sep=" | ", flush=True)

    with ThreadPoolExecutor(given.at_once) as pool:
        list(pool.map(work, wanted))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
