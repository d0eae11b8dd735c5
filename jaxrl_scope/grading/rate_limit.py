"""Pacing of requests to a paid server: requests and tokens a minute, and server-ordered pauses."""

import asyncio
import datetime
import email.utils
import math
import time
from collections.abc import Callable, Mapping


class RateLimiter:
    """Spaces out requests so that neither budget is exceeded in any minute, on average.

    Each budget is a line of reservations: a request takes `cost / rate` minutes of it and waits
    until its turn. Used from one event loop only.

    Args:
      requests_per_minute: None for no limit.
      tokens_per_minute: prompt and completion tokens together; None for no limit.
      clock: seconds, monotonic.
    """

    def __init__(
        self,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._requests_per_minute = requests_per_minute
        self._tokens_per_minute = tokens_per_minute
        self._clock = clock
        self._next_request = -math.inf
        self._next_token = -math.inf
        self._held_until = -math.inf

    def reserve(self, num_tokens: float) -> float:
        """Book one request of `num_tokens` (an estimate); return the seconds to wait first."""
        now = self._clock()
        start = max(now, self._next_request, self._next_token)
        if self._requests_per_minute is not None:
            self._next_request = start + 60.0 / self._requests_per_minute
        if self._tokens_per_minute is not None:
            self._next_token = start + 60.0 * num_tokens / self._tokens_per_minute
        return start - now

    def correct(self, extra_tokens: float) -> None:
        """Charge (or give back, if negative) the gap between a booking and what was used."""
        if self._tokens_per_minute is not None:
            self._next_token += 60.0 * extra_tokens / self._tokens_per_minute

    def hold(self, seconds: float) -> None:
        """Let no request start for `seconds`: the server told one caller to wait."""
        self._held_until = max(self._held_until, self._clock() + seconds)

    async def acquire(self, num_tokens: float) -> None:
        """Wait for the turn of one request of `num_tokens`."""
        await asyncio.sleep(self.reserve(num_tokens))
        while (pause := self._held_until - self._clock()) > 0:
            await asyncio.sleep(pause)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds the server asks to wait (`retry-after-ms`, `retry-after` in either form), or None.

    A value that does not parse, is negative or is not finite counts as absent.

    Args:
      headers: response headers, case-insensitive or lower case.
      now: seconds since the epoch, for the date form; None reads the clock.
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (TypeError, ValueError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=datetime.UTC)
    return max(0.0, date.timestamp() - (time.time() if now is None else now))
