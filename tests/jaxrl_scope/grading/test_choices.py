r"""Multiple choice: boxes first, then plain statements; denials and hedges choose nothing."""

import time

import pytest

from jaxrl_scope.grading.choices import chosen_letters, gold_letters, is_choice_correct


@pytest.mark.parametrize(
    "response",
    [
        r"\boxed{B}",
        r"\boxed{(B)}",
        r"\boxed{B.}",
        r"\boxed{\text{B}}",
        r"\boxed{\textbf{(B)}\ 4\pi}",
        r"\boxed{\text{Option B}}",
        r"\boxed{\text{The answer is B}}",
        "The answer is B",
        "the correct answer is (B).",
        "Answer: B",
        "**Answer: B**",
        "B",
        "(B)",
        "B. because heat flows",
        "The answer is surely B, it can't be D.",
        "The correct option is option B: 4 J.",
        "Therefore option B is correct.",
        "I choose option B.",
        "Answer: A\nOn second thought:\nAnswer: B",
        r"We find $\boxed{E \ll kT}$. Answer: B",
        "<think>The answer is A.</think>The answer is B.",
    ],
)
def test_ways_to_choose(response):
    assert chosen_letters(response) == {"B"}


@pytest.mark.parametrize(
    "response",
    [
        r"\boxed{A}",
        r"\boxed{\text{not B}}",
        r"\boxed{\text{The answer is not B}}",
        r"\boxed{ABCD}",
        r"\boxed{B, C}",
        r"\boxed{b}",
        r"\boxed{B",
        r"\boxed{A} Still, the answer is B.",
        r"\boxed{4\text{ J}}",
        "The answer is not B.",
        "The answer is B or C.",
        "It cannot be B. The answer is C.",
        "Antwort: B",
        "A. wrong\nB. right",
        "Bob is right",
        "<think>The answer is B.",
        "",
    ],
)
def test_ways_not_to_choose(response):
    assert not is_choice_correct("B", response)


def test_words_that_are_letters_choose_nothing():
    assert chosen_letters("I am not sure.") is None
    assert chosen_letters("The answer is a mystery") is None
    assert chosen_letters("The answer is A mystery") is None
    assert chosen_letters("The answer is A.") == {"A"}
    assert chosen_letters("Answer: I think so") is None


def test_several_letters():
    assert is_choice_correct(r"\text{A, D}", r"\boxed{\text{D and A}}")
    assert is_choice_correct("A,C", r"\boxed{AC}")
    assert not is_choice_correct("A,C", r"\boxed{A}")


def test_letters_beyond_the_choices_choose_nothing():
    assert is_choice_correct("D", r"\boxed{D}", num_choices=4)
    assert chosen_letters(r"\boxed{E}", num_choices=4) is None


def test_labelled_choice():
    response = r"[SUB-1 ANSWER] \boxed{A} [MAIN ANSWER] \boxed{B}"
    assert is_choice_correct("A", response, label="SUB-1")
    assert not is_choice_correct("B", response, label="SUB-2")


def test_gold_that_is_no_letter_is_an_error():
    with pytest.raises(ValueError, match="letters such as 'C', got '42'"):
        gold_letters("42")


@pytest.mark.parametrize(
    "response",
    ["Answer: " * 15_000, "Answer:" + " *_" * 40_000, "A" + " " * 100_000 + "x", "(A) " * 30_000],
)
def test_scans_are_linear(response):
    start = time.perf_counter()
    chosen_letters(response)
    chosen_letters(rf"\boxed{{{response}}}")
    assert time.perf_counter() - start < 3.0
