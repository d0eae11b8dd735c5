"""Replies on disk: whole or absent, and never mixed up."""

import concurrent.futures

import pytest

from jaxrl_scope.grading.judge_cache import ReplyCache, cache_key


def test_a_reply_comes_back_and_replaces_the_one_before(tmp_path):
    cache = ReplyCache(tmp_path / "new" / "folder")
    key = cache_key({"model": "m"})
    assert cache.get(key) is None and len(cache) == 0
    cache.put(key, {"content": "a\ud800\n"})
    cache.put(key, {"content": "b"})
    assert cache.get(key) == {"content": "b"} and len(cache) == 1


def test_keys_depend_on_values_and_not_on_the_order_of_fields():
    assert cache_key({"a": 1, "b": 2}) == cache_key({"b": 2, "a": 1})
    assert cache_key({"a": "1"}) != cache_key({"a": 1})
    assert cache_key({"a": "x", "b": "yz"}) != cache_key({"a": "xy", "b": "z"})


def test_a_write_that_was_cut_off_is_no_reply(tmp_path):
    cache = ReplyCache(tmp_path)
    key = cache_key({})
    cache.put(key, {"content": "a"})
    [path] = tmp_path.glob("*/*.json")
    path.rename(path.with_suffix(".tmp"))
    assert cache.get(key) is None and len(cache) == 0


def test_a_damaged_file_is_named(tmp_path):
    cache = ReplyCache(tmp_path)
    key = cache_key({})
    cache.put(key, {})
    [path] = tmp_path.glob("*/*.json")
    path.write_text('{"content": ')
    with pytest.raises(ValueError, match=f"{key}.json does not hold"):
        cache.get(key)


def test_many_writers_leave_one_whole_reply(tmp_path):
    cache = ReplyCache(tmp_path)
    key = cache_key({})
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: cache.put(key, {"content": str(n) * 5000}), range(40)))
    content = cache.get(key)["content"]
    assert len(set(content)) <= 2 and len(content) in (5000, 10_000)
    assert list(tmp_path.glob("*/*.tmp")) == []
