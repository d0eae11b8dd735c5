"""Learning-rate schedules, and that settings reach the optimizer."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrl_scope.train.optimizer import OptimizerConfig, learning_rate, make_optimizer


def test_linear_warm_up_then_constant():
    schedule = learning_rate(OptimizerConfig(lr=6e-4, warmup_updates=3), 10)
    np.testing.assert_allclose(
        [float(schedule(i)) for i in range(5)], [2e-4, 4e-4, 6e-4, 6e-4, 6e-4], rtol=1e-5
    )


def test_cosine_ends_at_zero():
    schedule = learning_rate(OptimizerConfig(lr=1.0, schedule="cosine", warmup_updates=2), 12)
    np.testing.assert_allclose(float(schedule(2)), 1.0, rtol=1e-6)
    np.testing.assert_allclose(float(schedule(7)), 0.5, rtol=1e-6)
    np.testing.assert_allclose(float(schedule(12)), 0.0, atol=1e-7)


def test_no_warm_up_starts_at_the_peak():
    assert float(learning_rate(OptimizerConfig(lr=0.5, warmup_updates=0), 4)(0)) == 0.5


def test_gradient_norm_is_clipped():
    config = OptimizerConfig(lr=1.0, warmup_updates=0, max_grad_norm=1.0, eps=1e3)
    optimizer = make_optimizer(config, 4)
    params = {"w": jnp.zeros(2)}
    steps = []
    for scale in (1.0, 100.0):  # a large eps makes the step proportional to the gradient
        updates, _ = optimizer.update(
            {"w": jnp.array([3.0, 4.0]) * scale}, optimizer.init(params), params
        )
        steps.append(float(optax.tree.norm(updates)))
    np.testing.assert_allclose(steps[0], steps[1], rtol=1e-3)


def test_negative_settings_are_named():
    with pytest.raises(ValueError, match=r"optimizer\.lr"):
        OptimizerConfig(lr=-1.0)
