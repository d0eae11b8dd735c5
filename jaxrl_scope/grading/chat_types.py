"""What to ask a chat model, where, and what came of it."""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class ChatConfig:
    """Where and how to ask a chat model.

    Attributes:
      model: name the server knows the model by; the default judged the paper's training runs
        (SCOPE-RL, Appendix I).
      base_url: server address up to `/v1`; None leaves it to the openai package (OPENAI_BASE_URL).
      api_key_env: name of the environment variable that holds the key; "" for a server without one.
      reply_format: how the reply's shape is asked for; servers that know no schemas take "text".
      temperature: None leaves it to the server (some models accept no other value).
      max_reply_tokens: cap on the tokens of one reply.
      max_concurrency: requests in flight at once.
      requests_per_minute: None for no limit.
      tokens_per_minute: prompt and reply together; None for no limit.
      timeout_s: wall limit of one request, from first byte sent to last byte read.
      max_retries: extra requests per question beyond the first, whatever they are for (malformed
        reply, 429, 5xx, time-out, lost connection).
      backoff_s: first wait after a failed request; doubles each time, with jitter.
      max_backoff_s: cap on that wait, and the longest Retry-After that is waited out.
      usd_per_million_prompt_tokens: price, for the cost counter.
      usd_per_million_reply_tokens: price, for the cost counter.
      extra_body: further fields of the request body, as the text of a JSON object
        ('{"reasoning_effort": "low"}'); "" for none. No secrets: it is written to logs.
    """

    model: str = "gpt-4.1-mini"
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    reply_format: Literal["json_schema", "json_object", "text"] = "json_schema"
    temperature: float | None = 0.0
    max_reply_tokens: int = 16_384
    max_concurrency: int = 32
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout_s: float = 120.0
    max_retries: int = 5
    backoff_s: float = 1.0
    max_backoff_s: float = 60.0
    usd_per_million_prompt_tokens: float = 0.0
    usd_per_million_reply_tokens: float = 0.0
    extra_body: str = ""

    def __post_init__(self):
        if self.base_url is not None and urlsplit(self.base_url).username is not None:
            raise ValueError(
                "base_url must not carry credentials: it is written to logs and configs. "
                "Put the key in the environment and name the variable in api_key_env."
            )
        for name in ("max_concurrency", "max_reply_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("timeout_s", "requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, got {value}")
        for name in ("max_retries", "backoff_s", "max_backoff_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        self.extra_fields()

    def extra_fields(self) -> dict[str, Any]:
        """`extra_body` as a dict.

        Raises:
          ValueError: it is not the text of a JSON object.
        """
        try:
            fields = json.loads(self.extra_body or "{}")
        except json.JSONDecodeError as error:
            raise ValueError(f"extra_body must be JSON, got {self.extra_body!r}: {error}") from None
        if not isinstance(fields, dict):
            raise ValueError(f"extra_body must be a JSON object, got {self.extra_body!r}")
        return fields


@dataclasses.dataclass(frozen=True)
class Question(Generic[T]):
    """One thing to ask.

    Attributes:
      version: name and version of the prompt ("qpr-judge/1"); part of the cache key.
      system: instructions.
      user: the data, delimited.
      schema: JSON schema of the reply.
      parse: validates the reply's JSON object and turns it into the answer. Raises ValueError with
        a message that tells the model what to mend.
    """

    version: str
    system: str
    user: str
    schema: Mapping[str, Any]
    parse: Callable[[dict[str, Any]], T]


@dataclasses.dataclass(frozen=True)
class Answer(Generic[T]):
    """What came of a question.

    Attributes:
      value: the parsed reply; None exactly when `failure` is set.
      failure: None, or why there is no answer: "malformed", "empty", "truncated", "refusal",
        "rate_limited", "server_error", "timeout", "connection", "http_<status>", "not_recorded",
        "bad_cache".
      detail: the last error in words, without secrets.
    """

    value: T | None = None
    failure: str | None = None
    detail: str = ""


@dataclasses.dataclass
class ChatCounters:
    """What a client has done so far.

    Attributes:
      questions: questions asked.
      requests: HTTP requests sent.
      cache_hits: replies taken from the cache, or from an equal request in flight.
      retries: requests repeated after a transport or server error.
      reasks: requests repeated after a malformed reply.
      failures: questions that got no answer, by reason.
      prompt_tokens: as the server reported them.
      reply_tokens: as the server reported them.
      cost_usd: by the configured prices.
    """

    questions: int = 0
    requests: int = 0
    cache_hits: int = 0
    retries: int = 0
    reasks: int = 0
    failures: Counter[str] = dataclasses.field(default_factory=Counter)
    prompt_tokens: int = 0
    reply_tokens: int = 0
    cost_usd: float = 0.0

    def metrics(self) -> dict[str, float]:
        """Flat numbers for a metrics log; `failures/<reason>` for every reason seen."""
        flat = {
            field.name: float(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.name != "failures"
        }
        flat["failures"] = float(sum(self.failures.values()))
        return flat | {f"failures/{name}": float(n) for name, n in sorted(self.failures.items())}
