"""The training loop: one for all stages."""

import contextlib
import dataclasses
import math
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grain
import jax
import numpy as np

from jaxrl_scope.config import TrainConfig
from jaxrl_scope.data.problems import Problem
from jaxrl_scope.report.metrics import MetricsWriter, read_metrics
from jaxrl_scope.report.progress import Reporter
from jaxrl_scope.report.samples import SampleWriter
from jaxrl_scope.stages.phased import PhasedStage
from jaxrl_scope.stages.select import make_stage
from jaxrl_scope.train.ahead import Ahead
from jaxrl_scope.train.checkpoint import Checkpoints, Progress
from jaxrl_scope.train.experience import Experience, save_experience
from jaxrl_scope.train.optimizer import learning_rate, make_optimizer
from jaxrl_scope.train.pipeline import Pipeline
from jaxrl_scope.train.setup import Inputs, make_tools
from jaxrl_scope.train.update import TrainState, Updater, init_state
from jaxrl_scope.train.validation import validate


class TrainingError(RuntimeError):
    """Training cannot go on; the message says why and what to do."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run came to.

    Attributes:
      run_dir: where everything lies.
      update: updates done.
      interrupted: whether it stopped early, on SIGTERM or Ctrl-C.
      history: the rows of metrics.jsonl.
      experience: the last batch; None if no update was made.
    """

    run_dir: Path
    update: int
    interrupted: bool
    history: list[dict]
    experience: Experience | None


