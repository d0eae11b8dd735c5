"""What comes back from a chat server, read without trusting it: replies and named failures."""

import dataclasses
from typing import Any

import openai

from jaxrl_scope.grading.rate_limit import retry_after


@dataclasses.dataclass(frozen=True)
class Reply:
    """A reply as stored in the cache: enough to repeat every later decision."""

    content: str
    finish_reason: str
    refusal: str


class Failed(Exception):
    """Ends one question; never leaves the client.

    Attributes:
      reason: name of the failure, as `Answer.failure` reports it.
      detail: the error in words.
      retryable: whether the same request may succeed later.
      retry_after_s: what the server asked to wait, if it did.
    """

    def __init__(
        self, reason: str, detail: str, retryable: bool = False, retry_after_s: float | None = None
    ):
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.retryable = retryable
        self.retry_after_s = retry_after_s


def classify(error: Exception) -> Failed:
    """Name an error of the openai package and say whether asking again can help."""
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, openai.APITimeoutError):
        return Failed("timeout", detail, True)
    if isinstance(error, openai.APIConnectionError):
        return Failed("connection", detail, True)
    if not isinstance(error, openai.APIStatusError):
        return Failed("server_error", detail, True)  # a 200 whose body is no completion
    wait = retry_after(error.response.headers)
    if error.status_code == 429:
        # Out of credit looks like a rate limit, but waiting does not mend it.
        return Failed("rate_limited", detail, error.code != "insufficient_quota", wait)
    if error.status_code >= 500:
        return Failed("server_error", detail, True, wait)
    return Failed(f"http_{error.status_code}", detail, error.status_code in (408, 409, 425), wait)


def read_completion(completion: Any) -> tuple[Reply, int, int]:
    """Reply, prompt tokens and reply tokens of what the openai package made of a 200 response.

    The package does not validate what it parses, so nothing about the object is taken for granted.
    """
    choices = getattr(completion, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = getattr(choice, "message", None)
    if message is None:
        raise Failed("server_error", "the response holds no message", True)
    content, refusal = getattr(message, "content", None), getattr(message, "refusal", None)
    finish = getattr(choice, "finish_reason", None)
    reply = Reply(
        content=content if isinstance(content, str) else "",
        finish_reason=finish if isinstance(finish, str) else "",
        refusal=refusal if isinstance(refusal, str) else "",
    )
    usage = getattr(completion, "usage", None)
    counts = [getattr(usage, name, 0) for name in ("prompt_tokens", "completion_tokens")]
    prompt_tokens, reply_tokens = (n if isinstance(n, int) else 0 for n in counts)
    return reply, prompt_tokens, reply_tokens
