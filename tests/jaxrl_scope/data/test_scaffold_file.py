import json

import pytest

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.rows import RowError, write_rows
from jaxrl_scope.data.scaffold_file import load_scaffolds, save_scaffolds, scaffold_to_row

SCAFFOLDS = [
    Scaffold("a", ("Let $N$ be it.", "Use $N$."), ("8", "\\frac{1}{2}"), "Main?", "7", source="s"),
    Scaffold(
        "b", ("55 - 3",), ("52",), "55 - 3 * 2 ?", "25",
        messages=({"role": "user", "content": "[SUB] 55 - 3 [MAIN] 55 - 3 * 2 ?"},),
    ),
]  # fmt: skip
PUBLISHED = {
    "data_source": "step_math",
    "prompt": [
        {"role": "system", "content": "Box every answer under its label."},
        {
            "role": "user",
            "content": "A square has side $s$.\nSub-problem 1: Find its area.\n**Sub-problem 2:** "
            "Using the result of Sub-problem 1, find the volume of the cube.\nMain Problem: Find "
            "the ratio of both.",
        },
    ],
    "reward_model": {
        "ground_truth": {"sub1": "s^2", "sub2": "s^3", "main": "s"},
        "style": "rule",
    },
}


@pytest.mark.parametrize("name", ["s.jsonl", "s.parquet"])
def test_saved_scaffolds_come_back_equal(tmp_path, name):
    assert save_scaffolds(tmp_path / name, SCAFFOLDS) == 2
    loaded, report = load_scaffolds(tmp_path / name)
    assert list(loaded.values()) == SCAFFOLDS
    assert report.num_kept == 2


def test_schema_is_the_published_one():
    row = scaffold_to_row(SCAFFOLDS[0])
    assert row["reward_model"] == {
        "ground_truth": {"sub1": "8", "sub2": "\\frac{1}{2}", "main": "7"},
        "style": "rule",
    }
    assert row["data_source"] == "s"
    assert row["prompt"][0]["role"] == "user"
    assert row["extra_info"]["problem_id"] == "a"


@pytest.mark.parametrize("as_string", [False, True])
def test_published_rows_are_cut_at_their_headings(tmp_path, as_string):
    row = json.loads(json.dumps(PUBLISHED))
    if as_string:
        row["reward_model"]["ground_truth"] = json.dumps(row["reward_model"]["ground_truth"])
    write_rows(tmp_path / "p.jsonl", [row])
    loaded, _ = load_scaffolds(tmp_path / "p.jsonl", strict=True)
    (scaffold,) = loaded.values()
    assert scaffold.questions == (
        "Find its area.",
        "Using the result of Sub-problem 1, find the volume of the cube.",
    )
    assert scaffold.answers == ("s^2", "s^3")
    assert scaffold.main_question == "A square has side $s$.\n\nFind the ratio of both."
    assert scaffold.messages == tuple(PUBLISHED["prompt"])


def edited(**changes):
    row = json.loads(json.dumps(scaffold_to_row(SCAFFOLDS[0])))
    for path, value in changes.items():
        *parents, last = path.split("__")
        target = row
        for key in parents:
            target = target[key]
        target[last] = value
    return row


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (edited(reward_model__ground_truth={"main": "7"}), "reward_model.ground_truth"),
        (edited(reward_model__ground_truth={"sub1": "8"}), "reward_model.ground_truth"),
        (
            edited(reward_model__ground_truth={"sub2": "8", "main": "7"}),
            "reward_model.ground_truth",
        ),
        (edited(reward_model__ground_truth="{broken"), "reward_model.ground_truth"),
        (
            edited(reward_model__ground_truth={"sub1": "", "sub2": "1", "main": "7"}),
            "reward_model.ground_truth.sub1",
        ),
        (edited(extra_info__sub_questions=["one"]), "extra_info.sub_questions"),
        (edited(extra_info__sub_questions=["one", ""]), "extra_info.sub_questions.1"),
        (edited(extra_info__main_question=None), "extra_info.main_question"),
        (edited(prompt=[]), "prompt"),
        (edited(extra_info={}, prompt=[{"role": "user", "content": "no headings"}]), "prompt"),
    ],
)
def test_broken_rows_name_file_line_and_field(tmp_path, row, field):
    path = tmp_path / "s.jsonl"
    write_rows(path, [scaffold_to_row(SCAFFOLDS[1]), row])
    loaded, report = load_scaffolds(path)
    assert list(loaded) == ["b"]
    assert report.counts == {"broken row": 1}
    with pytest.raises(RowError, match=rf"s\.jsonl:2: field '{field}'"):
        load_scaffolds(path, strict=True)


def test_the_later_of_two_rows_counts(tmp_path):
    path = tmp_path / "s.jsonl"
    newer = Scaffold("a", ("New?",), ("1",), "Main?", "7", source="s")
    save_scaffolds(path, [SCAFFOLDS[0], newer])
    loaded, report = load_scaffolds(path)
    assert loaded == {"a": newer}
    assert report.counts == {"replaced": 1}
    assert report.num_kept == 1


def test_links_by_id_then_by_content(tmp_path):
    path = tmp_path / "s.jsonl"
    save_scaffolds(path, SCAFFOLDS)
    problems = [Problem("a", "reworded", "7"), Problem("z", " 55 - 3  * 2 ?", "25")]
    loaded, report = load_scaffolds(path, problems=problems)
    assert set(loaded) == {"a", "z"}
    assert loaded["z"].problem_id == "z"
    loaded, report = load_scaffolds(path, problems=problems[:1])
    assert set(loaded) == {"a"}
    assert report.counts == {"no such problem": 1}
