"""Files that are whole or not there, and of a bounded size."""

from __future__ import annotations

import json
import os
import pickle
import zlib
from typing import Any, Callable

# Room that a dump leaves on the disk: the program's checkpoints matter more.
KEEP_FREE = 2 << 30


class TooLarge(Exception):
    """A file would have passed its bound."""


def free_bytes(folder: str) -> int:
    """How much a dump may take of the disk."""
    statvfs = getattr(os, "statvfs", None)
    if statvfs is None:  # Windows
        return 1 << 62
    stat = statvfs(folder)
    return int(max(0, stat.f_bavail * stat.f_frsize - KEEP_FREE))


def write(path: str, fill: Callable[[Any], None], mode: int = 0o666) -> None:
    """Writes a file under a temporary name, which it loses when it is whole."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), mode), "wb") as f:
            fill(f)
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def write_json(path: str, value: Any, mode: int = 0o666) -> None:
    write(path, lambda f: f.write(json.dumps(value, separators=(",", ":"), default=str).encode()), mode)


class Gzip:
    """A gzip stream (the module gzip may not be loaded yet, and the program may have its own)."""

    def __init__(self, file: Any, limit: int) -> None:
        self._file, self._limit = file, limit
        self._zip = zlib.compressobj(1, zlib.DEFLATED, 31)
        self.bytes = 0

    def write(self, data: Any) -> int:
        self._put(self._zip.compress(data))
        return len(data)

    def finish(self) -> None:
        self._put(self._zip.flush())

    def _put(self, data: bytes) -> None:
        self.bytes += len(data)
        if self.bytes > self._limit:
            raise TooLarge()
        self._file.write(data)


def write_pickle(path: str, value: Any, limit: int) -> int:
    """Writes a compressed pickle and says how many bytes that took."""
    size = 0

    def fill(file: Any) -> None:
        nonlocal size
        stream = Gzip(file, limit)
        pickle.dump(value, stream, protocol=4)
        stream.finish()
        size = stream.bytes

    write(path, fill)
    return size
