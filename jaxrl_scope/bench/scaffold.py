"""Speed and memory of scaffold construction when every teacher reply is already on disk.

    python launch/bench.py scaffold --problems 17000

A teacher in this process (HTTP on loopback) answers every problem once, which fills the reply
cache; then a fresh scaffold cache is built from the recorded replies alone, with all four
predicates, and that second pass is measured.
"""

import argparse
import contextlib
import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from jaxrl_scope.data.problems import Problem
from jaxrl_scope.data.scaffold_build import BuildSettings, ScaffoldBuilder
from jaxrl_scope.data.scaffold_cache import ScaffoldCache
from jaxrl_scope.data.scaffold_stats import collect_stats, format_stats
from jaxrl_scope.grading import VerifierPool
from jaxrl_scope.grading.chat_types import ChatConfig
from jaxrl_scope.grading.judge_cache import ReplyCache
from jaxrl_scope.grading.llm_client import ChatClient

_TOPICS = ("lattice paths", "coloured beads", "tilings", "committees", "binary strings", "seatings")
_ANSWERS = ("66", r"\frac{7}{22}", r"2\sqrt{3}", "x^2+3x+7", "(3,17)", "[19, 23)", r"91\pi")
_LATER = (
    r"Using the answer to sub-question {before}, which we call $Q_{{{before}}}$, describe the "
    r"{topic} of kind {kind}: for what $t$ does $g(t) = t^2 - \sqrt{{t}}$ reach it?"
)


def make_problem(number: int) -> Problem:
    """A problem with about the length and the LaTeX of a competition problem."""
    topic = _TOPICS[number % len(_TOPICS)]
    text = (
        f"In collection {100_000 + number}, the number of {topic} of size $n$ satisfies "
        r"$a_{n+1} = \frac{n+1}{2} a_n + \binom{n}{2}$ for all $n \ge 1$, with $a_1 = 5$. Suppose "
        r"that $\sum_{k=1}^{n} a_k$ can be written as $\frac{p}{q}$ in lowest terms. Find $p + q$."
    )
    return Problem(f"bench-{number}", text, str(1000 + number), source="bench")


def make_reply(user: str) -> dict[str, list[dict[str, str]]]:
    """A ladder of two to six sub-questions that depends on the problem asked about alone."""
    rng = random.Random(user)
    first = r"Let $f(x) = \frac{x^3}{x+y}$ count the " + rng.choice(_TOPICS) + ". Find $f$."
    answers = rng.sample(_ANSWERS, rng.randint(2, 6))
    pairs = [(first, answers[0])]
    for before, answer in enumerate(answers[1:], start=1):
        kind = "".join(rng.choices("abcdefghij", k=8))
        question = _LATER.format(before=before, topic=rng.choice(_TOPICS), kind=kind)
        pairs.append((question, answer))
    return {"sub_questions": [{"question": q, "answer": a} for q, a in pairs]}


class _Teacher(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        content = json.dumps(make_reply(body["messages"][1]["content"]))
        message = {"role": "assistant", "content": content}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        reply = {"id": "x", "object": "chat.completion", "created": 0, "model": "teacher"}
        data = json.dumps(reply | {"choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextlib.contextmanager
def _teacher_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Teacher)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def resident_mib() -> float:
    """Resident memory of this process (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024


def main(argv: list[str]) -> int:
    """Fill the reply cache, then time construction from it."""
    parser = argparse.ArgumentParser(prog="bench.py scaffold", description=__doc__)
    parser.add_argument("--problems", type=int, default=1000, help="17000 is DAPO-Math's size")
    count = parser.parse_args(argv).problems
    problems = [make_problem(number) for number in range(count)]
    settings = BuildSettings(max_attempts=1)
    with tempfile.TemporaryDirectory() as folder, VerifierPool() as pool, _teacher_url() as url:
        config = ChatConfig("teacher", url, api_key_env="")
        replies = ReplyCache(Path(folder) / "replies")
        for name, offline in (("paid", False), ("recorded", True)):
            path = Path(folder) / f"{name}.jsonl"
            memory, start = [resident_mib()], time.perf_counter()
            quarter = max(1, count // 4)
            with ChatClient(config, cache=replies, offline=offline) as teacher:
                builder = ScaffoldBuilder(
                    teacher, ScaffoldCache(path), pool.verify_batch, settings=settings
                )
                for begin in range(0, count, quarter):
                    builder.build(problems[begin : begin + quarter])
                    memory.append(resident_mib())
            seconds = time.perf_counter() - start
            shown = ", ".join(f"{mib:.0f}" for mib in memory)
            print(f"{name} replies: {60 * count / seconds:.0f} problems/min in {seconds:.1f} s; "
                  f"memory (MiB) by quarters {shown}")  # fmt: skip
        print(format_stats(collect_stats(path)))
    return 0
