"""Accuracy and speed of the answer verifier, side by side with math-verify in the same run.

    python launch/bench.py verifier --cases cases.jsonl

A case is one JSON object a line: `gold`, `response`, `expected` (true, false, or null on a policy
case, whose `recommend` is then expected), optionally `task`, `label`, `choices`, `tags`, `id`.
Without a case file only the throughput on a synthetic stream is measured.
"""

import argparse
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from jaxrl_scope.bench.math_verify_baseline import MathVerify
from jaxrl_scope.grading import Item, Verdict, VerifierPool

_WALL_LIMIT_S = 3.0
_BASELINE_LIMIT_S = 10.0  # above math-verify's own limit of 5 s a call
_GROUP = 8
_SENTENCES = (
    "We set up the equations and substitute the known values. ",
    "Expanding the product gives $a^2 + 2ab + b^2$, so we compare coefficients. ",
    "Checking the boundary case, nothing changes. ",
    "Therefore the count is $\\frac{n(n-1)}{2}$ before the correction. ",
)
_SHORT_ANSWERS = (
    (r"\frac{3}{4}", ("0.75", r"\frac{6}{8}", r"\frac{4}{3}", "3/4")),
    (r"2\sqrt{3}", (r"\sqrt{12}", r"3\sqrt{2}", r"2\sqrt3", "3.46")),
    (r"(1, -2)", ("(1,-2)", "(-2,1)", "1,-2", "(1,2)")),
    (r"x^2+2x+1", ("(x+1)^2", "x^2+1", "1+2x+x^2", "(x-1)^2")),
    (r"[0,\infty)", (r"x \ge 0", r"(0,\infty)", r"[0, \infty)", "0")),
)


class Case(NamedTuple):
    """One graded response with its expected verdict."""

    name: str
    item: Item
    expected: bool
    is_policy: bool
    tags: tuple[str, ...]


class Result(NamedTuple):
    """Verdict of one grader on one case; FAILED where it was stopped."""

    verdict: Verdict
    seconds: float


def load_cases(path: Path) -> list[Case]:
    """Read a case file.

    Raises:
      ValueError: a line lacks a field; the message names the line.
    """
    cases = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        row = json.loads(line)
        missing = {"gold", "response", "expected"} - row.keys()
        if missing:
            raise ValueError(f"{path}:{number}: missing {sorted(missing)}")
        is_policy = row["expected"] is None
        if is_policy and not isinstance(row.get("recommend"), bool):
            raise ValueError(f"{path}:{number}: expected is null, so recommend must be a boolean")
        choices = row.get("choices")
        item = Item(
            row["gold"],
            row["response"],
            row.get("task"),
            row.get("label"),
            tuple(choices) if choices else None,
        )
        expected = row["recommend"] if is_policy else row["expected"]
        name = str(row.get("id", number))
        cases.append(Case(name, item, expected, is_policy, tuple(row.get("tags", ()))))
    return cases


def make_stream(num_groups: int, seed: int = 0) -> list[Item]:
    """Return a stream shaped like RL: groups of 8, 90 % integers, few distinct answers a group."""
    rng = random.Random(seed)
    items = []
    for _ in range(num_groups):
        if rng.random() < 0.9:
            value = rng.randrange(1000)
            gold, wrong = str(value), [str(value + rng.randrange(1, 50)) for _ in range(3)]
            candidates = [gold, gold, f"{value}.0", *wrong]
        else:
            gold, others = rng.choice(_SHORT_ANSWERS)
            candidates = [gold, *others]
        for _ in range(_GROUP):
            text = "".join(rng.choices(_SENTENCES, k=rng.randrange(4, 40)))
            items.append(Item(gold, rf"{text}The answer is $\boxed{{{rng.choice(candidates)}}}$."))
    return items


def _grade_each(items: Sequence[Item], grade: Callable[[Item], Verdict]) -> list[Result]:
    results = []
    for item in items:
        start = time.perf_counter()
        verdict = grade(item)
        results.append(Result(verdict, time.perf_counter() - start))
    return results


def _baseline_results(items: Sequence[Item], baseline: MathVerify) -> list[Result]:
    results = []
    for item in items:
        reply = baseline.grade(item.gold, item.response)
        verdict = Verdict.FAILED if reply.is_correct is None else Verdict(reply.is_correct)
        results.append(Result(verdict, reply.seconds))
    return results


