r"""The plain entry points, and the local case file where there is one."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jaxrl_scope.bench.verifier import load_cases
from jaxrl_scope.data.problems import Scaffold
from jaxrl_scope.grading import (
    Item,
    Verdict,
    VerifierPool,
    is_correct,
    is_gradable,
    verify,
    verify_scaffold,
)
from jaxrl_scope.grading import settle as settle_module

CASE_FILE = Path(__file__).resolve().parents[4] / "shared" / "data" / "verifier_cases.jsonl"


def test_is_correct_answers_with_a_bool():
    assert is_correct("1/2", r"So \boxed{0.5}.") is True
    assert is_correct("1/2", r"So \boxed{0.6}.") is False
    assert is_correct(r"\sqrt{8}", r"\boxed{2\sqrt2}") is True
    assert is_correct("C", "The answer is (C).", task="mcq") is True
    assert is_correct("C", r"\boxed{C}", task="mcq", choices=("a", "b")) is False
    assert is_correct("204", r"\boxed{204}", task="aime") is True


def test_verify_tells_failed_from_incorrect():
    assert verify(r"\sqrt2", r"\boxed{9^{9^{9^9}}}") is Verdict.FAILED
    assert verify("7", r"\boxed{9^{9^{9^9}}}") is Verdict.INCORRECT  # an integer wants a numeral
    assert verify("", r"\boxed{1}") is Verdict.FAILED
    assert verify("no letter", r"\boxed{A}", task="mcq") is Verdict.FAILED
    assert verify("7", "7") is Verdict.INCORRECT
    assert verify("7", "The answer is 7.", lenient=True) is Verdict.CORRECT


def test_bad_label_is_an_error():
    with pytest.raises(ValueError, match="unknown answer label"):
        verify("7", r"\boxed{7}", label="FIRST")


def test_gold_answers_that_cannot_be_graded():
    assert is_gradable(r"\frac{1}{2}")
    assert is_gradable("C", task="mcq")
    assert not is_gradable("")
    assert not is_gradable("42", task="mcq")
    assert not is_gradable("x" * 5000)


def test_scaffold_verdicts():
    scaffold = Scaffold("p", ("a", "b"), ("3", r"\frac{1}{2}"), "q", "12")
    response = r"[SUB-1 ANSWER] \boxed{3} [SUB-2 ANSWER] \boxed{0.4} [MAIN ANSWER] \boxed{12}"
    sub, main = verify_scaffold(response, scaffold)
    assert sub.dtype == np.int8
    assert (sub.tolist(), main) == ([1, 0], 1)


def test_a_defect_of_the_verifier_is_a_counted_failure(monkeypatch, caplog):
    def broken(*_args, **_kwargs):
        raise AttributeError("a defect")

    monkeypatch.setattr(settle_module, "equivalent", broken)
    with VerifierPool(num_workers=1) as pool:
        assert pool.verify_batch([Item("7", r"\boxed{8}")]).tolist() == [Verdict.FAILED]
        assert pool.counts["failed/crash"] == 1
    assert "a defect" in caplog.text


def test_import_loads_no_maths_library():
    code = "import sys, jaxrl_scope.grading; print({'sympy', 'mpmath', 'jax'} & set(sys.modules))"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "set()"


if CASE_FILE.exists():

    def test_local_case_file():
        cases = load_cases(CASE_FILE)
        with VerifierPool() as pool:
            outcomes = pool.grade([case.item for case in cases])
        wrong = [
            case
            for case, outcome in zip(cases, outcomes, strict=True)
            if (outcome.verdict is Verdict.CORRECT) != case.expected
        ]
        fixed = [case for case in cases if not case.is_policy]
        wrong_fixed = [case for case in wrong if not case.is_policy]
        assert not [case.name for case in wrong_fixed if not case.expected]  # false positives
        assert len(wrong_fixed) <= 0.02 * len(fixed)
        assert len(wrong) - len(wrong_fixed) <= 0.05 * (len(cases) - len(fixed))
        assert not [
            case.name
            for case, outcome in zip(cases, outcomes, strict=True)
            if outcome.verdict is Verdict.FAILED and "resource" not in case.tags
        ]

    def test_local_answer_pairs():
        path = CASE_FILE.parent / "math" / "answer_pairs.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        with VerifierPool() as pool:
            items = [Item(row["gold"], rf"\boxed{{{row['pred']}}}") for row in rows]
            verdicts = pool.verify_batch(items)
        agree = [
            bool(verdict == 1) == row["equivalent"]
            for verdict, row in zip(verdicts, rows, strict=True)
        ]
        assert sum(agree) >= 0.99 * len(rows)
