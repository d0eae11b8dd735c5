import pytest

from jaxrl_scope.data.mathtext import flatten, normalise


@pytest.mark.parametrize(
    "spellings",
    [
        ("1{,}234", "1\\,234", "1\\!234", "1,234", "1\u202f234"),
        ("\\frac{1}{2}", "\\dfrac{1}{2}", "\\tfrac12", "\\frac 1 2", "½", "1/2"),
        ("x^2", "x^{2}", "x²", "$x^2$", "\\(x^2\\)", "\\mathbf{x}^2", "x\u200b^2"),
        ("2\\sqrt3", "2\\sqrt{3}", "2√3", "2 \\cdot \\sqrt{3}", "2*sqrt(3)"),
        ("a\\le b", "a \\leq b", "a≤b"),
        ("-3", "−3", "–3", "{-3}"),
        ("90", "90^\\circ", "90^{\\circ}", "90°"),
        ("12", "１２", "**12**", "\\text{12}", "\\boxed{12}"),
        ("\\left(2,3\\right)", "(2,3)", "\\bigl(2,3\\bigr)"),
    ],
)
def test_spellings_of_one_expression_meet(spellings):
    assert len({flatten(normalise(text)) for text in spellings}) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [("12", "1 + 2"), ("x^2", "x_2"), ("1.5", "15"), ("n/2", "2/n"), ("a", "A")],
)
def test_different_expressions_stay_apart(first, second):
    assert flatten(normalise(first)) != flatten(normalise(second))
