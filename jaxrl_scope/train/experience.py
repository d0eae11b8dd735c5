"""What a stage hands to the trainer."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl_scope.data.rows import write_atomic


@dataclasses.dataclass(frozen=True)
class Sample:
    """One rollout in words, for people to read.

    Attributes:
      problem_id: the problem it answers.
      prompt: the prompt as text.
      response: the response as text.
      reward: what was trained on.
      verdict: 1 correct, 0 incorrect, -1 grading failed.
      scaffolded: whether the prompt was a scaffold.
      steps: where a judge labelled it, its steps with the names of their labels; together they are
        the response.
    """

    problem_id: str
    prompt: str
    response: str
    reward: float
    verdict: int
    scaffolded: bool
    steps: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Experience:
    """One batch of rollouts, R = B * G rows, group-major (row b * G + g). Plain numpy.

    Attributes:
      prompt_ids: [R, P] int32, left-padded.
      prompt_len: [R] int32.
      response_ids: [R, T] int32, right-padded.
      response_len: [R] int32.
      rollout_logprobs: [R, T] float32, as the sampler reported them.
      advantages: [R, T] float32.
      mask: [R, T] bool, the tokens that enter the loss: response tokens of rollouts that were
        graded, less whatever the stage leaves out.
      metrics: numbers to log, by name.
      samples: a few rollouts in words.
      old_logprobs: [R, T] float32 under the trainer's weights that the rollouts came from; None
        where those are the current ones.
    """

    prompt_ids: np.ndarray
    prompt_len: np.ndarray
    response_ids: np.ndarray
    response_len: np.ndarray
    rollout_logprobs: np.ndarray
    advantages: np.ndarray
    mask: np.ndarray
    metrics: Mapping[str, float]
    samples: tuple[Sample, ...] = ()
    old_logprobs: np.ndarray | None = None

    @property
    def num_rows(self) -> int:
        """R."""
        return self.prompt_ids.shape[0]


def save_experience(path: Path, experience: Experience) -> None:
    """Write the arrays of a batch as one npz file; metrics and samples are left out."""
    arrays: dict[str, Any] = {
        field.name: value
        for field in dataclasses.fields(experience)
        if isinstance(value := getattr(experience, field.name), np.ndarray)
    }
    write_atomic(path, lambda file: np.savez_compressed(file, **arrays))


def load_experience(path: Path) -> Experience:
    """Read what `save_experience` wrote."""
    with np.load(path) as file:
        return Experience(**{name: file[name] for name in file.files}, metrics={})
