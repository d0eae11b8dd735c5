"""Samples for every problem, written as they come and never generated twice."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxrl_scope.data.append_log import AppendLog
from jaxrl_scope.data.problems import Problem
from jaxrl_scope.data.prompts import PromptBuilder, problem_text
from jaxrl_scope.evaluate.records import SampleRecord, record_to_row, row_to_record
from jaxrl_scope.rollout.types import Request, Rollouts, Sampler, SamplingParams, request_key


class LostRolloutsError(RuntimeError):
    """The sampler gave no usable rollout for some problem."""


def generate_samples(
    problems: Sequence[Problem],
    sampler: Sampler,
    prompts: PromptBuilder,
    tokenizer: Any,
    sampling: SamplingParams,
    path: str | Path,
    *,
    batch_problems: int = 16,
    on_batch: Callable[[int, int], None] = lambda done, total: None,
) -> list[SampleRecord]:
    """Sample every problem and append the samples to `path`, batch by batch.

    A problem whose samples are all in the file is not sampled again, so that an evaluation that
    was killed goes on where it stopped. Rollouts are keyed by (seed, problem, sample): what a
    resumed evaluation holds is what an uninterrupted one would.

    Args:
      problems: with distinct ids.
      sampler: holds the weights.
      prompts: turns problems into ids.
      tokenizer: turns ids back into text.
      sampling: n = `num_rollouts` samples per problem.
      path: JSONL file, created if missing.
      batch_problems: problems handed to the sampler at a time.
      on_batch: called with (problems done, problems in all).

    Returns:
      The samples of all problems, in the order of the problems.

    Raises:
      LostRolloutsError: the sampler lost a rollout; nothing of that batch is recorded.
      ValueError: the file holds something else than samples, or two problems share an id.
    """
    check_ids(problems)
    log = AppendLog(path)
    known = {(r.problem_id, r.sample): r for r in map(row_to_record, log.read_new())}
    indices = range(sampling.num_rollouts)
    missing = [p for p in problems if not all((p.id, g) in known for g in indices)]
    on_batch(len(problems) - len(missing), len(problems))
    for start in range(0, len(missing), batch_problems):
        batch = missing[start : start + batch_problems]
        requests = [Request(prompts.original(p), request_key(p.id, "evaluate")) for p in batch]
        rollouts = sampler.generate(requests, sampling)
        records = _to_records(batch, rollouts, tokenizer)
        log.append([record_to_row(record) for record in records])
        known |= {(record.problem_id, record.sample): record for record in records}
        on_batch(len(problems) - len(missing) + start + len(batch), len(problems))
    return [known[problem.id, g] for problem in problems for g in indices]


def _to_records(
    problems: Sequence[Problem], rollouts: Rollouts, tokenizer: Any
) -> list[SampleRecord]:
    if not rollouts.valid.all():
        lost = [p.id for p, valid in zip(problems, rollouts.valid, strict=True) if not valid.all()]
        raise LostRolloutsError(
            f"no usable rollout came back for some samples of {len(lost)} problems "
            f"({', '.join(lost[:5])}): a sampler was lost or gave NaN. What was sampled before is "
            "kept; mend the sampler and run the same command again."
        )
    records = []
    for b, problem in enumerate(problems):
        for g in range(rollouts.response_len.shape[1]):
            length = int(rollouts.response_len[b, g])
            ids = rollouts.response_ids[b, g, :length].tolist()
            records.append(
                SampleRecord(
                    problem_id=problem.id,
                    sample=g,
                    source=problem.source,
                    problem=problem_text(problem),
                    gold=problem.answer,
                    response=tokenizer.decode(ids, skip_special_tokens=True),
                    num_tokens=length,
                    finished=bool(rollouts.finished[b, g]),
                    task=problem.task,
                    choices=problem.choices,
                )
            )
    return records


def check_ids(problems: Sequence[Problem]) -> None:
    """Raise ValueError where two problems share an id: their samples could not be told apart."""
    seen: set[str] = set()
    for problem in problems:
        if problem.id in seen:
            raise ValueError(f"two problems have the id {problem.id!r}; ids must be distinct")
        seen.add(problem.id)
