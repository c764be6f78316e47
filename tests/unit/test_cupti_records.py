"""Decoding of CUPTI's buffers, on records laid out as cupti_activity.h of CUDA 13.0 says."""

from __future__ import annotations

import struct

import pytest

from graphbench.errors import TimingError
from graphbench.provenance.correlation import Activity, Launch
from graphbench.timing.cupti_records import (
    LABEL_KIND,
    ApiCall,
    Decoded,
    Wait,
    decode,
    decode_api,
    decode_record,
    read_bytes,
)

SIZES = {10: 216, 1: 96, 22: 96, 2: 88, 39: 24, 4: 40, 5: 40}
NAMES = {0x1000: "gemm", 0x2000: "softmax"}


def record(kind: int, /, **fields: tuple[int, str, int]) -> bytes:
    """A record of zeros but for `fields`: name -> (offset, struct format, value)."""
    raw = bytearray(SIZES[kind])
    struct.pack_into("<I", raw, 0, kind)
    for offset, layout, value in fields.values():
        struct.pack_into(f"<{layout}", raw, offset, value)
    return bytes(raw)


def kernel(address: int = 0x1000, correlation: int = 3) -> bytes:
    return record(
        10,
        start=(16, "Q", 1000),
        end=(24, "Q", 1500),
        device=(40, "I", 1),
        stream=(48, "I", 7),
        correlation=(92, "I", correlation),
        name=(104, "Q", address),
        graph_node=(144, "Q", 1 << 33),
        registers=(6, "H", 32),
        **{f"grid{i}": (52 + 4 * i, "i", 10 + i) for i in range(3)},
        **{f"block{i}": (64 + 4 * i, "i", 20 + i) for i in range(3)},
        static_shared=(76, "i", 48),
        dynamic_shared=(80, "i", 4096),
        local=(84, "I", 8),
        **{f"cluster{i}": (176 + 4 * i, "I", 1 + i) for i in range(3)},
    )


LAUNCH = Launch((10, 11, 12), (20, 21, 22), (1, 2, 3), 32, 48, 4096, 8)


def external(identifier: int, correlation: int, kind: int = LABEL_KIND) -> bytes:
    return record(39, kind=(4, "I", kind), identifier=(8, "Q", identifier), correlation=(16, "I", correlation))


def decoded(*records: bytes) -> Decoded:
    return decode([b"".join(records)], dict(SIZES), no_size, NAMES.__getitem__)


def no_size(chunk: bytes, offset: int) -> int:
    raise AssertionError(f"asked for a size at {offset}")


def test_a_kernel_is_read_field_by_field() -> None:
    assert decoded(kernel()).activities == [Activity("kernel", "gemm", 1000, 1500, 3, 1 << 33, 7, 1, LAUNCH)]


def test_a_copy_is_read_field_by_field() -> None:
    raw = record(
        1,
        copy_kind=(4, "B", 8),
        start=(16, "Q", 10),
        end=(24, "Q", 30),
        device=(32, "I", 2),
        stream=(40, "I", 5),
        correlation=(44, "I", 9),
        graph_node=(64, "Q", 6),
    )
    assert decoded(raw).activities == [Activity("copy", "memcpy DtoD", 10, 30, 9, 6, 5, 2)]


def test_a_copy_between_devices_is_read_field_by_field() -> None:
    raw = record(
        22,
        copy_kind=(4, "B", 10),
        start=(16, "Q", 10),
        end=(24, "Q", 30),
        device=(32, "I", 2),
        stream=(40, "I", 5),
        correlation=(60, "I", 9),
        graph_node=(72, "Q", 6),
    )
    assert decoded(raw).activities == [Activity("copy", "memcpy PtoP", 10, 30, 9, 6, 5, 2)]


def test_a_fill_is_read_field_by_field() -> None:
    raw = record(
        2,
        start=(16, "Q", 10),
        end=(24, "Q", 30),
        device=(32, "I", 2),
        stream=(40, "I", 5),
        correlation=(44, "I", 9),
        graph_node=(64, "Q", 6),
    )
    assert decoded(raw).activities == [Activity("memset", "memset", 10, 30, 9, 6, 5, 2)]


