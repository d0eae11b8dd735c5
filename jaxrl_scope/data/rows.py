"""Rows of JSONL and parquet files: read one by one with their place, written atomically."""

import dataclasses
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

Row = Mapping[str, Any]


class RowError(ValueError):
    """A row that cannot be used; the message names file, line and field."""

    def __init__(self, problem: str, *, where: str = "", field: str = "") -> None:
        self.problem, self.where, self.field = problem, where, field
        super().__init__(": ".join(filter(None, (where, field and f"field {field!r}", problem))))

    def at(self, where: str) -> "RowError":
        """The same error, with its place."""
        return RowError(self.problem, where=where, field=self.field)


@dataclasses.dataclass(frozen=True)
class Drop:
    """One row left out.

    Attributes:
      where: "file:line" for a broken row, the problem's id for one that a filter dropped.
      reason: one of a few fixed words, to count by ("broken row", "duplicate", "too long", ...).
      detail: what exactly was wrong.
    """

    where: str
    reason: str
    detail: str = ""


@dataclasses.dataclass
class LoadReport:
    """What was read, and what was dropped and why.

    Attributes:
      path: file or data set that was read.
      num_rows: rows seen.
      counts: rows left out, by reason.
      drops: the first `MAX_DROPS` of them, in file order, filters last (DAPO-Math's own file
        repeats each problem a hundred times; a record of every repeat would outgrow the data).
    """

    MAX_DROPS: ClassVar[int] = 1000

    path: str
    num_rows: int = 0
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    drops: list[Drop] = dataclasses.field(default_factory=list)

    @property
    def num_kept(self) -> int:
        """Rows that became a problem or a scaffold and passed every filter so far."""
        return self.num_rows - self.counts.total()

    def drop(self, where: str, reason: str, detail: str) -> None:
        """Count a row left out, and keep the details of the first ones."""
        self.counts[reason] += 1
        if len(self.drops) < self.MAX_DROPS:
            self.drops.append(Drop(where, reason, detail))

    def summary(self, max_details: int = 5) -> str:
        """A few lines for people: totals, counts by reason, the first details."""
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(self.counts.items()))
        lines = [f"{self.path}: kept {self.num_kept} of {self.num_rows} rows"]
        if counts:
            lines[0] += f" (dropped: {counts})"
        lines += [
            f"  {drop.where}: {drop.reason}: {drop.detail}" for drop in self.drops[:max_details]
        ]
        if self.counts.total() > max_details:
            lines.append(f"  ... and {self.counts.total() - max_details} more")
        return "\n".join(lines)


def read_rows(path: str | Path) -> Iterator[tuple[str, Row | RowError]]:
    """Yield ("file:line", row) for each non-empty line or parquet row.

    A line that is not a JSON object is yielded as a `RowError` in place of the row, so that the
    caller decides whether the rest is still worth reading. Parquet rows are numbered from 1 too.

    Raises:
      ValueError: the file does not exist, or its name ends in neither .jsonl/.json nor .parquet.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    if path.suffix == ".parquet":
        yield from _read_parquet(path)
    elif path.suffix in (".jsonl", ".json", ".ndjson"):
        yield from _read_jsonl(path)
    else:
        raise ValueError(f"{path}: expected a name that ends in .jsonl or .parquet")


def _read_jsonl(path: Path) -> Iterator[tuple[str, Row | RowError]]:
    # Bytes, not text: a text file would also break lines at U+2028 inside a JSON string, and one
    # undecodable line would lose the whole file.
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            where = f"{path}:{number}"
            if line.strip():
                yield where, _parse_line(line, where)


def _parse_line(line: bytes, where: str) -> Row | RowError:
    try:
        row = json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        return RowError(f"not valid JSON ({error})", where=where)
    if not isinstance(row, dict):
        return RowError(f"expected a JSON object, got {type(row).__name__}", where=where)
    return row


def _read_parquet(path: Path) -> Iterator[tuple[str, Row | RowError]]:
    parquet = _pyarrow_parquet()
    number = 0
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=1024):
            for row in batch.to_pylist():
                number += 1
                yield f"{path}:{number}", row


def write_rows(path: str | Path, rows: Iterable[Row]) -> int:
    """Write rows as JSONL or, where the name ends in .parquet, as parquet. Returns their number.

    The file appears whole or not at all.
    """
    path = Path(path)
    count = 0

    def write_jsonl(file: BinaryIO) -> None:
        nonlocal count
        for row in rows:
            file.write(to_line(row))
            count += 1

    def write_parquet(file: BinaryIO) -> None:
        nonlocal count
        import pyarrow

        table = pyarrow.Table.from_pylist([dict(row) for row in rows])
        _pyarrow_parquet().write_table(table, file)
        count = table.num_rows

    write_atomic(path, write_parquet if path.suffix == ".parquet" else write_jsonl)
    return count


def to_line(row: Row) -> bytes:
    """One JSONL line.

    Raises:
      ValueError: the row holds what JSON cannot (a date, NaN, infinity, half a surrogate pair).
    """
    try:
        return (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"cannot write a row as JSON ({error}): {str(row)[:200]}") from None


def write_atomic(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then fsync it and rename it to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # mkstemp's 0600 would hide the file from the rest of a team
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _pyarrow_parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ValueError("parquet files need pyarrow: pip install 'jaxrl-scope[data]'") from error
    return pyarrow.parquet


def get_path(row: Row, dotted: str) -> Any:
    """Look up "a.b.0.c" in nested mappings and lists; None where any part is missing."""
    value: Any = row
    for part in dotted.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.lstrip("-").isdigit() and value:
            index = int(part)
            value = value[index] if -len(value) <= index < len(value) else None
        else:
            return None
    return value


def as_text(value: Any, field: str) -> str:
    """A non-empty string from a string or number; 34.0 becomes "34".

    Raises:
      RowError: anything else, or an empty string.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        value = str(value)
    if not isinstance(value, str):
        kind = "nothing" if value is None else f"{type(value).__name__} {str(value)[:60]}"
        raise RowError(f"expected text or a number, got {kind}", field=field)
    if not value.strip():
        raise RowError("is empty", field=field)
    return value.strip()


def as_messages(value: Any, field: str) -> tuple[dict[str, str], ...]:
    """Chat messages from a list of {role, content}.

    Raises:
      RowError: not such a list, or an empty one.
    """
    if not isinstance(value, list) or not value:
        raise RowError("expected a non-empty list of {role, content}", field=field)
    messages = []
    for index, message in enumerate(value):
        if not isinstance(message, Mapping):
            raise RowError("expected {role, content}", field=f"{field}.{index}")
        for key in ("role", "content"):
            if not isinstance(message.get(key), str):
                raise RowError("expected text", field=f"{field}.{index}.{key}")
        messages.append({"role": message["role"], "content": message["content"]})
    return tuple(messages)
