import dataclasses

import pytest

from jaxrl_scope.data.columns import (
    PRESETS,
    VERL,
    Columns,
    detect_columns,
    resolve_columns,
    row_to_problem,
)
from jaxrl_scope.data.rows import RowError

QUESTION = "What is $1+1$?"


def read(row, preset=None, seed=0):
    return row_to_problem(row, PRESETS[preset] if preset else detect_columns(row), seed=seed)


# One row of each published layout, with its column names; the texts are ours.
@pytest.mark.parametrize(
    ("preset", "row", "expected"),
    [
        (
            "dapo-math",
            {
                "data_source": "math_dapo",
                "prompt": [
                    {
                        "role": "user",
                        "content": "Solve it. End with a line of the form Answer: $Answer.\n\n"
                        f'{QUESTION}\n\nMind the rest.\n\nRemember the line after "Answer:".',
                    }
                ],
                "ability": "MATH",
                "reward_model": {"ground_truth": "2", "style": "rule-lighteval/MATH_v2"},
                "extra_info": {"index": "9a9b6eb4"},
            },
            {"id": "9a9b6eb4", "text": f"{QUESTION}\n\nMind the rest.", "source": "math_dapo"},
        ),
        (
            "dapo-math-processed",
            {
                "prompt": QUESTION,
                "solution": "2",
                "data_source": "math_dapo",
                "source_prompt": [{"role": "user", "content": "wrapped"}],
                "ability": "MATH",
                "reward_model": {"ground_truth": "2", "style": "rule"},
                "extra_info": {"index": "77"},
            },
            {"id": "77", "text": QUESTION, "source": "math_dapo"},
        ),
        (
            "big-math",
            {
                "problem": QUESTION,
                "answer": "2",
                "source": "orca_math",
                "domain": ["Mathematics -> Algebra"],
                "llama8b_solve_rate": 0.734375,
            },
            {"source": "orca_math", "difficulty": "0.734375"},
        ),
        (
            "gsm8k",
            {"question": QUESTION, "answer": "1+1 = <<1+1=2>>2\n#### 2"},
            {"source": "gsm8k", "answer": "2"},
        ),
        (
            "math500",
            {
                "problem": QUESTION,
                "solution": "...",
                "answer": "2",
                "subject": "Algebra",
                "level": 3,
                "unique_id": "test/algebra/1.json",
            },
            {"id": "test/algebra/1.json", "difficulty": "3", "source": "math500"},
        ),
        ("aime", {"ID": "2024-I-1", "Problem": QUESTION, "Answer": 2}, {"id": "2024-I-1"}),
        (
            "aime",
            {"id": 60, "problem": QUESTION, "answer": "2", "url": "", "year": "2024"},
            {"id": "60"},
        ),
        ("aime", {"question": QUESTION, "answer": "2"}, {"source": "aime"}),
    ],
)
def test_published_layouts(preset, row, expected):
    problem = read(row, preset)
    assert problem.answer == "2"
    assert QUESTION in problem.text
    assert problem.messages is None
    for field, value in expected.items():
        assert getattr(problem, field) == value, field


def test_gsm8k_thousands_are_one_number():
    assert read({"question": "q", "answer": "work\n#### 1,080"}, "gsm8k").answer == "1080"


def test_gsm8k_without_its_mark_is_broken():
    with pytest.raises(RowError, match=r"'answer'.*####"):
        read({"question": "q", "answer": "2"}, "gsm8k")


def test_dapo_text_without_the_wrapper_is_left_alone():
    text = "Where is the Answer: here?\n\nor\n\nthere"
    row = {"prompt": [{"role": "user", "content": text}], "reward_model": {"ground_truth": "2"}}
    assert read(row, "dapo-math").text == text


def test_a_foreign_verl_prompt_is_sent_as_it_is():
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    row = {
        "data_source": "mine",
        "prompt": prompt,
        "ability": "math",
        "reward_model": {"ground_truth": "2", "style": "rule"},
        "extra_info": {"index": 4, "split": "train", "difficulty": "hard"},
    }
    problem = read(row)
    assert problem.messages == tuple(prompt)
    assert (problem.id, problem.text, problem.difficulty) == ("4", QUESTION, "hard")
    assert problem.meta == {"split": "train"}


