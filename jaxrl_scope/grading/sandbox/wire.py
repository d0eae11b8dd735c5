"""Values and messages between processes that do not trust each other: JSON, never pickle.

Decoding builds nothing but numbers, strings, the built-in containers and numpy arrays of plain
dtypes, so the bytes of an untrusted process cannot make the reader run code.
"""

import base64
import json
import re
import socket
import struct
from typing import Any

import numpy as np

MAX_FRAME = 8 << 20  # bytes of one message
_LENGTH = struct.Struct("!I")
_PLAIN_DTYPE = re.compile(r"[<>|=]?[biufcSU]\d{1,6}")
_CONTAINERS = {"tuple": tuple, "set": set, "frozenset": frozenset}


class WireError(Exception):
    """A value that cannot cross, or bytes that are no message."""


class ClosedError(Exception):
    """The other end is gone."""


def encode(value: Any) -> Any:
    """Turn a value into JSON values.

    Raises:
      WireError: a type that cannot cross (functions, objects, generators, object arrays).
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [encode(x) for x in value]
    if type(value) is complex:
        return {"complex": [value.real, value.imag]}
    if type(value) is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    for name, kind in _CONTAINERS.items():
        if isinstance(value, kind):
            return {name: [encode(x) for x in value]}
    if isinstance(value, np.ndarray | np.generic) and _PLAIN_DTYPE.fullmatch(value.dtype.str):
        return {
            "array" if isinstance(value, np.ndarray) else "scalar": [
                value.dtype.str,
                list(value.shape),
                base64.b64encode(np.ascontiguousarray(value).tobytes()).decode(),
            ]
        }
    raise WireError(f"a value of type {type(value).__name__} cannot leave its process")


def decode(value: Any) -> Any:
    """Undo `encode` on values of unknown origin.

    Raises:
      WireError: not something that `encode` makes.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [decode(x) for x in value]
    if not isinstance(value, dict) or len(value) != 1:
        raise WireError(f"not an encoded value: {str(value)[:60]}")
    ((kind, body),) = value.items()
    try:
        if kind in _CONTAINERS:
            return _CONTAINERS[kind](decode(x) for x in body)
        if kind == "dict":
            return {decode(k): decode(v) for k, v in body}
        if kind == "complex":
            return complex(*map(float, body))
        if kind == "bytes":
            return base64.b64decode(body)
        if kind in ("array", "scalar"):
            return _decode_array(kind, *body)
    except (TypeError, ValueError) as error:
        raise WireError(f"not an encoded {kind}: {error}") from None
    raise WireError(f"unknown kind of value {kind[:60]!r}")


def _decode_array(kind: str, dtype: str, shape: list[int], data: str) -> Any:
    if not _PLAIN_DTYPE.fullmatch(dtype):
        raise WireError(f"dtype {dtype[:20]!r} is not plain")
    array = np.frombuffer(base64.b64decode(data), np.dtype(dtype)).reshape(shape).copy()
    return array if kind == "array" else array[()]


def send(channel: socket.socket, message: Any) -> None:
    """Send one message.

    Raises:
      WireError: it is larger than `MAX_FRAME`, or deeper than JSON can be.
      ClosedError: the other end is gone.
    """
    try:
        data = json.dumps(message).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"cannot be sent: {error}") from None
    if len(data) > MAX_FRAME:
        raise WireError(f"{len(data)} bytes exceed the limit of {MAX_FRAME} for one message")
    try:
        channel.sendall(_LENGTH.pack(len(data)) + data)
    except (BrokenPipeError, ConnectionResetError):
        raise ClosedError from None


def receive(channel: socket.socket) -> Any:
    """Receive one message.

    Raises:
      WireError: it is too large or not JSON.
      ClosedError: the other end closed before a whole message.
      TimeoutError: the socket's timeout passed.
    """
    (length,) = _LENGTH.unpack(_read(channel, _LENGTH.size))
    if length > MAX_FRAME:
        raise WireError(f"{length} bytes exceed the limit of {MAX_FRAME} for one message")
    try:
        return json.loads(_read(channel, length))
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from None


def _read(channel: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        try:
            part = channel.recv(min(count, 1 << 16))
        except ConnectionResetError:
            part = b""
        if not part:
            raise ClosedError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
