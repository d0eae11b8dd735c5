"""Rollouts one update ahead: a batch is made while the trainer learns from the one before."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Makes batches in a thread of its own, one ahead of those that are asked for.

    Nothing may change the sampler's weights while a batch is being made: call `wait` first.
    """

    def __init__(self, make: Callable[[int], T], last: int):
        """Take what makes the batch of an update.

        Args:
          make: called with the number of an update.
          last: number of the last update; nothing is made beyond it.
        """
        self._make, self._last = make, last
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._under_way: tuple[int, Future[T]] | None = None

    def take(self, update: int) -> T:
        """Return the batch of `update`, made ahead if `start` was called, else made now.

        Raises:
          Whatever made the batch fail.
        """
        under_way, self._under_way = self._under_way, None
        if under_way is not None and under_way[0] == update:
            return under_way[1].result()
        return self._make(update)

    def start(self, update: int) -> None:
        """Begin to make the batch of `update`, unless the run ends before it."""
        if update <= self._last:
            self._under_way = update, self._thread.submit(self._make, update)

    def wait(self) -> None:
        """Return when no batch is being made; a failure shows in `take`."""
        if self._under_way is not None:
            wait([self._under_way[1]])

    def close(self) -> None:
        """Make no more batches. One under way is not waited for: close its sampler next."""
        self._thread.shutdown(wait=False, cancel_futures=True)
