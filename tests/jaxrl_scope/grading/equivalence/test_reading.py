r"""Normalising, tokenizing and parsing: what a text is read as, and that reading is bounded."""

import contextlib
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxrl_scope.grading.equivalence.lexer import tokenize
from jaxrl_scope.grading.equivalence.limits import LimitExceededError, UnreadableError
from jaxrl_scope.grading.equivalence.nodes import canonical, symbols, walk
from jaxrl_scope.grading.equivalence.normalize import normalize
from jaxrl_scope.grading.equivalence.reader import read, text_of


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        (r"\left(\dfrac{1}{2}\right)", r"(\frac{1}{2})"),
        ("42.", "42"),
        (r"42\,.\\", "42"),
        ("5!", "5!"),
        ("1, 2, ...", "1, 2, ..."),
        (r"\$42\$", r"\$42\$"),
        ("$42$", "42"),
        ("x²⁰", "x^{20}"),
        (r"a \\ b", r"a \\ b"),
        ("7<|im_end|>", "7"),
        (r"\color{red}7", "7"),
        (r"\big(x\big)", "(x)"),
    ],
)
def test_normalize(text, normalised):
    assert normalize(text) == normalised


@pytest.mark.parametrize(
    ("text", "value", "decimals"),
    [
        ("1,234", Fraction(1234), 0),
        (r"1\,234\,567.5", Fraction("1234567.5"), 1),
        ("0.125", Fraction(1, 8), 3),
        (".5", Fraction(1, 2), 1),
        (r"0.1\overline{6}", Fraction(1, 6), None),
        (r"0.\dot{1}4285\dot{7}", Fraction(1, 7), None),
        ("2.5e-3", Fraction(1, 400), None),
        ("007", Fraction(7), 0),
    ],
)
def test_numerals(text, value, decimals):
    (token,) = tokenize(text)
    assert token.numeral is not None
    assert (token.numeral.value, token.numeral.decimals) == (value, decimals)


def test_comma_separates_inside_brackets_and_groups_outside():
    assert [token.text for token in tokenize("[-36,104]")] == ["[", "-", "36", ",", "104", "]"]
    assert [token.text for token in tokenize("36,104")] == ["36,104"]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        (r"\frac12", "div:None(1,2)"),
        (r"2^6 3^5", "mul:None(pow:None(2,6),pow:None(3,5))"),
        ("x_1y", "mul:None(sym:x_1(),sym:y())"),
        ("2^10", "pow:None(2,10)"),
        ("-x^2", "neg:None(pow:None(sym:x(),2))"),
        (r"\sin^2 x", "pow:None(fn:sin(sym:x()),2)"),
        (r"\sin 2x\cos x", "mul:None(fn:cos(sym:x()),fn:sin(mul:None(2,sym:x())))"),
        ("sin(x)^2", "pow:None(fn:sin(sym:x()),2)"),
        (r"\log_2 8", "div:None(fn:ln(8),fn:ln(2))"),
        ("||x|-1|", "fn:abs(add:None(fn:abs(sym:x()),neg:None(1)))"),
        ("(0,1]", "seq:('(', ']')(0,1)"),
        (r"\{x \mid x>1\}", "builder:x(rel:('>',)(sym:x(),1))"),
        ("3!!", "fn:factorial2(3)"),
        ("f(x+1)", "apply:f(add:None(1,sym:x()))"),
        ("2_3", "based:('2', '3')()"),
    ],
)
def test_parse(text, tree):
    assert canonical(read(text).node) == tree


@pytest.mark.parametrize(
    "text",
    [
        "", "*", "3 4", "x^", r"\frac{1}", "(1", "1)", "|x", "{", "a+*b", r"\foo{1}", "x 007",
        r"\begin{pmatrix}1&2\\3\end{pmatrix}", r"\begin{foo}1\end{foo}", "28%%", "!3", "1,,2",
        r"\sqrt13", "x_12", r"\pi^10", "int('5')", "x\x00", r"\text{}", r"\label{5}", "++++++1",
    ],
)  # fmt: skip
def test_unreadable(text):
    with pytest.raises(UnreadableError):
        read(text)


def test_symbols_of_a_tree():
    node = read("a_1 x + f(y)").node
    assert symbols(node) == {"a_1", "x", "f", "y"}
    assert len(list(walk(node))) == 6


def test_words_around_a_value():
    assert canonical(read(r"\text{The area is } 12 \text{ cm}^2").node) == "unit:(('cm', 2),)(12)"
    assert canonical(read(r"4\text{ (about 18)}").node) == "4"
    assert read(r"\text{not } 4").node.kind == "text"
    assert text_of(r"\text{The 3rd Man}").data == "3 man"


@pytest.mark.parametrize(
    "text",
    [
        "9" * 3000,
        "(" * 100 + "1" + ")" * 100,
        r"\sqrt{" * 100 + "1" + "}" * 100,
        "|" * 200,
        "1+" * 1500 + "1",
        ",".join("1" * 200),
        r"\text{" * 300 + "a" + "}" * 300,
        "x" * 100_000,
    ],
)
def test_limits(text):
    with pytest.raises(LimitExceededError):
        read(text)


_ALPHABET = (
    r"1 23 0.5 x y e i \pi + - * / ^ _ ( ) [ ] { } \{ \} | ! % ^\circ , ; : = < \le \ne \in \cup "
    r"\frac \sqrt \sqrt[ \sin \log_ \text{ \mathrm{ cm and or \pm \left( \right] & \\ \sum_{ \int "
    r"\begin{pmatrix} \end{pmatrix} \infty \mathbb{R} \overline{ . ... \$ ' \boxed{ not is percent"
)
_PIECES = st.sampled_from(_ALPHABET.split())


@given(st.lists(_PIECES, max_size=25).map(" ".join))
def test_any_mix_of_latex_is_read_or_refused(text):
    start = time.perf_counter()
    with contextlib.suppress(UnreadableError, LimitExceededError):
        read(text)
    assert time.perf_counter() - start < 5.0


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    start = time.perf_counter()
    for reading in (read, text_of):
        with contextlib.suppress(UnreadableError, LimitExceededError):
            assert reading(text) is not None
    assert time.perf_counter() - start < 5.0
