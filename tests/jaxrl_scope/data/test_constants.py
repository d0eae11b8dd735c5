import math
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxrl_scope.data.constants import evaluate, find_numbers, same_value
from jaxrl_scope.data.mathtext import normalise


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("12", 12),
        ("1,234", 1234),
        ("-3", -3),
        ("--3", 3),
        ("0.125", Fraction(1, 8)),
        ("3/4", Fraction(3, 4)),
        ("\\frac{3}{4}", Fraction(3, 4)),
        ("3\\frac{1}{2}", Fraction(7, 2)),
        ("3 1/2", Fraction(7, 2)),
        ("2 + 3 * 4", 14),
        ("(2+3)*4", 20),
        ("2(3+4)", 14),
        ("10 - 4 - 3", 3),
        ("2^{10}", 1024),
        ("2^-1", Fraction(1, 2)),
        ("-2^2", -4),
        ("5!", 120),
        ("\\binom{5}{2}", 10),
        ("\\sqrt{16}", 4),
        ("\\sqrt[3]{8}", 2.0),
        ("2\\sqrt{3}", 2 * math.sqrt(3)),
        ("\\frac{\\sqrt{2}}{2}", math.sqrt(0.5)),
        ("3\\pi", 3 * math.pi),
        ("1.5*10^{3}", 1500),
    ],
)
def test_values(expression, value):
    found = evaluate(normalise(expression))
    assert found is not None
    assert same_value(found, value if isinstance(value, float) else Fraction(value))


@pytest.mark.parametrize(
    "expression", ["x", "2x", "1/0", "3 +", "(3", "", "\\sqrt{-1}", "2^{x}", "1.2.3", "0^{-1}"]
)
def test_anything_else_has_no_value(expression):
    assert evaluate(normalise(expression)) is None


@pytest.mark.parametrize(
    ("expression", "value", "found"),
    [
        ("9^{9^{9^{9}}}", None, {9}),
        ("(" * 5000 + "1", None, {1}),
        ("9" * 5000, None, set()),
        ("100!!!", None, {100}),
        ("2^{-99999999}", None, {2, 99999999}),
        ("1" + "*2" * 5000, None, {1, 2}),
        ("10^{300}*10^{300}*\\pi", None, {10, 300}),
        ("-" * 5000 + "1", 1, {1, -1}),
    ],
)
def test_hostile_expressions_end_quickly_and_quietly(expression, value, found):
    start = time.perf_counter()
    assert evaluate(normalise(expression)) == value
    assert found <= {n.value for n in find_numbers(normalise(expression))}
    assert time.perf_counter() - start < 20


def test_find_numbers_tells_how_a_number_stands():
    found = {(n.value, n.is_final, n.is_notation) for n in find_numbers("12 x^2 + a_3 2y 5! f(1)")}
    assert (12, True, False) in found
    assert (2, True, True) in found
    assert (3, True, True) in found
    assert (1, True, True) in found
    assert (5, True, False) in found
    assert (120, False, False) in found


def test_large_numbers_are_never_mere_notation():
    assert all(not n.is_notation for n in find_numbers("x^{12}") if n.value == 12)
    assert any(n.value == 12 for n in find_numbers("12x + a_{12}"))


def test_numbers_inside_longer_numbers_are_not_found():
    assert not {n.value for n in find_numbers("112 and 3.12, 0.125")} & {12, 125, 1}


@given(st.integers(-(10**12), 10**12), st.integers(1, 10**6))
def test_fractions_are_exact(numerator, denominator):
    assert evaluate(f"\\frac{{{numerator}}}{{{denominator}}}") == Fraction(numerator, denominator)


@given(st.text(alphabet="0123456789.,/*-+^!(){}[]\\ frac sqrt{pi}%x", max_size=60))
def test_no_text_breaks_the_scanner(text):
    for number in find_numbers(text):
        assert math.isfinite(number.value)