class Trainer:
    """One run, from its inputs to its last checkpoint."""

    def __init__(
        self,
        config: TrainConfig,
        inputs: Inputs,
        run_dir: Path,
        mesh: jax.sharding.Mesh | None,
        checkpoints: Path | None = None,
    ):
        """Set up, and restore the latest checkpoint if there is one.

        Args:
          config: settings.
          inputs: policy, problems and the rest.
          run_dir: where this process writes.
          mesh: devices; None for a single one.
          checkpoints: directory that all processes of the run share; RUN/checkpoints by default.
        """
        self.config, self.inputs, self.run_dir = config, inputs, run_dir
        if config.data.batch_problems > len(inputs.problems):
            raise ValueError(
                f"data.batch_problems ({config.data.batch_problems}) exceeds the "
                f"{len(inputs.problems)} problems of {config.data.problems}"
            )
        self._stage = make_stage(config, run_dir)
        self._tools = make_tools(config, inputs, mesh, run_dir)
        self._schedule = learning_rate(config.optimizer, config.num_steps)
        optimizer = make_optimizer(config.optimizer, config.num_steps)
        # A copy, since updates reuse the state's buffers; the initial weights serve as reference.
        params = jax.tree.map(lambda x: x.copy(), inputs.model)
        self._updater = Updater(
            optimizer,
            config.policy_loss,
            config.update,
            temperature=config.rollout.temperature,
            mesh=mesh,
            reference=inputs.model if config.loss.kl_coef > 0 else None,
        )
        checkpoints = (checkpoints or run_dir / "checkpoints").resolve()
        self._checkpoints = Checkpoints(checkpoints, config.checkpoint)
        self.state: TrainState = init_state(params, optimizer, mesh)
        self.progress = Progress(seed=config.seed)
        if self._checkpoints.latest() is not None:
            self.state, self.progress = self._checkpoints.restore(self.state)
            self._checkpoints.drop_after(self.progress.update)
            print(f"resuming after update {self.progress.update}")
            self._tools.sampler.load(self.state.params, self.progress.update)
        self._data = grain.MapDataset.source(inputs.problems).seed(config.seed).shuffle().repeat()
        self._stop = False
        self._pipeline = self._make_pipeline() if config.pipeline.update_interval > 1 else None
        self._ahead = Ahead(self._collect_aside, config.updates) if config.rollout.ahead else None

    def _make_pipeline(self) -> Pipeline:
        config, stage = self.config, self._stage
        if not isinstance(stage, PhasedStage):
            raise ValueError(
                f"stage {config.stage!r} is on-policy only (it routes or judges while it rolls "
                "out): leave pipeline.update_interval at 1"
            )
        return Pipeline(
            stage,
            self._tools,
            batch=self._batch,
            score=lambda experience: self._updater.score(self.state.params, experience),
            interval=config.pipeline.update_interval,
            last=config.updates,
            directory=self.run_dir / "phases",
            should_stop=lambda: self._stop,
        )

    def run(self) -> Result:
        """Train until the last update or until told to stop; always ends on a checkpoint."""
        config = self.config
        # With no checkpoint yet, the evaluation before the first update is made again too.
        done = self.progress.update if self._checkpoints.latest() is not None else -1
        writer = MetricsWriter(
            self.run_dir,
            tensorboard=config.log.tensorboard,
            wandb_project=config.log.wandb,
            after_update=done,
        )
        samples = SampleWriter(self.run_dir, after_update=done)
        experience = None
        with _on_termination(self._request_stop), Reporter(config) as reporter:
            try:
                if self._checkpoints.latest() is None:
                    self._record(0, self._evaluate(0), writer, reporter)
                for update in range(self.progress.update + 1, config.updates + 1):
                    if self._stop:
                        break
                    made = self._step(update)
                    if made is None:
                        break
                    experience, metrics = made
                    samples.write(update, experience.samples)
                    self._record(update, metrics, writer, reporter)
                self._save(self.progress, None)
            finally:
                writer.close()
                samples.close()
                if self._ahead:
                    self._ahead.close()
                self._stage.close()
                self._tools.close()
                self._checkpoints.close()
        return Result(
            run_dir=self.run_dir,
            update=self.progress.update,
            interrupted=self.progress.update < config.updates,
            history=read_metrics(self.run_dir / "metrics.jsonl"),
            experience=experience,
        )

    def _step(self, update: int) -> tuple[Experience, dict[str, float]] | None:
        """Collect one batch and learn from it; evaluate where it is due. None if told to stop."""
        config, tools = self.config, self._tools
        start = time.perf_counter()
        tools.seconds.clear()
        tools.sampling = dataclasses.replace(tools.sampling, update=update)
        experience = self._collect(update)
        if experience is None:
            return None
        tools.sampler.rest()
        with tools.timed("update"):
            key = jax.random.fold_in(jax.random.key(config.seed), update)
            lr = float(np.asarray(self._schedule(int(self.state.step))))
            self.state, metrics = self._updater.update(
                self.state, experience, key, config.rollout.group
            )
            self._check_finite(update, metrics, experience)
        if self._ahead:
            with tools.timed("wait"):
                self._ahead.wait()
        with tools.timed("sync"):
            tools.sampler.load(self.state.params, update)
        metrics |= dict(experience.metrics) | tools.sampler.metrics() | {"policy/lr": lr}
        seconds = dict(tools.seconds)
        seconds["total"] = time.perf_counter() - start
        if update == config.updates or (config.eval.every and update % config.eval.every == 0):
            metrics |= self._evaluate(update)
        return experience, metrics | {f"time/{name}_s": t for name, t in seconds.items()}

    def _collect(self, update: int) -> Experience | None:
        """The batch of an update; None if told to stop. With `ahead` the next one is begun."""
        if self._pipeline:
            return self._pipeline.experience(update)
        if self._ahead is None:
            return self._stage.collect(self._batch(update), self._tools)
        experience, seconds = self._ahead.take(update)
        self._tools.seconds |= seconds
        self._ahead.start(update + 1)
        return experience

    def _collect_aside(self, update: int) -> tuple[Experience, dict[str, float]]:
        """A batch made beside an update: with a clock and the sampler's numbers of its own."""
        sampling = dataclasses.replace(self._tools.sampling, update=update)
        tools = dataclasses.replace(self._tools, sampling=sampling, seconds={})
        experience = self._stage.collect(self._batch(update), tools)
        metrics = dict(experience.metrics) | tools.sampler.metrics()
        return dataclasses.replace(experience, metrics=metrics), tools.seconds

    def _batch(self, update: int) -> list[Problem]:
        """Return the problems of an update: a function of (seed, update) alone."""
        size = self.config.data.batch_problems
        drawn = (self._data[i] for i in range((update - 1) * size, update * size))
        return [problem for problem in drawn if problem is not None]

    def _evaluate(self, update: int) -> dict[str, float]:
        settings, problems = self.config.eval, self.inputs.validation
        if not problems:
            return {}
        between = 0 < update < self.config.updates
        if between and settings.limit:
            problems = problems[: settings.limit]
        self._tools.sampling = dataclasses.replace(self._tools.sampling, update=update)
        return validate(problems, self._tools, samples=settings.samples, greedy=settings.greedy)

    def _record(
        self, update: int, metrics: dict[str, float], writer: MetricsWriter, reporter: Reporter
    ) -> None:
        """Log one update and write a checkpoint where it is due."""
        accuracy = metrics.get("eval/accuracy")
        # Of equals the later one is the best: it is the one that the checkpoint manager keeps.
        better = accuracy is not None and accuracy >= self.progress.best_accuracy
        self.progress = dataclasses.replace(
            self.progress,
            update=update,
            best_update=update if better else self.progress.best_update,
            best_accuracy=accuracy if better else self.progress.best_accuracy,
        )
        writer.write(update, metrics)
        reporter.show(update, metrics)
        phase_ends = self._pipeline is not None and self._pipeline.is_boundary(update)
        if accuracy is not None or phase_ends or update % self.config.checkpoint.every == 0:
            self._save(self.progress, accuracy)

    def _save(self, progress: Progress, accuracy: float | None) -> None:
        self._checkpoints.save(self.state, progress, accuracy)

    def _check_finite(self, update: int, metrics: dict[str, float], experience: Experience) -> None:
        bad = [n for n in ("policy/loss", "policy/grad_norm") if not math.isfinite(metrics[n])]
        if bad:
            path = self.run_dir / f"batch-{update}.npz"
            save_experience(path, experience)
            raise TrainingError(
                f"update {update}: {' and '.join(bad)} is not finite. The batch is kept in {path} "
                "(jaxrl_scope.train.experience.load_experience reads it). The last checkpoint "
                f"(update {self._checkpoints.latest()}) is intact; lower optimizer.lr or set "
                "optimizer.max_grad_norm, and start a new run from it."
            )

    def _request_stop(self) -> None:
        self._stop = True
        self._tools.sampler.stop_waiting()


@contextlib.contextmanager
def _on_termination(callback: Callable[[], None]) -> Iterator[None]:
    """Call back on SIGTERM or Ctrl-C instead of dying; a second Ctrl-C dies at once."""

    def handle(number, frame):
        print(f"{signal.Signals(number).name}: finishing this update, then saving", flush=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        callback()

    old = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
