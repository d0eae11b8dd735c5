"""Construction against a scripted teacher on loopback."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxrl_scope.data.loaders import save_problems
from jaxrl_scope.data.problems import Problem
from jaxrl_scope.data.rows import read_rows
from jaxrl_scope.data.scaffold_build import BuildSettings, ScaffoldBuilder
from jaxrl_scope.data.scaffold_cache import ScaffoldCache, rejected_path
from jaxrl_scope.data.scaffold_file import load_scaffolds
from jaxrl_scope.data.scaffold_stats import collect_stats
from jaxrl_scope.grading import verify
from jaxrl_scope.grading.chat_types import ChatConfig
from jaxrl_scope.grading.judge_cache import ReplyCache
from jaxrl_scope.grading.llm_client import ChatClient

ROOT = Path(__file__).parents[3]
ASK = "In case {name}, 7 red and 5 blue balls are drawn in pairs. Find $m+n$ for the chance $m/n$."
FIRST = "Let $N$ be the number of pairs of balls in the box of 7 red and 5 blue ones. Find $N$."
SECOND = "Which share of the $N$ pairs of sub-question 1 is red on both sides?"
SHARE = "\\frac{7}{22}"
CHAINS = {
    "good": [(FIRST, "66"), (SECOND, SHARE)],
    "leaking": [(FIRST, "66"), ("Which share of your sixty-six results is red?", SHARE)],
    "arithmetic": [("Compute $12 \\times 11$.", "132"), ("Divide sub-answer 1 by 2.", "66")],
    "unordered": [("Using the result of sub-question 2, what is red?", SHARE), (FIRST, "66")],
    "duplicate": [(FIRST, "66"), ("Using $N$. " + ASK.format(name="duplicate"), "29")],
    "truth": [(FIRST, "66"), ("Is the previous result even?", "true")],
    "empty": [],
}


def problem(name, number=0, answer="29"):
    return Problem(f"{name}-{number}", ASK.format(name=name), answer, source="test")


def name_in(body):
    return re.search(r"In case (\w+?),", body["messages"][1]["content"])[1]


def teach(acts, **special):
    """A teacher that answers by the name of the problem it is asked about."""

    def act(handler, body):
        name = name_in(body)
        if name in special:
            return special[name](handler, body)
        pairs = CHAINS.get(name, CHAINS["good"])
        reply = {"sub_questions": [{"question": q, "answer": a} for q, a in pairs]}
        return acts.say(reply)(handler, body)

    return act


def verify_all(items):
    return [verify(i.gold, i.response, task=i.task, choices=i.choices) for i in items]


def config(url, **changes):
    return ChatConfig("teacher", url, api_key_env="", backoff_s=0.01, max_retries=1, **changes)


def build(server, out, problems, *, checker=None, **settings):
    with ChatClient(config(server.url)) as teacher:
        settings = BuildSettings(**{"max_attempts": 2, "num_workers": 4} | settings)
        cache = ScaffoldCache(out)
        ScaffoldBuilder(teacher, cache, verify_all, checker=checker, settings=settings).build(
            problems
        )
    return cache


def rejections(out):
    return [row for _, row in read_rows(rejected_path(out))]


@pytest.mark.parametrize(
    ("name", "outcome", "reason"),
    [
        ("good", "success", None),
        ("leaking", "filtered", "H: sub-answer 1 can be read in sub-question 2"),
        ("arithmetic", "filtered", "P: sub-question 1 is arithmetic only"),
        ("unordered", "filtered", "D: sub-question 1 refers to sub-question 2"),
        ("duplicate", "filtered", "P: sub-question 2 repeats the main question"),
        ("truth", "filtered", "V: sub-answer 2 is a truth value"),
        ("empty", "filtered", "the teacher found no chain"),
        ("malformed", "failed", "teacher: malformed"),
        ("refusing", "failed", "teacher: refusal"),
        ("absent", "failed", "teacher: server_error"),
    ],
)
def test_each_chain_is_kept_or_rejected_for_the_right_reason(
    chat_server, tmp_path, name, outcome, reason
):
    acts = chat_server.acts
    chat_server.otherwise = teach(
        acts,
        malformed=acts.say('{"sub_questions": [{"question": "First?"'),
        refusing=acts.say(None, refusal="I cannot"),
        absent=acts.status(503),
    )
    out = tmp_path / "s.jsonl"
    asked = problem(name)
    assert build(chat_server, out, [asked]).outcome(asked) == outcome
    if outcome == "success":
        loaded, _ = load_scaffolds(out, problems=[asked], strict=True)
        assert loaded[asked.id].answers == ("66", "\\frac{7}{22}")
        assert loaded[asked.id].main_question == asked.text
        assert not rejected_path(out).exists()
    else:
        assert not out.exists()
        rows = rejections(out)
        assert rows[-1]["outcome"] == outcome
        assert any(text.startswith(reason) for text in rows[-1]["reasons"])
        chains = [row for row in rows if row["outcome"] == "rejected"]
        asked_for_chains = outcome == "filtered" and name != "empty"
        assert len(chains) == (2 if asked_for_chains else 0)
        assert all(row["reasons"] and row["chain"] for row in chains)


def test_a_rejected_chain_is_mended_on_the_second_attempt(chat_server, tmp_path):
    acts = chat_server.acts

    def improve(handler, body):
        name = "good" if "rejected_ladder" in body["messages"][1]["content"] else "leaking"
        pairs = [{"question": q, "answer": a} for q, a in CHAINS[name]]
        acts.say({"sub_questions": pairs})(handler, body)

    chat_server.otherwise = improve
    out = tmp_path / "s.jsonl"
    asked = problem("learning")
    assert build(chat_server, out, [asked]).outcome(asked) == "success"
    assert [row["outcome"] for row in rejections(out)] == ["rejected"]
    assert "H: sub-answer 1" in chat_server.requests[1].user
    stats = collect_stats(out)["test"]
    assert (stats.success, stats.filtered, stats.predicates) == (1, 0, {"H": 1})


@pytest.mark.parametrize("answer", ["true", "because it is so", "\\frac{"])
def test_a_gold_answer_that_cannot_be_verified_costs_no_request(chat_server, tmp_path, answer):
    asked = problem("good", answer=answer)
    assert build(chat_server, tmp_path / "s.jsonl", [asked]).outcome(asked) == "filtered"
    assert chat_server.requests == []
    assert rejections(tmp_path / "s.jsonl")[0]["reasons"][0].startswith("V: the gold answer")


@pytest.mark.parametrize(
    ("dependent", "outcome"), [(True, "success"), (False, "filtered"), (None, "failed")]
)
def test_the_checker_decides_what_rules_cannot(chat_server, tmp_path, dependent, outcome):
    acts = chat_server.acts
    entry = {"is_prerequisite": True, "is_arithmetic_only": False, "reason": "so"}

    def answer(handler, body):
        if body["model"] == "teacher":
            teach(acts)(handler, body)
        elif dependent is None:
            acts.status(503)(handler, body)
        else:
            entries = [entry | {"needs_earlier_answer": dependent}] * 2
            acts.say({"sub_questions": entries})(handler, body)

    chat_server.otherwise = answer
    asked = problem("good")
    with ChatClient(ChatConfig("checker", chat_server.url, "", max_retries=0)) as checker:
        cache = build(chat_server, tmp_path / "s.jsonl", [asked], checker=checker)
    assert cache.outcome(asked) == outcome


def test_a_second_run_asks_only_for_what_is_missing(chat_server, tmp_path):
    acts = chat_server.acts
    out = tmp_path / "s.jsonl"
    problems = [problem(name) for name in ("good", "empty", "absent", "other")]
    chat_server.otherwise = teach(acts, absent=acts.status(503))
    build(chat_server, out, problems[:3])
    chat_server.requests.clear()
    chat_server.otherwise = teach(acts)
    cache = build(chat_server, out, problems)
    assert sorted(name_in(r.body) for r in chat_server.requests) == ["absent", "other"]
    assert [cache.outcome(p) for p in problems] == ["success", "filtered", "success", "success"]
    chat_server.requests.clear()
    build(chat_server, out, problems, retry_filtered=True)
    assert [name_in(r.body) for r in chat_server.requests] == ["empty"]


def test_what_another_process_did_meanwhile_is_not_asked_again(chat_server, tmp_path):
    out = tmp_path / "s.jsonl"
    chat_server.otherwise = teach(chat_server.acts)
    waiting = ScaffoldCache(out)
    build(chat_server, out, [problem("good")])
    chat_server.requests.clear()
    with ChatClient(config(chat_server.url)) as teacher:
        ScaffoldBuilder(teacher, waiting, verify_all).build([problem("good")])
    assert chat_server.requests == []


def test_a_disk_error_stops_the_run(chat_server, tmp_path):
    chat_server.otherwise = teach(chat_server.acts)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(OSError):
        build(chat_server, blocked / "s.jsonl", [problem("good", n) for n in range(3)])


def start(server, problems_file, out):
    command = [sys.executable, "launch/scaffold.py", "build", "--problems", str(problems_file)]
    command += ["--out", str(out), "--teacher.model", "teacher", "--teacher.base-url", server.url]
    command += ["--teacher.api-key-env", "", "--settings.num-workers", "4"]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.fixture
def problems_file(tmp_path):
    path = tmp_path / "problems.jsonl"
    save_problems(path, [problem(f"n{number}") for number in range(60)])
    return path


def slowly(acts):
    def act(handler, body):
        time.sleep(0.05)
        teach(acts)(handler, body)

    return act


def test_killed_half_way_and_restarted_it_asks_only_for_the_missing(
    chat_server, tmp_path, problems_file, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    chat_server.otherwise = slowly(chat_server.acts)
    out = tmp_path / "s.jsonl"
    process = start(chat_server, problems_file, out)
    deadline = time.monotonic() + 60
    while len(chat_server.requests) < 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    with out.open("ab") as file:
        file.write(b'{"data_source": "torn')
    done = {row["extra_info"]["problem_id"] for _, row in read_rows(out) if isinstance(row, dict)}
    assert 0 < len(done) < 60
    asked_before = {name_in(request.body) for request in chat_server.requests}
    chat_server.requests.clear()

    process = start(chat_server, problems_file, out)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    asked = [name_in(request.body) for request in chat_server.requests]
    assert len(asked) == len(set(asked))
    assert not {f"{name}-0" for name in asked} & done
    # Replies that were paid for but not yet written out come from the reply cache, if they got in.
    assert 60 - len(done) - 4 <= len(asked) <= 60 - len(done)
    assert len(asked_before | set(asked)) == 60
    loaded, report = load_scaffolds(out, strict=True)
    assert len(loaded) == 60
    assert not report.counts
    assert "| test | 60 | 60 | 0 | 0 | 100.0% | 2.00 | 2 | 2 |" in output


def test_two_processes_on_one_cache(chat_server, tmp_path, problems_file, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    chat_server.otherwise = slowly(chat_server.acts)
    out = tmp_path / "s.jsonl"
    processes = [start(chat_server, problems_file, out) for _ in range(2)]
    outputs = [process.communicate(timeout=90)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    ids = [row["extra_info"]["problem_id"] for row in rows]
    assert set(ids) == {f"n{number}-0" for number in range(60)}
    # Only problems that both had in hand at one moment can be done twice.
    assert len(ids) <= 60 + 2 * 8
    assert ReplyCache(out.with_suffix(".replies")).get("0" * 64) is None
