"""Paid replies kept on disk, one file a reply, so that no reply is ever paid for twice."""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def cache_key(request: Mapping[str, Any]) -> str:
    """SHA-256 of everything that decides a reply: model, prompt version, schema, messages."""
    text = json.dumps(request, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class ReplyCache:
    """A folder of replies named by `cache_key`; safe for several processes at once.

    Each entry is written under a temporary name, synced and renamed, so that a reader sees a whole
    reply or none, and a killed run leaves at most a stray `.tmp` file.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def get(self, key: str) -> dict[str, Any] | None:
        """The reply stored under `key`, or None.

        Raises:
          ValueError: the file is there but is not a JSON object (edited by hand, disk fault).
        """
        path = self._path(key)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            reply = json.loads(text)
        except json.JSONDecodeError:
            reply = None
        if not isinstance(reply, dict):
            raise ValueError(f"{path} does not hold a recorded reply; delete that file")
        return reply

    def put(self, key: str, reply: Mapping[str, Any]) -> None:
        """Store `reply` under `key`, replacing what was there."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(reply, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    def __len__(self) -> int:
        return sum(1 for _ in self.folder.glob("*/*.json"))
