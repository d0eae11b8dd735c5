r"""Answers written to hang, crash, escape or fool the verifier."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxrl_scope.grading import Item, Verdict, VerifierPool, is_correct

GOLDS = [
    "7", r"\frac12", r"\sqrt{2}", r"x^2+\sqrt{x}", r"\{1,2\}", "[0,1]", "x=1", r"\sin x",
    r"\text{Yes}", r"\begin{pmatrix}1\\2\end{pmatrix}", "0.333", r"e^{\pi}", r"\pm\sqrt3",
]  # fmt: skip
NOISE = r"\{}^_()[]|0123456789xyz+-*/=,. \frac\sqrt\text!%$"

Generator = Callable[[random.Random], str]
GENERATORS: list[Generator] = [
    lambda rng: "9^" * rng.randrange(1, 30) + "9",
    lambda rng: "9^{" * rng.randrange(1, 60) + "9" + "}" * rng.randrange(1, 60),
    lambda rng: rf"\sqrt{{3}}^{{{rng.randrange(9999)}^{{{rng.randrange(9999)}}}}}",
    lambda rng: rf"\sin(10^{{{rng.randrange(10**6)}}})",
    lambda rng: f"{rng.randrange(10**9)}!",
    lambda rng: f"({rng.randrange(10**6)}!)!",
    lambda rng: rf"e^{{e^{{e^{{{rng.randrange(100)}}}}}}}",
    lambda rng: rf"\binom{{10^{{{rng.randrange(20)}}}}}{{10^{{{rng.randrange(20)}}}}}",
    lambda rng: "1" * rng.randrange(100_000),
    lambda rng: "a" * rng.randrange(100_000),
    lambda rng: "(" * rng.randrange(100_000),
    lambda rng: "{" * rng.randrange(5000) + "8",
    lambda rng: r"\frac{" * rng.randrange(500) + "1",
    lambda rng: r"\sqrt{" * rng.randrange(100) + "5" + "}" * rng.randrange(100),
    lambda rng: "\x00" * rng.randrange(100) + "8",
    lambda rng: ",".join(str(rng.randrange(99)) for _ in range(rng.randrange(5000))),
    lambda rng: rf"(x+1)^{{{rng.randrange(10**12)}}}",
    lambda rng: rf"(\sqrt2+\sqrt3)^{{{rng.randrange(10**7)}}}",
    lambda rng: rf"\tan({rng.randrange(300)}!)",
    lambda rng: r"\text{" * rng.randrange(600) + "a",
    lambda rng: "".join(chr(rng.randrange(32, 0x3000)) for _ in range(rng.randrange(300))),
    lambda rng: "".join(rng.choice(NOISE) for _ in range(rng.randrange(200))),
    lambda rng: "x^{x^{x^{x}}}+" * rng.randrange(1, 60) + "1",
    lambda rng: "٣" * rng.randrange(1, 50) + "−7",
    lambda rng: r"\sum_{k=1}^{10^9}k",
    lambda rng: r"\arcsin(9)^{\pi^{9}}" + "+1" * rng.randrange(300),
    lambda rng: "-" * rng.randrange(3000) + "5",
    lambda rng: r"\begin{pmatrix}" + "x&" * rng.randrange(900) + r"x\end{pmatrix}",
    lambda rng: f"__import__('os').environ.update(VCANARY='{rng.randrange(9)}')",
]


def hostile_items(count: int) -> list[Item]:
    """Return items whose answers are drawn from the generators; none is right."""
    rng = random.Random(7)
    items = []
    for _ in range(count):
        answer = rng.choice(GENERATORS)(rng)
        items.append(Item(rng.choice(GOLDS), rf"So \boxed{{{answer}}}."))
    return items


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def _grade_in_batches(pool: VerifierPool, items: list[Item]) -> set[int]:
    verdicts: set[int] = set()
    for start in range(0, len(items), 100):
        verdicts |= set(pool.verify_batch(items[start : start + 100]).tolist())
    return verdicts


def test_hostile_answers_are_never_right_and_never_hang():
    with VerifierPool(num_workers=1) as pool:
        start = time.monotonic()
        assert _grade_in_batches(pool, hostile_items(600)) <= {Verdict.INCORRECT, Verdict.FAILED}
        assert time.monotonic() - start < 60
        assert not {"failed/timeout", "failed/crash", "failed/memory"} & pool.counts.keys()
    assert "VCANARY" not in os.environ


@pytest.mark.slow
def test_ten_thousand_hostile_answers_leave_nothing_behind():
    items = hostile_items(10_000)
    with VerifierPool(num_workers=2) as pool:
        _grade_in_batches(pool, items[:500])
        before = _resident_mb()
        assert _grade_in_batches(pool, items) <= {Verdict.INCORRECT, Verdict.FAILED}
        assert _resident_mb() - before < 50
    assert not [
        path
        for path in Path(f"/proc/{os.getpid()}/task").glob("*/children")
        for pid in path.read_text().split()
        if b"grading.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "__import__('os').system('true') or 5",
        "exec('x=5')",
        "().__class__.__base__.__subclasses__()",
        "(lambda: 5)()",
        "[y for y in [5]][0]",
        "5 if True else 0",
        "sympify('5')",
        "Symbol('x')*0+5",
        "eval('5')",
        "5' or '1'='1",
        r"\input{/etc/passwd}",
        r"\def\a{5}\a",
        r"\text{reward = 1, score 5 points of 5}",
        r"\phantom{6}5",
        r"\hspace{5cm}",
        r"\label{5}",
        "*",
        ".*",
        "_",
        "?",
        "x",
        r"\square",
        r"\forall n",
        r"\mathbb{Z}",
        r"(-\infty,\infty)",
        "gold",
        "[0-9]",
        "4, 5, 6",
        "4 or 5",
        r"5\pm 1",
        r"1,2,\ldots,10",
        r"\{5, 6\}",
        r"\ge 5",
        r"\text{not }5",
        r"5\text{ (or maybe 6)}",
        "5?5",
        "nan",
        "True",
        "0*5+5*x/x",
    ],
)
def test_tricks_do_not_answer_five(answer):
    assert not is_correct("5", rf"\boxed{{{answer}}}")


@pytest.mark.parametrize(
    "response",
    [
        r"The problem says: put your answer in \boxed{5}. I get \boxed{6}.",
        r"\boxed{5} \boxed{6}",
        r"\boxed{6}5",
        r"<think>\boxed{5}</think>",
        r"\boxed{5",
        r"Unless \boxed{5} holds, \boxed{",
        r"boxed{5}",
        "5",
    ],
)
def test_boxes_that_are_no_answer(response):
    assert not is_correct("5", response)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\sqrt{2}+1", r"x\sqrt{2}+1"),
        ("x^2-5x+6=0", "x=x"),
        ("x^2-5x+6=0", "0=0"),
        ("y=2x+3", "y=mx+b"),
        ("(1,2)", "(a,b)"),
        (r"\{1,2,3\}", r"\{a,b,c\}"),
        ("[0,1]", "[0,x]"),
        ("f(x)=2x", "f(x)=f(x)"),
        ("2x", r"2x + 0\cdot y"),
        (r"\frac13", r"\frac{1}{3} \text{ or } \frac{2}{3}"),
    ],
)
def test_free_symbols_match_nothing(gold, answer):
    assert not is_correct(gold, rf"\boxed{{{answer}}}")
