"""Files are read up to a size, written whole or not at all, and never through a symbolic link."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from graphbench import cli, document, files
from graphbench.errors import ProfileFormatError, UsageError
from tests.samples import cpu_profile


def test_a_file_longer_than_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    with file.open("wb") as stream:
        stream.truncate(document.MAX_FILE_BYTES + 1)  # takes no disk, and would take a GiB of memory
    with pytest.raises(ProfileFormatError, match=r"found a file of 1\.00 GiB, expected at most 1\.00 GiB"):
        document.read(file)


def test_a_file_as_long_as_the_limit_is_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"12345")
    assert (files.read_bounded(file, 5), files.read_bounded(file, 4)) == (b"12345", None)


@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_a_symbolic_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path, target: str) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    link = tmp_path / "profile.json"
    link.symlink_to(tmp_path / target)
    document.write(cpu_profile(), link, overwrite=True)
    assert document.read(link) == cpu_profile()
    assert not link.is_symlink()
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_link_to_a_folder_is_replaced_and_a_folder_is_not(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    files.write_whole(tmp_path / "link", "new", overwrite=True)
    assert (tmp_path / "link").read_text() == "new"
    with pytest.raises(UsageError, match="it is a directory"):
        files.write_whole(tmp_path / "folder", "new", overwrite=True)


def test_a_link_that_leads_nowhere_exists_and_is_kept_without_force(tmp_path: Path) -> None:
    link = tmp_path / "report.txt"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="exists and is not overwritten"):
        files.write_whole(link, "new", overwrite=False)
    with pytest.raises(UsageError, match="will not overwrite"):
        cli.common.refuse_overwrite({"report": link}, force=False)
    assert link.is_symlink()


@pytest.mark.parametrize(("names", "hint"), [(("a.html",), "choose another name"), (("a", "b"), "another folder")])
def test_where_one_file_is_written_another_name_helps_and_of_several_another_folder(
    tmp_path: Path, names: tuple[str, ...], hint: str
) -> None:
    (tmp_path / names[0]).write_text("old")
    with pytest.raises(UsageError) as raised:
        cli.common.refuse_overwrite({name: tmp_path / name for name in names}, force=False)
    assert hint in (raised.value.hint or "")


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "report.txt"
    file.write_text("old")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        files.write_whole(file, "new", overwrite=True)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("report.txt", "old")]
