"""What holds of every kernel: one value under every transformation, float32, true annotations."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
import typeguard

import rewards

D = 8  # leading axis: one entry per fake device
G = N = S = 5  # alike, so that running op by op compiles few distinct operations
T = 9
rng = np.random.default_rng(0)


def flags(*shape, p=0.6):
    return rng.random((D, *shape)) < p


def ints(low, high, *shape):
    return rng.integers(low, high + 1, (D, *shape)).astype(np.int32)


def reals(*shape):
    return rng.random((D, *shape)).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel and D sets of arguments, stacked on a leading axis."""

    kernel: Callable
    args: tuple[np.ndarray, ...]


ENDS = np.tile(np.array([1, 2, 3, 4, 7], np.int32), (D, 1))
CASES = {
    "group_advantages": Case(rewards.group_advantages, (reals(G), flags(G))),
    "group_advantages_dr": Case(
        partial(rewards.group_advantages, normalize_std=False), (reals(G), flags(G))
    ),
    "group_moments": Case(rewards.group_moments, (reals(G), flags(G))),
    "effective_gradient_ratio": Case(
        rewards.effective_gradient_ratio, (ints(0, 1, 3, G), flags(3, G))
    ),
    "outcome_gate": Case(rewards.outcome_gate, (flags(G, p=0.2), flags(G))),
    "prefix_products": Case(rewards.prefix_products, (flags(N), ints(1, N))),
    "prefix_length": Case(rewards.prefix_length, (flags(N), ints(1, N))),
    "asr_reward": Case(rewards.asr_reward, (flags(N), ints(1, N), flags())),
    "final_only_reward": Case(rewards.final_only_reward, (flags(),)),
    "independent_reward": Case(rewards.independent_reward, (flags(N), ints(1, N), flags())),
    "route_mask": Case(rewards.route_mask, (flags(G), flags(G))),
    "mixed_reward": Case(rewards.mixed_reward, (flags(), reals(G), flags(G))),
    "label_shares": Case(rewards.label_shares, (ints(0, 4, N), ints(1, N))),
    "penalty_factor": Case(rewards.penalty_factor, (reals(5),)),
    "length_factor": Case(rewards.length_factor, (ints(1, N),)),
    "process_quality": Case(rewards.process_quality, (ints(0, 4, N), ints(1, N))),
    "qpr_reward": Case(rewards.qpr_reward, (flags(), ints(0, 4, N), ints(1, N), flags())),
    "holistic_reward": Case(rewards.holistic_reward, (flags(), reals(), flags())),
    "overlong_reward": Case(
        partial(rewards.overlong_reward, max_response_len=9, buffer=4), (flags(), ints(0, 9))
    ),
    "merge_thoughts": Case(rewards.merge_thoughts, (flags(N), ints(0, N))),
    "thought_reward_size": Case(rewards.thought_reward_size, (flags(G), reals(G), flags(G))),
    "thought_rewards": Case(rewards.thought_rewards, (flags(N), ints(0, N), reals(), reals())),
    "thought_advantages": Case(
        partial(rewards.thought_advantages, max_len=T),
        (flags(N), ENDS, ints(0, N), ints(7, T), reals(), reals()),
    ),
    "step_ledger": Case(
        rewards.step_ledger, (flags(G, S), flags(G, S), flags(G, S), ints(1, S), flags(G, p=0.9))
    ),
    "sciwalker_advantages": Case(rewards.sciwalker_advantages, (reals(G, S), ints(1, S), flags(G))),
    "group_degenerate_rate": Case(rewards.group_degenerate_rate, (flags(3, S), ints(1, S, 3))),
    "discounted_returns": Case(
        partial(rewards.discounted_returns, gamma=0.9), (reals(S), ints(1, S))
    ),
    "gigpo_advantages": Case(
        rewards.gigpo_advantages,
        (reals(G), reals(G, S), ints(0, 3, G, S), ints(1, S, G), flags(G, p=0.9)),
    ),
    "beacon_advantages": Case(
        rewards.beacon_advantages, (reals(G), flags(G, S), ints(1, S, G), flags(G, p=0.9))
    ),
    "wilson_interval": Case(rewards.wilson_interval, (ints(0, 9), ints(9, 20))),
    "advantage_quantiles": Case(rewards.advantage_quantiles, (reals(3, G, S), flags(3, G, S))),
    "first_error_position": Case(rewards.first_error_position, (ints(0, 4, N), ints(0, N))),
    "step_quality": Case(
        rewards.step_quality, (ints(0, 4, 3, N), ints(0, N, 3), flags(3), flags(3), ints(0, 9, 3))
    ),
    "pass_at_k": Case(partial(rewards.pass_at_k, k=4), (ints(8, 16), ints(0, 8))),
    "agreement": Case(
        partial(rewards.agreement, num_classes=3), (ints(0, 2, 9), ints(0, 2, 9), flags(9))
    ),
    "majority_preferences": Case(rewards.majority_preferences, (ints(0, 2, 5, 3), flags(5))),
}


