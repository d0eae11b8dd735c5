"""Accuracy on the original prompts of the validation problems."""

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from jaxrl_scope.data.problems import Problem
from jaxrl_scope.grading import Verdict
from jaxrl_scope.stages.base import Tools, grade_outcome, roll_out


def validate(
    problems: Sequence[Problem], tools: Tools, *, samples: int, greedy: bool
) -> dict[str, float]:
    """Answer every problem `samples` times at the training temperature, and once greedily.

    Returns:
      `eval/accuracy` and `eval/accuracy/DIFFICULTY` (share of correct rollouts; a truncated one is
      incorrect, one that could not be graded is left out), the same under `eval/accuracy_greedy`,
      and `eval/response_length`, tokens.
    """
    tempered = dataclasses.replace(tools.sampling, num_rollouts=samples)
    out = _accuracy(problems, tools, tempered, "eval/accuracy")
    if greedy:
        single = dataclasses.replace(tools.sampling, num_rollouts=1, temperature=0.0)
        out |= _accuracy(problems, tools, single, "eval/accuracy_greedy")
        del out["eval/accuracy_greedy/response_length"]
    out["eval/response_length"] = out.pop("eval/accuracy/response_length")
    return out


def _accuracy(problems, tools: Tools, sampling, name: str) -> dict[str, float]:
    tools = dataclasses.replace(tools, sampling=sampling)
    prompts = [tools.prompts.original(problem) for problem in problems]
    groups = roll_out(tools, prompts, [problem.id for problem in problems], "eval")
    verdicts = grade_outcome(tools, problems, groups)
    by_difficulty = defaultdict(list)
    for problem, row in zip(problems, verdicts, strict=True):
        by_difficulty[problem.difficulty].append(row)
    out = {name: share_correct(verdicts)}
    for difficulty in sorted(filter(None, by_difficulty)):
        out[f"{name}/{difficulty}"] = share_correct(np.array(by_difficulty[difficulty]))
    out[f"{name}/response_length"] = float(groups.rollouts.response_len.mean())
    return out


def share_correct(verdicts: np.ndarray) -> float:
    """Share of CORRECT among the verdicts that are not FAILED; 0 for none."""
    graded = verdicts[verdicts != Verdict.FAILED]
    return float((graded == Verdict.CORRECT).mean()) if graded.size else 0.0
