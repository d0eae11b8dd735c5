"""A JSONL file that several processes append to, and that a crash leaves readable."""

import fcntl
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jaxrl_scope.data.rows import Row, to_line


class AppendLog:
    """Append-only JSONL.

    Rows are written whole, under a lock that other processes respect (`flock`), and are on disk
    when `append` returns. A line that a killed process left unfinished is cut off by the next
    writer, and readers never see it.

    Args:
      path: the file; made with its folder on the first append.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._offset = 0  # bytes that `read_new` has consumed
        self._lock = threading.Lock()

    def append(self, rows: Sequence[Row]) -> None:
        """Write rows at the end, all of them or, after a crash, the first few."""
        if not rows:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        data = b"".join(map(to_line, rows))
        with self.path.open("a+b", buffering=0) as file, _locked(file.fileno(), fcntl.LOCK_EX):
            _cut_torn_line(file.fileno())
            written = 0
            while written < len(data):
                written += os.write(file.fileno(), data[written:])
            os.fsync(file.fileno())

    def read_new(self) -> Iterator[Row]:
        """Yield the rows that anyone has written since the last call (all of them on the first).

        Raises:
          ValueError: a complete line is not a JSON object: the file is not one of ours.
        """
        with self._lock:
            if not self.path.is_file() or self.path.stat().st_size <= self._offset:
                return
            with self.path.open("rb") as file:
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # being written at this moment, or torn
                    self._offset += len(line)
                    yield _parse(line, self.path)


@contextmanager
def _locked(descriptor: int, mode: int) -> Iterator[None]:
    fcntl.flock(descriptor, mode)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _cut_torn_line(descriptor: int) -> None:
    """Truncate to the last complete line."""
    size = os.fstat(descriptor).st_size
    position = size
    while position > 0:
        start = max(0, position - 4096)
        block = os.pread(descriptor, position - start, start)
        newline = block.rfind(b"\n")
        if newline >= 0:
            position = start + newline + 1
            break
        position = start
    if position != size:
        os.ftruncate(descriptor, position)


def _parse(line: bytes, path: Path) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path} holds a line that is no JSON object ({error})") from None
    if not isinstance(row, dict):
        raise ValueError(f"{path} holds a line that is no JSON object: {line[:80]!r}")
    return row
