"""What all stages share: interface, tools, and the road from prompts to `Experience`."""

import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.prompts import PromptBuilder
from jaxrl_scope.grading import Item, Verdict
from jaxrl_scope.rollout.types import (
    Request,
    Rollouts,
    Sampler,
    SamplingParams,
    request_key,
)
from jaxrl_scope.train.experience import Experience, Sample
from rewards import effective_gradient_ratio, group_advantages

NUM_SAMPLES_KEPT = 4


class Verifier(Protocol):
    """Answers, or programs, to verdicts."""

    def verify_batch(self, items: Sequence[Item]) -> np.ndarray:
        """Grade K responses; returns [K] int8 `Verdict` values, in order."""
        ...

    def verify_scaffolds(
        self, responses: Sequence[str], scaffolds: Sequence[Scaffold]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Grade K scaffolded responses; returns [K, M] and [K] int8 `Verdict` values."""
        ...

    def close(self) -> None:
        """Stop its processes."""
        ...


@dataclasses.dataclass
class Tools:
    """What a stage works with; built once a run by the training loop.

    Attributes:
      sampler: generates rollouts with the current weights.
      prompts: turns problems and scaffolds into token ids.
      tokenizer: turns response ids back into text for the graders.
      verifier: answers to verdicts.
      scaffolds: scaffold of each problem that has one, by problem id.
      sampling: how to sample; `update` is set at every update.
      ddof: of the group standard deviation.
      seconds: time spent per phase since the loop last emptied it.
    """

    sampler: Sampler
    prompts: PromptBuilder
    tokenizer: Any
    verifier: Verifier
    scaffolds: Mapping[str, Scaffold]
    sampling: SamplingParams
    ddof: Literal[0, 1] = 0
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time that the block takes to `seconds[phase]`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start

    def close(self) -> None:
        """Stop the sampler's and the verifier's processes."""
        self.sampler.close()
        self.verifier.close()


class Stage(Protocol):
    """Turns a batch of problems into what the trainer learns from.

    A stage holds no model code and the trainer no knowledge of which stage it serves.
    """

    def collect(self, problems: Sequence[Problem], tools: Tools) -> Experience:
        """Roll out, grade and reward one batch."""
        ...

    def close(self) -> None:
        """Release what the stage itself holds, a judge say."""
        ...


@dataclasses.dataclass(frozen=True)
class Groups:
    """Rollouts of B prompts with what was sent and what came back, in words.

    Attributes:
      prompt_ids: B arrays of token ids.
      rollouts: the responses.
      texts: B lists of G response texts, without the end-of-text token.
    """

    prompt_ids: list[np.ndarray]
    rollouts: Rollouts
    texts: list[list[str]]

    def __len__(self) -> int:
        """B."""
        return len(self.prompt_ids)


def roll_out(
    tools: Tools, prompt_ids: Sequence[np.ndarray], names: Sequence[str], variant: str
) -> Groups:
    """Sample a group for every prompt.

    Args:
      tools: the run's tools.
      prompt_ids: B arrays of token ids.
      names: B problem ids; with `variant` they name the prompts in the random stream. A problem
        that stands twice in the batch gets a different stream each time.
      variant: "original", "scaffold", ...
    """
    seen: Counter = Counter()
    requests = []
    for ids, name in zip(prompt_ids, names, strict=True):
        requests.append(Request(ids, request_key(name, variant, seen[name])))
        seen[name] += 1
    with tools.timed("rollout"):
        rollouts = tools.sampler.generate(requests, tools.sampling)
        texts = decode(tools.tokenizer, rollouts)
    return Groups(list(prompt_ids), rollouts, texts)


def join_groups(parts: Sequence[Groups]) -> Groups:
    """Put the groups of several parts of a batch, sampled alike, one after another."""
    fields = {
        field.name: np.concatenate([getattr(part.rollouts, field.name) for part in parts])
        for field in dataclasses.fields(Rollouts)
    }
    return Groups(
        [ids for part in parts for ids in part.prompt_ids],
        Rollouts(**fields),
        [texts for part in parts for texts in part.texts],
    )


def decode(tokenizer, rollouts: Rollouts) -> list[list[str]]:
    """Turn response ids into text, without special tokens: B lists of G strings."""
    num_prompts, num_rollouts = rollouts.response_len.shape
    rows = [
        ids[:length].tolist()
        for ids, length in zip(
            rollouts.response_ids.reshape(num_prompts * num_rollouts, -1),
            rollouts.response_len.reshape(-1),
            strict=True,
        )
    ]
    flat = tokenizer.batch_decode(rows, skip_special_tokens=True)
    return [flat[b * num_rollouts : (b + 1) * num_rollouts] for b in range(num_prompts)]


def grade_outcome(tools: Tools, problems: Sequence[Problem], groups: Groups) -> np.ndarray:
    """Verify the final answers: [B, G] int8 of `Verdict` values.

    A truncated response is incorrect whatever it says; a rollout that did not come back failed.
    """
    items = [
        Item(problem.answer, text, task=problem.task, choices=problem.choices)
        for problem, texts in zip(problems, groups.texts, strict=True)
        for text in texts
    ]
    with tools.timed("grade"):
        verdicts = tools.verifier.verify_batch(items).reshape(groups.rollouts.finished.shape)
    return settle(verdicts, groups.rollouts)


def settle(verdicts: np.ndarray, rollouts: Rollouts) -> np.ndarray:
    """Overrule verdicts [B, G] of truncated (incorrect) and lost (failed) rollouts."""
    verdicts = np.where(rollouts.finished, verdicts, Verdict.INCORRECT)
    return np.where(rollouts.valid, verdicts, Verdict.FAILED).astype(np.int8)


def build_experience(
    tools: Tools,
    problems: Sequence[Problem],
    groups: Groups,
    rewards: np.ndarray,
    verdicts: np.ndarray,
    *,
    scaffolded: np.ndarray,
    advantages: np.ndarray | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Experience:
    """Turn rewarded groups into rows for the trainer.

    Args:
      tools: the run's tools.
      problems: the B problems of the groups.
      groups: B groups of G rollouts.
      rewards: [B, G] float, what is trained on.
      verdicts: [B, G] int8; FAILED leaves a rollout out of its group and of the loss.
      scaffolded: [B] bool, groups that were rolled out on a scaffold.
      advantages: [B, G, T] per token; None normalises `rewards` over each group.
      metrics: the stage's own numbers, added to the common ones.
    """
    rollouts = groups.rollouts
    num_prompts, num_rollouts, width = rollouts.response_ids.shape
    keep = verdicts != Verdict.FAILED
    rewards = np.where(keep, rewards, 0.0).astype(np.float32)
    if advantages is None:
        per_rollout = np.asarray(group_advantages(rewards, keep, ddof=tools.ddof))
        advantages = np.broadcast_to(per_rollout[..., None], rollouts.response_ids.shape)
    mask = keep[..., None] & (np.arange(width) < rollouts.response_len[..., None])
    prompt_ids, prompt_len = pad_left(groups.prompt_ids, num_rollouts)
    flat = (num_prompts * num_rollouts, width)  # [B, G, T] -> [R, T]
    return Experience(
        prompt_ids=prompt_ids,
        prompt_len=prompt_len,
        response_ids=rollouts.response_ids.reshape(flat),
        response_len=rollouts.response_len.reshape(-1),
        rollout_logprobs=rollouts.logprobs.reshape(flat),
        advantages=np.ascontiguousarray(advantages, dtype=np.float32).reshape(flat),
        mask=mask.reshape(flat),
        metrics=reward_metrics(rewards, keep, rollouts) | dict(metrics or {}),
        samples=pick_samples(tools, problems, groups, rewards, verdicts, scaffolded),
    )


def reward_metrics(rewards: np.ndarray, keep: np.ndarray, rollouts: Rollouts) -> dict[str, float]:
    """Numbers that every stage logs; `rewards` and `keep` are [B, G]."""
    lengths = rollouts.response_len[rollouts.valid]
    return {
        "reward/mean": masked_mean(rewards, keep),
        "reward/std": float(rewards[keep].std()) if keep.any() else 0.0,
        "eta_r": float(effective_gradient_ratio(rewards, keep)),
        "grade/failed": float((~keep).sum()),
        "response_length/mean": float(lengths.mean()) if lengths.size else 0.0,
        "response_length/max": float(lengths.max()) if lengths.size else 0.0,
        "response_length/clip_ratio": masked_mean(~rollouts.finished, rollouts.valid),
    }


def masked_mean(values: np.ndarray, mask: np.ndarray) -> float:
    """Mean over the entries where `mask` is True; 0 for none."""
    return float(values[mask].mean()) if mask.any() else 0.0


def pad_left(prompt_ids: Sequence[np.ndarray], repeats: int) -> tuple[np.ndarray, np.ndarray]:
    """Left-pad B prompts with 0 to [B * repeats, P] and return their lengths [B * repeats]."""
    lengths = np.array([len(ids) for ids in prompt_ids], np.int32)
    padded = np.zeros((len(prompt_ids), lengths.max()), np.int32)
    for row, ids in zip(padded, prompt_ids, strict=True):
        row[len(row) - len(ids) :] = ids
    return np.repeat(padded, repeats, axis=0), np.repeat(lengths, repeats)


def pick_samples(
    tools: Tools,
    problems: Sequence[Problem],
    groups: Groups,
    rewards: np.ndarray,
    verdicts: np.ndarray,
    scaffolded: np.ndarray,
) -> tuple[Sample, ...]:
    """Keep the first rollout of a few groups, scaffolded ones first, in words."""
    order = np.argsort(~np.asarray(scaffolded), kind="stable")[:NUM_SAMPLES_KEPT]
    return tuple(
        Sample(
            problem_id=problems[b].id,
            prompt=tools.tokenizer.decode(groups.prompt_ids[b]),
            response=groups.texts[b][0],
            reward=float(rewards[b, 0]),
            verdict=int(verdicts[b, 0]),
            scaffolded=bool(scaffolded[b]),
        )
        for b in order
    )
