"""The examples in the docstrings run."""

import doctest
import importlib
import inspect
import pkgutil

import jax
import jax.numpy as jnp
import pytest

import rewards

MODULES = sorted(m.name for m in pkgutil.iter_modules(rewards.__path__) if m.name[0] != "_")
KERNELS = {name: getattr(rewards, name) for name in rewards.__all__ if name[0].islower()}


def jitted(kernel):
    """The kernel as one compiled program, settings static: far less to compile than op by op."""
    parameters = inspect.signature(kernel).parameters.values()
    settings = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return jax.jit(kernel, static_argnames=settings)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(f"rewards.{name}")
    names = {"jnp": jnp} | {name: jitted(kernel) for name, kernel in KERNELS.items()}
    outcome = doctest.testmod(module, extraglobs=names)
    assert outcome.attempted > 0 and outcome.failed == 0


def test_every_kernel_has_an_example():
    assert [name for name, kernel in KERNELS.items() if "Example:\n" not in kernel.__doc__] == []
