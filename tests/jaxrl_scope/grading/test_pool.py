r"""The pool: killable workers, threads, asyncio, forks, and no process left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from jaxrl_scope.data.problems import Scaffold
from jaxrl_scope.grading import Item, Verdict, VerifierPool
from jaxrl_scope.grading.workers import Outcome

CORRECT, INCORRECT, FAILED = Verdict.CORRECT, Verdict.INCORRECT, Verdict.FAILED
ROOT = Path(__file__).resolve().parents[3]


def _root_item(number: int) -> Item:
    """Return a right answer that exact arithmetic does not settle."""
    return Item(rf"\sqrt{{{4 * number}}}", rf"\boxed{{2\sqrt{{{number}}}}}")


def _workers() -> list[int]:
    """Return the process ids of this process's verifier workers, zombies included."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            command = (path / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == os.getpid() and (b"grading.worker" in command or not command):
            found.append(int(path.name))
    return found


@pytest.fixture
def new_workers():
    """Return a function that lists the workers started since; other tests leave some."""
    known = set(_workers())
    return lambda: [pid for pid in _workers() if pid not in known]


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(num_workers=2) as shared:
        yield shared


def test_verdicts_come_back_in_order_as_int8(pool):
    items = [
        Item("7", r"\boxed{7}"),
        Item("7", r"\boxed{8}"),
        _root_item(3),
        Item("7", "no box"),
        Item(r"\sqrt2", rf"\boxed{{{'(' * 100}}}"),
        Item("", r"\boxed{1}"),
    ]
    verdicts = pool.verify_batch(items)
    assert verdicts.dtype == np.int8
    assert verdicts.tolist() == [CORRECT, INCORRECT, CORRECT, INCORRECT, FAILED, FAILED]
    assert pool.verify_batch([]).shape == (0,)


def test_counts_name_the_reasons_of_failures():
    with VerifierPool(num_workers=1) as pool:
        pool.grade([Item("1", r"\boxed{1}"), Item("1", r"\boxed{2}"), Item("", r"\boxed{2}")])
        pool.grade([Item(r"\sqrt2", r"\boxed{9^{9^{9^{9}}}}")])
        assert pool.counts == {
            "correct": 1,
            "incorrect": 1,
            "failed": 2,
            "failed/gold": 1,
            "failed/limit": 1,
        }


def test_integers_start_no_worker(new_workers):
    with VerifierPool(num_workers=2) as pool:
        pool.verify_batch([Item(str(n), rf"\boxed{{{n}}}") for n in range(500)])
        assert new_workers() == []
        pool.verify_batch([_root_item(5)])
        assert len(new_workers()) == 1
    assert new_workers() == []


def test_equal_questions_of_a_batch_are_asked_once(monkeypatch):
    with VerifierPool(num_workers=1) as pool:
        asked = []
        submit = pool._workers.submit
        monkeypatch.setattr(
            pool._workers,
            "submit",
            lambda question, **kwargs: (asked.append(question), submit(question, **kwargs))[1],
        )
        prefixes = ("a", "b", "c")
        items = [Item(r"\sqrt{8}", rf"{prefix}\boxed{{2\sqrt2}}") for prefix in prefixes]
        assert pool.verify_batch(items).tolist() == [CORRECT] * 3
        assert len(asked) == 1


def test_verdicts_do_not_depend_on_the_number_of_workers():
    items = [_root_item(number) for number in range(2, 40)]
    items += [Item(rf"\sqrt{{{n}}}", rf"\boxed{{{n}^{{0.5}}}}") for n in range(2, 20)]
    items += [Item(rf"\sqrt{{{n}}}", rf"\boxed{{\sqrt{{{n}.0001}}}}") for n in range(2, 20)]
    results = []
    for num_workers in (1, 3):
        with VerifierPool(num_workers=num_workers) as pool:
            results.append(pool.verify_batch(items).tolist())
    assert results[0] == results[1]
    assert set(results[0]) == {CORRECT, INCORRECT}


