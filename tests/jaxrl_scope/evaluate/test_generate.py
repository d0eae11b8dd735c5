"""Samples are written as they come, kept through a kill, and scored apart."""

import functools

import pytest

from jaxrl_scope.data.prompts import PromptBuilder
from jaxrl_scope.data.world import parse_chain, to_problem
from jaxrl_scope.data.world_labels import label_trace
from jaxrl_scope.evaluate.generate import LostRolloutsError, generate_samples
from jaxrl_scope.evaluate.records import read_records
from jaxrl_scope.evaluate.score import grade_samples, judge_samples
from jaxrl_scope.grading import Verdict, VerifierPool
from jaxrl_scope.grading.judge import StepLabel
from jaxrl_scope.grading.judge_rules import RulesJudge
from jaxrl_scope.rollout.types import SamplingParams

PROBLEMS = [to_problem(parse_chain(f"{n} + 2 ?", 61)) for n in range(1, 6)]
SAMPLING = SamplingParams(num_rollouts=2, max_response_len=16)


def say(prompt, g):
    """The first rollout is right, the second is off by one and cut off on even starts."""
    n = int(prompt.split()[0])
    end = "" if g and n % 2 == 0 else " <|end|>"
    return f"{n} + 2 : {n + 1} {n + 2} ; \\boxed{{ {n + 2 + g} }}{end}"


@pytest.fixture
def generate(tokenizer, tmp_path):
    prompts = PromptBuilder(tokenizer)
    return functools.partial(
        lambda sampler, problems=PROBLEMS, **options: generate_samples(
            problems, sampler, prompts, tokenizer, SAMPLING, tmp_path / "samples.jsonl",
            batch_problems=2, **options,
        )
    )  # fmt: skip


def test_every_problem_gets_its_samples_in_order(generate, scripted, tmp_path):
    seen = []
    records = generate(scripted(say), on_batch=lambda done, total: seen.append((done, total)))
    assert [(r.problem_id, r.sample) for r in records] == [
        (p.id, g) for p in PROBLEMS for g in (0, 1)
    ]
    assert records[0].response == "1 + 2 : 2 3 ; \\boxed{ 3 }"
    assert records[0].num_tokens == 11 and records[0].finished
    assert not records[3].finished
    assert seen == [(0, 5), (2, 5), (4, 5), (5, 5)]
    assert read_records(tmp_path / "samples.jsonl") == records


def test_a_killed_evaluation_goes_on_where_it_stopped(generate, scripted, tmp_path):
    whole = generate(scripted(say))
    (tmp_path / "samples.jsonl").unlink()
    killed = scripted(say)
    killed.budget = 3
    with pytest.raises(KeyboardInterrupt):
        generate(killed)
    path = tmp_path / "samples.jsonl"
    path.write_bytes(path.read_bytes() + b'{"problem_id": "torn')
    resumed = scripted(say)
    assert generate(resumed) == whole
    assert len(resumed.requests) == 3
    finished = scripted(say)
    assert generate(finished) == whole and not finished.requests


def test_a_problem_that_was_killed_between_its_samples_is_sampled_again(
    generate, scripted, tmp_path
):
    whole = generate(scripted(say))
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    again = scripted(say)
    assert generate(again) == whole
    assert len(again.requests) == 4


def test_lost_rollouts_are_an_error_and_leave_no_record(generate, scripted, tmp_path):
    sampler = scripted(say)
    sampler.lost = {"3 + 2 ?"}
    with pytest.raises(LostRolloutsError, match="1 problems"):
        generate(sampler)
    assert len(read_records(tmp_path / "samples.jsonl")) == 4  # the first batch of two


def test_two_problems_of_one_id_are_refused(generate, scripted):
    with pytest.raises(ValueError, match="have the id"):
        generate(scripted(say), problems=[PROBLEMS[0], PROBLEMS[0]])


def test_scoring_gates_by_verdict_and_truncation(generate, scripted):
    records = generate(scripted(say))
    with VerifierPool(num_workers=1) as verifier:
        graded = grade_samples(records, verifier)
    assert [r.verdict for r in graded] == [Verdict.CORRECT, Verdict.INCORRECT] * 5
    judge = RulesJudge(functools.partial(label_trace, modulus=61))
    judged = judge_samples(graded, judge)
    assert [r.judgement is None for r in judged] == [not r.finished for r in records]
    assert judged[0].judgement.labels == (StepLabel.USEFUL,)
    only = judge_samples(graded, judge, only_correct=True)
    assert [r.judgement is not None for r in only] == [True, False] * 5
    assert [r.unscored() for r in only] == records


def test_a_right_answer_that_was_cut_off_is_wrong(generate, scripted):
    records = generate(scripted(lambda prompt, g: say(prompt, 0).removesuffix(" <|end|>")))
    with VerifierPool(num_workers=1) as verifier:
        graded = grade_samples(records, verifier)
    assert all(record.verdict == Verdict.INCORRECT for record in graded)
