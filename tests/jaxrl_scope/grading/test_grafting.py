"""Alignment, grafted runs and the sorting of residuals."""

import pytest

from jaxrl_scope.data.code_problems import CodeProblem, CodeStep
from jaxrl_scope.grading.grafting import Grafter, align
from jaxrl_scope.grading.sandbox import Limits, SandboxPool
from rewards import RESIDUAL_BUCKETS, step_ledger

STEPS = (
    CodeStep("s1", "", "def s1(x):\n    return np.asarray(x) + 1",
             ("assert np.allclose(s1(np.array([1., 2.])), target)",), ([2.0, 3.0],)),
    CodeStep("s2", "", "def s2(x):\n    return s1(x) * 2",
             ("assert np.allclose(s2(np.array([1., 2.])), target)",), ([4.0, 6.0],)),
    CodeStep("s3", "", "def s3(x):\n    return s2(x) - 1",
             ("assert np.allclose(s3(x=np.array([1., 2.])), target)",), ([3.0, 5.0],)),
)  # fmt: skip
PROBLEM = CodeProblem("p", "", STEPS, setup="import numpy as np")
GOLD = [step.reference for step in STEPS]


@pytest.fixture(scope="module")
def grafter():
    with SandboxPool(2, Limits(wall_s=30.0)) as pool:
        yield Grafter(pool)


def grade(grafter, *codes):
    (verdicts,) = grafter.grade([PROBLEM], [codes])
    return verdicts


def ledger_of(verdicts):
    return step_ledger(verdicts.passed[None], verdicts.grafted[None], verdicts.alignable[None], 3)


def test_reference_passes_everywhere(grafter):
    verdicts = grade(grafter, *GOLD)
    assert verdicts.passed.all()
    assert verdicts.grafted.all()
    assert verdicts.decided


def test_a_wrong_first_step_fails_the_rest_but_not_their_grafts(grafter):
    verdicts = grade(grafter, "def s1(x):\n    return x + 2", *GOLD[1:])
    assert verdicts.passed.tolist() == [False, False, False]
    assert verdicts.grafted.tolist() == [False, True, True]
    ledger = ledger_of(verdicts)
    assert ledger.prefix_ok[0].tolist() == [True, False, False]
    assert ledger.residual[0].tolist() == [0, 0, 0]
    assert int(ledger.first_failure[0]) == 1


@pytest.mark.parametrize(
    ("codes", "step", "residual", "bucket"),
    [
        # A list passes its own test, and is repeated rather than doubled by the next step.
        (["def s1(x):\n    return list(x + 1)", *GOLD[1:]], 2, -1, "numeric convention"),
        # A constant that the next step relies on is not there in the own prefix.
        ([GOLD[0], "def s2(x):\n    return s1(x) * 2\ntwo = 2",
          "def s3(x):\n    return s2(x) - two + 1"], 3, 1, "interface mismatch"),
        # The step does not use its prefix, so a wrong prefix does not harm it.
        (["def s1(x):\n    return x + 2", "def s2(x):\n    return (x + 1) * 2", GOLD[2]], 2, 1,
         "local error"),
    ],
)  # fmt: skip
def test_residuals_and_their_buckets(grafter, codes, step, residual, bucket):
    verdicts = grade(grafter, *codes)
    assert int(ledger_of(verdicts).residual[0, step - 1]) == residual
    assert RESIDUAL_BUCKETS[verdicts.bucket[step - 1]] == bucket


def test_missing_and_misnamed_steps_are_na(grafter):
    verdicts = grade(grafter, GOLD[0], "def other(x):\n    return s1(x) * 2")
    assert verdicts.passed.tolist() == [True, False, False]
    assert verdicts.alignable.tolist() == [True, False, False]
    assert verdicts.decided


def test_no_python_is_a_failure_not_an_error(grafter):
    verdicts = grade(grafter, "def s1(x: return", "\x00", None)
    assert not verdicts.passed.any()
    assert not verdicts.alignable.any()


def test_renamed_parameters_are_aligned(grafter):
    verdicts = grade(grafter, GOLD[0], GOLD[1], "def s3(v):\n    return s2(v) - 1")
    assert verdicts.grafted.tolist() == [True, True, True]
    # The tests call by keyword, and the own run is judged as it was written.
    assert verdicts.passed.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("signature", "fits"),
    [
        ("f(a, b=1)", True), ("f(x, y=2)", True), ("f(a, b)", False), ("f(a)", False),
        ("f(a, b=1, *c)", False), ("f(a, b=1, *, c)", False), ("g(a, b=1)", False),
        ("f(a, b=1, **k)", False),
    ],
)  # fmt: skip
def test_what_fits_a_signature(signature, fits):
    source = f"def {signature}:\n    return 0"
    assert (align(source, "def f(a, b=1):\n    return 0", "f") is not None) == fits


def test_a_wrapper_passes_everything_on():
    own = "def f(p, *r, k, **w):\n    return p, r, k, w"
    aligned = align(own, "def f(a, *b, k, **c):\n    return 0", "f")
    namespace = {}
    exec(aligned, namespace)
    assert namespace["f"](1, 2, k=3, z=4) == (1, (2,), 3, {"z": 4})
    assert namespace["f"](a=1, k=3) == (1, (), 3, {})