def test_a_worker_that_hangs_is_killed_and_replaced(new_workers):
    with VerifierPool(num_workers=1, wall_limit_s=0.5) as pool:
        pool.grade([_root_item(2)])
        (stuck,) = new_workers()
        os.kill(stuck, signal.SIGSTOP)
        start = time.monotonic()
        assert pool.grade([_root_item(3)]) == [Outcome(FAILED, "timeout")]
        assert 0.4 < time.monotonic() - start < 5
        assert stuck not in new_workers()
        assert pool.verify_batch([_root_item(5)]).tolist() == [CORRECT]


def test_a_worker_killed_by_the_kernel_fails_one_answer(new_workers):
    with VerifierPool(num_workers=1, wall_limit_s=30) as pool:
        pool.grade([_root_item(2)])
        (victim,) = new_workers()
        os.kill(victim, signal.SIGSTOP)  # so that the answer is still open when it dies
        with ThreadPoolExecutor(1) as thread:
            outcome = thread.submit(pool.grade, [_root_item(3)])
            time.sleep(0.2)
            os.kill(victim, signal.SIGKILL)
            assert outcome.result(timeout=20) == [Outcome(FAILED, "crash")]
        assert pool.verify_batch([_root_item(5)]).tolist() == [CORRECT]


def test_a_worker_out_of_memory_fails_one_answer():
    # Four workers: a single one may by chance start with as much free heap as an answer takes.
    def item(answer: int) -> Item:
        roots = [rf"\sqrt{{x_{{{answer}{n:03}}}}}" for n in range(200)]
        wide = "+".join(roots)
        return Item(wide, rf"\boxed{{{wide}+{roots[0]}-{roots[0]}}}")

    items = [item(answer) for answer in range(1, 9)]
    right, out_of_memory = Outcome(CORRECT), Outcome(FAILED, "memory")
    with VerifierPool(num_workers=4, memory_limit_mb=0.25) as pool:
        outcomes = pool.grade(items)
        assert out_of_memory in outcomes
        assert set(outcomes) <= {right, out_of_memory}
    with VerifierPool(num_workers=1) as pool:
        assert pool.grade(items) == [right] * 8


def test_many_threads_share_a_pool(pool):
    def grade(seed: int) -> list[int]:
        return pool.verify_batch([_root_item(seed), Item("1", rf"\boxed{{{seed}}}")]).tolist()

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(grade, range(2, 42)))
    assert results == [[CORRECT, INCORRECT]] * 40


def test_a_worker_outlives_the_thread_that_asked_for_it(new_workers):
    with VerifierPool(num_workers=1) as pool:
        thread = threading.Thread(target=pool.grade, args=([_root_item(2)],))
        thread.start()
        thread.join()
        time.sleep(0.2)
        before = new_workers()
        assert len(before) == 1
        pool.grade([_root_item(3)])
        assert new_workers() == before


def test_event_loop_goes_on_while_answers_are_graded(pool):
    async def run() -> tuple[list[list[int]], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticker = asyncio.create_task(tick())
        batches = [[_root_item(seed), Item("2", r"\boxed{2}")] for seed in range(50, 60)]
        verdicts = await asyncio.gather(*map(pool.verify_batch_async, batches))
        ticker.cancel()
        return [batch.tolist() for batch in verdicts], ticks

    verdicts, ticks = asyncio.run(run())
    assert verdicts == [[CORRECT, CORRECT]] * 10
    assert ticks > 1


def test_scaffolds_give_padded_arrays(pool):
    long = Scaffold("a", ("q1", "q2", "q3"), ("2", r"\sqrt{12}", "x+1"), "q", "10")
    short = Scaffold("b", ("q1",), ("4",), "q", "11")
    responses = [
        r"[SUB-1 ANSWER] \boxed{2} [SUB-2 ANSWER] \boxed{2\sqrt3} [MAIN ANSWER] \boxed{9}",
        r"[SUB-1 ANSWER] \boxed{4} [MAIN ANSWER] \boxed{11}",
    ]
    sub, main = pool.verify_scaffolds(responses, [long, short])
    assert sub.dtype == main.dtype == np.int8
    assert sub.tolist() == [[1, 1, 0], [1, 0, 0]]
    assert main.tolist() == [0, 1]
    empty_sub, empty_main = pool.verify_scaffolds([], [])
    assert empty_sub.shape == (0, 0)
    assert empty_main.shape == (0,)
    with pytest.raises(ValueError, match="1 responses for 2 scaffolds"):
        pool.verify_scaffolds(responses[:1], [long, short])


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="num_workers must be positive, got 0"):
        VerifierPool(num_workers=0)
    with pytest.raises(ValueError, match="wall_limit_s must be positive"):
        VerifierPool(wall_limit_s=-1)