def summarize(cases: Sequence[Case], results: Sequence[Result]) -> dict[str, float]:
    """Return accuracy, errors by direction, failures and times (ms) of one grader."""
    pairs = list(zip(cases, results, strict=True))
    fixed = [(case, result) for case, result in pairs if not case.is_policy]
    policy = [(case, result) for case, result in pairs if case.is_policy]
    times = sorted(result.seconds for result in results)

    def agreement(part: list[tuple[Case, Result]]) -> float:
        right = [(result.verdict is Verdict.CORRECT) == case.expected for case, result in part]
        return statistics.fmean(right) if right else float("nan")

    wrong = Counter(case.expected for case, result in fixed if _is_wrong(case, result))
    failed = [case for case, result in pairs if result.verdict is Verdict.FAILED]
    return {
        "fixed cases": len(fixed),
        "accuracy %": 100 * agreement(fixed),
        "false positives": wrong[False],
        "false negatives": wrong[True],
        "policy cases": len(policy),
        "policy agreement %": 100 * agreement(policy),
        "failed": len(failed),
        "failed, not tagged resource": sum("resource" not in case.tags for case in failed),
        "cases/s": len(times) / sum(times),
        "median ms": 1000 * statistics.median(times),
        "p99 ms": 1000 * times[min(len(times) - 1, int(0.99 * len(times)))],
        "slowest ms": 1000 * times[-1],
    }


def _is_wrong(case: Case, result: Result) -> bool:
    return (result.verdict is Verdict.CORRECT) != case.expected


def _print_table(columns: dict[str, dict[str, float]]) -> None:
    names = list(columns)
    print(f"{'':30}" + "".join(f"{name:>14}" for name in names))
    for row in columns[names[0]]:
        values = (columns[name][row] for name in names)
        print(f"{row:30}" + "".join(f"{value:14.4g}" for value in values))


def _bench_cases(cases: list[Case], pool: VerifierPool, baseline: MathVerify | None) -> None:
    pool.grade([Item(r"\sqrt{8}", r"\boxed{2\sqrt{2}}")])  # a worker is up before the clock runs
    items = [case.item for case in cases]
    ours = _grade_each(items, lambda item: pool.grade([item])[0].verdict)
    columns = {"jaxrl-scope": summarize(cases, ours)}
    theirs = _baseline_results(items, baseline) if baseline else []
    if theirs:
        columns["math-verify"] = summarize(cases, theirs)
    _print_table(columns)
    if theirs:
        plain = [index for index, case in enumerate(cases) if "resource" not in case.tags]
        spent = [sum(results[index].seconds for index in plain) for results in (ours, theirs)]
        print(
            f"{len(plain)} cases without the tag resource: {spent[1] / spent[0]:.1f}x math-verify"
        )
    for case, result in zip(cases, ours, strict=True):
        if _is_wrong(case, result):
            kind = "policy" if case.is_policy else "fixed"
            print(
                f"  {kind} {case.name}: {result.verdict.name}, expected {case.expected}, "
                f"gold {case.item.gold[:80]!r}, response ends {case.item.response[-120:]!r}"
            )


def _bench_stream(num_groups: int, pool: VerifierPool, baseline: MathVerify | None) -> None:
    items = make_stream(num_groups)
    pool.grade([Item(r"\sqrt{8}", r"\boxed{2\sqrt{2}}")])
    start = time.perf_counter()
    verdicts = pool.verify_batch(items)
    seconds = time.perf_counter() - start
    rate = len(items) / seconds
    accepted = int((verdicts == Verdict.CORRECT).sum())
    print(f"stream of {len(items)} ({accepted} correct): jaxrl-scope {rate:.0f}/s", end="")
    if baseline:
        baseline.grade("1", r"\boxed{1}")
        results = _baseline_results(items, baseline)
        base_rate = len(items) / sum(result.seconds for result in results)
        print(f", math-verify {base_rate:.0f}/s: {rate / base_rate:.1f}x", end="")
    print()


def main(argv: list[str]) -> None:
    """Run the benchmark; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="bench.py verifier", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", type=Path, help="case file (jsonl)")
    parser.add_argument("--groups", type=int, default=100, help="groups of 8 in the stream")
    parser.add_argument("--workers", type=int, default=1, help="worker processes of the verifier")
    parser.add_argument("--no-math-verify", action="store_true", help="leave the baseline out")
    args = parser.parse_args(argv)
    baseline = None if args.no_math_verify else MathVerify(_BASELINE_LIMIT_S)
    try:
        with VerifierPool(num_workers=args.workers, wall_limit_s=_WALL_LIMIT_S) as pool:
            if args.cases:
                _bench_cases(load_cases(args.cases), pool, baseline)
            _bench_stream(args.groups, pool, baseline)
    finally:
        if baseline:
            baseline.close()
