r"""The policy's points 4 to 12 on answer texts, accepted and rejected side by side.

Each table row is (gold, answers that are right, answers that are wrong).
"""

import pytest

from jaxrl_scope.grading.equivalence.answers import equivalent

INTEGERS = [
    (
        "4096",
        ["4,096", r"4{,}096", r"4\,096", r"4,\!096", "04096", "4096.", "4096.0", "+4096", "x=4096"],
        [
            "4 096",
            "40,96",
            "4.096",
            "4,0960",
            r"2^{12}",
            r"64\cdot 64",
            r"\sqrt{16777216}",
            "-4096",
        ],
    ),
    (
        "-6",
        ["-6", "- 6", "−6", "-6.0", r"\text{-6}", "((-6))", "t = -6", r"-6^\circ", r"-6\text{ m}"],
        ["6", "-6.01", "-5-1", r"-\frac{12}{2}", "-6, 6", r"\pm 6", "(-2)(3)", r"\phantom{-}6"],
    ),
    (
        "90",
        [r"9e1", r"9\times 10^{1}", r"90\%", r"\$90", "90 apples", r"90\text{ cm}", r"\mathbf{90}"],
        [
            "10^2-10",
            r"\phantom{9}90",
            r"90\text{ thousand}",
            r"\text{ninety}",
            r"90 \text{ or } 91",
        ],
    ),
    (
        "5",
        ["2+3=5", "5=2+3", "m+n=5", "AB = 5", "f(2)=5", r"\text{Area} = 5"],
        ["2+3", "4=5", "5=4"],
    ),
    ("0", ["0", "-0", "0.0", "x=0"], [r"\emptyset", "x-7=0", "a+2b=0", r"0\cdot\infty", "False"]),
]

NUMBERS = [
    (
        r"\frac{3}{8}",
        ["0.375", "3/8", r"\frac38", r"\frac{6}{16}", r"37.5\%"],
        ["0.38", "0.3750001"],
    ),
    (
        r"\frac{1}{3}",
        [r"0.\overline{3}", "0.(3)", r"0.\dot{3}", r"\tfrac13"],
        ["0.3", "0.33333333"],
    ),
    (r"\frac{1}{2}", [r"\frac{-1}{-2}", ".5", r"5\times 10^{-1}"], [r"\sin 30^\circ", "1:2", "2"]),
    (
        r"\pi",
        [r"\pi", r"\frac{2\pi}{2}", "pi", "180^\\circ"],
        ["3.14", "3.14159265358979", r"\frac{22}{7}"],
    ),
    (
        r"\sqrt{8}",
        [r"2\sqrt2", r"2^{3/2}", r"\frac{4}{\sqrt{2}}"],
        ["2.828", r"2\sqrt3", r"\sqrt80"],
    ),
    (
        "66.7",
        [r"\frac{200}{3}", "66.67", "66.70", r"66\frac{7}{10}"],
        ["66.6", "66.8", "67", "66.64"],
    ),
    ("0.2", [r"\frac15", "0.20", ".2"], [r"\frac{2}{9}", "0.22", "0.3"]),
    ("1.41", [r"\sqrt2", "1.414"], [r"\sqrt{2.1}", "1.4"]),
    (r"2\frac{1}{4}", [r"\frac94", "2.25", "2 1/4"], [r"2\cdot\frac14", r"\frac12", "2"]),
    (
        "2.5e3",
        [r"2.5\times10^3", "2500", r"2.5\cdot 10^{3}"],
        [r"2.5\times 10^4", r"2.5\times 103"],
    ),
    (r"\frac{1}{2^{80}}", [r"2^{-80}"], [r"\frac{1}{2^{81}}", "0"]),
    ("7^{5000}", ["7^{5000}", r"49^{2500}"], ["7^{5001}", "0"]),
    (r"\binom{40}{20}", [r"\frac{40!}{(20!)^2}", r"\binom{40}{20}"], [r"\binom{40}{21}"]),
    (
        r"e^{i\pi/3}",
        [r"\frac{1+i\sqrt3}{2}", r"\cos\frac\pi3+i\sin\frac\pi3"],
        [r"\frac{1-i\sqrt3}{2}"],
    ),
    ("3-4i", ["-4i+3", "3 + -4i", "3.0-4.0i"], ["3+4i", "(3,-4)", "3-4j", "5"]),
    (r"(-27)^{1/3}", ["-3"], ["3"]),
]