# Kernels that read a ledger, from the ledger's inputs.
def _from_ledger(read, passed, grafted, alignable, num_steps, *more):
    return read(rewards.step_ledger(passed, grafted, alignable, num_steps), *more)


_LEDGER = (flags(G, S), flags(G, S), flags(G, S), ints(1, S))
_LEDGERS = (flags(3, G, S), flags(3, G, S), flags(3, G, S), ints(1, S, 3))
CASES |= {
    name: Case(partial(_from_ledger, read), args)
    for name, read, args in [
        ("graft_rewards", partial(rewards.graft_rewards, lam=0.3), _LEDGER),
        ("graft_advantages", partial(rewards.graft_advantages, lam=0.3), _LEDGER),
        ("prefix_survival", rewards.prefix_survival, _LEDGERS),
        ("step_spread", rewards.step_spread, _LEDGERS),
        ("residual_rates", rewards.residual_rates, (*_LEDGERS, ints(0, 2, 3, G, S))),
    ]
}
each_kernel = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def assert_same(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        # Compiled as a whole, a multiplication and an addition may round once instead of twice.
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_every_kernel_has_a_case():
    kernels = {name for name in rewards.__all__ if name[0].islower()}
    assert kernels <= CASES.keys()


@pytest.fixture(scope="module")
def results():
    """Every case batched by `vmap` on one device, and entry by entry on D devices by `pmap`.

    One program each: compiling the cases one at a time takes several times as long.
    """
    assert jax.device_count() == D

    def run(all_args):
        return [case.kernel(*args) for case, args in zip(CASES.values(), all_args, strict=True)]

    all_args = [case.args for case in CASES.values()]
    batched = dict(zip(CASES, jax.jit(jax.vmap(run))(all_args), strict=True))
    one_by_one = dict(zip(CASES, jax.pmap(run)(all_args), strict=True))
    return batched, jax.device_get(one_by_one)


@pytest.mark.parametrize("name", CASES)
def test_batched_is_one_by_one(name, results):
    batched, one_by_one = results
    assert_same(batched[name], one_by_one[name])


@pytest.mark.slow  # dozens of one-operation programs to compile
@pytest.mark.parametrize("name", CASES)
def test_compiled_is_op_by_op(name, results):
    first = jax.tree.map(lambda x: x[0], results[1][name])
    assert_same(CASES[name].kernel(*(x[0] for x in CASES[name].args)), first)


@pytest.mark.parametrize("name", ["group_advantages", "asr_reward", "thought_advantages"])
def test_a_loop_on_one_device_gives_the_same(name, results):
    case = CASES[name]
    kernel = jax.jit(case.kernel)
    loop = [kernel(*(x[d] for x in case.args)) for d in range(D)]
    assert_same(results[1][name], np.stack(loop))


@each_kernel
def test_numbers_of_any_type_give_float32(case):
    wide = [x.astype(np.float64) if x.dtype != np.int32 else x.astype(np.int64) for x in case.args]
    narrow = [jnp.asarray(x, jnp.bfloat16) if x.dtype != np.int32 else x for x in case.args]
    whole = [x.astype(np.int16) for x in case.args]
    with jax.enable_x64(True):
        for args in (wide, narrow, whole):
            for leaf in jax.tree.leaves(jax.eval_shape(jax.vmap(case.kernel), *args)):
                assert leaf.dtype in (jnp.float32, jnp.int32, jnp.bool_)


def test_shards_give_what_one_device_gives():
    case = CASES["qpr_reward"]
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    split = jax.sharding.PartitionSpec("data")
    sharded = jax.jit(jax.shard_map(case.kernel, mesh=mesh, in_specs=split, out_specs=split))
    got = sharded(*case.args)
    assert got.sharding.spec == split
    assert_same(got, jax.jit(case.kernel)(*case.args))


@each_kernel
def test_annotations_are_true(case):
    """Arguments and results of each public function, checked by jaxtyping while it traces."""
    args = tuple(x[0] for x in case.args)
    jax.eval_shape(lambda *traced: _checked(case.kernel, traced), *args)  # jax arrays
    jax.eval_shape(lambda: _checked(case.kernel, args))  # NumPy arrays


def _checked(kernel, args):
    settings = {}
    while isinstance(kernel, partial):
        if kernel.func is _from_ledger:
            args = (rewards.step_ledger(*args[:4]), *args[4:])
            kernel = kernel.args[0]
        else:
            settings, kernel = kernel.keywords, kernel.func
    hints = kernel.__annotations__
    with jaxtyping.jaxtyped("context"):  # one binding of the dimension names for the whole call
        bound = inspect.signature(kernel).bind(*args, **settings)
        for name, value in bound.arguments.items():
            typeguard.check_type(value, hints[name])
        return typeguard.check_type(kernel(*args, **settings), hints["return"])
