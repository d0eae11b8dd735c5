"""Kernels are tested with silent broadcasting and silent dtype promotion turned into errors."""

import jax
import pytest


@pytest.fixture(autouse=True)
def strict_numerics():
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        yield
