"""Freed memory is kept: the pages of a call's temporaries are not cleared again."""

import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import jax, jax.numpy as jnp
from jaxrl_scope.train.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
step = jax.jit(lambda x: jnp.sin(jnp.outer(x, x)) @ x)  # 64 MB of temporaries
x = jnp.ones(4096)
faults = []
for _ in range(15):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    step(x).block_until_ready()
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(sorted(faults[5:])[5])
"""


def page_faults(how: str, **env: str) -> int:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", FAULTS, how]
    return int(subprocess.check_output(command, env=clean | {"JAX_PLATFORMS": "cpu"} | env))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_a_warm_call_faults_no_pages():
    assert page_faults("leave") > 10_000
    assert page_faults("keep") < 1_000


def test_the_user_s_own_settings_stand(monkeypatch):
    from jaxrl_scope.train.allocator import keep_freed_memory

    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    assert not keep_freed_memory()
