"""Eight fake CPU devices and a deterministic Hypothesis profile, set before JAX is first used."""

import jax
from hypothesis import settings

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("ci")
