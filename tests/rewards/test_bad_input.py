"""Bad input is a ValueError that names the argument, the value and the rule; nothing broadcasts."""

import math
import pathlib
import re

import jax
import numpy as np
import pytest

import rewards as r

ones = np.ones
zeros = np.zeros


def ints(*shape, value=1):
    return np.full(shape, value, np.int32)


def ledger(*shape):
    return r.step_ledger(*(ones(shape),) * 3, ints(*shape[:-2]))


# What is called, and the words that the message must have: argument, value, rule.
CASES = {
    # groups
    "no rollouts": (lambda: r.group_advantages(ones((3, 0))), ["rewards", "G = 0", "G >= 1"]),
    "rank": (lambda: r.group_advantages(1.0), ["rewards", "[..., G]", "()"]),
    "keep shape": (
        lambda: r.group_advantages(ones((2, 3)), ones(3)),
        ["keep", "(3,)", "(2, 3)"],
    ),
    "keep broadcast": (
        lambda: r.group_advantages(ones((2, 3)), ones((1, 3))),
        ["keep", "(1, 3)", "(2, 3)"],
    ),
    "ddof": (lambda: r.group_advantages(ones(3), ddof=2), ["ddof", "2", "0", "1"]),
    "moments ddof": (lambda: r.group_moments(ones(3), ddof=-1), ["ddof", "-1", "0"]),
    "eps": (lambda: r.group_advantages(ones(3), eps=-1e-6), ["eps", "-1e-06", "[0, inf)"]),
    "eps nan": (lambda: r.group_advantages(ones(3), eps=math.nan), ["eps", "nan"]),
    "complex": (lambda: r.group_advantages(ones(3) * 1j), ["rewards", "real", "complex"]),
    "strings": (lambda: r.group_advantages(np.array(["a", "b"])), ["rewards", "numbers"]),
    "ratio rank": (lambda: r.effective_gradient_ratio(ones(3)), ["rewards", "[..., B, G]", "(3,)"]),
    "ratio B": (lambda: r.effective_gradient_ratio(ones((0, 3))), ["rewards", "B = 0"]),
    "gate keep": (lambda: r.outcome_gate(ones((2, 3)), ones(2)), ["keep", "(2,)", "(2, 3)"]),
    # scaffold
    "m = 0": (
        lambda: r.asr_reward(ones((2, 3)), np.array([3, 0]), ones(2)),
        ["num_sub", "0", "1..3"],
    ),
    "m > M": (
        lambda: r.asr_reward(ones((2, 3)), np.array([3, 4]), ones(2)),
        ["num_sub", "4", "1..3"],
    ),
    "float m": (lambda: r.asr_reward(ones(3), 3.0, True), ["num_sub", "integers", "float"]),
    "no subs": (lambda: r.asr_reward(ones((2, 0)), ints(2), ones(2)), ["sub_correct", "M = 0"]),
    "one m for all": (
        lambda: r.asr_reward(ones((2, 3)), 3, ones(2)),
        ["num_sub", "()", "(2,)"],
    ),
    "main shape": (
        lambda: r.asr_reward(ones((2, 3)), ints(2), ones((2, 1))),
        ["main_correct", "(2, 1)", "(2,)"],
    ),
    "beta": (lambda: r.asr_reward(ones(3), 3, True, beta=1.5), ["beta", "1.5", "[0, 1]"]),
    "beta below": (lambda: r.independent_reward(ones(3), 3, True, beta=-0.1), ["beta", "-0.1"]),
    "products": (lambda: r.prefix_products(ones(3), 4), ["num_sub", "4", "1..3"]),
    "length": (lambda: r.prefix_length(True, 1), ["sub_correct", "[..., M]"]),
    "final": (lambda: r.final_only_reward(np.array(["x"])), ["main_correct"]),
    "tau": (lambda: r.route_mask(ones(4), tau=1.01), ["tau", "1.01", "[0, 1]"]),
    "tau nan": (lambda: r.route_mask(ones(4), tau=math.nan), ["tau", "nan", "[0, 1]"]),
    "mixed": (
        lambda: r.mixed_reward(ones(2), ones((2, 3)), ones((2, 1))),
        ["outcome", "(2, 1)", "(2, 3)"],
    ),
    "mixed routed": (
        lambda: r.mixed_reward(ones((2, 3)), ones((2, 3)), ones((2, 3))),
        ["routed", "(2, 3)", "(2,)"],
    ),
    # process
    "label above": (lambda: r.label_shares(np.array([0, 5]), 2), ["labels", "5", "0..4"]),
    "label below": (lambda: r.process_quality(np.array([0, -1]), 2), ["labels", "-1", "0..4"]),
    "n = 0": (lambda: r.process_quality(ints(2, 3), np.array([1, 0])), ["num_steps", "0", "1..3"]),
    "qpr n = 0": (
        lambda: r.qpr_reward(ones(2), ints(2, 3), np.array([1, 0])),
        ["num_steps", "0", "1..3"],
    ),
    "qpr label": (
        lambda: r.qpr_reward(ones(1), ints(1, 2, value=7), ints(1, value=2)),
        ["labels", "7", "0..4"],
    ),
    "qpr correct": (
        lambda: r.qpr_reward(True, ints(2, 3), ints(2)),
        ["correct", "()", "(2,)"],
    ),
    "lambda = 1": (
        lambda: r.process_quality(ints(3), 3, penalties=(0.05, 0.2, 0.25, 1.0)),
        ["penalties[3]", "error", "1", "[0, 1)"],
    ),
    "lambda < 0": (
        lambda: r.penalty_factor(ones(5), penalties=(-0.1, 0, 0, 0)),
        ["penalties[0]", "mechanical", "-0.1"],
    ),
    "three lambdas": (
        lambda: r.penalty_factor(ones(5), penalties=(0.1, 0.2, 0.3)),
        ["penalties", "four", "3"],
    ),
    "shares": (lambda: r.penalty_factor(ones((2, 4))), ["shares", "(2, 4)", "(2, 5)"]),
    "alpha": (lambda: r.length_factor(3, alpha=-1), ["alpha", "-1", "[0, inf)"]),
    "length n": (lambda: r.length_factor(0), ["num_steps", "0", "1"]),
    "without": (
        lambda: r.process_quality(ints(3), 3, without="kappa"),  # pyright: ignore
        ["without", "'kappa'", "'positive'", "'penalty'", "'length'"],
    ),
    "score": (lambda: r.holistic_reward(ones(1), ones(1) * 1.5), ["score", "1.5", "0.0..1.0"]),
    "score nan": (lambda: r.holistic_reward(ones(1), ones(1) * math.nan), ["score", "nan"]),
    "buffer": (
        lambda: r.overlong_reward(True, 3, max_response_len=8, buffer=9),
        ["buffer", "9", "1..max_response_len=8"],
    ),
    "cap": (
        lambda: r.overlong_reward(True, 3, max_response_len=0, buffer=0),
        ["max_response_len", "0", ">= 1"],
    ),
    "negative length": (
        lambda: r.overlong_reward(True, -3, max_response_len=8, buffer=2),
        ["response_len", "-3", "0"],
    ),
    # thoughts
    "thought n": (lambda: r.merge_thoughts(ones(3), 4), ["num_steps", "4", "0..3"]),
    "thought alpha": (
        lambda: r.thought_reward_size(ones(3), zeros(3), alpha=2.0),
        ["alpha", "2", "[0, 1]"],
    ),
    "only": (
        lambda: r.thought_reward_size(ones(3), zeros(3), only="wrong"),  # pyright: ignore
        ["only", "'wrong'", "'correct'", "'incorrect'"],
    ),
    "advantage shape": (
        lambda: r.thought_reward_size(ones((2, 3)), zeros((2, 1))),
        ["outcome_advantage", "(2, 1)", "(2, 3)"],
    ),
    "size shape": (
        lambda: r.thought_rewards(ones((2, 3)), ints(2), zeros(2), 0.0),
        ["size", "()", "(2,)"],
    ),
    "max_len": (lambda: _tokens([1, 2], max_len=0), ["max_len", "0", ">= 1"]),
    "response_len": (lambda: _tokens([1, 2], length=9), ["response_len", "9", "0..8"]),
    "end past response": (lambda: _tokens([1, 6]), ["step_end", "response", "1"]),
    "end zero": (lambda: _tokens([0, 2]), ["step_end", "0", "at least one token"]),
    "ends equal": (lambda: _tokens([2, 2]), ["step_end", "0", "strictly increasing"]),
    "ends shape": (lambda: _tokens([1, 2, 3]), ["step_end", "(3,)", "(2,)"]),
    # code steps
    "ledger rank": (lambda: r.step_ledger(ones(3), ones(3), ones(3), 3), ["passed", "[..., G, S]"]),
    "ledger n": (
        lambda: r.step_ledger(*(ones((2, 3)),) * 3, 4),
        ["num_steps", "4", "1..3"],
    ),
    "ledger grafted": (
        lambda: r.step_ledger(ones((2, 3)), ones((2, 1)), ones((2, 3)), 3),
        ["grafted", "(2, 1)", "(2, 3)"],
    ),
    "ledger alignable": (
        lambda: r.step_ledger(ones((2, 3)), ones((2, 3)), ones(3), 3),
        ["alignable", "(3,)", "(2, 3)"],
    ),
    "ledger keep": (
        lambda: r.step_ledger(*(ones((2, 3)),) * 3, 3, ones(3)),
        ["keep", "(3,)", "(2,)"],
    ),
    "delta": (lambda: r.sciwalker_advantages(ones((2, 3)), 3, delta=-1.0), ["delta", "-1"]),
    "code ddof": (lambda: r.sciwalker_advantages(ones((2, 3)), 3, ddof=3), ["ddof", "3"]),  # pyright: ignore
    "lam": (lambda: r.graft_advantages(ledger(2, 3), lam=1.0), ["lam", "1", "[0, 1)"]),
    "lam below": (lambda: r.graft_rewards(ledger(2, 3), lam=-0.5), ["lam", "-0.5", "[0, 1)"]),
    "min_group": (
        lambda: r.graft_advantages(ledger(2, 3), min_group=1),
        ["min_group", "1", ">= 2"],
    ),
    "grouping": (
        lambda: r.graft_advantages(ledger(2, 3), grouping="own"),  # pyright: ignore
        ["grouping", "'own'", "'prefix'", "'all'"],
    ),
    "degenerate": (
        lambda: r.group_degenerate_rate(ones((2, 3)), ints(3)),
        ["num_steps", "(3,)", "(2,)"],
    ),
    # step groups
    "gamma": (lambda: r.discounted_returns(ones(3), 3, gamma=1.1), ["gamma", "1.1", "[0, 1]"]),
    "returns n": (lambda: r.discounted_returns(ones(3), 0, gamma=1.0), ["num_steps", "0", "1..3"]),
    "omega": (
        lambda: r.beacon_advantages(ones(2), ones((2, 3)), ints(2), omega=-1.0),
        ["omega", "-1", "[0, inf)"],
    ),
    "beacon gamma": (
        lambda: r.beacon_advantages(ones(2), ones((2, 3)), ints(2), gamma=2.0),
        ["gamma", "2", "[0, 1]"],
    ),
    "episode": (
        lambda: r.gigpo_advantages(ones(3), ones((2, 3)), ints(2, 3), ints(2)),
        ["episode_reward", "(3,)", "(2,)"],
    ),
    "anchor": (
        lambda: r.gigpo_advantages(ones(2), ones((2, 3)), ints(2), ints(2)),
        ["anchor", "(2,)", "(2, 3)"],
    ),
    "float anchor": (
        lambda: r.gigpo_advantages(ones(2), ones((2, 3)), ones((2, 3)), ints(2)),
        ["anchor", "integers", "float"],
    ),
    # diagnosis
    "successes": (lambda: r.wilson_interval(5, 4), ["successes", "trials", "-1"]),
    "z": (lambda: r.wilson_interval(1, 4, z=-1.0), ["z", "-1"]),
    "survival rank": (lambda: r.prefix_survival(ledger(2, 3)), ["ledger", "[B, G, S]", "(2, 3)"]),
    "spread rank": (lambda: r.step_spread(ledger(2, 3)), ["ledger", "[B, G, S]"]),
    "bucket": (
        lambda: r.residual_rates(
            r.step_ledger(ones((1, 2, 1)), zeros((1, 2, 1)), ones((1, 2, 1)), ints(1)),
            ints(1, 2, 1, value=3),
        ),
        ["bucket", "3", "0..2"],
    ),
    "bucket shape": (
        lambda: r.residual_rates(ledger(1, 2, 1), ints(1, 2)),
        ["bucket", "(1, 2)", "(1, 2, 1)"],
    ),
    "quantile": (
        lambda: r.advantage_quantiles(ones((1, 2, 3)), ones((1, 2, 3)), quantiles=(0.5, 2.0)),
        ["quantiles[1]", "2", "[0, 1]"],
    ),
    "no quantile": (
        lambda: r.advantage_quantiles(ones((1, 2, 3)), ones((1, 2, 3)), quantiles=()),
        ["quantiles", "at least one"],
    ),
    "quantile rank": (
        lambda: r.advantage_quantiles(ones((1, 1, 2, 3)), ones((1, 1, 2, 3))),
        ["advantages", "[B, G, S]", "(1, 1, 2, 3)"],
    ),
    # quality
    "quality rank": (
        lambda: r.step_quality(ints(1, 2, 3), ints(1, 2), ones((1, 2)), ones((1, 2)), ints(1, 2)),
        ["correct", "[P]", "(1, 2)"],
    ),
    "quality labels": (
        lambda: r.step_quality(ints(2, 3, value=9), ints(2), ones(2), zeros(2), ints(2)),
        ["labels", "9", "0..4"],
    ),
    "quality truncated": (
        lambda: r.step_quality(ints(2, 3), ints(2), ones(2), zeros(1), ints(2)),
        ["truncated", "(1,)", "(2,)"],
    ),
    "quality tokens": (
        lambda: r.step_quality(ints(1, 3), ints(1), ones(1), zeros(1), ints(1, value=-4)),
        ["num_tokens", "-4"],
    ),
    "first error n": (lambda: r.first_error_position(ints(3), 4), ["num_steps", "4", "0..3"]),
    "k": (lambda: r.pass_at_k(8, 2, k=0), ["k", "0", ">= 1"]),
    "k > n": (lambda: r.pass_at_k(8, 2, k=9), ["num_samples", "8", "k = 9"]),
    "c > n": (lambda: r.pass_at_k(8, 9, k=1), ["num_correct", "num_samples", "-1"]),
    "c < 0": (lambda: r.pass_at_k(8, -2, k=1), ["num_correct", "-2"]),
    "classes": (lambda: r.agreement(ints(2), ints(2), num_classes=1), ["num_classes", "1", ">= 2"]),
    "class": (
        lambda: r.agreement(ints(2), ints(2, value=2), num_classes=2),
        ["reference", "2", "0..1"],
    ),
    "raters": (
        lambda: r.agreement(ints(2), ints(3), num_classes=2),
        ["reference", "(3,)", "(2,)"],
    ),
    "vote": (lambda: r.majority_preferences(ints(1, 3, value=3)), ["votes", "3", "0..2"]),
    "no voters": (lambda: r.majority_preferences(ints(2, 0)), ["votes", "J = 0"]),
}


