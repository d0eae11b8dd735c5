"""Verdicts of honest runs, their kinds, and what may cross between the processes."""

import json

import numpy as np
import pytest

from jaxrl_scope.grading.sandbox import Kind, Limits, Run, SandboxError, SandboxPool, Status, slot
from jaxrl_scope.grading.sandbox.wire import WireError, decode, encode

REFUSED = """
from jaxrl_scope.grading.sandbox import namespaces, server
def refuse(*_):
    raise OSError("not permitted")
namespaces.enter = refuse
server.main()
"""


@pytest.fixture(scope="module")
def pool():
    with SandboxPool(2, Limits(wall_s=20.0)) as pool:
        yield pool


def run(pool, program, test="assert f(2) == 4", target=None, setup="import numpy as np"):
    return pool.run(Run(program, (test,), (target,), ("f",), setup))


@pytest.mark.parametrize(
    ("program", "test", "status", "kind"),
    [
        ("def f(x): return x + x", "assert f(2) == 4", Status.PASS, Kind.NONE),
        ("def f(x): return x", "assert f(2) == 4", Status.FAIL, Kind.VALUE),
        ("def g(x): return 4", "assert f(2) == 4", Status.FAIL, Kind.INTERFACE),
        ("def f(): return 4", "assert f(2) == 4", Status.FAIL, Kind.INTERFACE),
        ("import no_such_module", "assert f(2) == 4", Status.FAIL, Kind.INTERFACE),
        ("def f(x): return nothing", "assert f(2) == 4", Status.FAIL, Kind.INTERFACE),
        ("def f(x): return 1 / 0", "assert f(2) == 4", Status.FAIL, Kind.RAISED),
        ("def f(x): return len(x)", "assert f(2) == 4", Status.FAIL, Kind.RAISED),
        ("def f(x:", "assert f(2) == 4", Status.FAIL, Kind.RAISED),
        ("def f(x): return lambda: 4", "assert f(2) == 4", Status.FAIL, Kind.STRUCTURE),
        ("def f(x): return [1, 2]", "assert np.allclose(f(2), np.eye(3))", "fail", "structure"),
        ("def f(x): return 1.001", "assert np.allclose(f(2), 1.0)", Status.FAIL, "convention"),
        ("def f(x): return [2., 4.]", "assert np.allclose(f(2), [1., 2.])", "fail", "convention"),
        ("def f(x): return [2., 5.]", "assert np.allclose(f(2), [1., 2.])", "fail", "value"),
        ("def f(x): return 4", "assert f(2) ==", Status.NA, Kind.NONE),
        ("def f(x): return 4", "assert f(lambda: 1) == 4", Status.NA, Kind.NONE),
    ],
)  # fmt: skip
def test_status_and_kind(pool, program, test, status, kind):
    result = run(pool, program, test)
    assert (result.status, result.kind) == (status, kind), result


def test_an_exception_that_a_test_expects(pool):
    test = "try:\n    f(2)\nexcept ValueError:\n    pass\nelse:\n    raise AssertionError"
    assert run(pool, "def f(x): raise ValueError('no')", test).passed
    assert not run(pool, "def f(x): return 1", test).passed


def test_later_tests_see_names_of_earlier_ones(pool):
    tests = ("a = f(1)", "assert f(a) == target")
    assert pool.run(Run("def f(x): return 3 * x", tests, (None, 9), ("f",))).passed


def test_equal_runs_are_made_once(pool):
    before = pool.executed
    runs = [Run("def f(x): return 4 # once", ("assert f(2) == 4",), (), ("f",))] * 5
    assert all(result.passed for result in pool.run_batch(runs))
    assert pool.run_batch(runs)[0].passed
    assert pool.executed == before + 1


def test_results_are_in_order(pool):
    runs = [Run(f"def f(): return {i}", ("assert f() % 3 == 0",), (), ("f",)) for i in range(12)]
    assert [r.passed for r in pool.run_batch(runs)] == [i % 3 == 0 for i in range(12)]


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="num_workers"):
        SandboxPool(0)
    with pytest.raises(ValueError, match="wall_s"):
        Limits(wall_s=0)
    with pytest.raises(ValueError, match="2 targets for 1 tests"):
        Run("", ("assert f()",), (1, 2))
    with pytest.raises(ValueError, match="at least one test"):
        Run("", ())


def test_without_isolation_it_refuses_unless_told(monkeypatch):
    # The server forbids itself what it needs; the rest of it is the real thing.
    monkeypatch.setattr(slot, "_SERVER", ("-c", REFUSED))
    with SandboxPool(1) as pool, pytest.raises(SandboxError, match="allow_unisolated"):
        pool.run(Run("def f(): return 1", ("assert f()",), (), ("f",)))
    with SandboxPool(1, allow_unisolated=True) as pool:
        assert pool.isolation.startswith("none")
        assert pool.run(Run("def f(): return 1", ("assert f()",), (), ("f",))).passed


VALUES = [
    None, True, 3, -(10**30), 1.5, float("inf"), "ü", b"\x00\xff", 1 + 2j, [1, [2]], (1, (2,)),
    {"a": (1, 2), 3: None}, {1, 2}, frozenset({"a"}),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_values_cross_unchanged(value):
    back = decode(json.loads(json.dumps(encode(value))))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int64", "bool", "<U3", "uint8"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_arrays_cross_unchanged(dtype, shape):
    array = np.ones(shape).astype(dtype)
    back = decode(json.loads(json.dumps(encode(array))))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(back, array)


@pytest.mark.parametrize(
    "message",
    [
        {"array": ["O", [1], "AAAA"]},
        {"array": ["<f8", [10**12], ""]},
        {"array": ["<f8"]},
        {"object": "x"},
        {"set": [{"dict": []}]},
        {"tuple": 3},
        {},
        {"complex": ["a", "b"]},
    ],
)
def test_what_encode_never_makes_is_refused(message):
    with pytest.raises(WireError):
        decode(message)


@pytest.mark.parametrize("value", [object(), print, (x for x in ()), np.array([object()])])
def test_what_is_no_data_does_not_leave(value):
    with pytest.raises(WireError):
        encode(value)
