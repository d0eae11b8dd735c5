"""Files of code problems: hand-made rows of each layout, and the real samples where they lie."""

import json
from pathlib import Path

import numpy as np
import pytest

from jaxrl_scope.data.code_loaders import load_code_problems, read_target
from jaxrl_scope.data.code_problems import CodeProblem, CodeStep, find_function, from_json, to_json
from jaxrl_scope.data.rows import RowError
from jaxrl_scope.grading.grafting import Grafter, check_references
from jaxrl_scope.grading.sandbox import PRELOAD_SCIENCE, Limits, SandboxPool
from rewards import step_ledger

REAL = Path(__file__).parents[4] / "shared" / "data" / "code"
FILES = ("scicode_dev_sample", "humaneval_sample", "mbpp_sample")

SCICODE = {
    "id": "chain",
    "problem": "Two functions.",
    "dependencies": "import numpy as np",
    "steps": [
        {
            "step": "1.1",
            "prompt": "Double.",
            "header": "def double(x):\n    '''doc'''",
            "gold_code": "def double(x):\n    return 2 * x",
            "tests": ["y = 3\nassert np.allclose(double(y), target)", "assert double(y) == target"],
            "targets": [6, 6],
        },
        {
            "step": "1.2",
            "prompt": "Double and add one.",
            "header": "def odd(x):",
            "gold_code": "def odd(x):\n    return double(x) + 1",
            "tests": ["assert np.allclose(odd(np.arange(2)), target)"],
            "targets": [{"type": "ndarray", "dtype": "int64", "shape": [2], "data": [1, 3]}],
        },
    ],
}
HUMANEVAL = {
    "id": "H/0",
    "problem": "def inc(x: int) -> int:\n    '''Add one.'''\n",
    "entry_point": "inc",
    "gold_code": "    return x + 1\n",
    "tests": "def check(candidate):\n    assert candidate(1) == 2\n",
}
MBPP = {
    "id": "m-1",
    "problem": "Add one.",
    "gold_code": "def helper(x):\n    return x\ndef inc(x):\n    return helper(x) + 1",
    "test_imports": ["import math"],
    "tests": ["assert inc(math.floor(1.5)) == 2"],
}


@pytest.fixture(scope="module")
def pool():
    with SandboxPool(2, Limits(wall_s=60.0), preload=PRELOAD_SCIENCE) as pool:
        yield pool


@pytest.mark.parametrize("row", [SCICODE, HUMANEVAL, MBPP], ids=lambda row: row["id"])
def test_each_layout_loads_and_its_reference_passes(row, tmp_path, pool):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    problems, report = load_code_problems(path)
    assert report.num_kept == 1
    assert check_references(problems, pool) == []
    assert from_json(to_json(problems[0])).steps[-1].name == problems[0].steps[-1].name
    assert check_references([from_json(to_json(problems[0]))], pool) == []


def test_differential_test_names_the_step_that_disagrees(pool):
    good, bad = "def f(x):\n    return x + 1", "def f(x):\n    return x + 2"
    steps = (
        CodeStep("f", "", good, ("assert f(1) == 2",), oracle=good),
        CodeStep("g", "", "def g(x):\n    return f(x)", ("assert g(1) == 2",), oracle=bad),
    )
    ((name, number, which, result),) = check_references([CodeProblem("p", "", steps)], pool)
    assert (name, number, which) == ("p", 2, "oracle")
    assert result.kind == "interface"


def test_broken_rows_are_reported(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(MBPP) + '\n{"id": 1}\nnonsense\n' + json.dumps({"steps": [{}]}))
    problems, report = load_code_problems(path)
    assert (len(problems), report.counts["broken row"]) == (1, 3)
    with pytest.raises(RowError, match=r"rows.jsonl:2"):
        load_code_problems(path, strict=True)
    path.write_text("{}\n")
    with pytest.raises(ValueError, match="no usable problem"):
        load_code_problems(path)


def test_problems_without_tests_or_with_one_name_twice_are_refused():
    with pytest.raises(ValueError, match="no test"):
        CodeProblem("p", "", (CodeStep("f", "", "def f(): pass", ()),))
    step = CodeStep("f", "", "def f(): pass", ("f()",))
    with pytest.raises(ValueError, match="distinct names"):
        CodeProblem("p", "", (step, step))


def test_targets():
    complex_array = {
        "type": "ndarray", "dtype": "complex128", "shape": [1, 2], "real": [1, 2], "imag": [0, 3],
    }  # fmt: skip
    assert np.array_equal(read_target(complex_array), [[1, 2 + 3j]])
    assert read_target({"type": "tuple", "items": [1, {"type": "set", "items": [2]}]}) == (1, {2})
    assert read_target({"type": "complex", "real": 1, "imag": 2}) == 1 + 2j
    with pytest.raises(ValueError, match="matrix"):
        read_target({"type": "matrix"})


if REAL.is_dir():

    def _emptied(source: str, name: str) -> str:
        found = find_function(source, name)
        assert found is not None
        lines = source.splitlines()
        signature = lines[found.lineno - 1 : found.body[0].lineno - 1]
        return "\n".join([*lines[: found.lineno - 1], *signature, "    return None"])

    @pytest.mark.parametrize("name", FILES)
    def test_real_gold_passes_and_emptied_bodies_fail(name, pool):
        problems, report = load_code_problems(REAL / f"{name}.jsonl", strict=True)
        assert report.num_kept == report.num_rows
        assert check_references(problems, pool) == []
        steps = [(p, t) for p in problems for t in range(1, len(p.steps) + 1)]
        runs = []
        for problem, t in steps:
            step = problem.steps[t - 1]
            before = [earlier.reference for earlier in problem.steps[: t - 1]]
            runs.append(problem.run(t, [*before, _emptied(step.reference, step.name)]))
        passed = [i for i, result in enumerate(pool.run_batch(runs)) if result.passed]
        assert passed == []

    def test_real_chain_with_a_wrong_early_step(pool):
        problems, _ = load_code_problems(REAL / "scicode_dev_sample.jsonl")
        chain = next(problem for problem in problems if len(problem.steps) == 3)
        first = chain.steps[0]
        wrong = _emptied(first.reference, first.name)
        codes = [wrong, *(step.reference for step in chain.steps[1:])]
        (verdicts,) = Grafter(pool).grade([chain], [codes])
        assert verdicts.grafted.tolist() == [False, True, True]
        assert verdicts.alignable.all()
        ledger = step_ledger(
            verdicts.passed[None], verdicts.grafted[None], verdicts.alignable[None], 3
        )
        assert ledger.prefix_ok[0].tolist() == [True, False, False]
        assert int(ledger.first_failure[0]) == 1
