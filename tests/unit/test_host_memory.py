"""What Linux tells of memory: the machine's, and what control groups of both versions leave of it."""

from __future__ import annotations

from pathlib import Path

from graphbench.host_memory import available_host_bytes

GIB = 1 << 30


def machine(root: Path, available_gib: int, groups: str = "") -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {available_gib << 20} kB\n")
    (root / "proc/self/cgroup").write_text(groups)
    return root


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def test_without_control_groups_the_machine_decides(tmp_path: Path) -> None:
    assert available_host_bytes(machine(tmp_path, 24)) == 24 * GIB


def test_where_nothing_is_told_nothing_is_known(tmp_path: Path) -> None:
    assert available_host_bytes(tmp_path) is None


def test_a_group_of_version_2_leaves_its_limit_less_what_it_cannot_drop(tmp_path: Path) -> None:
    root = machine(tmp_path, 24, "0::/job\n")
    used = {"memory__current": str(3 * GIB), "memory__stat": f"anon {GIB}\ninactive_file {2 * GIB}"}
    group(root / "sys/fs/cgroup/job", memory__max=str(4 * GIB), **used)
    assert available_host_bytes(root) == 3 * GIB


def test_a_group_above_ours_may_be_the_tightest(tmp_path: Path) -> None:
    root = machine(tmp_path, 24, "0::/outer/inner\n")
    group(root / "sys/fs/cgroup/outer", memory__max=str(2 * GIB), memory__current=str(GIB))
    group(root / "sys/fs/cgroup/outer/inner", memory__max="max", memory__current="0")
    assert available_host_bytes(root) == GIB


def test_a_group_of_version_1_is_read_where_a_container_shows_it(tmp_path: Path) -> None:
    root = machine(tmp_path, 24, "5:cpu:/\n4:memory:/hidden/here\n")
    limit = {"memory__limit_in_bytes": str(8 * GIB), "memory__usage_in_bytes": str(3 * GIB)}
    group(root / "sys/fs/cgroup/memory", **limit)
    assert available_host_bytes(root) == 5 * GIB


def test_a_group_beyond_its_limit_leaves_nothing(tmp_path: Path) -> None:
    root = machine(tmp_path, 24, "0::/\n")
    group(root / "sys/fs/cgroup", memory__max="100", memory__current="200")
    assert available_host_bytes(root) == 0
