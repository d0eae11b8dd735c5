"""The restart with huge pages: same program, fewer page faults, children and users unaffected."""

import json
import os
import subprocess
import sys

import pytest

from jaxrl_scope import huge_pages

PROGRAM = """
import os
from jaxrl_scope.huge_pages import restart_with_huge_pages
before = os.getpid()
restart_with_huge_pages()
import json, resource, sys
import jax, jax.numpy as jnp
step = jax.jit(lambda x: jnp.sin(jnp.outer(x, x)) @ x)  # 64 MB of temporaries
x = jnp.ones(4096)
faults = []
for _ in range(15):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    step(x).block_until_ready()
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(json.dumps([sorted(faults)[7], sys.argv[1:], os.getpid(), os.environ.get("GLIBC_TUNABLES")]))
"""

needs_huge_pages = pytest.mark.skipif(
    not (huge_pages._has_tunable() and huge_pages._on_request()),
    reason="needs glibc 2.35 and transparent huge pages on request (madvise)",
)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)

    def start(*args: str, **env: str):
        names = ("MALLOC_", "GLIBC_TUNABLES")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(names)}
        process = subprocess.Popen(
            [sys.executable, "program.py", *args],
            cwd=tmp_path,
            env=clean | {"JAX_PLATFORMS": "cpu"} | env,
            stdout=subprocess.PIPE,
            text=True,
        )
        out, _ = process.communicate()
        assert process.returncode == 0
        faults, argv, pid, tunables = json.loads(out)
        assert argv == list(args) and pid == process.pid
        return faults, tunables

    return start


@needs_huge_pages
def test_a_call_faults_few_pages_and_children_are_not_told(run):
    faults, tunables = run("--name", "two words")
    assert faults < 1_000
    assert tunables is None


@needs_huge_pages
@pytest.mark.parametrize(
    "env", [{"GLIBC_TUNABLES": "glibc.malloc.tcache_count=7"}, {"MALLOC_TRIM_THRESHOLD_": "131072"}]
)
def test_the_user_s_own_settings_stand(run, env):
    faults, tunables = run(**env)
    assert faults > 10_000
    assert tunables == env.get("GLIBC_TUNABLES")


@pytest.mark.parametrize("mode", ["[always] madvise never", "always madvise [never]", None])
def test_nothing_is_restarted_without_need(monkeypatch, tmp_path, mode):
    path = tmp_path / "enabled"
    if mode:
        path.write_text(mode)
    for name in [n for n in os.environ if n.startswith(("MALLOC_", "GLIBC_TUNABLES"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(huge_pages, "_MODE", path)
    restarts = []
    monkeypatch.setattr(os, "execve", lambda *args: restarts.append(args))
    huge_pages.restart_with_huge_pages()
    assert restarts == []
