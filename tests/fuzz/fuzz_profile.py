"""Looks for profiles that crash their reader, with atheris (coverage-guided). Needs no torch.

    python -m venv fuzzing && fuzzing/bin/pip install atheris networkx
    fuzzing/bin/python tests/fuzz/fuzz_profile.py -max_total_time=300

Run from the repository's root. Arguments are libFuzzer's; a folder named last keeps what was found between runs. It
stops at the first input that is neither read nor refused by name, and writes it to `crash-*`: what is to be mended then
becomes a test in `tests/unit/test_fuzz_document.py`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))

with atheris.instrument_imports(include=["graphbench", "json"]):
    from graphbench import document
    from graphbench.errors import GraphbenchError
    from graphbench.report import REPORTERS

from tests.samples import cpu_profile, gpu_profile
from tests.step_samples import eager_step, host_step, training_step

WORDS = (
    '{"sha256":"',
    '"schema_version":6',
    '"columns":[',
    '{"constant":1,"n":1000000}',
    '{"u2":"AAAA"}',
    '{"i4":"AAAAAA=="}',
    '{"i8":"AAAAAAAAAAA="}',
    '{"f8":"AAAAAAAA8H8="}',
    "9223372036854775807",
    "1e308",
    "null",
    "\\ud800",
)


def one_input(data: bytes) -> None:
    """Read one text; of what was read, print every kind of report."""
    try:
        record = document.loads(data.decode("utf-8", "surrogatepass"))
    except (GraphbenchError, UnicodeDecodeError):
        return
    for kind in ("table", "csv", "markdown", "json"):
        REPORTERS[kind].render(record)


def main() -> None:
    """Write seeds and words into a folder of their own, and start."""
    with tempfile.TemporaryDirectory() as folder:
        seeds = Path(folder) / "seeds"
        seeds.mkdir()
        for make in (cpu_profile, gpu_profile, training_step, host_step, eager_step):
            for compact in (True, False):
                text = document.dumps(make(), compact=compact)
                if compact:  # a checksum would refuse every change of it
                    text = "{" + text.partition(",")[2]
                (seeds / f"{make.__name__}_{compact}.json").write_text(text, encoding="utf-8")
        words = Path(folder) / "words"
        escaped = [word.replace("\\", "\\\\").replace('"', '\\"') for word in WORDS]
        words.write_text("".join(f'"{word}"\n' for word in escaped), encoding="utf-8")
        own = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
        flags = [argument for argument in sys.argv[1:] if argument.startswith("-")]
        atheris.Setup(
            [sys.argv[0], f"-dict={words}", "-max_len=65536", "-timeout=20", *flags, *own, str(seeds)], one_input
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
