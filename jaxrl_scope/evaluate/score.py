"""Verdicts and step labels for samples: the verifier decides correctness, the judge never does."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from jaxrl_scope.evaluate.records import SampleRecord
from jaxrl_scope.grading import Item, Verdict, VerifierPool
from jaxrl_scope.grading.judge import Judge, JudgeItem


def grade_samples(
    records: Sequence[SampleRecord], verifier: VerifierPool, *, lenient: bool = False
) -> list[SampleRecord]:
    """Verify the final answers; a truncated response is incorrect whatever it says.

    Args:
      records: samples; verdicts they may carry are replaced.
      verifier: decides.
      lenient: also read an unboxed final statement.
    """
    items = [
        Item(r.gold, r.response, task=r.task, choices=r.choices, lenient=lenient) for r in records
    ]
    verdicts = verifier.verify_batch(items)
    finished = np.array([record.finished for record in records], bool)
    verdicts = np.where(finished, verdicts, Verdict.INCORRECT)
    return [
        dataclasses.replace(record, verdict=Verdict(int(verdict)))
        for record, verdict in zip(records, verdicts, strict=True)
    ]


def judge_samples(
    records: Sequence[SampleRecord], judge: Judge, *, only_correct: bool = False
) -> list[SampleRecord]:
    """Label the steps of every finished sample; truncated ones have no complete trace to judge.

    Args:
      records: graded samples; judgements they may carry are replaced.
      judge: labels.
      only_correct: judge correct samples alone (Figure 1b's composition, at lower cost).
    """
    chosen = [
        index
        for index, record in enumerate(records)
        if record.finished and (not only_correct or record.verdict == Verdict.CORRECT)
    ]
    items = [JudgeItem(r.problem, r.response, r.gold) for r in (records[i] for i in chosen)]
    judgements = dict(zip(chosen, judge.label_steps(items), strict=True))
    return [
        dataclasses.replace(record, judgement=judgements.get(index))
        for index, record in enumerate(records)
    ]
