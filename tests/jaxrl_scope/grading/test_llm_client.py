"""The chat client against a real HTTP server on the loopback that misbehaves on purpose."""

import dataclasses
import json
import logging
import threading
import time

import pytest

from jaxrl_scope.grading.llm_client import ChatClient, ChatConfig, Question, ReplyCache

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def read_n(reply):
    if not isinstance(reply.get("n"), int):
        raise ValueError("field n must be an integer")
    return reply["n"]


def question(text="how many?"):
    return Question("test/1", "count", text, SCHEMA, read_n)


@pytest.fixture
def config(chat_server):
    return ChatConfig(
        model="m", base_url=chat_server.url, api_key_env="", backoff_s=0.01, timeout_s=0.5
    )


def ask(config, text="how many?", **options):
    with ChatClient(config, **options) as client:
        return client.ask(question(text)), client.counters


def test_a_good_reply_is_one_request(chat_server, config):
    chat_server.script = [chat_server.acts.say({"n": 3})]
    config = dataclasses.replace(
        config,
        usd_per_million_prompt_tokens=2.0,
        usd_per_million_reply_tokens=8.0,
        extra_body='{"reasoning_effort": "low"}',
    )
    answer, counters = ask(config)
    assert answer.value == 3 and answer.failure is None
    assert (counters.requests, counters.retries, counters.reasks) == (1, 0, 0)
    assert (counters.prompt_tokens, counters.reply_tokens) == (100, 10)
    assert counters.cost_usd == pytest.approx(100 * 2e-6 + 10 * 8e-6)
    body = chat_server.requests[0].body
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert body["reasoning_effort"] == "low"
    assert body["temperature"] == 0.0 and body["messages"][0]["role"] == "system"


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("429", lambda acts: acts.status(429)),
        ("500", lambda acts: acts.status(500)),
        ("503", lambda acts: acts.status(503)),
        ("reset", lambda acts: acts.reset()),
        ("cut body", lambda acts: acts.cut_body()),
        ("hang", lambda acts: acts.hang(1.0)),
        ("trickle", lambda acts: acts.trickle(1.0)),
        ("html", lambda acts: acts.raw(b"<html>busy</html>", "text/html")),
        ("no JSON", lambda acts: acts.raw(b"{'choices'")),
        ("no choices", lambda acts: acts.raw(b'{"choices": []}')),
        ("null", lambda acts: acts.raw(b"null")),
        ("list", lambda acts: acts.raw(b"[1, 2]")),
        ("choices of another type", lambda acts: acts.raw(b'{"choices": [7]}')),
        ("truncated JSON", lambda acts: acts.say('{"n": ')),
        ("wrong type", lambda acts: acts.say({"n": "three"})),
        ("not JSON", lambda acts: acts.say("three")),
        ("two objects", lambda acts: acts.say('{"n": 1} {"n": 2}')),
        ("repeated key", lambda acts: acts.say('{"n": 1, "n": 2}')),
        ("huge integer", lambda acts: acts.say('{"n": ' + "9" * 5000 + "}")),
        ("deep nesting", lambda acts: acts.say('{"a":' * 50_000)),
        ("empty", lambda acts: acts.say("")),
        ("null content", lambda acts: acts.say(None)),
        ("content of another type", lambda acts: acts.say(["n"])),
        ("cut at the length limit", lambda acts: acts.say({"n": 5}, finish_reason="length")),
    ],
)
def test_one_bad_turn_is_mended_by_the_next(chat_server, config, name, make):
    chat_server.script = [make(chat_server.acts), chat_server.acts.say({"n": 4})]
    answer, counters = ask(config)
    assert answer.value == 4, (name, answer)
    assert counters.requests == 2 and counters.retries + counters.reasks == 1
    assert not counters.failures


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda acts: acts.status(429), "rate_limited"),
        (lambda acts: acts.status(500), "server_error"),
        (lambda acts: acts.reset(), "connection"),
        (lambda acts: acts.hang(0.3), "timeout"),
        (lambda acts: acts.say("three"), "malformed"),
        (lambda acts: acts.say(""), "empty"),
        (lambda acts: acts.say('{"n"', finish_reason="length"), "truncated"),
    ],
)
def test_a_lasting_fault_is_a_named_failure_after_the_retries(chat_server, config, make, reason):
    chat_server.otherwise = make(chat_server.acts)
    config = dataclasses.replace(config, max_retries=2, timeout_s=0.1)
    answer, counters = ask(config)
    assert answer.value is None and answer.failure == reason
    assert counters.requests == 3
    assert counters.failures == {reason: 1}


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda acts: acts.status(400), "http_400"),
        (lambda acts: acts.status(401), "http_401"),
        (lambda acts: acts.status(404), "http_404"),
        (lambda acts: acts.status(429, error_code="insufficient_quota"), "rate_limited"),
        (lambda acts: acts.status(429, headers=[("retry-after", "3600")]), "rate_limited"),
        (lambda acts: acts.say("", refusal="I will not"), "refusal"),
        (lambda acts: acts.say("", finish_reason="content_filter"), "refusal"),
    ],
)
def test_what_waiting_cannot_mend_fails_at_once(chat_server, config, make, reason):
    chat_server.otherwise = make(chat_server.acts)
    answer, counters = ask(config)
    assert answer.failure == reason and counters.requests == 1