def test_a_closed_pool_says_so(new_workers):
    pool = VerifierPool(num_workers=1)
    pool.grade([_root_item(2)])
    pool.close()
    pool.close()
    assert new_workers() == []
    with pytest.raises(ValueError, match="pool is closed"):
        pool.grade([_root_item(3)])


def _run_script(source: str, **kwargs) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        **kwargs,
    )


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


# No `if __name__` guard on purpose: a worker must not run the main module again.
SCRIPT = r"""
import os, pathlib, time
from jaxrl_scope.grading import Item, VerifierPool
pool = VerifierPool(num_workers=1)
assert pool.verify_batch([Item(r"\sqrt8", r"\boxed{2\sqrt2}")]).tolist() == [1]
children = pathlib.Path(f"/proc/self/task").glob("*/children")
(worker,) = [int(pid) for path in children for pid in path.read_text().split()]
"""


def test_threads_an_event_loop_and_another_process_grade_at_once(pool):
    other = _run_script(SCRIPT + "print(pool.counts['correct'], flush=True)")

    async def from_event_loop() -> list[list[int]]:
        batches = [[_root_item(seed)] for seed in range(60, 70)]
        verdicts = await asyncio.gather(*map(pool.verify_batch_async, batches))
        return [batch.tolist() for batch in verdicts]

    with ThreadPoolExecutor(4) as threads:
        from_threads = [threads.submit(pool.grade, [_root_item(seed)]) for seed in range(70, 90)]
        assert asyncio.run(from_event_loop()) == [[CORRECT]] * 10
        assert all(future.result() == [Outcome(CORRECT)] for future in from_threads)
    output, _ = other.communicate(timeout=60)
    assert output.strip() == "1"


def test_workers_die_with_a_parent_that_is_killed():
    script = _run_script(SCRIPT + "print(worker, flush=True); time.sleep(60)")
    assert script.stdout is not None
    worker = int(script.stdout.readline())
    os.kill(worker, signal.SIGSTOP)  # it cannot see its pipe close; the kernel has to end it
    script.kill()
    script.communicate()
    deadline = time.monotonic() + 10
    while _is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_running(worker)


def test_a_script_may_fork_and_need_not_close_its_pool():
    script = _run_script(
        SCRIPT
        + r"""
maps = pathlib.Path(f"/proc/{worker}/maps").read_text()
print(worker, "jaxlib" in maps or "torch" in maps)
pid = os.fork()  # the child has the pool, but not the thread that owns its workers
answer = pool.verify_batch([Item(r"\sqrt{12}", r"\boxed{2\sqrt3}")]).tolist()
if not pid:
    os._exit(0 if answer == [1] else 1)
_, status = os.waitpid(pid, 0)
print(answer, status)
"""
    )
    output, _ = script.communicate(timeout=60)
    assert script.returncode == 0
    first, second = output.splitlines()
    worker, has_jax = first.split()
    assert has_jax == "False"
    assert second == "[1] 0"
    assert not _is_running(int(worker))
