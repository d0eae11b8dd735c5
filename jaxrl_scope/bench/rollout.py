"""Speed of the sampler that training uses: 8 rollouts of each prompt, all of full length."""

import itertools
import time

from jaxrl_scope.bench import measure, workload
from jaxrl_scope.rollout.jax_sampler import JaxSampler
from jaxrl_scope.rollout.types import Request, SamplingParams, request_key

CACHE_BYTES = 48 * 2**30  # all rows at once


def run(job: measure.Job, clock: measure.Clock, seconds: float) -> dict:
    """Time rollouts; returns the fields of the JSON line."""
    began = time.perf_counter()
    sampler = JaxSampler(job.cfg, job.build(), cache_bytes=CACHE_BYTES)
    prompts = workload.rollout_prompts(job.cfg, job.sizes)
    requests = [Request(ids, request_key(str(i))) for i, ids in enumerate(prompts)]
    updates = itertools.count()

    def call() -> float:
        length = job.sizes.response_len
        params = SamplingParams(job.sizes.group, length, update=next(updates))
        rollouts = sampler.generate(requests, params)
        # The configs have no end-of-text token.
        assert (rollouts.response_len == length).all()
        return float(rollouts.logprobs.mean())

    start_s = time.perf_counter() - began
    return measure.measure("rollout", job, call, clock=clock, seconds=seconds, start_s=start_s)


def main(argv: list[str]) -> int:
    """Run the benchmark; see the module's docstring."""
    return measure.run_all("rollout", __doc__, run, argv)
