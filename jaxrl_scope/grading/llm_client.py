"""One client for every OpenAI-compatible server this project asks: the judges and the teacher.

A question carries its own JSON schema and validator. The client asks, validates, asks again with
the error, waits when told to, remembers every reply on disk, counts what it spends, and never
raises for one question: what cannot be answered comes back as a named failure.
"""

import asyncio
import concurrent.futures
import dataclasses
import logging
import os
import random
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

import openai

from jaxrl_scope.grading.chat_types import Answer, ChatConfig, ChatCounters, Question
from jaxrl_scope.grading.chat_wire import Failed, Reply, classify, read_completion
from jaxrl_scope.grading.json_reply import extract_json
from jaxrl_scope.grading.judge_cache import ReplyCache, cache_key
from jaxrl_scope.grading.rate_limit import RateLimiter

__all__ = ["Answer", "ChatClient", "ChatConfig", "ChatCounters", "Question", "ReplyCache"]

_LOG = logging.getLogger(__name__)
_MAX_ECHO_CHARS = 4000  # of a malformed reply sent back with the re-ask: enough to see the slip
_MAX_ERROR_CHARS = 1000  # of the error sent back: it may quote the reply

T = TypeVar("T")


class _Budget:
    """Extra requests that one question may still make."""

    def __init__(self, extra: int):
        self._left = extra

    def take(self) -> bool:
        self._left -= 1
        return self._left >= 0


