r"""Where the answer of a response stands: think blocks, boxes, list phrases, labels."""

import time

import pytest

from jaxrl_scope.grading.extract import (
    after_think,
    canonical_label,
    final_answer,
    labelled_answers,
    stated_answer,
)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"It is \boxed{\frac{3}{x^{2}}}.", r"\frac{3}{x^{2}}"),
        (r"\boxed{1} was wrong, so \boxed{2}", "2"),
        (r"\boxed{a \{ b}", r"a \{ b"),
        (r"\boxed{8}. Put your answer in \boxed{}.", "8"),
        (r"\boxed{8}. Format: \boxed{...}", "8"),
        (r"\boxed{x = \boxed{8}}", r"x = \boxed{8}"),
        (r"\boxed {8}", "8"),
        (r"\boxed 8 or so", "8"),
        (r"\boxed{8}\%", r"8\%"),
        (r"\boxed{30}^\circ", r"30^\circ"),
        (r"\boxed{3} and \boxed{5}", "3, 5"),
        (r"\[\boxed{3}\quad\text{and}\quad\boxed{5}\]", "3, 5"),
        (r"\boxed{3} \boxed{5}", "5"),
        (r"\boxed{3} and then \boxed{5}", "5"),
        ("no box: 8", None),
        (r"\boxed{8", None),
        (r"first \boxed{8}, but wait, \boxed{9", None),
        (r"\boxed{}", None),
        (r"\boxed{ }", None),
        ("", None),
    ],
)
def test_last_complete_box_is_the_answer(response, answer):
    assert final_answer(response) == answer


@pytest.mark.parametrize(
    ("response", "rest"),
    [
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("<think>a</think><think>b</think>c", "c"),
        ("<THINK>a</Think>b", "b"),
        ("<think>a", None),
        ("b<think>a", None),
        ("no tags", "no tags"),
    ],
)
def test_only_text_after_the_think_block_is_read(response, rest):
    assert after_think(response) == rest


def test_box_inside_the_think_block_does_not_count():
    assert final_answer(r"<think>\boxed{1}</think>Done.") is None


SCAFFOLDED = r"[SUB-1 ANSWER] \boxed{3} [SUB-2 ANSWER] \boxed{4} [MAIN ANSWER] \boxed{12}"


@pytest.mark.parametrize(
    ("label", "answer"), [("SUB-1", "3"), ("SUB-2", "4"), ("MAIN", "12"), ("SUB-3", None)]
)
def test_label_beats_position(label, answer):
    assert final_answer(SCAFFOLDED, label) == answer


@pytest.mark.parametrize(
    "mark",
    [
        "[SUB-1 ANSWER]",
        "[sub-1 answer]:",
        "[SUB 1 ANSWER]",
        "**[SUB-1 ANSWER]**",
        "[**SUB-1 ANSWER**]",
        "[ SUB - 1  ANSWER ]",
        "[SUB_1_ANSWER]",
        "[SUB-01 ANSWER]",
        r"\[SUB-1 ANSWER\]",
        "**SUB-1 ANSWER:**",
        "### SUB-1 ANSWER:",
    ],
)
def test_labels_tolerate_case_spacing_and_markdown(mark):
    text = rf"Steps.{chr(10)}{mark} $\boxed{{7}}$ then [MAIN ANSWER] \boxed{{9}}"
    assert final_answer(text, "SUB-1") == "7"


def test_label_ten_is_not_label_one():
    assert labelled_answers(r"[SUB-10 ANSWER] \boxed{5}") == {"SUB-10": "5"}


def test_last_box_under_a_label_and_last_repeat_win():
    text = (
        r"[SUB-1 ANSWER] \boxed{1}, no: \boxed{2} [MAIN ANSWER] \boxed{3} [MAIN ANSWER] \boxed{4}"
    )
    assert labelled_answers(text) == {"SUB-1": "2", "MAIN": "4"}


def test_missing_label_never_takes_another_labels_box():
    assert final_answer(r"[SUB-1 ANSWER] [MAIN ANSWER] \boxed{8}", "SUB-1") is None
    assert final_answer(r"[SUB-1 ANSWER] \boxed{8} and nothing else", "MAIN") is None
    assert final_answer(r"\boxed{8}", "SUB-1") is None


def test_unlabelled_box_after_the_last_label_is_the_main_answer():
    text = r"[SUB-1 ANSWER] \boxed{3}. So the answer is \boxed{21}."
    assert labelled_answers(text) == {"SUB-1": "3", "MAIN": "21"}
    assert final_answer(r"No labels, \boxed{21}", "MAIN") == "21"


def test_repeated_format_line_does_not_erase_answers():
    text = SCAFFOLDED + r" Format: [SUB-1 ANSWER] \boxed{...} [MAIN ANSWER] \boxed{...}"
    assert final_answer(text, "SUB-1") == "3"
    assert final_answer(text, "MAIN") == "12"


def test_unknown_label_is_an_error_that_names_the_choices():
    with pytest.raises(ValueError, match=r"unknown answer label 'THIRD'.*MAIN.*SUB"):
        canonical_label("THIRD")
    assert canonical_label("sub_3") == "SUB-3"
    assert canonical_label("[Main Answer]") == "MAIN"


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("The answer is 72. Done.", "72"),
        ("Answer: 3/4", "3/4"),
        ("The answer is 5.\nNo: the final answer is **6**.", "6"),
        ("#### 18", "18"),
        ("nothing", None),
        ("<think>the answer is 4", None),
    ],
)
def test_lenient_reading_of_unboxed_statements(response, answer):
    assert stated_answer(response) == answer


@pytest.mark.parametrize(
    "response",
    [
        r"\boxed{" * 20_000,
        r"\boxed{" * 20_000 + "7" + "}" * 20_000,
        r"\boxed{7}" * 10_000,
        "{" * 100_000,
        "<think>" * 20_000,
        "[SUB-1 ANSWER" * 10_000,
        "[" + " " * 100_000,
        r"\boxed{1}" + " " * 100_000 + r"\boxed{2}",
        "answer" + " " * 100_000,
        "answer is " * 10_000,
    ],
)
def test_scans_are_linear(response):
    start = time.perf_counter()
    final_answer(response)
    final_answer(response, "MAIN")
    stated_answer(response)
    assert time.perf_counter() - start < 3.0  # quadratic scans take minutes