EXPRESSIONS = [
    (r"x^2-9", ["(x-3)(x+3)", "-9+x^2", r"x\cdot x-9"], ["x^2-9=0", "y^2-9", "x^2+9", "x-3"]),
    ("x^{12}", ["x^12", "x**12", "(x^3)^4", "x²x^{10}"], ["x^1 2", "x_{12}", "12x", "x^{11}"]),
    (r"\frac{1}{\sqrt{n}}", [r"\sqrt{\frac1n}", "n^{-1/2}", r"\frac{\sqrt n}{n}"], [r"\sqrt{n}"]),
    ("|x|", [r"\sqrt{x^2}", r"|-x|", r"\vert x\vert"], ["x", "-x", "|x|^2"]),
    (r"\ln 8", [r"3\ln 2", r"\ln 2+\ln 4", r"\log_e 8"], [r"\ln 6", r"\log 8", r"2\ln 3"]),
    (r"\log_2 5", [r"\frac{\ln 5}{\ln 2}", r"\frac{\log 5}{\log 2}"], [r"\log_5 2", r"\log_2 6"]),
    (r"\tan^2 t + 1", [r"\sec^2(t)", r"\frac{1}{\cos^2 t}"], [r"\tan^2 t - 1", r"\sec t"]),
    (r"\arcsin x", [r"\sin^{-1} x", "asin(x)"], [r"\frac{1}{\sin x}", r"\arccos x"]),
    (r"4^n", ["2^{2n}", r"2^n\cdot 2^n"], ["2n^2", "n^4"]),
    (
        r"\frac{x^2}{2}+C",
        [r"\frac12x^2+c", r"\frac{x^2+2C}{2}"],
        [r"\frac{x^2}{2}", r"\frac{x^2}{2}+x"],
    ),
    (r"\frac{\pi^2}{6}", [r"\pi^2/6"], [r"\sum_{n=1}^\infty \frac{1}{n^2}"]),
    ("2x", ["x+x"], [r"\frac{d}{dx}x^2", "2", "2X", "2t"]),
    ("1", ["k=1"], [r"\int_0^1 dx", r"\lim_{x\to 0}\frac{\sin x}{x}", r"\det(A)", "x^0", "1/1"]),
    (r"\varphi", [r"\phi", "φ", "ϕ"], [r"\psi", "f"]),
    (r"\epsilon", [r"\varepsilon"], ["e"]),
    ("f(x)", ["f(x)"], ["f(y)", "g(x)", "x"]),
    ("a_1+a_2", ["a_2+a_1", r"a_{1} + a_{2}"], ["a_1+a_1", "2a", "a_12"]),
    (r"\sum_{k=1}^n k^2", [r"\sum_{k=1}^{n} k^{2}"], [r"\sum_{k=1}^n k", "n^2"]),
]

UNITS = [
    (
        r"8\text{ cm}",
        ["8", "8 cm", r"8\,\mathrm{cm}", r"8\text{ centimeters}"],
        [r"8\text{ m}", "80"],
    ),
    (r"8\text{ cm}^2", [r"8\text{ square centimeters}", r"8\ \mathrm{cm^2}"], [r"8\text{ cm}"]),
    (
        r"9\text{ m/s}",
        [r"9\,\frac{\text{m}}{\text{s}}", r"9\text{ meters per second}"],
        [r"9\text{ m}"],
    ),
    (r"2\text{ hours}", ["2", r"2\text{ hr}"], [r"120\text{ minutes}", r"2\text{ days}"]),
    (r"18\text{ units}", [r"18\text{ cm}", "18"], [r"18\text{ square units}"]),
    ("7", ["7 boxes", r"7\text{ ways}", "7m", "7m^2"], ["7t", "7c", "7x^2", r"7\text{ million}"]),
    ("3h", ["3h"], ["3", "3t"]),
    (r"\$12.50", ["12.5", r"12.50\text{ dollars}"], [r"12\text{ cents}", "€12.50", "12"]),
    ("2.5 million", ["2500000", r"2{,}500{,}000"], ["2.5"]),
    (
        r"30^\circ",
        ["30", "30°", r"\frac{\pi}{6}", "30 degrees"],
        [r"\frac{\pi}{3}", r"30^\circ\text{C}"],
    ),
    (r"\frac{\pi}{6}", [r"30^\circ"], ["30"]),
    (
        r"12\%",
        ["12", "0.12", "12%", "12 percent", r"\frac{3}{25}"],
        ["1.2", "1200", r"12\%\%", "3/24"],
    ),
    ("0.12", [r"12\%"], ["12"]),
    (r"8\text{ a.m.}", ["8 am", "8"], ["8 pm"]),
    (r"\text{May 3}", ["May 3", r"\text{May 3rd}"], ["3", r"\text{3 May}", r"\text{May 4}"]),
]

