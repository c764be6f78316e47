"""The import arrows of the design, read from the source: imports point down, siblings stay apart, pure stays pure."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "graphbench"

# Lower numbers lie lower. Parts of one number are siblings.
RANKS = {
    "device_records": 0,
    "put_back": 0,
    "units": 0,
    "plaintext": -1,
    "markup": 0,
    "supported": -1,
    "errors": 0,
    "host_memory": 0,
    "torch_names": 1,
    "measurements": 1,
    "arguments": 1,
    "bench_protocol": 1,
    "probes": 1,
    "collector": 1,
    "jsonvalues": 1,
    "files": 1,
    "checksum": 1,
    "options": 2,
    "step_records": 2,
    "condition_records": 2,
    "records": 3,
    "cost_checks": 4,
    "conservation": 5,
    "columnpool": 4,
    "codec": 5,
    "quickcodec": 6,
    "document": 7,
    "provenance": 8,
    "analysis": 8,
    "calls": 8,
    "symbolic": 7,
    "tensors": 8,
    "memory": 8,
    "capture": 9,
    "inductor": 9,
    "execution": 9,
    "isolate": 9,
    "timing": 9,
    "regions": 10,
    "runs": 10,
    "models": 10,
    "session": 11,
    "report": 11,
    "measuring": 12,
    "comparing": 13,
    "configurations": 14,
    "replacing": 14,
    "doctor": 13,
    "facade": 12,
    "api": 15,
    "live": 16,
    "series": 16,
    "trials": 16,
    "cli": 17,
    "plugins": 18,
    "__main__": 19,
    "__init__": 19,
}
PURE = {
    *(
        "device_records",
        "measurements",
        "options",
        "step_records",
        "condition_records",
        "records",
        "put_back",
        "units",
        "errors",
        "host_memory",
        "plaintext",
        "markup",
        "torch_names",
        "arguments",
        "collector",
        "jsonvalues",
        "files",
        "checksum",
        "columnpool",
        "codec",
        "quickcodec",
    ),
    *("cost_checks", "conservation", "document", "provenance", "analysis", "report", "runs"),
}
LAZY = ("torch", "networkx", "numpy", "tqdm", "jinja2", "plotly", "pandas")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def is_pure(file: Path) -> bool:
    return part_of(file) in PURE and file.name != "__init__.py"


def imports(file: Path) -> Iterator[str]:
    """Dotted names that a module imports, wherever it does; `from a import b` counts as `a.b`."""
    for entry in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(entry, ast.Import):
            yield from (alias.name for alias in entry.names)
        elif isinstance(entry, ast.ImportFrom):
            assert entry.level == 0, f"{file.name}: relative import"
            yield from (f"{entry.module}.{alias.name}" for alias in entry.names)


def foreign(file: Path, *names: str) -> list[str]:
    return [name for name in imports(file) if any(name == n or name.startswith(f"{n}.") for n in names)]


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_down_only(file: Path) -> None:
    own = part_of(file)
    assert own in RANKS, f"give {own} a place in the design's order"
    used = {name.split(".")[1] for name in imports(file) if name.startswith("graphbench.")} - {own}
    upward = {part for part in used if part in RANKS and RANKS[part] >= RANKS[own]}
    assert not upward, f"{own} imports {sorted(upward)}, which lie beside or above it"


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_pure_parts_never_import_torch(file: Path) -> None:
    if part_of(file) in PURE:
        assert foreign(file, "torch", "cupti", "triton") == []


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_only_inductor_reads_inductor_and_aot_autograd(file: Path) -> None:
    if part_of(file) != "inductor":
        assert foreign(file, "torch._inductor", "torch._functorch") == []


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_only_the_cupti_timer_uses_cupti(file: Path) -> None:
    if not (part_of(file) == "timing" and file.name.startswith("cupti")):
        assert foreign(file, "cupti") == []


def test_reading_and_rendering_a_profile_imports_nothing_heavy() -> None:
    """Every module of the pure parts, reporters of all formats included, which are imported by name."""
    pure = [".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in modules() if is_pure(file)]
    code = f"import sys, {', '.join(pure)}; print([name for name in {LAZY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
