"""Which problems to keep: no duplicates, prompts that fit, a reproducible subset."""

from collections.abc import Callable, Sequence

import numpy as np

from jaxrl_scope.data.columns import seeded_rank
from jaxrl_scope.data.mathtext import flatten, normalise
from jaxrl_scope.data.problems import Problem, problem_hash
from jaxrl_scope.data.rows import LoadReport
from jaxrl_scope.grading.verdicts import Item, Verdict

MIN_FORMULAS = 4
MIN_FORMULA_CHARS = 25  # brackets and spaces not counted


def problem_key(problem: Problem) -> str:
    """Two problems with the same key are one: same text and choices up to white space.

    The answer is left out on purpose: the same text with two gold answers is one problem whose
    label is in doubt, not two problems.
    """
    return problem_hash("\n".join((problem.text, *sorted(problem.choices or ()))), "")


def formula_key(problem: Problem) -> str | None:
    """Equal for one problem worded twice: all its formulas in order, and its answer.

    None where the formulas are too few or too short to tell problems apart.
    """
    formulas = [flatten(part) for part in normalise(problem.text).split("$")[1::2]]
    telling = "$".join(filter(None, formulas))
    if len(formulas) < MIN_FORMULAS or len(telling) < MIN_FORMULA_CHARS:
        return None
    return problem_hash(telling, problem.answer)


def drop_long_prompts(
    problems: Sequence[Problem],
    encode: Callable[[Problem], np.ndarray],
    max_prompt_len: int,
    report: LoadReport,
) -> list[Problem]:
    """Keep problems whose prompt has at most `max_prompt_len` tokens; report the others.

    Args:
      problems: candidates.
      encode: prompt ids of a problem, usually `PromptBuilder.original`.
      max_prompt_len: cap in tokens, chat template included.
      report: receives one drop per problem left out.
    """
    kept = []
    for problem in problems:
        length = len(encode(problem))
        if length <= max_prompt_len:
            kept.append(problem)
        else:
            detail = f"prompt of {length} tokens, the cap is {max_prompt_len}"
            report.drop(problem.id, "too long", detail)
    return kept


def drop_unverifiable(
    problems: Sequence[Problem],
    verify: Callable[[Sequence[Item]], Sequence[int] | np.ndarray],
    report: LoadReport,
) -> list[Problem]:
    """Keep problems whose gold answer the verifier accepts against itself; report the others.

    Of the others no rollout could ever be judged correct.

    Args:
      problems: candidates.
      verify: grades a batch, usually `VerifierPool.verify_batch`.
      report: receives one drop per problem left out.
    """
    items = [Item(p.answer, f"\\boxed{{{p.answer}}}", p.task, None, p.choices) for p in problems]
    kept = []
    for problem, verdict in zip(problems, verify(items), strict=True):
        if verdict == Verdict.CORRECT:
            kept.append(problem)
        else:
            detail = f"the verifier does not accept {problem.answer[:80]!r} against itself"
            report.drop(problem.id, "gold not verifiable", detail)
    return kept


def subset(
    problems: Sequence[Problem], size: int, *, seed: int, report: LoadReport | None = None
) -> list[Problem]:
    """Draw `size` problems by seed, in their given order.

    The draw depends on (seed, ids) alone: not on the order of the file, nor on what stands beside
    a problem, and a smaller subset of one seed lies inside a larger one.

    Raises:
      ValueError: size below 1, or more than there are problems.
    """
    if not 1 <= size <= len(problems):
        raise ValueError(f"cannot draw a subset of {size} from {len(problems)} problems")
    ranked = sorted(problems, key=lambda problem: seeded_rank(seed, problem.id))
    drawn = {problem.id for problem in ranked[:size]}
    if report is not None:
        for problem in problems:
            if problem.id not in drawn:
                report.drop(problem.id, "not in subset", f"seed {seed}")
    return [problem for problem in problems if problem.id in drawn]
