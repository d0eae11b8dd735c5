"""Batches made one ahead."""

import threading

import pytest

from jaxrl_scope.train.ahead import Ahead


def test_the_next_batch_is_made_while_this_one_is_used():
    made, go = [], threading.Event()

    def make(update: int) -> int:
        if update > 1:
            assert go.wait(10)
        made.append(update)
        return 10 * update

    ahead = Ahead(make, last=3)
    assert ahead.take(1) == 10
    ahead.start(2)
    assert made == [1]  # under way, held up, and nobody waits for it
    go.set()
    ahead.wait()
    assert made == [1, 2]
    assert ahead.take(2) == 20
    ahead.start(3)
    assert ahead.take(3) == 30
    ahead.start(4)
    ahead.wait()
    ahead.close()
    assert made == [1, 2, 3]


def test_a_failure_shows_where_the_batch_is_taken():
    def make(update: int) -> int:
        raise OSError(f"no batch {update}")

    ahead = Ahead(make, last=9)
    ahead.start(2)
    ahead.wait()
    with pytest.raises(OSError, match="no batch 2"):
        ahead.take(2)
    ahead.close()