def test_labels_map_correlation_ids_to_external_ids() -> None:
    assert decoded(external(1 << 40, 3), external(17, 4)).external_ids == {3: 1 << 40, 4: 17}


def test_labels_of_other_tools_are_not_ours() -> None:
    assert decoded(external(17, 4, kind=3)).external_ids == {}


def api_call(kind: int, cbid: int, start: int = 100, end: int = 250) -> bytes:
    return record(
        kind,
        cbid=(4, "I", cbid),
        start=(8, "Q", start),
        end=(16, "Q", end),
        process=(24, "I", 11),
        thread=(28, "I", 22),
        correlation=(32, "I", 33),
        returned=(36, "I", 44),
    )


def test_an_api_call_is_read_field_by_field() -> None:
    assert decode_api(api_call(5, 131, 1 << 60, 1 << 61)) == ApiCall(5, 131, 1 << 60, 1 << 61, 11, 22, 33, 44)


def test_of_api_calls_only_the_waits_that_are_asked_for_are_kept() -> None:
    raw = api_call(5, 131) + api_call(4, 131) + api_call(5, 211) + kernel() + api_call(4, 17)
    waits = {(5, 131): "cudaStreamSynchronize", (4, 17): "cuCtxSynchronize"}
    found = decode([raw], dict(SIZES), no_size, NAMES.__getitem__, waits)
    assert found.waits == [Wait(name, 100, 250, 22, 33) for name in ("cudaStreamSynchronize", "cuCtxSynchronize")]
    assert (len(found.activities), found.records) == (1, 5)


def test_no_waits_are_kept_when_none_are_asked_for() -> None:
    assert decoded(api_call(5, 131)).waits == []


def test_records_of_other_kinds_are_stepped_over_and_counted() -> None:
    found = decoded(record(5), external(17, 3), kernel(), record(4), kernel(0x2000, 8))
    assert ([activity.name for activity in found.activities], found.records) == (["gemm", "softmax"], 5)


def test_the_size_of_an_unknown_kind_is_asked_for_once() -> None:
    asked: list[int] = []

    def size_at(chunk: bytes, offset: int) -> int:
        asked.append(offset)
        return 48

    unknown = struct.pack("<I", 99) + bytes(44)
    found = decode([unknown + kernel() + unknown], dict(SIZES), size_at, NAMES.__getitem__)
    assert (asked, len(found.activities), found.records) == ([0], 1, 3)


def test_a_name_is_read_once_per_address() -> None:
    asked: list[int] = []

    def name_at(address: int) -> str:
        asked.append(address)
        return NAMES[address]

    decode([kernel() * 3, kernel()], dict(SIZES), no_size, name_at)
    assert asked == [0x1000]


def test_all_buffers_are_decoded() -> None:
    assert len(decode([kernel(), kernel()], dict(SIZES), no_size, NAMES.__getitem__).activities) == 2


@pytest.mark.parametrize(("cut", "what"), [(1, "kind 10"), (100, "kind 10"), (214, "a cut-off kind")])
def test_records_that_do_not_fill_the_buffer_are_refused(cut: int, what: str) -> None:
    with pytest.raises(TimingError, match=f"record of {what} at byte 216"):
        decoded(kernel(), kernel()[:-cut])


@pytest.mark.parametrize("size", [0, 2])
def test_a_size_that_would_not_advance_is_refused(size: int) -> None:
    with pytest.raises(TimingError, match="record of kind 99"):
        decode([struct.pack("<I", 99) + bytes(44)], {}, lambda chunk, offset: size, NAMES.__getitem__)


@pytest.mark.parametrize("raw", [kernel(), record(1), record(22), record(2), external(17, 3)])
def test_one_record_alone_reads_as_in_a_buffer(raw: bytes) -> None:
    (kind,) = struct.unpack_from("<I", raw)
    alone = decode_record(raw[: read_bytes(kind)], NAMES.__getitem__)
    found = decoded(raw)
    assert alone == (found.activities[0] if found.activities else next(iter(found.external_ids.items())))
