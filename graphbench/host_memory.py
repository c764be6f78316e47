"""How much memory this machine, or the container that we are in, still has. Pure: reads what Linux tells."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/")
_KIB = 1024


def available_host_bytes(root: Path = ROOT) -> int | None:
    """Bytes that can be allocated without swapping: what the machine has, within what our control groups allow.

    Args:
        root: where `proc` and `sys` are mounted.

    Returns:
        Bytes; `None` where the system does not tell (no Linux).

    Source: `MemAvailable` of proc(5); `memory.max`, `memory.current` and `inactive_file` of control groups v2 and
        `memory.limit_in_bytes` and `memory.usage_in_bytes` of v1, for our group and those above it.
    """
    known = [_machine_bytes(root), *(_group_bytes(group) for group in _groups(root))]
    found = [size for size in known if size is not None]
    return max(0, min(found)) if found else None


def _machine_bytes(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * _KIB
    return None


def _groups(root: Path) -> list[Path]:
    """The folders of our control group and those above it; the group's own path is often hidden from a container."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" or "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup" / ("" if number == "0" else "memory")
            own = top / path.lstrip("/")
            return [own, *(parent for parent in own.parents if parent.is_relative_to(top))]
    return []


def _group_bytes(group: Path) -> int | None:
    """What a group's limit leaves; file pages that it can drop at once count as free."""
    for limit_name, usage_name, cache_name in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit, usage = _text(group / limit_name).strip(), _text(group / usage_name).strip()
        if limit.isdecimal() and usage.isdecimal():
            return int(limit) - max(0, int(usage) - _statistic(group / "memory.stat", cache_name))
    return None  # no limit reads `max`


def _statistic(file: Path, name: str) -> int:
    """One number of `memory.stat`; 0 where it is not told, which only makes the estimate careful."""
    for line in _text(file).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def _text(file: Path) -> str:
    """A file's text; empty where there is no such file, as on other systems and in containers."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""
