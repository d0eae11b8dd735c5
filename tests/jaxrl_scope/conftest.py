"""A loopback chat-completions server that does as it is told, politely or not."""

import dataclasses
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Act = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


def completion(content: Any, *, finish_reason: str = "stop", refusal: str | None = None) -> dict:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": finish_reason, "message": message}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


def send(handler, body: bytes, status=200, headers=(), content_type="application/json"):
    handler.send_response(status)
    for name, value in headers:
        handler.send_header(name, value)
    handler.send_header("content-type", content_type)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


class acts:
    """What the server can do with one request."""

    @staticmethod
    def say(content: Any, **fields) -> Act:
        """A well-formed completion; a dict is sent as JSON text."""
        text = json.dumps(content) if isinstance(content, dict) else content
        return lambda handler, _: send(handler, json.dumps(completion(text, **fields)).encode())

    @staticmethod
    def status(code: int, message: str = "no", headers=(), error_code: str | None = None) -> Act:
        body = json.dumps({"error": {"message": message, "code": error_code}}).encode()
        return lambda handler, _: send(handler, body, code, headers)

    @staticmethod
    def raw(body: bytes, content_type: str = "application/json") -> Act:
        return lambda handler, _: send(handler, body, content_type=content_type)

    @staticmethod
    def hang(seconds: float) -> Act:
        return lambda handler, _: time.sleep(seconds)

    @staticmethod
    def trickle(seconds: float) -> Act:
        """Bytes that keep the connection alive and never make a reply."""

        def act(handler, _):
            handler.send_response(200)
            handler.send_header("content-type", "application/json")
            handler.send_header("content-length", "100000")
            handler.end_headers()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(0.02)

        return act

    @staticmethod
    def reset() -> Act:
        """Close with RST in place of an answer."""

        def act(handler, _):
            linger = struct.pack("ii", 1, 0)
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            handler.close_connection = True
            os.close(handler.connection.detach())

        return act

    @staticmethod
    def cut_body() -> Act:
        """Promise more bytes than are sent."""

        def act(handler, _):
            handler.send_response(200)
            handler.send_header("content-type", "application/json")
            handler.send_header("content-length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"choices": [')
            handler.close_connection = True

        return act

    @staticmethod
    def echo_headers(code: int) -> Act:
        """A careless proxy: the request's headers, key included, in the error."""
        return lambda handler, _: send(
            handler, json.dumps({"error": {"message": str(handler.headers)}}).encode(), code
        )


@dataclasses.dataclass
class Recorded:
    body: dict[str, Any]
    time: float
    authorization: str

    @property
    def user(self) -> str:
        return self.body["messages"][1]["content"]


class ChatServer:
    """Plays `script` (one act a request, in order of arrival), then `otherwise` for ever."""

    def __init__(self):
        self.script: list[Act] = []
        self.otherwise: Act = acts.status(500, "the script has ended")
        self.requests: list[Recorded] = []
        self._lock = threading.Lock()
        self.in_flight = 0
        self.max_in_flight = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                owner._serve(self, body)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.handle_error = lambda *_: None  # clients that hang up are part of the tests
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def _serve(self, handler, body):
        with self._lock:
            authorization = handler.headers.get("authorization", "")
            self.requests.append(Recorded(body, time.monotonic(), authorization))
            act = self.script.pop(0) if self.script else self.otherwise
            self.in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            act(handler, body)
        finally:
            with self._lock:
                self.in_flight -= 1

    def close(self):
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def chat_server() -> Iterator[ChatServer]:
    server = ChatServer()
    server.acts = acts
    yield server
    server.close()
