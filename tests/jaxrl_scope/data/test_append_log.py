import json
import multiprocessing
import threading

import pytest

from jaxrl_scope.data.append_log import AppendLog


def append_many(path, name, count):
    log = AppendLog(path)
    for number in range(count):
        log.append([{"name": name, "number": number, "text": "x" * 3000}])


def test_rows_come_back_once(tmp_path):
    log = AppendLog(tmp_path / "new" / "log.jsonl")
    assert list(log.read_new()) == []
    log.append([{"a": 1}, {"a": 2}])
    log.append([])
    assert list(log.read_new()) == [{"a": 1}, {"a": 2}]
    log.append([{"a": "ü"}])
    assert list(log.read_new()) == [{"a": "ü"}]
    assert list(log.read_new()) == []


@pytest.mark.parametrize("torn", [b'{"a": 2', b"x" * 10_000, b""])
def test_a_torn_line_is_cut_off_by_the_next_writer(tmp_path, torn):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a": 1}\n' + torn)
    reader = AppendLog(path)
    assert list(reader.read_new()) == [{"a": 1}]
    AppendLog(path).append([{"a": 3}])
    assert list(reader.read_new()) == [{"a": 3}]
    assert path.read_bytes() == b'{"a": 1}\n{"a": 3}\n'


def test_a_file_that_is_one_torn_line(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"y" * 9000)
    AppendLog(path).append([{"a": 3}])
    assert list(AppendLog(path).read_new()) == [{"a": 3}]


@pytest.mark.parametrize("line", [b"{broken}\n", b"[1]\n"])
def test_a_complete_line_that_is_no_row_is_not_ours(tmp_path, line):
    path = tmp_path / "log.jsonl"
    path.write_bytes(line)
    with pytest.raises(ValueError, match=r"log\.jsonl"):
        list(AppendLog(path).read_new())


def test_processes_and_threads_do_not_mix_their_lines(tmp_path):
    path = tmp_path / "log.jsonl"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=append_many, args=(path, f"p{i}", 40)) for i in range(2)]
    workers += [threading.Thread(target=append_many, args=(path, f"t{i}", 40)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for name in ("p0", "p1", "t0", "t1"):
        assert [row["number"] for row in rows if row["name"] == name] == list(range(40))
