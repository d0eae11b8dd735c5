"""The two processes of a run. The solver has the program, the judge has the tests.

They share a socket and nothing else. A test that calls a function of the program calls a stand-in,
which sends the arguments as data and gets the result as data. So the program sees what any function
sees, its arguments, and whatever it does to its own interpreter, the verdict is formed elsewhere.
"""

import builtins
import os
import random
import socket
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrl_scope.grading.sandbox.wire import ClosedError, WireError, decode, encode, receive, send

BROKEN = 91  # exit code of a process that could not be set up
_MAX_TEXT = 300
_LOOSE = 1e-2


# Raised in a test, the one would look like its own verdict, and the others would end a `map` or a
# loop early: `all(map(f, xs))` holds if the first call "stops".
_NEVER = (AssertionError, StopIteration, StopAsyncIteration)


class ProgramDiedError(Exception):
    """The solver is gone."""


class ProgramError(Exception):
    """The program raised something that is no built-in exception."""


def solve(source: socket.socket, calls: socket.socket) -> None:
    """Run the program, then answer calls to its functions until the judge is done."""
    request = receive(source)
    source.close()
    _seed(request["seed"])
    namespace: dict[str, Any] = {"__name__": "__program__"}
    try:
        exec(compile(request["program"], "<program>", "exec"), namespace)
        reply: dict[str, Any] = {"ready": True}
    except BaseException as error:
        reply = _describe(error)
    send(calls, reply)
    while True:
        try:
            call = receive(calls)
        except ClosedError:
            os._exit(0)
        send(calls, _answer(namespace, call))


def _answer(namespace: dict[str, Any], call: dict) -> dict:
    name = call["name"]
    if not callable(namespace.get(name)):
        return {"error": "NameError", "text": f"no function {name}", "interface": True}
    arguments, named = decode(call["args"]), decode(call["kwargs"])
    try:
        value = namespace[name](*arguments, **named)
    except TypeError as error:
        inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
        return _describe(error) | {"interface": not inside}
    except BaseException as error:
        return _describe(error)
    try:
        return {"value": encode(value)}
    except BaseException as error:
        return _describe(error) | {"structure": True}


def _describe(error: BaseException) -> dict:
    try:
        text = str(error)[:_MAX_TEXT]
    except BaseException:
        text = ""
    missing = isinstance(error, NameError | ImportError)
    return {"error": type(error).__name__, "text": text, "interface": missing}


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)


class Caller:
    """Calls functions of the program and remembers how the last one went wrong."""

    def __init__(self, calls: socket.socket):
        self._calls = calls
        self.blame = ""  # a `Kind` if the last call failed

    def handshake(self) -> None:
        """Wait until the program has been loaded; raises what it raised."""
        self._result()

    def stand_in(self, name: str) -> Callable[..., Any]:
        """A function that calls the program's function `name`."""

        def call(*args: Any, **kwargs: Any) -> Any:
            request = {"name": name, "args": encode(args), "kwargs": encode(kwargs)}
            try:
                send(self._calls, request)
            except ClosedError:
                raise ProgramDiedError from None
            except WireError as error:  # too large: only what the program gave can have grown so
                self.blame = "structure"
                raise ProgramError(str(error)) from None
            return self._result()

        call.__name__ = name
        return call

    def _result(self) -> Any:
        self.blame = ""
        try:
            reply = receive(self._calls)
            if isinstance(reply, dict) and "error" not in reply:
                return decode(reply.get("value"))
        except ClosedError:
            raise ProgramDiedError from None
        except WireError as error:
            self.blame = "structure"
            raise ProgramError(f"no value: {error}") from None
        flags = reply if isinstance(reply, dict) else {}
        named = [kind for kind in ("interface", "structure") if flags.get(kind)]
        self.blame = (*named, "raised")[0]
        kind = str(flags.get("error"))[:_MAX_TEXT]
        text = str(flags.get("text"))[:_MAX_TEXT]
        known = getattr(builtins, kind, None)
        if isinstance(known, type) and issubclass(known, Exception) and known not in _NEVER:
            try:
                raised = known(text)
            except TypeError:  # some, UnicodeDecodeError say, want more than a text
                raised = ProgramError(f"{kind}: {text}")
            raise raised
        raise ProgramError(f"{kind}: {text}")


def judge(channel: socket.socket, calls: socket.socket) -> None:
    """Run the tests and send the verdict to the parent."""
    request = receive(channel)
    send(channel, _verdict(request, Caller(calls)))
    os._exit(0)


def _verdict(request: dict, caller: Caller) -> dict:
    _seed(request["seed"])
    namespace: dict[str, Any] = {"__name__": "__tests__"}
    try:
        codes = [
            compile(test, f"<test {i}>", "exec") for i, test in enumerate(request["tests"], start=1)
        ]
        exec(compile(request["setup"], "<setup>", "exec"), namespace)
    except BaseException as error:
        return {"status": "na", "reason": f"the tests are broken: {_text(error)}"}
    namespace |= {name: caller.stand_in(name) for name in request["names"]}
    try:
        caller.handshake()
        for number, code in enumerate(codes, start=1):
            if request["targets"]:
                namespace["target"] = decode(request["targets"][number - 1])
            failure = _try_test(code, namespace, caller, number)
            if failure:
                return failure
    except ProgramDiedError:
        return {"status": "crash", "reason": "the program's process died", "kind": "resource"}
    except BaseException as error:
        return {"status": "fail", "reason": f"program: {_text(error)}", "kind": caller.blame}
    return {"status": "pass", "reason": "", "kind": ""}


def _try_test(code: Any, namespace: dict, caller: Caller, number: int) -> dict | None:
    try:
        exec(code, namespace)
    except ProgramDiedError:
        raise
    except WireError as error:
        return {"status": "na", "reason": f"test {number} passes on {error}"}
    except AssertionError:
        kind = "convention" if _holds_loosely(code, namespace) else "value"
        return {"status": "fail", "reason": f"test {number} does not hold", "kind": kind}
    except BaseException as error:
        kind = caller.blame or "structure"
        return {"status": "fail", "reason": f"test {number}: {_text(error)}", "kind": kind}
    return None


def _holds_loosely(code: Any, namespace: dict) -> bool:
    """Whether a test holds if numbers may be off by one per cent or by one constant factor."""
    strict = np.allclose, np.isclose
    np.allclose, np.isclose = _alike, lambda a, b, *_, **__: _alike(a, b)
    try:
        exec(code, namespace)
    except ProgramDiedError:
        raise
    except BaseException:
        return False
    finally:
        np.allclose, np.isclose = strict
    return True


def _alike(a: Any, b: Any, *_: Any, **__: Any) -> bool:
    a, b = np.ravel(np.asarray(a, complex)), np.ravel(np.asarray(b, complex))
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    scale = np.max(np.abs(b), initial=0.0)
    close = np.max(np.abs(a - b), initial=0.0) <= _LOOSE * scale
    if close or a.size < 2:
        return bool(close)
    weight = np.vdot(a, a)
    if weight == 0:
        return False
    factor = np.vdot(a, b) / weight  # least squares
    return bool(factor != 0 and np.max(np.abs(factor * a - b)) <= 1e-6 * scale)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:_MAX_TEXT]}"
