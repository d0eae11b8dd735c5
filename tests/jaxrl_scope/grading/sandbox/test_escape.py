"""Hostile programs: each ends as fail, timeout or crash, and the next run is as if it never was."""

import threading
from pathlib import Path

import pytest

from jaxrl_scope.grading.sandbox import Limits, Run, SandboxPool, Status

NOT_PASSED = {Status.FAIL, Status.TIMEOUT, Status.CRASH}
HONEST = Run("def f(x):\n    return 2 * x", ("assert f(21) == target",), (42,), ("f",))


@pytest.fixture(scope="module")
def pool():
    limits = Limits(wall_s=4.0, cpu_s=2, memory_mb=256, file_mb=2, processes=8)
    with SandboxPool(1, limits) as pool:
        assert pool.isolation.startswith("namespaces")
        yield pool


ATTACKS = {
    "exit": "import os\nos._exit(0)",
    "exit in call": "import os\ndef f(x): os._exit(0)",
    "exit by exception": "def f(x): raise SystemExit(0)",
    "endless loop": "def f(x):\n    while True: pass",
    "catch the timeout": """
import signal
def f(x):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))
    while True:
        try:
            while True: pass
        except BaseException: pass
""",
    "sleep": "import time\ndef f(x): time.sleep(1000)",
    "memory bomb": "def f(x): return len(bytearray(1 << 34))",
    "huge output": "def f(x):\n    print('x' * 10**8)\n    return 'x' * 10**8",
    "endless output": "def f(x):\n    while True: print('x' * 10**6)",
    "fork bomb": "import os\ndef f(x):\n    while True: os.fork()",
    "thread bomb": """
import threading, time
def f(x):
    for _ in range(10000): threading.Thread(target=time.sleep, args=(99,)).start()
    return 42
""",
    "fill the disk": """
def f(x):
    for i in range(10**6): open(str(i), 'wb').write(b'x' * 10**6)
    return 42
""",
    "print a verdict": "print('{\"status\": \"pass\"}')\ndef f(x): print('pass'); return 0",
    "write to every descriptor": """
import json, os, struct
text = json.dumps({'status': 'pass', 'reason': '', 'kind': ''}).encode()
for fd in range(3, 256):
    try: os.write(fd, struct.pack('!I', len(text)) + text)
    except OSError: pass
def f(x): return 0
""",
    "equal to everything": """
class Anything(int):
    def __eq__(self, other): return True
def f(x): return Anything(0)
""",
    "equal array": """
import numpy as np
class A(np.ndarray):
    def __eq__(self, other): return True
def f(x): return np.zeros(1).view(A)
""",
    "pickled code": """
import pickle
class Evil:
    def __reduce__(self): return (eval, ("42",))
def f(x): return pickle.dumps(Evil())
""",
    "patch the comparison": """
import builtins, sys, numpy as np
np.allclose = np.isclose = lambda *a, **k: True
builtins.__build_class__ = builtins.isinstance = lambda *a: True
for name in list(sys.modules):
    if 'sandbox' in name:
        for key in list(vars(sys.modules[name])):
            if key.startswith('_v') or key == 'judge': setattr(sys.modules[name], key, None)
def f(x): return 0
""",
    "look for the target in frames": """
import sys
def f(x):
    frame, seen = sys._getframe(), []
    while frame:
        seen += [v['target'] for v in (frame.f_locals, frame.f_globals) if 'target' in v]
        frame = frame.f_back
    return seen[0]
""",
    "look for the tests in the heap": """
import gc
def f(x):
    for o in gc.get_objects():
        if isinstance(o, dict) and ('target' in o or 'tests' in o): return o.get('target', 42)
    return None
""",
    "read memory of others": """
import os
def f(x):
    for pid in os.listdir('/proc'):
        if pid.isdigit(): open(f'/proc/{pid}/mem', 'rb').read(1)
    return 42
""",
    "trace the parent": """
import ctypes, os
def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in range(2, 40000):
        if libc.ptrace(16, pid, 0, 0) == 0: return 42
    return None
""",
    "kill the others": """
import os, signal
def f(x):
    for pid in (-1, 0, *range(2, 40000)):
        if pid and pid != os.getpid():
            try: os.kill(pid, signal.SIGKILL)
            except OSError: pass
    return None
""",
    "mount proc": """
import ctypes, os
def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b'proc', b'/scratch', b'proc', 0, None) == 0: return 42
    if libc.mount(b'none', b'/', None, 4096 | 32, None) == 0: return 42
    return None
""",
    "import the reference": "from jaxrl_scope.data.code_operators import *\ndef f(x): return 42",
    "nested user namespace": """
import ctypes, os
def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) == 0 or libc.syscall(56, 0x10000011, 0, 0, 0, 0) > 0: return 42
    return None
""",
    "uncounted memory": """
import ctypes, os
def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmget(0, 1 << 30, 0o1600) >= 0: return 42
    return os.memfd_create('x') and 42
""",
    "stop the test's loop": "def f(x): raise StopIteration",
    "many open files": """
def f(x):
    kept = [open('/dev/null') for _ in range(10000)]
    return 42
""",
    "read a secret of the environment": """
import os
def f(x): return 42 if 'SECRET_OF_HOST' in os.environ else None
""",
    "connect": """
import socket
def f(x):
    socket.create_connection(('127.0.0.1', PORT), timeout=1)
    return 42
""",
    "abstract socket": """
import socket
def f(x):
    s = socket.socket(socket.AF_UNIX); s.connect('\\0host-of-sandbox-test')
    return 42
""",
    "read outside": "def f(x): return 42 if open('FILE').read() else None",
    "write outside": "def f(x):\n    open('FILE', 'w').write('x')\n    return 42",
    "write to the interpreter": """
import json
def f(x):
    open(json.__file__, 'a').write('x = 1')
    return 42
""",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_fails_and_leaves_nothing(name, pool, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_HOST", "x")
    secret = tmp_path / "secret"
    secret.write_text("untouched")
    program = ATTACKS[name].replace("FILE", str(secret))
    tests = ("assert all(map(lambda y: y == target, map(f, [21])))",)
    for test in (HONEST.tests, tests):
        result = pool.run(Run(program, test, HONEST.targets, ("f",)))
        assert result.status in NOT_PASSED, result
        if result.status is Status.TIMEOUT:
            break
    assert secret.read_text() == "untouched"
    # Another seed, or the verdict would be remembered rather than formed.
    again = Run(HONEST.program, HONEST.tests, HONEST.targets, ("f",), seed=hash(name) % 2**31)
    assert pool.run(again).passed


def test_no_network_although_the_host_listens(pool):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        program = ATTACKS["connect"].replace("PORT", str(server.getsockname()[1]))
        result = pool.run(Run(program, HONEST.tests, HONEST.targets, ("f",)))
        assert result.status is Status.FAIL
        server.settimeout(0.05)
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_process_that_goes_on_in_the_background_is_ended(pool):
    program = """
import os, time
def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True: time.sleep(0.01)
        os._exit(0)
    return 42
"""
    before = _processes()
    assert pool.run(Run(program, HONEST.tests, HONEST.targets, ("f",))).passed
    deadline = threading.Event()
    for _ in range(50):
        if _processes() <= before:
            return
        deadline.wait(0.1)
    raise AssertionError("a process of the run is still there")


def _processes() -> int:
    """Processes of the host whose command line is a sandbox server's (children keep it)."""
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                count += b"sandbox.server" in (entry / "cmdline").read_bytes()
            except OSError:
                continue
    return count


def test_nothing_of_one_run_is_there_in_the_next(pool):
    leave = """
import builtins, random, sys
sys.left = builtins.left = 1
open('left', 'w').write('x')
random.seed(5)
def f(x): return 42
"""
    look = """
import builtins, os, random, sys
def f(x):
    found = hasattr(sys, 'left'), hasattr(builtins, 'left'), os.listdir('.')
    return [*found, random.random()]
"""
    fresh = Run(look, ("assert f(0)[:3] == [False, False, []]\nassert f(0)[3] < 1",), (), ("f",))
    assert pool.run(Run(leave, HONEST.tests, HONEST.targets, ("f",))).passed
    assert pool.run(fresh).passed


def test_seeds_are_fixed(pool):
    program = "import random, numpy\ndef f(): return [random.random(), numpy.random.rand()]"
    import random

    import numpy as np

    expected = [random.Random(7).random(), np.random.RandomState(7).rand()]
    assert pool.run(Run(program, ("assert f() == target",), (expected,), ("f",), seed=7)).passed
