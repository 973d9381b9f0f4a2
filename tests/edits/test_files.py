"""A file is written whole or not at all: full disks, read-only places, links, and files that changed meanwhile."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from alula.write.edits import WriteError, write_atomic


def listing(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_content_mode_and_nothing_left(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_bytes(b"old")
    file.chmod(0o751)
    write_atomic(file, b"new\xff", expected=b"old")
    assert file.read_bytes() == b"new\xff"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert listing(tmp_path) == ["run.sh"]


def test_a_new_file_gets_the_usual_mode(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomic(tmp_path / "out.json", b"{}")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "out.json").stat().st_mode) == 0o640


def test_the_owner_stays(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root")
    file = tmp_path / "run.sh"
    file.write_bytes(b"old")
    os.chown(file, 1234, 4321)
    write_atomic(file, b"new", expected=b"old")
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 4321)


def test_extended_attributes_stay(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_bytes(b"old")
    try:
        os.setxattr(file, "user.note", b"mine")
    except (OSError, AttributeError):
        pytest.skip("no extended attributes here")
    write_atomic(file, b"new", expected=b"old")
    assert os.getxattr(file, "user.note") == b"mine"


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file = tmp_path / "real" / "run.sh"
    file.write_bytes(b"old")
    (tmp_path / "one").symlink_to("real/run.sh")
    (tmp_path / "two").symlink_to("one")
    write_atomic(tmp_path / "two", b"new", expected=b"old")
    assert file.read_bytes() == b"new"
    assert (tmp_path / "two").is_symlink()
    assert listing(tmp_path / "real") == ["run.sh"]


def test_refuses_a_file_that_changed(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_bytes(b"theirs")
    with pytest.raises(WriteError, match="changed"):
        write_atomic(file, b"new", expected=b"old")
    assert file.read_bytes() == b"theirs"
    file.unlink()
    with pytest.raises(WriteError, match="changed"):
        write_atomic(file, b"new", expected=b"old")
    assert listing(tmp_path) == []


@pytest.mark.parametrize("function", ["write", "fsync", "replace", "fchmod"])
def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    file = tmp_path / "run.sh"
    file.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, function, full)
    with pytest.raises(WriteError) as caught:
        write_atomic(file, b"new", expected=b"old")
    assert str(caught.value) == f"{file}: not written: No space left on device"
    assert file.read_bytes() == b"old"
    assert listing(tmp_path) == ["run.sh"]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, bytes(data)[:3]))
    write_atomic(tmp_path / "x", b"0123456789")
    assert (tmp_path / "x").read_bytes() == b"0123456789"


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.sh"
    file.write_bytes(b"old")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(file, b"new", expected=b"old")
    assert file.read_bytes() == b"old"
    assert listing(tmp_path) == ["run.sh"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.getuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "alula", disk], capture_output=True, check=False).returncode
    ):
        pytest.skip("cannot mount a file system")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_really_full_disk_loses_nothing(small_disk: Path) -> None:
    file = small_disk / "run.sh"
    file.write_bytes(b"old" * 10_000)
    with pytest.raises(WriteError, match="No space left"):
        write_atomic(file, b"new" * 15_000, expected=b"old" * 10_000)
    assert file.read_bytes() == b"old" * 10_000
    assert listing(small_disk) == ["run.sh"]
    write_atomic(file, b"new", expected=b"old" * 10_000)
    assert file.read_bytes() == b"new"


def test_a_read_only_disk(small_disk: Path) -> None:
    file = small_disk / "run.sh"
    file.write_bytes(b"old")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(WriteError) as caught:
        write_atomic(file, b"new", expected=b"old")
    assert "\n" not in str(caught.value)
    assert file.read_bytes() == b"old"
    assert listing(small_disk) == ["run.sh"]


@pytest.mark.parametrize(("target", "mode", "reason"), [(".", 0o555, "Permission denied"), ("run.sh", 0o444, "the file is read-only")])
def test_a_read_only_folder_or_file(target: str, mode: int, reason: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "run.sh"
        file.write_bytes(b"old")
        said = _as_user(lambda: write_atomic(file, b"new", expected=b"old"), folder, target, mode)
        assert said == f"{file}: not written: {reason}"
        assert file.read_bytes() == b"old"
        assert listing(folder) == ["run.sh"]


def _as_user(call: Callable[[], None], folder: Path, target: str, mode: int) -> str:
    """What the call says in a process that is not root, who may write everywhere; "done" when it raises nothing."""
    user = 65534
    if os.getuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, user, user)
    (folder / target).chmod(mode)
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        said = "done"
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            call()
        except WriteError as error:
            said = str(error)
        finally:
            os.write(send, said.encode())
            os._exit(0)
    os.waitpid(child, 0)
    (folder / target).chmod(0o755)
    os.close(send)
    with os.fdopen(receive) as pipe:
        return pipe.read()


@pytest.mark.parametrize(
    ("name", "reason"), [("missing/x", "No such file"), ("", "no regular file"), ("a\0b", "null"), ("x" * 300, "too long")]
)
def test_impossible_places(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(WriteError, match=reason):
        write_atomic(f"{tmp_path}/{name}", b"x")
    assert listing(tmp_path) == []


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    write_atomic("/dev/null", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(fifo, b"x")
    assert os.read(reader, 10) == b"x"
    os.close(reader)
    with pytest.raises(WriteError, match="no regular file"):
        write_atomic(fifo, b"x", expected=b"old")


def test_hostile_names_print_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(WriteError) as caught:
        write_atomic(f"{tmp_path}/no/\x1b[2J\nx", b"x")
    assert str(caught.value).isprintable()