GPQA_ROW = {
    "Question": "Which gas?",
    "Correct Answer": "argon\n",
    "Incorrect Answer 1": "neon",
    "Incorrect Answer 2": "xenon",
    "Incorrect Answer 3": "krypton",
    "Record ID": "rec1",
    "Subdomain": "Chemistry",
}


def test_gpqa_letter_follows_the_shuffle():
    letters = set()
    for seed in range(40):
        problem = read(GPQA_ROW, seed=seed)
        assert problem.task == "mcq"
        assert sorted(problem.choices) == ["argon", "krypton", "neon", "xenon"]
        assert problem.choices["ABCD".index(problem.answer)] == "argon"
        assert read(GPQA_ROW, seed=seed) == problem
        letters.add(problem.answer)
    assert letters == set("ABCD")


def test_gpqa_order_depends_on_the_problem_too():
    orders = {read({**GPQA_ROW, "Record ID": f"rec{i}"}).choices for i in range(20)}
    assert len(orders) > 5


def test_gpqa_with_two_equal_choices_is_broken():
    with pytest.raises(RowError, match="same text"):
        read({**GPQA_ROW, "Incorrect Answer 2": "argon"})


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"answer": "2"}, "problem"),
        ({"problem": QUESTION}, "answer"),
        ({"problem": QUESTION, "answer": ["2"]}, "answer"),
        ({"problem": "  ", "answer": "2"}, "problem"),
        ({"problem": QUESTION, "answer": True}, "answer"),
        ({"problem": QUESTION, "answer": "2", "difficulty": [1]}, "difficulty"),
        ({"problem": QUESTION, "answer": "A", "choices": ["x"]}, "choices"),
        ({"prompt": "no list", "reward_model": {}}, "reward_model.ground_truth"),
        ({"prompt": [], "reward_model": {"ground_truth": "2"}}, "prompt"),
        (
            {"prompt": [{"role": "system", "content": "x"}], "reward_model": {"ground_truth": "2"}},
            "prompt",
        ),
    ],
)
def test_broken_rows_name_the_field(row, field):
    with pytest.raises(RowError, match=f"field '{field}"):
        read(row)


def test_missing_optional_values_are_blank():
    row = {"problem": QUESTION, "answer": "2", "level": float("nan"), "source": None, "id": ""}
    problem = read(row)
    assert (problem.difficulty, problem.source) == ("", "")
    assert len(problem.id) == 16


def test_own_mapping_reaches_into_nested_columns():
    columns = Columns(problem="data.q", answer="data.a.0", id="")
    problem = row_to_problem({"data": {"q": QUESTION, "a": [2]}}, columns)
    assert (problem.text, problem.answer) == (QUESTION, "2")


def test_every_field_of_columns_is_read():
    row = {
        "p": QUESTION, "p2": "other", "ans": "x ## 2", "i": "7", "i2": "8", "s": "src", "d": "hard",
        "t": "mcq", "c": ["1", "2"], "w": "3", "w2": "4",
    }  # fmt: skip
    base = Columns(problem="p", answer="ans", id="i")
    changes = {
        "problem": "p2", "answer": "i", "id": "i2", "source": "s", "difficulty": "d", "task": "t",
        "choices": "c", "wrong_choices": ("w", "w2"), "answer_mark": "##", "default_source": "z",
    }  # fmt: skip
    for name, value in changes.items():
        changed = row_to_problem(row, dataclasses.replace(base, **{name: value}))
        assert changed != row_to_problem(row, base), name
    assert {f.name for f in dataclasses.fields(Columns)} == {*changes, "wrapped"}


def test_a_mapping_in_words():
    columns = resolve_columns("problem=body.q|text, answer=a,wrong_choices=w1|w2,wrapped=true")
    assert columns == Columns("body.q|text", "a", wrong_choices=("w1", "w2"), wrapped=True)
    with pytest.raises(ValueError, match=r"'answers'.*known:.*answer"):
        resolve_columns("answers=a")


def test_unknown_preset_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'dapo'.*known:.*dapo-math"):
        resolve_columns("dapo")
    assert resolve_columns("verl") is VERL
    assert resolve_columns(None) is None
