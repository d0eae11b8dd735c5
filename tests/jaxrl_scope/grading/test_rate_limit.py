"""Pacing without waiting: the clock is a variable."""

import asyncio

import pytest

from jaxrl_scope.grading.rate_limit import RateLimiter, retry_after


def test_requests_are_spaced_evenly():
    now = 0.0
    limiter = RateLimiter(requests_per_minute=60, clock=lambda: now)
    assert [limiter.reserve(1) for _ in range(3)] == [0.0, 1.0, 2.0]
    now = 10.0
    assert limiter.reserve(1) == 0.0  # idle time is not saved up for a burst
    assert limiter.reserve(1) == 1.0


def test_tokens_are_spaced_by_size_and_corrected_by_what_was_used():
    limiter = RateLimiter(tokens_per_minute=600, clock=lambda: 0.0)
    assert limiter.reserve(20) == 0.0
    assert limiter.reserve(10) == 2.0
    limiter.correct(30)
    assert limiter.reserve(1) == 2.0 + 1.0 + 3.0


def test_no_limit_no_wait():
    limiter = RateLimiter(clock=lambda: 0.0)
    assert [limiter.reserve(1e9) for _ in range(3)] == [0.0] * 3


def test_a_hold_delays_every_request():
    limiter = RateLimiter()
    limiter.hold(0.1)
    limiter.hold(0.05)  # a shorter one does not shorten it

    async def timed():
        loop = asyncio.get_running_loop()
        start = loop.time()
        await limiter.acquire(1)
        return loop.time() - start

    assert asyncio.run(timed()) >= 0.09


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "5", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers, seconds):
    assert retry_after(headers, now=10.0) == seconds
