"""Speed of the log-probabilities of given responses, without gradient."""

import time

import jax
import numpy as np

from jaxrl_scope.bench import measure, workload
from jaxrl_scope.bench.train import make_updater, microbatches


def main(argv: list[str]) -> int:
    """Run the benchmark; see the module's docstring."""
    began = time.perf_counter()
    options = measure.parser("logprob", __doc__).parse_args(argv)
    clock = measure.Clock()
    cfg = workload.MODELS[options.model]
    updater, _ = make_updater()
    model, batches = workload.build(cfg), microbatches(cfg)

    def call() -> float:
        logprobs = [updater.logprobs(model, batch) for batch in batches]
        return float(np.mean(np.concatenate(jax.device_get(logprobs))))

    measure.report(
        measure.measure(
            "logprob",
            options.model,
            call,
            clock=clock,
            seconds=options.seconds,
            start_s=time.perf_counter() - began,
        )
    )
    return 0
