import pytest

from jaxrl_scope.data import questions


@pytest.mark.parametrize(
    "question",
    [
        "Compute $3 + 4$.",
        "What is 12 x 11?",
        "What is the sum of three and four?",
        "Sub-question 2: Multiply the result of sub-question 1 by 3.",
        "Divide your previous answer by 2.",
        "Find the product of the previous results.",
        "Simplify $\\frac{12}{18}$.",
        "Evaluate $2^{10}$.",
        "Take half of that number.",
    ],
)
def test_arithmetic_only(question):
    assert questions.is_arithmetic(question)


@pytest.mark.parametrize(
    "question",
    [
        "How many pairs can be drawn?",
        "Find the remainder of $2^{10}$ modulo 7.",
        "Compute $x + 4$ if $x^2 = 9$ and $x > 0$.",
        "Find the sum of the digits of 1234.",
        "What is the greatest common divisor of 12 and 18?",
        "Let $N$ be the result of sub-question 1. How many divisors does it have?",
        "What is 7?",
    ],
)
def test_more_than_arithmetic(question):
    assert not questions.is_arithmetic(question)


def test_pointers_name_sub_questions_that_exist():
    assert questions.pointers("Using sub-questions 1 and 3, and Part (2)", 4) == [1, 3, 2]
    assert questions.pointers("Problem 12 has steps 7", 4) == []
    assert questions.pointers("Use sub-question 12", 4) == [12]
    assert questions.pointers("Sub-question 2: how many?", 4) == []


@pytest.mark.parametrize(
    "question",
    [
        "Using the answer to sub-question 1, find it.",
        "Use the previous result.",
        "With the value you found, compute the area.",
        "Reduce that number modulo 7.".replace("number", "value"),
        "* 2",
        "For the function obtained in the first part, find its zero.",
    ],
)
def test_points_back(question):
    assert questions.points_back(question, 4)


@pytest.mark.parametrize("question", ["How many red balls are there?", "Find the area of $ABC$."])
def test_points_nowhere(question):
    assert not questions.points_back(question, 4)


def test_similarity():
    same = "How many pairs of balls can be drawn from the box?"
    assert (
        questions.similarity(
            same, "how many pairs of balls can be drawn, from the box", at_least=0.8
        )
        == 1
    )
    assert 0.8 <= questions.similarity(same, same.replace("pairs", "triples"), at_least=0.8) < 1
    assert questions.similarity(same, "What is the area?", at_least=0.8) == 0


def test_symbols_are_letters_of_formulas():
    assert questions.symbols("Let $N$ be a number and $x_1 < y$.") == {"N", "x_1", "y"}
    assert questions.symbols("I am a word") == set()