def test_prose_around_json_is_no_fault(chat_server, config):
    text = 'Sure: \\boxed{3} of {1, 2}.\n<think>{"n": 9}</think>\n```json\n{"n": 3}\n``` Bye {x}.'
    chat_server.script = [chat_server.acts.say(text)]
    answer, counters = ask(config)
    assert answer.value == 3 and counters.requests == 1


def test_a_reask_quotes_the_reply_and_the_error(chat_server, config):
    chat_server.script = [chat_server.acts.say({"n": None}), chat_server.acts.say({"n": 1})]
    ask(config)
    first, second = (request.body["messages"] for request in chat_server.requests)
    assert second[: len(first)] == first
    assert second[-2] == {"role": "assistant", "content": '{"n": null}'}
    assert "field n must be an integer" in second[-1]["content"]


def test_retry_after_is_waited_out_by_everyone(chat_server, config):
    chat_server.script = [chat_server.acts.status(429, headers=[("retry-after", "0.4")])]
    chat_server.otherwise = chat_server.acts.say({"n": 1})
    config = dataclasses.replace(config, max_concurrency=1)
    with ChatClient(config) as client:
        answers = client.ask_all([question(str(i)) for i in range(3)])
    assert [answer.value for answer in answers] == [1, 1, 1]
    refused, *later = [request.time for request in chat_server.requests]
    assert len(later) == 3 and min(later) - refused >= 0.39


def test_concurrency_is_bounded(chat_server, config):
    def slow(handler, body):
        time.sleep(0.05)
        chat_server.acts.say({"n": 1})(handler, body)

    chat_server.otherwise = slow
    with ChatClient(dataclasses.replace(config, max_concurrency=3)) as client:
        answers = client.ask_all([question(str(i)) for i in range(12)])
    assert all(answer.value == 1 for answer in answers)
    assert 2 <= chat_server.max_in_flight <= 3


def test_requests_per_minute_are_bounded(chat_server, config):
    chat_server.otherwise = chat_server.acts.say({"n": 1})
    with ChatClient(dataclasses.replace(config, requests_per_minute=600)) as client:
        client.ask_all([question(str(i)) for i in range(5)])
    times = sorted(request.time for request in chat_server.requests)
    assert times[-1] - times[0] >= 0.38  # four gaps of a tenth of a second


def test_tokens_per_minute_are_bounded_by_what_the_server_counted(chat_server, config):
    chat_server.otherwise = chat_server.acts.say({"n": 1})  # 110 tokens a request
    config = dataclasses.replace(config, tokens_per_minute=110 * 600, max_concurrency=1)
    with ChatClient(config) as client:
        client.ask_all([question(str(i)) for i in range(5)])
    times = sorted(request.time for request in chat_server.requests)
    assert times[-1] - times[0] >= 0.35


def test_equal_questions_in_flight_are_paid_once(chat_server, config):
    def slow(handler, body):
        time.sleep(0.1)
        chat_server.acts.say({"n": 1})(handler, body)

    chat_server.otherwise = slow
    with ChatClient(config) as client:
        answers = client.ask_all([question()] * 5)
    assert [answer.value for answer in answers] == [1] * 5
    assert len(chat_server.requests) == 1 and client.counters.cache_hits == 4


def test_every_reply_is_paid_once_even_a_malformed_one(chat_server, config, tmp_path):
    chat_server.script = [chat_server.acts.say("nonsense"), chat_server.acts.say({"n": 7})]
    cache = ReplyCache(tmp_path)
    first, _ = ask(config, cache=cache)
    second, counters = ask(config, cache=cache)
    assert first == second and second.value == 7
    assert counters.requests == 0 and counters.cache_hits == 2
    assert len(chat_server.requests) == 2


@pytest.mark.parametrize(
    "change", [{"model": "other"}, {"temperature": 0.5}, {"reply_format": "text"}]
)
def test_the_cache_tells_models_and_settings_apart(chat_server, config, tmp_path, change):
    chat_server.script = [chat_server.acts.say({"n": 1}), chat_server.acts.say({"n": 2})]
    cache = ReplyCache(tmp_path)
    assert ask(config, cache=cache)[0].value == 1
    assert ask(dataclasses.replace(config, **change), cache=cache)[0].value == 2
    assert ask(config, cache=cache)[0].value == 1


