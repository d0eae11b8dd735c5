"""JSON over HTTP to one vLLM server, and the routes that a trainer uses."""

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any

_CACHE_RESET_S = 30.0


class RolloutError(RuntimeError):
    """Rollouts by vLLM cannot go on; the message says why and what to do."""


class ServerGoneError(RolloutError):
    """A server did not answer: dead, unreachable, or silent for too long. Worth another try."""


class ServerRefusedError(RolloutError):
    """A server answered that it cannot do what was asked; the message holds its reason."""


class BadRequestError(ServerRefusedError):
    """The request is at fault: no server will do it."""


class Client:
    """One server, by its root URL."""

    def __init__(self, url: str, *, timeout_s: float):
        """Connect to nothing yet; `timeout_s` bounds every wait for an answer."""
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s

    def call(self, path: str, body: dict | None = None, *, timeout_s: float | None = None) -> Any:
        """POST `body` (GET without one) and return the JSON of the answer; None for an empty one.

        Raises:
          ServerGoneError: no answer, or the connection broke.
          ServerRefusedError: a status other than 200; BadRequestError where it is a 4xx.
        """
        request = urllib.request.Request(
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        try:
            with _opener.open(request, timeout=timeout_s or self._timeout_s) as reply:
                text = reply.read()
            return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            reason = _reason(error)
            raise _kind(error.code)(f"{self.url}{path} answered {error.code}: {reason}") from error
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            raise ServerGoneError(f"{self.url}{path} did not answer: {error!r}") from error

    def healthy(self, timeout_s: float) -> bool:
        """Whether the server and its engine say that they are alive."""
        try:
            self.call("/health", timeout_s=timeout_s)
        except (ServerGoneError, ServerRefusedError):
            return False
        return True

    def pause(self) -> None:
        """Let running requests end and admit no more."""
        self.call("/pause?mode=wait", {})

    def update(self, folder: str, version: int) -> None:
        """Load a folder of weights; the label is still the old one. The server is paused."""
        self.call("/start_weight_update", {})
        self.call("/update_weights", {"update_info": {"path": folder, "version": version}})

    def finish(self, version: int) -> None:
        """Commit an update: label it, and forget keys and values of the old weights."""
        self.call("/finish_weight_update", {"weight_version": str(version)})
        deadline = time.monotonic() + _CACHE_RESET_S
        while not self.call("/reset_prefix_cache", {})["success"]:
            if time.monotonic() > deadline:
                raise ServerRefusedError(
                    f"{self.url} did not reset its prefix cache within {_CACHE_RESET_S:.0f} s; "
                    "rollouts would mix two versions of the weights"
                )
            time.sleep(0.05)

    def resume(self) -> None:
        """Admit requests again."""
        self.call("/resume", {})

    def sleep(self) -> None:
        """Give GPU memory back: weights move to the host, the cache is dropped."""
        self.call("/sleep?level=1", {})

    def wake(self) -> None:
        """Take the memory again."""
        self.call("/wake_up", {})

    def generate(self, prompt_ids: list[int], sampling: dict[str, Any]) -> list[dict[str, Any]]:
        """Sample; returns one choice per rollout: token_ids, logprobs, weight_versions, ..."""
        body = {"token_ids": prompt_ids, "sampling_params": sampling}
        return self.call("/inference/v1/generate", body)["choices"]


# No proxy: rollouts and weights go where the URL says, and the environment is not asked.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _kind(status: int) -> type[RolloutError]:
    if status in (502, 503, 504):  # the engine behind has died, or a proxy finds nobody
        return ServerGoneError
    return BadRequestError if 400 <= status < 500 else ServerRefusedError


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        text = error.read().decode(errors="replace")
    except OSError:
        return str(error.reason)
    try:
        value = json.loads(text)
        inner = value.get("error", value)
        return str(inner.get("message", inner) if isinstance(inner, dict) else inner)[:1000]
    except (json.JSONDecodeError, AttributeError):
        return text[:1000] or str(error.reason)
