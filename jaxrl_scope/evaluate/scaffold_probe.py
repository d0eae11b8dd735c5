"""Does progress on prerequisites foretell success? The probe of SCOPE-RL, Figure 1a.

The same problems are answered under the scaffold prompt and under the original prompt. Scaffold
responses are binned by the length of their all-correct prefix of sub-answers; each bin compares the
main-answer accuracy under the scaffold with that of the same problems under the original prompt.
Source: SCOPE-RL, Appendix C. Deviation: with several samples a problem, each scaffold response
enters its bin with the mean original accuracy of its problem.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.prompts import PromptBuilder
from jaxrl_scope.evaluate.intervals import accuracy_interval
from jaxrl_scope.grading import Item, Verdict, VerifierPool
from jaxrl_scope.rollout.types import Request, Rollouts, Sampler, SamplingParams, request_key
from rewards import prefix_length


@dataclasses.dataclass(frozen=True)
class ProbeSample:
    """One scaffold response, beside what its problem came to without the scaffold.

    Attributes:
      problem_id: `Problem.id`.
      sample: index of the response.
      prefix: number of consecutive right sub-answers from the first one on, 0..m.
      main_correct: whether the main answer is right; False where truncated.
      original_accuracy: share of right answers of the same problem on the original prompt.
      response: text of the scaffold response.
    """

    problem_id: str
    sample: int
    prefix: int
    main_correct: bool
    original_accuracy: float
    response: str


def choose_problems(
    problems: Sequence[Problem], scaffolds: Mapping[str, Scaffold], num_sub: int
) -> list[tuple[Problem, Scaffold]]:
    """The problems whose scaffold has exactly `num_sub` sub-questions (one chain length).

    Raises:
      ValueError: there is none; the message lists the lengths there are.
    """
    pairs = [(p, scaffolds[p.id]) for p in problems if p.id in scaffolds]
    chosen = [(p, s) for p, s in pairs if s.num_sub == num_sub]
    if not chosen:
        known = sorted({scaffold.num_sub for _, scaffold in pairs})
        raise ValueError(
            f"no problem has a scaffold of {num_sub} sub-questions; lengths there are: {known}"
        )
    return chosen


def probe_scaffolds(
    pairs: Sequence[tuple[Problem, Scaffold]],
    sampler: Sampler,
    prompts: PromptBuilder,
    tokenizer: Any,
    verifier: VerifierPool,
    sampling: SamplingParams,
) -> list[ProbeSample]:
    """Answer every problem under both prompts and grade all answers.

    Responses that could not be graded or did not come back are left out.

    Raises:
      ValueError: nothing was left to count.
    """
    original = _original_accuracy([p for p, _ in pairs], sampler, prompts, tokenizer, verifier,
                                  sampling)  # fmt: skip
    rollouts, texts = _sample(
        sampler, [prompts.scaffold(s) for _, s in pairs], [p.id for p, _ in pairs], "scaffold",
        tokenizer, sampling,
    )  # fmt: skip
    repeated = [scaffold for _, scaffold in pairs for _ in range(sampling.num_rollouts)]
    sub, main = verifier.verify_scaffolds(texts, repeated)
    num_sub = np.array([scaffold.num_sub for scaffold in repeated], np.int32)
    prefix = np.asarray(prefix_length(sub == Verdict.CORRECT, num_sub))
    finished = rollouts.finished.reshape(-1)
    graded = (sub != Verdict.FAILED).all(axis=1) & (main != Verdict.FAILED)
    graded &= rollouts.valid.reshape(-1)
    samples = []
    for row in np.flatnonzero(graded):
        b, g = divmod(int(row), sampling.num_rollouts)
        accuracy = original[b]
        if accuracy is not None:
            samples.append(
                ProbeSample(
                    problem_id=pairs[b][0].id,
                    sample=g,
                    prefix=int(prefix[row]),
                    main_correct=bool(main[row] == Verdict.CORRECT and finished[row]),
                    original_accuracy=accuracy,
                    response=texts[row],
                )
            )
    if not samples:
        raise ValueError("not one response could be graded under both prompts")
    return samples


def _original_accuracy(
    problems: Sequence[Problem],
    sampler: Sampler,
    prompts: PromptBuilder,
    tokenizer: Any,
    verifier: VerifierPool,
    sampling: SamplingParams,
) -> list[float | None]:
    """Accuracy of each problem on the original prompt; None where nothing could be graded."""
    rollouts, texts = _sample(
        sampler, [prompts.original(p) for p in problems], [p.id for p in problems], "original",
        tokenizer, sampling,
    )  # fmt: skip
    repeated = [problem for problem in problems for _ in range(sampling.num_rollouts)]
    items = [
        Item(p.answer, text, task=p.task, choices=p.choices)
        for p, text in zip(repeated, texts, strict=True)
    ]
    verdicts = verifier.verify_batch(items).reshape(rollouts.finished.shape)
    correct = (verdicts == Verdict.CORRECT) & rollouts.finished
    counted = (verdicts != Verdict.FAILED) & rollouts.valid
    return [
        float(row[mask].mean()) if mask.any() else None
        for row, mask in zip(correct, counted, strict=True)
    ]


def _sample(
    sampler: Sampler,
    prompt_ids: Sequence[np.ndarray],
    names: Sequence[str],
    variant: str,
    tokenizer: Any,
    sampling: SamplingParams,
) -> tuple[Rollouts, list[str]]:
    """Rollouts and the texts of all of them, group-major."""
    requests = [
        Request(ids, request_key(name, f"probe-{variant}"))
        for ids, name in zip(prompt_ids, names, strict=True)
    ]
    rollouts = sampler.generate(requests, sampling)
    rows = [
        ids[:length].tolist()
        for group, lengths in zip(rollouts.response_ids, rollouts.response_len, strict=True)
        for ids, length in zip(group, lengths, strict=True)
    ]
    return rollouts, tokenizer.batch_decode(rows, skip_special_tokens=True)


@dataclasses.dataclass(frozen=True)
class Bin:
    """Responses with one length of the correct prefix.

    Attributes:
      prefix: that length.
      num_samples: scaffold responses in the bin.
      num_problems: problems they belong to.
      scaffold_accuracy: main-answer accuracy under the scaffold prompt.
      scaffold_interval: its 95 % interval, problems as clusters.
      original_accuracy: accuracy of the same problems under the original prompt.
    """

    prefix: int
    num_samples: int
    num_problems: int
    scaffold_accuracy: float
    scaffold_interval: tuple[float, float]
    original_accuracy: float


def bin_by_prefix(samples: Sequence[ProbeSample]) -> list[Bin]:
    """One bin per prefix length that occurs, shortest first."""
    bins = []
    for prefix in sorted({sample.prefix for sample in samples}):
        members = [sample for sample in samples if sample.prefix == prefix]
        correct = [sample.main_correct for sample in members]
        names = [sample.problem_id for sample in members]
        bins.append(
            Bin(
                prefix=prefix,
                num_samples=len(members),
                num_problems=len(set(names)),
                scaffold_accuracy=float(np.mean(correct)),
                scaffold_interval=accuracy_interval(correct, names),
                original_accuracy=float(np.mean([s.original_accuracy for s in members])),
            )
        )
    return bins
