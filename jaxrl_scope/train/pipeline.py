"""The off-policy pipeline: roll out many batches, judge them all, then update on one after another.

With one set of devices, a judge (or any slow grader) leaves them idle between a batch's rollouts
and its update. Here a phase of K batches is rolled out with the weights at its start, then rewarded
as a whole, then trained on, update by update, with importance ratios against those weights. Source:
TP-GRPO, Sec. 3.3.

Whatever a phase has made is on disk at once, so that a run killed in any part goes on where it was.
That needs a checkpoint at every phase's start (`is_boundary`): the weights that rolled out.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from jaxrl_scope.data.problems import Problem
from jaxrl_scope.stages.base import Tools
from jaxrl_scope.stages.phased import PhasedStage, Rolled
from jaxrl_scope.train.experience import Experience
from jaxrl_scope.train.phase_files import PhaseFiles


@dataclasses.dataclass(frozen=True)
class PipelineConfig:
    """Settings of the pipeline.

    Attributes:
      update_interval: K, batches per phase; 1 is on-policy, without the pipeline.
    """

    update_interval: int = 1

    def __post_init__(self):
        if self.update_interval < 1:
            raise ValueError(
                f"pipeline.update_interval must be at least 1, got {self.update_interval}"
            )


class PipelineError(RuntimeError):
    """A phase cannot go on; the message says why and what to do."""


class Pipeline:
    """Hands out the batch of each update, making a whole phase of them when one begins.

    Args:
      stage: what rolls out and rewards.
      tools: the run's tools; the sampler holds the weights after update `done` of `experience`.
      batch: problems of an update.
      score: log-probabilities of an experience's responses under the current weights, [R, T]
        float32.
      interval: K.
      last: last update of the run.
      directory: where the phases are kept.
      should_stop: asked between batches; True leaves a phase unfinished.
    """

    def __init__(
        self,
        stage: PhasedStage,
        tools: Tools,
        *,
        batch: Callable[[int], Sequence[Problem]],
        score: Callable[[Experience], np.ndarray],
        interval: int,
        last: int,
        directory: Path,
        should_stop: Callable[[], bool] = lambda: False,
    ):
        self._stage, self._tools = stage, tools
        self._batch, self._score, self._should_stop = batch, score, should_stop
        self._interval, self._last = interval, last
        self._files = PhaseFiles(directory)

    def is_boundary(self, update: int) -> bool:
        """Whether the weights after this update will roll out a phase."""
        return update % self._interval == 0

    def experience(self, update: int) -> Experience | None:
        """Return the batch of an update; None if told to stop before its phase was ready.

        Raises:
          PipelineError: the run was resumed within a phase whose files are gone.
        """
        begin = (update - 1) // self._interval * self._interval
        phase = range(begin + 1, min(begin + self._interval, self._last) + 1)
        if update == phase[0]:
            # The phase before is kept: its last checkpoint may turn out to be unreadable.
            self._files.drop_until(begin - self._interval)
            if not (self._roll(phase) and self._reward(phase)):
                return None
        experience = self._files.load_experience(update)
        if experience is None:
            raise PipelineError(
                f"update {update} needs the batch that was rolled out after update {begin}, but "
                f"{self._files.directory} no longer holds it, and the weights that made it are "
                "gone. Start a new run from the latest checkpoint."
            )
        stale = {"pipeline/staleness": float(update - phase[0])}
        return dataclasses.replace(experience, metrics=dict(experience.metrics) | stale)

    def _roll(self, phase: range) -> bool:
        """Roll out what the phase lacks; False if told to stop."""
        for update in phase:
            if self._files.has(update):
                continue
            if self._should_stop():
                return False
            self._roll_one(update)
        return True

    def _roll_one(self, update: int) -> None:
        self._tools.sampling = dataclasses.replace(self._tools.sampling, update=update)
        self._files.save_rolled(update, self._stage.roll(self._batch(update), self._tools))

    def _reward(self, phase: range) -> bool:
        """Reward what the phase has rolled out; False if told to stop."""
        for update in phase:
            if self._files.has_experience(update):
                continue
            if self._should_stop():
                return False
            problems = self._batch(update)
            experience = self._stage.reward(problems, self._rolled(update), self._tools)
            if self._interval > 1:
                old = self._score(experience)
                experience = dataclasses.replace(experience, old_logprobs=old)
            self._files.save_experience(update, experience)
        return True

    def _rolled(self, update: int) -> Rolled:
        """What was rolled out; once more if its file turns out to be damaged."""
        rolled = self._files.load_rolled(update, self._tools.tokenizer)
        if rolled is None:
            self._roll_one(update)
            rolled = self._files.load_rolled(update, self._tools.tokenizer)
        if rolled is None:
            raise PipelineError(f"{self._files.directory}: update {update} cannot be read back")
        return rolled
