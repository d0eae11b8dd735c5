"""Responses and ground truths to rewards: what the adapters of all trainers share.

A ground truth is either one answer (a text), for a response to the original prompt, or the
published form {"sub1": ..., ..., "main": ...}, for a response to a scaffolded prompt. A batch may
mix the two, as the routed batches of SCOPE-RL do (Eq. 11).
"""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from jaxrl_scope.grading.pool import VerifierPool
from jaxrl_scope.grading.verdicts import Item, Verdict
from rewards import asr_reward

RewardKind = Literal["asr", "outcome"]

_M_MULTIPLE = 16  # sub-answers are padded to a multiple of this, so that few shapes are compiled


class Score(NamedTuple):
    """One graded response."""

    reward: float | None  # None where the verifier failed: neither right nor wrong
    correct: bool  # the main answer is right
    prefix_share: float  # leading right sub-answers over their number; 0 without a scaffold


def score(
    responses: Sequence[str],
    ground_truths: Sequence[Any],
    *,
    kind: RewardKind = "asr",
    beta: float = 0.5,
) -> list[Score]:
    """Grades responses and gives each its reward.

    Args:
      responses: [K] texts. A truncated one cannot be told from its text: it counts as it reads.
      ground_truths: [K] answers, mappings as above, or such mappings as JSON text.
      kind: "asr" gives R_ASR where there is a scaffold and the outcome reward elsewhere; "outcome"
        gives the outcome reward of the main answer everywhere.
      beta: weight of the prefix term of R_ASR, in [0, 1].

    Returns:
      [K] scores.

    Raises:
      ValueError: lengths that differ, an unknown kind, a ground truth of neither form, `beta`
        outside [0, 1].
    """
    if kind not in ("asr", "outcome"):
        raise ValueError(f"kind must be 'asr' or 'outcome'; got {kind!r}")
    if len(responses) != len(ground_truths):
        raise ValueError(f"{len(responses)} responses for {len(ground_truths)} ground truths")
    golds = [_read(truth) for truth in ground_truths]
    sub, num_sub, main = _grade(responses, golds)
    failed = (main == Verdict.FAILED) | (sub == Verdict.FAILED).any(axis=1)
    correct = main == Verdict.CORRECT
    scaffold = np.array([len(gold) > 1 for gold in golds], np.bool_)
    asr, prefix_share = (np.asarray(x) for x in _rewards(sub, num_sub, correct, beta=beta))
    reward = np.where(scaffold, asr, correct) if kind == "asr" else correct
    return [
        Score(
            None if failed[k] else float(reward[k]),
            bool(correct[k]),
            float(prefix_share[k]) if scaffold[k] else 0.0,
        )
        for k in range(len(golds))
    ]


def last_message(completion: Any) -> str:
    """The text of a completion: itself, or the content of the last of its chat messages."""
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"] if completion else None
    if not isinstance(content, str):
        raise ValueError(f"expected a text or chat messages with text content; got {completion!r}")
    return content


@functools.partial(jax.jit, static_argnames="beta")
def _rewards(
    sub: jax.Array, num_sub: jax.Array, correct: jax.Array, *, beta: float
) -> tuple[jax.Array, jax.Array]:
    """R_ASR, and the share of leading right sub-answers, which is R_ASR with all weight on it."""
    return (
        asr_reward(sub, num_sub, correct, beta=beta),
        asr_reward(sub, num_sub, correct, beta=1.0),
    )


def _grade(
    responses: Sequence[str], golds: Sequence[tuple[str, ...]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Verdicts [K, M] of sub-answers, their true numbers [K] (1 if none), verdicts [K] of main."""
    items, cells = [], []
    for k, (response, gold) in enumerate(zip(responses, golds, strict=True)):
        for i, answer in enumerate(gold[:-1]):
            items.append(Item(answer, response, label=f"SUB-{i + 1}"))
            cells.append((k, i))
        items.append(Item(gold[-1], response, label="MAIN" if len(gold) > 1 else None))
        cells.append((k, -1))
    most = max((len(gold) - 1 for gold in golds), default=0)
    verdicts = np.zeros((len(golds), -(-max(most, 1) // _M_MULTIPLE) * _M_MULTIPLE + 1), np.int8)
    if cells:
        verdicts[tuple(np.transpose(cells))] = _shared_pool().verify_batch(items)
    num_sub = np.array([max(len(gold) - 1, 1) for gold in golds], np.int32)
    return verdicts[:, :-1], num_sub, verdicts[:, -1]


@functools.lru_cache(maxsize=1)
def _shared_pool() -> VerifierPool:
    return VerifierPool()


def _read(ground_truth: Any) -> tuple[str, ...]:
    """The sub-answers in order, then the main answer; the answer alone without a scaffold."""
    given = ground_truth
    if isinstance(given, str):
        if not given.lstrip().startswith('{"'):
            return (given,)
        try:
            given = json.loads(given)
        except json.JSONDecodeError:
            return (ground_truth,)  # a set or an expression that starts with a brace
    if not isinstance(given, Mapping):
        raise ValueError(
            'a ground truth must be a text or {"sub1": ..., "main": ...}; '
            f"got {type(ground_truth).__name__}"
        )
    # Parquet fills the keys that other rows have with nulls.
    answers = {key: value for key, value in given.items() if value is not None}
    keys = [*(f"sub{i}" for i in range(1, len(answers))), "main"]
    if set(answers) != set(keys) or not all(isinstance(a, str) for a in answers.values()):
        raise ValueError(
            "a scaffold's ground truth must hold texts under sub1, sub2, ... and main, without "
            f"gaps; got {answers}"
        )
    return tuple(answers[key] for key in keys)
