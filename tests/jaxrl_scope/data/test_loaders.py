import json
from pathlib import Path

import pytest

from jaxrl_scope.data.columns import PRESETS
from jaxrl_scope.data.loaders import load_problems, save_problems
from jaxrl_scope.data.problems import Problem
from jaxrl_scope.data.rows import RowError, write_rows
from jaxrl_scope.grading import is_correct

SHARED = Path(__file__).parents[4] / "shared" / "data" / "math"


def plain(number, **fields):
    return {"id": f"p{number}", "problem": f"What is {number}?", "answer": str(number)} | fields


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_saved_problems_come_back_equal(tmp_path, name):
    problems = [
        Problem("a", "What?", "1", source="s", difficulty="k1", meta={"level": 3}),
        Problem("b", "Which?", "B", task="mcq", choices=("x", "y")),
        Problem("c", "55 - 3 ?", "52", messages=({"role": "user", "content": "55 - 3 ?"},)),
        Problem("d", "No extras", "4"),
    ]
    assert save_problems(tmp_path / name, problems) == 4
    loaded, report = load_problems(tmp_path / name)
    assert loaded == problems
    assert report.num_kept == report.num_rows == 4
    assert not report.counts


def test_saved_rows_have_the_columns_that_verl_reads(tmp_path):
    save_problems(tmp_path / "p.jsonl", [Problem("b", "Which?", "B", "s", choices=("x", "y"))])
    row = json.loads((tmp_path / "p.jsonl").read_text())
    assert list(row) == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
    assert row["reward_model"] == {"ground_truth": "B", "style": "rule"}
    content = row["prompt"][0]["content"]
    assert "Which?" in content
    assert "(B) y" in content
    assert "boxed" in content


def test_broken_rows_are_reported_and_the_rest_loads(tmp_path):
    path = tmp_path / "p.jsonl"
    lines = [json.dumps(plain(1)), "{broken", json.dumps({"id": "x", "problem": "?"})]
    path.write_text("\n".join([*lines, json.dumps(plain(4))]))
    problems, report = load_problems(path)
    assert [p.id for p in problems] == ["p1", "p4"]
    assert report.counts == {"broken row": 2}
    assert [drop.where for drop in report.drops] == [f"{path}:2", f"{path}:3"]
    assert "'answer" in report.drops[1].detail
    with pytest.raises(RowError, match=r"p\.jsonl:2"):
        load_problems(path, strict=True)


def test_duplicates_go_and_clashing_ids_are_replaced(tmp_path):
    path = tmp_path / "p.jsonl"
    rows = [plain(1), plain(2, problem="What  is\n1?"), plain(3, id="p1"), plain(4)]
    write_rows(path, rows)
    problems, report = load_problems(path)
    assert [p.text for p in problems] == ["What is 1?", "What is 3?", "What is 4?"]
    assert report.counts == {"duplicate": 1}
    assert len({p.id for p in problems}) == 3
    assert load_problems(path)[0] == problems


def test_one_problem_worded_twice_is_one(tmp_path):
    path = tmp_path / "p.jsonl"
    text = "Let $S$ hold all $(a,b)$ with $a+b$ even. Find $\\sum_{(a,b) \\in S} 2^{-a} 3^{-b}$."
    other = "$S$: all $(a, b)$ with even $a+b$. Give \\[\\sum_{(a,b)\\in S}2^{-a}3^{-b}.\\]"
    rows = [plain(1, problem=text), plain(2, problem=other, answer="1"), plain(3, problem=other)]
    write_rows(path, rows)
    problems, report = load_problems(path)
    assert [p.id for p in problems] == ["p1", "p3"]
    assert report.counts == {"reworded": 1}
    assert "p1" in report.drops[0].detail


def test_subset_is_drawn_by_seed(tmp_path):
    path = tmp_path / "p.jsonl"
    write_rows(path, [plain(i) for i in range(50)])
    first, report = load_problems(path, limit=10, seed=1)
    assert len(first) == report.num_kept == 10
    assert report.counts == {"not in subset": 40}
    assert load_problems(path, limit=10, seed=1)[0] == first
    assert load_problems(path, limit=10, seed=2)[0] != first
    with pytest.raises(ValueError, match="subset of 51 from 50"):
        load_problems(path, limit=51)


def test_nothing_usable_is_an_error_that_shows_why(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"foo": 1}\n')
    with pytest.raises(ValueError, match=r"no usable problem(.|\n)*'problem"):
        load_problems(path)
    path.write_text("")
    with pytest.raises(ValueError, match="no usable problem"):
        load_problems(path)


def test_a_preset_by_name_and_as_a_mapping_are_one(tmp_path):
    path = tmp_path / "p.jsonl"
    write_rows(path, [{"question": "q", "answer": "so #### 2"}])
    assert load_problems(path, columns="gsm8k") == load_problems(path, columns=PRESETS["gsm8k"])


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared sample files are not part of the repo")
@pytest.mark.parametrize(
    ("name", "count"),
    [("gsm8k_train_sample", 300), ("math_train_sample", 300), ("dapo_math_sample", 23)],
)
def test_real_files_load_and_every_gold_answer_is_accepted_against_itself(name, count):
    problems, report = load_problems(SHARED / f"{name}.jsonl")
    assert report.num_kept == count
    rejected = [p.answer for p in problems if not is_correct(p.answer, f"\\boxed{{{p.answer}}}")]
    assert rejected == []
