"""Speed of the log-probabilities of given responses, without gradient."""

import time

import jax
import numpy as np

from jaxrl_scope.bench import measure
from jaxrl_scope.bench.train import make_updater, microbatches


def run(job: measure.Job, clock: measure.Clock, seconds: float) -> dict:
    """Time log-probabilities; returns the fields of the JSON line."""
    began = time.perf_counter()
    updater, _ = make_updater()
    model, batches = job.build(), microbatches(job)

    def call() -> float:
        logprobs = [updater.logprobs(model, batch) for batch in batches]
        return float(np.mean(np.concatenate(jax.device_get(logprobs))))

    start_s = time.perf_counter() - began
    return measure.measure("logprob", job, call, clock=clock, seconds=seconds, start_s=start_s)


def main(argv: list[str]) -> int:
    """Run the benchmark; see the module's docstring."""
    return measure.run_all("logprob", __doc__, run, argv)