def _tokens(ends, length=5, max_len=8):
    return r.thought_advantages(ones(2), np.array(ends), 2, length, 1.0, 0.5, max_len=max_len)


@pytest.mark.parametrize("call, words", CASES.values(), ids=CASES.keys())
def test_message_names_argument_value_and_rule(call, words):
    with pytest.raises(ValueError) as caught:
        call()
    missing = [word for word in words if not re.search(re.escape(word), str(caught.value))]
    assert not missing, str(caught.value)


def test_every_kernel_is_covered():
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    kernels = [name for name in r.__all__ if name[0].islower()]
    assert [name for name in kernels if f"r.{name}(" not in source] == []


def test_shapes_and_settings_are_checked_while_tracing():
    with pytest.raises(ValueError, match="num_sub"):
        jax.jit(r.asr_reward)(ones((2, 3)), ints(3), ones(2))
    with pytest.raises(ValueError, match="beta"):
        jax.jit(lambda x: r.asr_reward(x, ints(2), ones(2), beta=2.0))(ones((2, 3)))


def test_a_traced_setting_is_usable():
    got = jax.jit(jax.vmap(lambda b: r.asr_reward(np.array([1, 0]), 2, True, beta=b)))(
        np.array([0.0, 0.5, 1.0])
    )
    np.testing.assert_allclose(got, [0.0, 0.25, 0.5])
