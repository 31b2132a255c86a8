"""Files are replaced whole, in their own folder, with their own permissions."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tanager import atomic
from tanager.atomic import ABANDONED, replacing, write_text
from tanager.errors import ConfigurationError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    write_text(tmp_path / "a", "x")
    assert mode(tmp_path / "a") == mode(tmp_path / "plain")


@pytest.mark.parametrize("given", [0o600, 0o640, 0o444, 0o755])
def test_permissions_are_kept_and_never_wider_on_the_way(tmp_path, given):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(given)
    with replacing(path) as part:
        assert mode(part) & ~(given | 0o600) == 0
        part.write_text("new")
    assert (mode(path), path.read_text()) == (given, "new")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
def test_the_group_of_the_old_file_is_kept(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    os.chown(path, 12_345, 23_456)
    path.chmod(0o640)
    write_text(path, "new")
    facts = path.stat()
    assert (facts.st_uid, facts.st_gid, mode(path)) == (12_345, 23_456, 0o640)


def test_a_group_that_cannot_be_kept_gains_nothing(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o660)
    real, read = path.stat(), Path.stat
    foreign = os.stat_result((*real[:5], real.st_gid + 1, *real[6:]))

    def refuse(*_):
        raise PermissionError(errno.EPERM, "no")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", lambda p, **how: foreign if p == path else read(p, **how))
        patch.setattr(os, "chown", refuse)
        write_text(path, "new")
    assert mode(path) == 0o600


def test_a_link_into_another_folder_is_not_followed(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "precious"
    target.write_text("precious")
    link = tmp_path / "here" / "model"
    link.symlink_to(target)
    with pytest.raises(ConfigurationError, match="symbolic link"):
        write_text(link, "new")
    assert target.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["here", "model", "precious", "there"]


def test_a_link_within_the_folder_and_a_linked_folder_are_followed(tmp_path):
    (tmp_path / "v1").write_text("old")
    (tmp_path / "latest").symlink_to("v1")
    write_text(tmp_path / "latest", "new")
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "v1").read_text() == "new"
    (tmp_path / "folder").mkdir()
    (tmp_path / "short").symlink_to("folder")
    write_text(tmp_path / "short" / "a", "x")
    assert (tmp_path / "folder" / "a").read_text() == "x"


@pytest.mark.parametrize("name", ["/dev/null", "/dev/full"])
def test_a_device_is_refused(name):
    if not Path(name).exists():
        pytest.skip(f"no {name} here")
    before = Path(name).stat()
    with pytest.raises(ConfigurationError, match="not a file"):
        write_text(name, "x")
    assert Path(name).stat().st_ino == before.st_ino


def age(path):
    long_ago = path.stat().st_mtime - ABANDONED - 60
    os.utime(path, (long_ago, long_ago))


@pytest.mark.parametrize("locks", [True, False])
def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path, monkeypatch, locks):
    if not locks:
        monkeypatch.setattr(atomic, "fcntl", None)
    elif atomic.fcntl is None:
        pytest.skip("no advisory locks here")
    code = (
        "import os, signal\nfrom tanager.atomic import replacing\n"
        f"with replacing({str(tmp_path / 'a')!r}) as part:\n"
        "    part.write_text('half')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (left,) = tmp_path.iterdir()
    if not locks:
        age(left)
    with replacing(tmp_path / "a") as part:  # a live writer's file is left alone
        part.write_text("whole")
        write_text(tmp_path / "a", "other")
        assert part.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "whole"


@pytest.mark.parametrize("call", ["open", "fsync", "replace", "chmod"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_every_failing_call_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call, code):
    path = tmp_path / "a"
    path.write_text("old")

    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    owner = os if call in ("open", "fsync") else Path
    with monkeypatch.context() as patch:
        patch.setattr(owner, call, fail)
        with pytest.raises(OSError, match=os.strerror(code)):
            write_text(path, "new")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError])
def test_an_interruption_while_writing_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "a"
    path.write_text("old")

    def write_half():
        with replacing(path) as part:
            part.write_text("half")
            raise error

    with pytest.raises(error):
        write_half()
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert path.read_text() == "old"


def test_only_abandoned_files_of_the_same_name_are_removed(tmp_path):
    kept = [".b.0123abcd.part", "a.0123abcd.part", ".a.part"]
    for name in (".a.0123abcd.part", *kept):
        (tmp_path / name).write_text("half")
        age(tmp_path / name)
    write_text(tmp_path / "a", "x")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*kept, "a"])


@pytest.mark.skipif(atomic.fcntl is None, reason="no advisory locks here")
def test_files_of_live_writers_stay_when_a_folder_is_cleared(tmp_path):
    (tmp_path / ".b.0123abcd.part").write_text("half")
    with replacing(tmp_path / "a") as part:
        atomic.remove_abandoned(tmp_path)
        assert list(tmp_path.iterdir()) == [part]


@pytest.mark.skipif(atomic.fcntl is None, reason="no advisory locks here")
def test_a_writer_whose_file_is_taken_for_an_abandoned_one_makes_it_again(tmp_path, monkeypatch):
    """Between making a temporary file and locking it, another writer may remove it."""
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o600)
    opened = []

    def open_and_lose(name, flags, *mode, real=os.open):
        handle = real(name, flags, *mode)
        if flags & os.O_EXCL:
            opened.append(name)
            if len(opened) == 1:
                atomic._remove_abandoned(Path(name))
        return handle

    monkeypatch.setattr(os, "open", open_and_lose)
    with replacing(path) as part:
        assert len(opened) == 2
        assert part.exists()
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
        with pytest.raises(BlockingIOError):
            atomic._remove_abandoned(part)  # the lock holds
        part.write_text("new")
    assert path.read_text() == "new"


def test_an_error_names_the_file_that_was_asked_for(tmp_path, monkeypatch):
    with (
        pytest.raises(OSError, match=r"No space left on device: .*model\.tanager") as caught,
        replacing(tmp_path / "model.tanager"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.filename == str(tmp_path / "model.tanager")

    def refuse(self, target):
        raise OSError(errno.EIO, "Input/output error", str(self), None, str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="Input/output error") as caught:
        write_text(tmp_path / "model.tanager", "x")
    assert (caught.value.filename, caught.value.filename2) == (
        str(tmp_path / "model.tanager"),
        None,
    )
    assert list(tmp_path.iterdir()) == []


def test_an_error_from_elsewhere_keeps_its_own_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "out"):
        (tmp_path / "absent").read_bytes()
    assert caught.value.filename == str(tmp_path / "absent")


def test_a_folder_that_is_not_there_is_told_with_the_name_that_was_asked_for(tmp_path):
    place = tmp_path / "no" / "file.txt"
    with pytest.raises(FileNotFoundError) as told:
        write_text(place, "text")
    assert str(told.value) == f"[Errno 2] No such file or directory: {str(place)!r}"


def test_two_writers_of_one_file_leave_one_whole_file(tmp_path):
    code = """
import sys
from pathlib import Path
from tanager.atomic import write_text
for _ in range(200):
    write_text(Path(sys.argv[1]), sys.argv[2] * 5_000)
"""
    path = tmp_path / "file"
    write_text(path, "a")
    path.chmod(0o600)
    commands = [[sys.executable, "-c", code, str(path), letter] for letter in "ab"]
    running = [subprocess.Popen(command) for command in commands]
    while any(one.poll() is None for one in running):
        assert path.read_text() in ("a", "a" * 5_000, "b" * 5_000)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.returncode for one in running] == [0, 0]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["é" * 125, "a" * 250, "語" * 83])
def test_a_file_may_have_as_long_a_name_as_the_disk_allows(tmp_path, name):
    write_text(tmp_path / name, "whole")
    assert [path.name for path in tmp_path.iterdir()] == [name]
