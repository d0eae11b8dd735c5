"""The leak check under attack: every way of saying a hidden number that we could think of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxrl_scope.data.leaks import answer_parts, leaked, strip_references

ORIGINAL = "A bag holds 7 red balls. How many ways are there?"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        # digits, however dressed
        ("12", "Using the result 12, find $x$."),
        ("12", "Let $n=12$."),
        ("12", "so $N = {12}$"),
        ("12", "the value \\boxed{12}"),
        ("12", "the value \\textbf{12}"),
        ("12", "the value **12**"),
        ("12", "the value １２"),
        ("12", "the value 1\u200b2"),
        ("12", "the value 12.0"),
        ("12", "the value 12."),
        ("12", "(12)"),
        ("12", "the 12th term"),
        ("12", "expand $x^{12}$"),
        ("12", "solve $12x = 1$"),
        ("12", "12cm"),
        ("12", "12%"),
        ("12", "square it: $12^2$"),
        ("12", "12!"),
        ("1234", "1,234"),
        ("1234", "1{,}234"),
        ("1234", "$1\\,234$"),
        ("1{,}234", "1234"),
        # words
        ("12", "using the result twelve"),
        ("12", "a dozen of them"),
        ("12", "the twelfth term"),
        ("12", "XII"),
        ("21", "twenty-one"),
        ("21", "the twenty-first"),
        ("105", "one hundred and five"),
        ("1", "the result is one."),
        ("2", "the two roots"),
        ("0", "is zero"),
        ("-3", "minus three"),
        # fractions, roots and other spellings
        ("\\frac{1}{2}", "half of them"),
        ("\\frac{1}{2}", "0.5"),
        ("\\frac12", "½"),
        ("0.5", "\\dfrac{1}{2}"),
        ("\\frac{1}{2}", "50\\%"),
        ("50\\%", "0.5"),
        ("\\frac{7}{2}", "3½"),
        ("\\frac{7}{2}", "three and a half"),
        ("\\frac{2}{3}", "two-thirds"),
        ("\\frac{2}{3}", "2 over 3"),
        ("-3", "−3"),
        ("2\\sqrt{3}", "2√3"),
        ("2\\sqrt{3}", "\\sqrt{12}"),
        ("\\frac{\\sqrt{2}}{2}", "$1/\\sqrt{2}$"),
        ("3\\pi", "3π"),
        ("30^\\circ", "thirty degrees"),
        ("12\\text{ cm}", "12 cm"),
        ("x = 5", "the value 5"),
        # calculations in another question
        ("12", "Let $n = 3 \\cdot 4$."),
        ("1024", "divide $2^{10}$"),
        ("120", "of the 5! orders"),
        ("10", "of all $\\binom{5}{2}$"),
        # expressions
        ("x^2-1", "Since $f(x)=x^2-1$, find"),
        ("x^2-1", "since f(x) = x² − 1, find"),
        ("x+1", "the factor $(x+1)(x+2)$"),
        ("x^2-1", "it is x squared minus one"),
        ("f(x) = x^2-1", "Let $g(t) = x^2-1$"),
        ("12", "ten plus two of them"),
        ("12", "$144^{1/2}$"),
        ("x > 3", "for all $x > 3$"),
        ("x > 3", "above the value 3"),
        ("2 < x \\le 5", "between 2 and 5"),
        ("x^2+y^2=1", "the curve $x^2+y^2=1$"),
        ("3:2", "in the ratio 3:2"),
        ("\\frac{n(n+1)}{2}", "which is n(n+1)/2, find"),
        ("2x+1", "Let g be 2x + 1."),
        # several values
        ("(2,3)", "the point $(2,3)$"),
        ("(2,3)", "x is 2 and y is 3"),
        ("\\{1, 4\\}", "the roots 4 and 1"),
        ("[2,5)", "between two and five"),
        # names
        ("\\text{Friday}", "it is a friday"),
    ],
)
def test_leaks(answer, text):
    assert leaked(answer, text, ORIGINAL, num_sub=4)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("12", "112, 120, 1.12 and 0.12"),
        ("12", "1 and 2"),
        ("3", "Using the answer to sub-question 3, find"),
        ("3", "by parts 1 and 3"),
        ("2", "$x^2$, $a_2$, $2x$ and $f(2)$"),
        ("1", "which one is it"),
        ("3", "in the third row"),
        ("(2,3)", "x is 2"),
        ("x > 3", "for which $x$"),
        ("x^2+y^2=1", "the line $x + y = 1$"),
        ("x^2-1", "the graph of $x^2-1+y$"),
        ("\\text{Friday}", "which day"),
        ("\\infty", "$\\infty$"),
        ("100", "the segment CD"),
    ],
)
def test_no_leak(answer, text):
    assert not leaked(answer, text, ORIGINAL, num_sub=4)


@pytest.mark.parametrize(
    ("answer", "text", "original"),
    [
        ("7", "draw from the 7 balls", ORIGINAL),
        ("7", "draw from the seven balls", ORIGINAL),
        ("2", "the result 2", "toss it twice"),
        ("12", "twelve balls", "12 balls"),
        ("12", "12 balls", "twelve balls"),
        ("3", "row 3", "the third row"),
        ("12", "the 12 edges", "a dozen edges"),
        ("x+1", "let $f = x+1$", "Given $f(x) = x + 1$, find"),
        ("(2,3)", "from $(2,3)$ on", "The point $(2, 3)$ lies on it."),
        ("B", "choose (B)", "Which? (A) x (B) y"),
    ],
)
def test_what_stands_in_the_original_problem_is_allowed(answer, text, original):
    assert not leaked(answer, text, original)
    assert leaked(answer, text, "Something else.") or answer == "2" or answer == "3"


def test_a_calculation_of_the_original_allows_itself_and_not_its_result():
    original = "Find the last digit of $2^{10}$."
    assert not leaked("1024", "Let $N = 2^{10}$.", original)
    assert leaked("1024", "Let $N = 1024$.", original)


def test_one_known_coordinate_does_not_cover_for_the_other():
    assert leaked("(2,9)", "y is 9", "x is 2")


def test_references_beyond_the_last_sub_question_are_numbers():
    assert leaked("12", "sub-question 12", ORIGINAL, num_sub=4)
    assert not leaked("12", "sub-question 12", ORIGINAL, num_sub=13)
    assert "12" in strip_references("the result 12 of sub-question 1", 4)


def test_the_question_itself_may_be_a_calculation():
    assert not leaked("1024", "Compute $2^{10}$.", ORIGINAL, calculations=False)
    assert leaked("1024", "Compute $2^{10} = 1024$.", ORIGINAL, calculations=False)


def test_equal_expressions_leak_where_an_oracle_is_given():
    def equivalent(gold, other):
        return {gold.replace(" ", ""), other.replace(" ", "")} == {"x^2-1", "(x-1)(x+1)"}

    text = "where $f = (x-1)(x+1)$"
    assert leaked("x^2-1", text, ORIGINAL, equivalent=equivalent)
    assert not leaked("x^2-1", text, ORIGINAL)
    assert not leaked("x^2-1", text, "Given $(x-1)(x+1)$.", equivalent=equivalent)


@given(
    st.integers(4, 10**6), st.sampled_from(["using {}", "${}$", "\\frac{{{}}}{{1}}", "{}.", "n={}"])
)
def test_any_stated_integer_is_found(number, form):
    assert leaked(str(number), form.format(number), "Nothing here.")
    assert not leaked(str(number), form.format(number), f"Given {number}.")
    assert not leaked(str(number), form.format(number * 10 + 1), "Nothing here.")


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=80))
def test_no_text_breaks_the_check(answer, text, original):
    leaked(answer, text, original, num_sub=3)
    answer_parts(answer)
