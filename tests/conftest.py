"""Eight fake CPU devices and a deterministic Hypothesis profile, set before JAX is first used."""

import shutil
import tempfile

import jax
import pytest
from hypothesis import settings

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("ci")


@pytest.fixture(scope="session", autouse=True)
def compilation_cache():
    """Keep compiled functions for the session: many tests build the same function anew."""
    folder = tempfile.mkdtemp(prefix="jaxrl-scope-tests-")
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    yield
    shutil.rmtree(folder, ignore_errors=True)