COLLECTIONS = [
    (
        "1, 4",
        ["4,1", r"\{1,4\}", r"1 \text{ and } 4", "x=1, x=4", "x=1 \\text{ or } x=4"],
        ["1", "1,4,4"],
    ),
    (r"\{1,4\}", ["1,4", "{4,1}", r"\{1\}\cup\{4\}"], ["(1,4)", "[1,4]", "14", r"\{1,4,5\}"]),
    ("(1,4)", ["1,4", "(1, 4)", "x=1, y=4", "(x,y)=(1,4)"], ["(4,1)", "4,1", "[1,4]", r"\{1,4\}"]),
    ("[1,4]", ["[1,4]", r"1\le x\le 4"], ["1,4", "(1,4)", "[1,4)"]),
    ("(1,4),(2,3)", ["(2,3),(1,4)", r"\{(1,4),(2,3)\}"], ["(1,4)", "(1,4),(3,2)"]),
    (r"2\pm\sqrt3", [r"2+\sqrt3, 2-\sqrt3", r"2\mp\sqrt3", r"x=2\pm\sqrt{3}"], [r"2+\sqrt3"]),
    ("7", [r"\{7\}"], ["7,7", r"\pm 7", r"7\pm 0.1", r"\{7,8\}", "(7,7)", "7 or 8"]),
    ("a=1, b=4", ["b=4, a=1", "1,4", r"a=1\text{ and }b=4"], ["4,1", "a=4,b=1", "a=1", r"\{1,4\}"]),
    ("n=1,2,3", ["1,2,3", "n = 3, 2, 1"], ["n=1,2", "1,2,4"]),
    ("1,234", ["1234"], ["1,2,3,4", "1,23,4"]),
    ("3:4", ["3 : 4"], ["6:8", "4:3", r"\frac34"]),
    ("10:05", ["10:05"], ["10:50", "10:5:0"]),
    (
        r"\begin{pmatrix}1\\4\end{pmatrix}",
        [r"\begin{bmatrix}1\\4\end{bmatrix}", "(1,4)"],
        ["(4,1)"],
    ),
    (
        r"\begin{pmatrix}2&4\end{pmatrix}",
        [r"2\begin{pmatrix}1&2\end{pmatrix}"],
        [r"\begin{pmatrix}2\\4\end{pmatrix}"],
    ),
    (r"\emptyset", [r"\varnothing", r"\{\}", "∅"], ["0", r"\{0\}"]),
    (r"\text{red, blue}", [r"\text{blue and red}", "blue, red"], ["red", r"\text{red or green}"]),
]

RELATIONS = [
    (
        "x>3",
        [r"(3,\infty)", "3<x", r"\{x : x>3\}", "x＞3"],
        ["x<3", "y>3", "2x>6", "3", "x\\ge 3", "|x|>3"],
    ),
    (r"(3,\infty)", ["x>3", r"(3,+\infty)"], ["|x|>3", r"[3,\infty)"]),
    (
        r"x\ne 2",
        [r"(-\infty,2)\cup(2,\infty)", r"\mathbb{R}\setminus\{2\}", "x != 2"],
        ["x=2", "2"],
    ),
    (r"[1,2]\cup[2,5]", ["[1,5]", r"[2,5]\cup[1,2]"], ["(1,5)", r"[1,2)\cup(2,5]", "[1,4]"]),
    (r"x<0 \text{ or } x>1", [r"(-\infty,0)\cup(1,\infty)"], ["0<x<1", "x>1"]),
    (r"[-\sqrt2,\sqrt2]", [r"-\sqrt{2}\le x\le\sqrt{2}"], ["[-1.414,1.414]", r"(-\sqrt2,\sqrt2)"]),
    (
        r"\mathbb{R}",
        [r"(-\infty,\infty)", r"\text{all real numbers}"],
        [r"(0,\infty)", r"\mathbb{Z}"],
    ),
    ("y=2x+1", ["2x+1", "y=1+2x", "2x-y+1=0", "f(x)=2x+1"], ["y=2x-1", "x=2y+1", "1", "y=mx+b"]),
    ("f(x)=x^2", ["f(t)=t^2", "x^2"], ["f(t)=x^2", "t^2"]),
    (
        "x^2+y^2=9",
        [r"\frac{x^2}{9}+\frac{y^2}{9}=1", "9=y^2+x^2"],
        ["9", "x^2+y^2=3", "x=x", "0=0"],
    ),
    ("x=5", ["5", "x = 5", "5=x"], ["y=5", "x=-5", "x\\ne 5", "x>5", "x^2=25"]),
    ("2x+z=1", ["z=1-2x", "4x+2z=2"], ["1", "2x+z", "2x+z=2"]),
    ("8", ["x=8", r"x\approx 8"], ["7=8", "x>8", r"\neq 8", r"8 < x", "x-8=0"]),
    (
        r"\frac{2}{7}",
        [r"\frac{2}{7}\approx 0.29", r"\frac27 \text{ (about 0.286)}"],
        [r"\frac{2}{8}\approx\frac27"],
    ),
    (r"\begin{cases}a+b=1\\a-b=3\end{cases}", [r"\begin{cases}a-b=3\\a+b=1\end{cases}"], ["1,3"]),
]

