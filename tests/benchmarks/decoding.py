"""Decoding of CUPTI's record buffers on any machine: 200,000 launches, laid out as pressure.py's session leaves them.

Per launch an API call, the label's id and the kernel, in buffers of 8 MiB; correlation ids tell that none was lost.
CPU time, since decoding waits for nothing. Needs neither torch nor a GPU.
Run from the repository root: `python tests/benchmarks/decoding.py --output results.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import time
from pathlib import Path
from typing import Any

from graphbench.timing.cupti_records import LABEL_KIND, Decoded, Kind, decode

LAUNCHES = 200_000
REPEATS = 5
BUFFER_BYTES = 8 << 20
SIZES = {Kind.CONCURRENT_KERNEL: 216, Kind.EXTERNAL_CORRELATION: 24, Kind.RUNTIME: 40}
"""Bytes per record, `cupti_activity.h` of CUDA 13.0."""
NAME_ADDRESSES = 100
"""As many different kernels, of as many geometries."""


def launch(correlation: int) -> bytes:
    """The three records of one launch."""
    call = bytearray(SIZES[Kind.RUNTIME])
    struct.pack_into(
        "<2I 2Q 4I", call, 0, Kind.RUNTIME, 211, correlation * 100, correlation * 100 + 50, 1, 2, correlation, 0
    )
    label = bytearray(SIZES[Kind.EXTERNAL_CORRELATION])
    struct.pack_into("<2I Q I", label, 0, Kind.EXTERNAL_CORRELATION, LABEL_KIND, correlation // 200 + 1, correlation)
    kernel = bytearray(SIZES[Kind.CONCURRENT_KERNEL])
    struct.pack_into("<I", kernel, 0, Kind.CONCURRENT_KERNEL)
    struct.pack_into("<2Q", kernel, 16, correlation * 1000, correlation * 1000 + 900)
    struct.pack_into("<6i", kernel, 52, correlation % NAME_ADDRESSES + 1, 1, 1, 128, 1, 1)
    struct.pack_into("<I", kernel, 92, correlation)
    struct.pack_into("<Q", kernel, 104, correlation % NAME_ADDRESSES + 1)
    return bytes(call + label + kernel)


def buffers() -> list[bytes]:
    """All records, in buffers as CUPTI returns them: never a record in two."""
    records = [launch(correlation) for correlation in range(1, LAUNCHES + 1)]
    per_buffer = BUFFER_BYTES // len(records[0])
    return [b"".join(records[first : first + per_buffer]) for first in range(0, LAUNCHES, per_buffer)]


def timed(chunks: list[bytes]) -> tuple[float, Decoded]:
    """CPU seconds to decode everything, and what was decoded."""
    sizes = {int(kind): n_bytes for kind, n_bytes in SIZES.items()}
    start = time.process_time()
    found = decode(chunks, sizes, _no_size, "kernel_{}".format)
    return time.process_time() - start, found


def _no_size(chunk: bytes, offset: int) -> int:
    raise AssertionError(f"a record of unknown kind at {offset}")


def main() -> None:
    """Decode several times and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(os.devnull), help="results as JSON")
    options = parser.parse_args()
    chunks = buffers()
    seconds = []
    lost: set[int] = set()
    for _ in range(REPEATS):
        spent_s, found = timed(chunks)
        seconds.append(spent_s)
        lost |= set(range(1, LAUNCHES + 1)) - {activity.correlation_id for activity in found.activities}
        lost |= set(range(1, LAUNCHES + 1)) - found.external_ids.keys()
    results: dict[str, Any] = {
        "records": found.records,
        "lost": len(lost),
        "decode_us_per_record": statistics.median(seconds) / found.records * 1e6,
        "all_s": [round(one, 3) for one in seconds],
    }
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