class ChatClient:
    """Asks questions of one model, concurrently, from synchronous code.

    The requests run on an event loop in a thread of the client's own, so that asking overlaps with
    whatever the caller does next. Use it as a context manager, or call `close`.

    Args:
      config: where and how to ask.
      cache: replies already paid for are read from here and new ones stored; None keeps nothing.
      offline: answer from the cache alone (replay); a question that was never recorded fails with
        "not_recorded". Needs no key and opens no connection.

    Raises:
      ValueError: no key in the environment, or `offline` without a cache.
    """

    def __init__(self, config: ChatConfig, *, cache: ReplyCache | None = None, offline=False):
        if offline and cache is None:
            raise ValueError("an offline client answers from recorded replies: give it a cache")
        self.config = config
        self.counters = ChatCounters()
        self._cache = cache
        self._key = "" if offline else _read_key(config.api_key_env)
        self._api = None
        if not offline:
            self._api = openai.AsyncOpenAI(
                api_key=self._key, base_url=config.base_url, max_retries=0, timeout=config.timeout_s
            )
        self._limiter = RateLimiter(config.requests_per_minute, config.tokens_per_minute)
        self._slots = asyncio.Semaphore(config.max_concurrency)
        self._in_flight: dict[str, asyncio.Future[Reply]] = {}
        self._warned: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"chat-{config.model}", daemon=True
        )
        self._thread.start()

    # Synchronous surface.

    def submit(self, question: Question[T]) -> "concurrent.futures.Future[Answer[T]]":
        """Start asking; the future never holds an exception other than its cancellation."""
        return self.run(self.ask_async(question))

    def ask(self, question: Question[T]) -> Answer[T]:
        """Ask and wait."""
        return self.submit(question).result()

    def ask_all(self, questions: Iterable[Question[T]]) -> list[Answer[T]]:
        """Ask all at once (within the configured limits); answers in the order of the questions."""
        return [future.result() for future in [self.submit(question) for question in questions]]

    def run(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Run a coroutine that awaits `ask_async` on the client's loop."""
        if not self._thread.is_alive():
            coroutine.close()
            raise ValueError("the chat client is closed; build a new one")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Cancel what is in flight and end the thread; later calls do nothing."""
        if not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    async def _shut_down(self) -> None:
        others = asyncio.all_tasks(self._loop) - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._api is not None:
            await self._api.close()
        await self._loop.shutdown_default_executor()

    # Asking.

    async def ask_async(self, question: Question[T]) -> Answer[T]:
        """Ask, validate, ask again; to be awaited on the client's own loop (see `run`)."""
        self.counters.questions += 1
        budget = _Budget(self.config.max_retries)
        messages = [
            {"role": "system", "content": _encodable(question.system)},
            {"role": "user", "content": _encodable(question.user)},
        ]
        try:
            while True:
                reply = await self._reply(question, messages, budget)
                try:
                    return Answer(value=question.parse(_read_json(reply)))
                except ValueError as error:
                    if not budget.take():
                        reason = {"length": "truncated"}.get(reply.finish_reason, "malformed")
                        raise Failed(reason if reply.content else "empty", str(error)) from None
                    self.counters.reasks += 1
                    messages = messages + _reask(reply, str(error))
        except Failed as failed:
            return self._failure(failed)

    def _failure(self, failed: Failed) -> Answer[Any]:
        self.counters.failures[failed.reason] += 1
        detail = self._redact(failed.detail)
        if failed.reason not in self._warned:  # the counters tell how often
            self._warned.add(failed.reason)
            _LOG.warning("no answer from %s: %s (%s)", self.config.model, failed.reason, detail)
        return Answer(failure=failed.reason, detail=detail)

    async def _reply(
        self, question: Question[Any], messages: list[dict[str, str]], budget: _Budget
    ) -> Reply:
        """The reply to `messages`, from the cache, an equal request in flight, or the server."""
        key = cache_key(
            {
                "model": self.config.model,
                "version": question.version,
                "schema": dict(question.schema),
                "messages": messages,
                "reply_format": self.config.reply_format,
                "temperature": self.config.temperature,
                "max_reply_tokens": self.config.max_reply_tokens,
                "extra_body": self.config.extra_fields(),
            }
        )
        if key in self._in_flight:
            self.counters.cache_hits += 1
            return await asyncio.shield(self._in_flight[key])
        pending = self._in_flight[key] = asyncio.ensure_future(
            self._recorded_or_paid(key, question, messages, budget)
        )
        pending.add_done_callback(lambda _: self._in_flight.pop(key))
        return await pending

    async def _recorded_or_paid(
        self, key: str, question: Question[Any], messages: list[dict[str, str]], budget: _Budget
    ) -> Reply:
        if self._cache is not None:
            try:
                stored = await asyncio.to_thread(self._cache.get, key)
                recorded = None if stored is None else Reply(**stored)
            except (ValueError, TypeError) as error:
                raise Failed("bad_cache", str(error)) from None
            if recorded is not None:
                self.counters.cache_hits += 1
                return recorded
        if self._api is None:
            raise Failed("not_recorded", "the recorded cache has no reply to this question")
        reply = await self._paid(question, messages, budget)
        if self._cache is not None:
            await asyncio.to_thread(self._cache.put, key, dataclasses.asdict(reply))
        return reply

    async def _paid(
        self, question: Question[Any], messages: list[dict[str, str]], budget: _Budget
    ) -> Reply:
        payload = self._payload(question, messages)
        wait = self.config.backoff_s
        while True:
            try:
                return await self._request(payload, messages)
            except Failed as failed:
                asked = failed.retry_after_s
                if asked is not None and asked > self.config.max_backoff_s:
                    raise
                if not failed.retryable or not budget.take():
                    raise
                if asked is not None:
                    self._limiter.hold(asked)
                self.counters.retries += 1
                await asyncio.sleep((asked or 0.0) + wait * random.uniform(0.5, 1.0))
                wait = min(2 * wait, self.config.max_backoff_s)

    def _payload(self, question: Question[Any], messages: list[dict[str, str]]) -> dict[str, Any]:
        config = self.config
        payload: dict[str, Any] = {
            "model": config.model,
            "messages": messages,
            "max_completion_tokens": config.max_reply_tokens,
            "extra_body": config.extra_fields() or None,
        }
        if config.temperature is not None:
            payload["temperature"] = config.temperature
        if config.reply_format == "json_object":
            payload["response_format"] = {"type": "json_object"}
        elif config.reply_format == "json_schema":
            schema = {"name": "reply", "strict": True, "schema": dict(question.schema)}
            payload["response_format"] = {"type": "json_schema", "json_schema": schema}
        return payload

    async def _request(self, payload: dict[str, Any], messages: list[dict[str, str]]) -> Reply:
        """One HTTP request. Raises `Failed`, nothing else."""
        assert self._api is not None
        # About four characters a token in English and code; corrected once the server has counted.
        estimate = sum(len(message["content"]) for message in messages) / 4
        async with self._slots:
            await self._limiter.acquire(estimate)
            self.counters.requests += 1
            try:
                completion = await asyncio.wait_for(
                    self._api.chat.completions.create(**payload), self.config.timeout_s
                )
            except TimeoutError:
                raise Failed("timeout", f"no reply in {self.config.timeout_s} s", True) from None
            except (openai.OpenAIError, ValueError) as error:
                raise classify(error) from None
        reply, prompt_tokens, reply_tokens = read_completion(completion)
        self._limiter.correct(prompt_tokens + reply_tokens - estimate)
        self.counters.prompt_tokens += prompt_tokens
        self.counters.reply_tokens += reply_tokens
        self.counters.cost_usd += 1e-6 * (
            prompt_tokens * self.config.usd_per_million_prompt_tokens
            + reply_tokens * self.config.usd_per_million_reply_tokens
        )
        return dataclasses.replace(reply, content=self._redact(reply.content))

    def _redact(self, text: str) -> str:
        return text.replace(self._key, "[key]") if self._key else text


def _read_key(name: str) -> str:
    if not name:
        return "none"  # the openai package insists on a key; a server without one ignores it
    key = os.environ.get(name, "")
    if not key:
        raise ValueError(
            f"no API key: environment variable {name} is not set. Set it, name another in "
            'api_key_env, or use api_key_env="" for a server that needs none.'
        )
    return key


def _encodable(text: str) -> str:
    """Replace lone surrogates, which a sampled text may hold and UTF-8 may not."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _read_json(reply: Reply) -> dict[str, Any]:
    if reply.refusal or reply.finish_reason == "content_filter":
        raise Failed("refusal", reply.refusal or "stopped by a content filter")
    if not reply.content.strip():
        raise ValueError("the reply was empty")
    if reply.finish_reason == "length":
        raise ValueError("the reply was cut off at its length limit; write the JSON compactly")
    return extract_json(reply.content)


def _reask(reply: Reply, error: str) -> list[dict[str, str]]:
    said = reply.content[:_MAX_ECHO_CHARS] or "(empty)"
    error = error[:_MAX_ERROR_CHARS]
    return [
        {"role": "assistant", "content": _encodable(said)},
        {
            "role": "user",
            "content": f"That reply cannot be used: {error}\nSend the corrected JSON object only.",
        },
    ]