def test_the_cache_tells_prompt_versions_apart(chat_server, config, tmp_path):
    chat_server.script = [chat_server.acts.say({"n": 1}), chat_server.acts.say({"n": 2})]
    with ChatClient(config, cache=ReplyCache(tmp_path)) as client:
        assert client.ask(question()).value == 1
        assert client.ask(dataclasses.replace(question(), version="test/2")).value == 2


def test_transport_failures_are_not_recorded(chat_server, config, tmp_path):
    chat_server.script = [chat_server.acts.status(400), chat_server.acts.say({"n": 1})]
    cache = ReplyCache(tmp_path)
    assert ask(config, cache=cache)[0].failure == "http_400"
    assert ask(config, cache=cache)[0].value == 1


def test_replay_needs_no_server_and_no_key(chat_server, config, tmp_path, monkeypatch):
    chat_server.script = [chat_server.acts.say({"n": 1})]
    cache = ReplyCache(tmp_path)
    ask(config, "known", cache=cache)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    offline = dataclasses.replace(config, base_url=None, api_key_env="OPENAI_API_KEY")
    with ChatClient(offline, cache=cache, offline=True) as client:
        known, unknown = client.ask_all([question("known"), question("unknown")])
    assert known.value == 1
    assert unknown.failure == "not_recorded"
    assert client.counters.requests == 0


def test_a_damaged_record_is_a_named_failure(chat_server, config, tmp_path):
    chat_server.script = [chat_server.acts.say({"n": 1})]
    cache = ReplyCache(tmp_path)
    ask(config, cache=cache)
    [path] = tmp_path.glob("*/*.json")
    for text in ("{", "[]", '{"content": "x"}'):
        path.write_text(text)
        answer, _ = ask(config, cache=cache)
        assert answer.failure == "bad_cache"


def test_the_key_is_sent_and_appears_nowhere_else(chat_server, tmp_path, monkeypatch, caplog):
    key = "sk-test-0123456789"
    monkeypatch.setenv("JUDGE_KEY", key)
    config = ChatConfig(
        model="m", base_url=chat_server.url, api_key_env="JUDGE_KEY", backoff_s=0, max_retries=1
    )
    acts = chat_server.acts
    chat_server.script = [acts.echo_headers(500), acts.echo_headers(401), acts.say(f"{key} no"),
                          acts.say({"n": 1})]  # fmt: skip
    cache = ReplyCache(tmp_path)
    with caplog.at_level(logging.DEBUG), ChatClient(config, cache=cache) as client:
        failed = client.ask(question())
        client.ask(question("again"))
    assert {request.authorization for request in chat_server.requests} == {f"Bearer {key}"}
    stored = "".join(path.read_text() for path in tmp_path.glob("*/*"))
    shown = f"{failed!r} {config!r} {client.counters!r} {caplog.text} {stored}"
    assert failed.failure == "http_401" and "[key]" in failed.detail
    assert key not in shown
    assert key not in json.dumps([request.body for request in chat_server.requests])


def test_missing_key_and_bad_settings_are_refused(monkeypatch):
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    with pytest.raises(ValueError, match="JUDGE_KEY is not set"):
        ChatClient(ChatConfig(model="m", api_key_env="JUDGE_KEY"))
    with pytest.raises(ValueError, match="credentials"):
        ChatConfig(model="m", base_url="http://user:secret@host/v1")
    with pytest.raises(ValueError, match="max_concurrency"):
        ChatConfig(model="m", max_concurrency=0)
    with pytest.raises(ValueError, match="timeout_s"):
        ChatConfig(model="m", timeout_s=0)
    for text in ("[1]", "{"):
        with pytest.raises(ValueError, match="extra_body must be"):
            ChatConfig(extra_body=text)
    with pytest.raises(ValueError, match="max_retries"):
        ChatConfig(model="m", max_retries=-1)
    with pytest.raises(ValueError, match="give it a cache"):
        ChatClient(ChatConfig(model="m"), offline=True)


def test_close_cancels_what_is_in_flight_and_ends_the_thread(chat_server, config):
    chat_server.otherwise = chat_server.acts.hang(5.0)
    before = threading.active_count()
    client = ChatClient(dataclasses.replace(config, timeout_s=30.0))
    future = client.submit(question())
    while not chat_server.requests:
        time.sleep(0.01)
    start = time.monotonic()
    client.close()
    client.close()
    assert time.monotonic() - start < 2.0
    assert future.cancelled()
    assert not any(thread.name == "chat-m" for thread in threading.enumerate())
    assert threading.active_count() <= before + 1  # the server's own, still asleep
    with pytest.raises(ValueError, match="closed"):
        client.submit(question())


def test_lone_surrogates_do_not_stop_a_question(chat_server, config):
    chat_server.script = [chat_server.acts.say({"n": 1})]
    answer, _ = ask(config, "half a pair: \ud83d")
    assert answer.value == 1
    assert chat_server.requests[0].user == "half a pair: ?"