TEXT = [
    (
        r"\text{Yes}",
        ["yes", "Yes.", r"\mathrm{yes}", r"\textbf{YES}"],
        ["No", r"\text{Yes/No}", "1"],
    ),
    (
        r"\text{an ellipse}",
        ["ellipse", r"\text{the ellipse}"],
        ["circle", r"\text{not an ellipse}"],
    ),
    (r"\text{Ann}", ["Ann"], ["Anna", r"\text{Ann and Bob}"]),
    ("odd $n$", [r"\text{odd } n"], ["n", r"\text{even } n", r"\text{odd } m"]),
    ("K", [r"\mathrm{K}", r"\text{K}"], ["k", r"\mathrm{K}^2"]),
    (
        "4",
        [r"\text{Yes, } 4", r"\text{The value is } 4"],
        [r"\text{not } 4", "4 or more", r"\text{four}"],
    ),
    (
        "4",
        [r"4\text{ (approximately)}"],
        [r"4, \text{ not } 5", r"k \text{ where } k=4", "4\\text{ (or 5)}"],
    ),
]

BASES = [
    ("2012_3", ["2012_{3}", "2012", r"2012_{\text{three}}"], ["2012_4", "59", "2102_3"]),
    ("1F_{16}", ["1f_{16}", "1F"], ["31", "F1_{16}"]),
    ("x_3", ["x_{3}"], ["3", "x", "x_2"]),
]

UNICODE = [
    ("-5", ["−5", "－５"], ["5"]),
    (r"\frac{1}{2}", ["½", "1⁄2"], ["2½"]),
    (r"2\sqrt{13}", ["2√13", "2√{13}"], ["2√1·3"]),
    ("x^2", ["x²"], ["x³", "x₂"]),
    (r"\alpha+\pi", ["α+π"], ["a+π", "α-π"]),
    ("42", ["４２", "4\u200b2"], ["٤٢", "四二", "42\x00"]),
]

TABLES = {
    "integers": INTEGERS, "numbers": NUMBERS, "expressions": EXPRESSIONS, "units": UNITS,
    "collections": COLLECTIONS, "relations": RELATIONS, "text": TEXT, "bases": BASES,
    "unicode": UNICODE,
}  # fmt: skip


def _rows(accepted: bool) -> list:
    return [
        pytest.param(gold, answer, id=f"{name}-{gold}-{answer}")
        for name, table in TABLES.items()
        for gold, right, wrong in table
        for answer in (right if accepted else wrong)
    ]


@pytest.mark.parametrize(("gold", "answer"), _rows(accepted=True))
def test_accepted(gold, answer):
    assert equivalent(gold, answer, allow_numeric=True)


@pytest.mark.parametrize(("gold", "answer"), _rows(accepted=False))
def test_rejected(gold, answer):
    assert not equivalent(gold, answer, allow_numeric=True)


@pytest.mark.parametrize("gold", [row[0] for table in TABLES.values() for row in table])
def test_every_gold_answers_itself(gold):
    assert equivalent(gold, f" {gold} ", allow_numeric=True)
    assert equivalent(gold, rf"\boxed{{{gold}}}", allow_numeric=True)


@pytest.mark.parametrize(
    ("task", "gold", "right", "wrong"),
    [
        ("factor", "(x-1)(x+1)", "(1+x)(x-1)", "x^2-1"),
        ("expand", "x^2-1", "-1+x^2", "(x-1)(x+1)"),
        ("simplify", "x+1", "1+x", r"\frac{x^2-1}{x-1}"),
    ],
)
def test_forms_count_only_where_the_task_asks_for_one(task, gold, right, wrong):
    assert equivalent(gold, right, task=task)
    assert not equivalent(gold, wrong, task=task)
    assert equivalent(gold, wrong)
