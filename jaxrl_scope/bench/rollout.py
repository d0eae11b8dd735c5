"""Speed of the sampler that training uses: 8 rollouts of each of 8 prompts, 128 new tokens each."""

import itertools
import time

from jaxrl_scope.bench import measure, workload
from jaxrl_scope.rollout.jax_sampler import JaxSampler
from jaxrl_scope.rollout.types import Request, SamplingParams, request_key


def main(argv: list[str]) -> int:
    """Run the benchmark; see the module's docstring."""
    began = time.perf_counter()
    options = measure.parser("rollout", __doc__).parse_args(argv)
    clock = measure.Clock()
    cfg = workload.MODELS[options.model]  # has no end-of-text token: every rollout is full
    sampler = JaxSampler(cfg, workload.build(cfg))
    requests = [
        Request(ids, request_key(str(i))) for i, ids in enumerate(workload.rollout_prompts(cfg))
    ]
    updates = itertools.count()

    def call() -> float:
        params = SamplingParams(workload.GROUP, workload.RESPONSE_LEN, update=next(updates))
        rollouts = sampler.generate(requests, params)
        assert (rollouts.response_len == workload.RESPONSE_LEN).all()
        return rollouts.logprobs.mean()

    measure.report(
        measure.measure(
            "rollout",
            options.model,
            call,
            clock=clock,
            seconds=options.seconds,
            start_s=time.perf_counter() - began,
        )
    )
    return 0
