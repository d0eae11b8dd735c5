import json
import math

import pytest

from jaxrl_scope.data import rows
from jaxrl_scope.data.rows import LoadReport, RowError, as_messages, as_text, get_path


def test_reads_lines_with_their_numbers_and_hands_back_broken_ones(tmp_path):
    path = tmp_path / "a.jsonl"
    # U+2028 inside a string is no line break; line 3 is not UTF-8, line 4 empty, line 5 no object.
    path.write_bytes('{"a": "x\u2028y"}\n{"a": \n'.encode() + b'{"a": "\xff"}\n\n[1]\n{"a": 2}')
    read = list(rows.read_rows(path))
    assert [where.rpartition(":")[2] for where, _ in read] == ["1", "2", "3", "5", "6"]
    assert read[0][1] == {"a": "x\u2028y"}
    assert read[-1][1] == {"a": 2}
    for where, row in read[1:4]:
        assert isinstance(row, RowError)
        assert where in str(row)


def test_deeply_nested_json_is_a_broken_row(tmp_path):
    path = tmp_path / "deep.jsonl"
    path.write_text('{"a": ' + "[" * 100_000 + "]" * 100_000 + '}\n{"a": 1}\n')
    read = [row for _, row in rows.read_rows(path)]
    assert isinstance(read[0], RowError)
    assert read[1] == {"a": 1}


@pytest.mark.parametrize("name", ["absent.jsonl", "data.txt"])
def test_unusable_path_is_named(tmp_path, name):
    (tmp_path / "data.txt").write_text("x")
    with pytest.raises(ValueError, match=name):
        list(rows.read_rows(tmp_path / name))


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_written_rows_come_back(tmp_path, name):
    data = [{"id": "1", "x": {"y": [1, 2]}}, {"id": "2", "x": {"y": [3]}}]
    assert rows.write_rows(tmp_path / name, data) == 2
    assert [row for _, row in rows.read_rows(tmp_path / name)] == data


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.jsonl"
    rows.write_rows(path, [{"a": 1}])
    with pytest.raises(ValueError, match="JSON"):
        rows.write_rows(path, [{"a": 2}, {"a": object()}])
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("value", [math.nan, math.inf, "\ud800"])
def test_values_that_other_readers_cannot_parse_are_refused(value):
    with pytest.raises(ValueError, match="JSON"):
        rows.to_line({"a": value})


def test_get_path():
    row = {"a": {"b": [{"c": 5}]}}
    assert get_path(row, "a.b.0.c") == 5
    assert get_path(row, "a.b.-1.c") == 5
    for path in ("a.b.1.c", "a.x", "a.b.c", "a.b.0.c.d"):
        assert get_path(row, path) is None


@pytest.mark.parametrize(("value", "text"), [(34, "34"), (34.0, "34"), (2.5, "2.5"), (" x ", "x")])
def test_as_text(value, text):
    assert as_text(value, "answer") == text


@pytest.mark.parametrize("value", [None, True, [], {}, "", "  ", math.nan])
def test_as_text_refuses_and_names_the_field(value):
    with pytest.raises(RowError, match="'answer'"):
        as_text(value, "answer")


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([], "prompt"),
        ("hi", "prompt"),
        ([1], "prompt.0"),
        ([{"role": "user"}], "prompt.0.content"),
        ([{"role": 1, "content": "x"}], "prompt.0.role"),
    ],
)
def test_as_messages_names_the_field(value, field):
    with pytest.raises(RowError, match=f"'{field}'"):
        as_messages(value, "prompt")


def test_report_counts_all_and_keeps_the_first_details():
    report = LoadReport("x", num_rows=LoadReport.MAX_DROPS + 7)
    for number in range(LoadReport.MAX_DROPS + 5):
        report.drop(f"x:{number}", "duplicate", "why")
    assert report.num_kept == 2
    assert report.counts == {"duplicate": LoadReport.MAX_DROPS + 5}
    assert len(report.drops) == LoadReport.MAX_DROPS
    assert f"{LoadReport.MAX_DROPS} more" in report.summary()
