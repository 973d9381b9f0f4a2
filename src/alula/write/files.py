"""Write a file whole or not at all."""

from __future__ import annotations

import os
import stat
from contextlib import suppress


class WriteError(Exception):
    """A file that cannot be written. `str()` is one line; the file is as it was and nothing is left beside it."""


def write_atomic(path: str | os.PathLike[str], data: bytes, expected: bytes | None = None) -> None:
    """Replace the content of a file in one step, through a temporary file in the same folder.

    A symbolic link is followed; mode, owner, access lists and other extended attributes are kept. What is no regular file (`/dev/null`,
    a pipe) is written to directly.

    Args:
        expected: what the file held when it was read; it is not written when it holds something else by now.

    Raises:
        WriteError: read-only file or folder, full disk, changed meanwhile, no such folder, …
    """
    name = os.fspath(path)
    try:
        _write(name, data, expected)
    except OSError as error:
        raise WriteError(f"{_one_line(name)}: not written: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise WriteError(f"{_one_line(name)}: not written: {error}") from None


def _write(name: str, data: bytes, expected: bytes | None) -> None:
    old = _stat(name)
    if old is not None and not stat.S_ISREG(old.st_mode):
        if expected is not None or stat.S_ISDIR(old.st_mode):
            raise WriteError(f"{_one_line(name)}: not written: it is no regular file")
        with open(name, "wb") as device:
            device.write(data)
        return
    real = os.path.realpath(name)
    # Replacing needs the folder's permission only; a file made read-only is meant to stay as it is.
    if old is not None and not os.access(real, os.W_OK):
        raise WriteError(f"{_one_line(name)}: not written: the file is read-only")
    from tempfile import mkstemp

    handle, temporary = mkstemp(prefix=".alula-", dir=os.path.dirname(real) or ".")
    try:
        try:
            _fill(handle, data, real, old)
        finally:
            os.close(handle)
        if expected is not None and _read(real) != expected:
            raise WriteError(f"{_one_line(name)}: not written: it was changed while alula read it; run again")
        os.replace(temporary, real)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    with suppress(OSError):  # the rename itself survives a power cut; not every file system can promise it
        folder = os.open(os.path.dirname(real) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _fill(handle: int, data: bytes, real: str, old: os.stat_result | None) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
    if old is None:
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(handle, 0o666 & ~mask)
    else:
        new = os.fstat(handle)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(handle, old.st_uid, old.st_gid)
        os.fchmod(handle, stat.S_IMODE(old.st_mode))
        if hasattr(os, "listxattr"):
            with suppress(OSError):
                for attribute in os.listxattr(real):
                    os.setxattr(handle, attribute, os.getxattr(real, attribute))
    os.fsync(handle)


def _stat(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)
    except FileNotFoundError:
        return None


def _read(name: str) -> bytes | None:
    try:
        with open(name, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _one_line(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name)
