"""A small HTTP server that speaks vLLM's routes, and does as it is told."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jaxrl_scope.rollout.vllm.weights import BadWeightsError, read_manifest


class FakeVllm:
    """Answers every prompt with [seed % 7 + 10, 1]; weights are read as the real worker reads them.

    `fail` maps a route to how it fails: "gone" (connection cut), "hang", or a message (status 500).
    """

    def __init__(self, logprob=lambda: -0.5):
        self.logprob = logprob
        self.version, self.paused, self.asleep = "default", False, False
        self.fail: dict[str, str] = {}
        self.calls: list[str] = []
        self.prompts: list[list[int]] = []
        self.hang_s = 3.0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                owner._serve(self, {})

            def do_POST(self):
                owner._serve(self, json.loads(self.rfile.read(int(self.headers["content-length"]))))

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.handle_error = lambda *_: None
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def _serve(self, handler, body):
        route = urlsplit(handler.path).path
        self.calls.append(route)
        how = self.fail.get(route)
        if how == "hang":
            time.sleep(self.hang_s)
        if how in ("gone", "hang"):
            handler.close_connection = True
            return
        status, answer = (500, {"error": {"message": how}}) if how else self._answer(route, body)
        text = json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("content-length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    def _answer(self, route, body):
        if route == "/inference/v1/generate":
            assert not self.paused and not self.asleep
            sampling = body["sampling_params"]
            assert sampling["temperature"] > 0 or sampling["n"] == 1
            self.prompts.append(body["token_ids"])
            return 200, {"choices": self._choices(body["sampling_params"])}
        if route == "/update_weights":
            assert self.paused
            try:
                manifest = read_manifest(Path(body["update_info"]["path"]))
            except BadWeightsError as error:
                return 500, {"error": {"message": str(error)}}
            assert manifest.version == body["update_info"]["version"]
        if route == "/finish_weight_update":
            self.version = body["weight_version"]
        if route in ("/pause", "/resume"):
            self.paused = route == "/pause"
        if route in ("/sleep", "/wake_up"):
            self.asleep = route == "/sleep"
        return 200, {"success": True}

    def _choices(self, sampling):
        return [
            {
                "index": g,
                "token_ids": [(sampling["seed"] + g) % 7 + 10, 1],
                "logprobs": {"content": [{"logprob": self.logprob()}, {"logprob": self.logprob()}]},
                "weight_versions": [{"version": self.version, "start": 0, "end": 2}],
            }
            for g in range(sampling["n"])
        ]

    def close(self):
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def fakes() -> Iterator[list[FakeVllm]]:
    servers = [FakeVllm(), FakeVllm()]
    yield servers
    for server in servers:
        server.close()
