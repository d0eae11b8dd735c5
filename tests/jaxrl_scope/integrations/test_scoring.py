"""The shared scoring and the adapters, called the way each trainer's documentation says."""

import inspect
import math
import pickle

import numpy as np
import pytest

from jaxrl_scope.grading.verdicts import Verdict
from jaxrl_scope.integrations import scoring, trl, tunix, verl

TRUTH = {"sub1": "3", "sub2": "7", "main": "21"}
ALL_RIGHT = r"[SUB-1 ANSWER] \boxed{3} [SUB-2 ANSWER] \boxed{7} [MAIN ANSWER] \boxed{21}"
BROKEN = r"[SUB-1 ANSWER] \boxed{3} [SUB-2 ANSWER] \boxed{8} [MAIN ANSWER] \boxed{21}"
NO_MAIN = r"[SUB-1 ANSWER] \boxed{3} [SUB-2 ANSWER] \boxed{7}"
PLAIN = r"So it is \boxed{21}."

# response, ground truth, R_ASR (or outcome without a scaffold), outcome
CASES = [
    (ALL_RIGHT, TRUTH, 1.0, 1.0),
    (BROKEN, TRUTH, 0.25, 1.0),  # beta/2 for the prefix; the lucky main answer earns nothing more
    (NO_MAIN, TRUTH, 0.5, 0.0),
    ("no idea", TRUTH, 0.0, 0.0),
    (PLAIN, "21", 1.0, 1.0),
    (PLAIN, "22", 0.0, 0.0),
]
RESPONSES, TRUTHS, ASR, OUTCOME = (list(column) for column in zip(*CASES, strict=True))


@pytest.fixture
def failing(monkeypatch):
    """The verifier gives up on every answer of the first response."""

    class Pool:
        def verify_batch(self, items):
            hard = np.array([item.response == RESPONSES[0] for item in items])
            return np.where(hard, Verdict.FAILED, Verdict.CORRECT).astype(np.int8)

    monkeypatch.setattr(scoring, "_shared_pool", Pool)


@pytest.mark.parametrize("kind, expected", [("asr", ASR), ("outcome", OUTCOME)])
def test_scaffolded_and_plain_responses_in_one_batch(kind, expected):
    got = scoring.score(RESPONSES, TRUTHS, kind=kind)
    assert [s.reward for s in got] == expected
    assert [s.correct for s in got] == [o == 1.0 for o in OUTCOME]
    assert [s.prefix_share for s in got] == [1.0, 0.5, 1.0, 0.0, 0.0, 0.0]


def test_beta_moves_weight_to_the_prefix():
    assert [s.reward for s in scoring.score([BROKEN], [TRUTH], beta=1.0)] == [0.5]


def test_an_empty_batch():
    assert scoring.score([], []) == []


def test_many_sub_answers():
    truth = {f"sub{i}": str(i) for i in range(1, 21)} | {"main": "0"}
    boxes = [rf"[SUB-{i} ANSWER] \boxed{{{i}}}" for i in range(1, 21)]
    (got,) = scoring.score([" ".join(boxes)], [truth])
    assert got == scoring.Score(0.5, False, 1.0)


def test_ground_truths_as_parquet_and_json_give_them():
    with_nulls = TRUTH | {"sub3": None, "sub4": None}
    text = '{"sub1": "3", "sub2": "7", "main": "21"}'
    got = scoring.score([BROKEN] * 3, [TRUTH, with_nulls, text])
    assert [s.reward for s in got] == [0.25] * 3


def test_a_set_is_an_answer():
    (got,) = scoring.score([r"\boxed{\{1, 2\}}"], ["{1, 2}"])
    assert got.reward == 1.0


@pytest.mark.parametrize(
    "truth, words",
    [
        ({"sub1": "3", "sub3": "4", "main": "2"}, "sub1, sub2"),
        ({"sub1": "3"}, "main"),
        ({"sub1": 3, "main": "2"}, "texts"),
        (21, "int"),
        (None, "NoneType"),
    ],
)
def test_other_ground_truths_are_refused(truth, words):
    with pytest.raises(ValueError, match=words):
        scoring.score(["x"], [truth])


def test_bad_calls_are_refused():
    with pytest.raises(ValueError, match="2 responses for 1 ground truths"):
        scoring.score(["x", "y"], ["1"])
    with pytest.raises(ValueError, match="kind must be 'asr' or 'outcome'; got 'qpr'"):
        scoring.score(["x"], ["1"], kind="qpr")
    with pytest.raises(ValueError, match="beta"):
        scoring.score(["x"], ["1"], beta=1.5)
    with pytest.raises(ValueError, match="text"):
        scoring.last_message([{"role": "assistant", "content": None}])
    with pytest.raises(ValueError, match="text"):
        scoring.last_message([])


def test_verl_signature_and_result():
    for function, expected in [
        (verl.compute_score, ASR),
        (verl.compute_outcome_score, OUTCOME),
    ]:
        assert list(inspect.signature(function).parameters)[:4] == [
            "data_source",
            "solution_str",
            "ground_truth",
            "extra_info",
        ]
        for response, truth, reward in zip(RESPONSES, TRUTHS, expected, strict=True):
            got = function(
                data_source="dapo", solution_str=response, ground_truth=truth, extra_info=None
            )
            assert got["score"] == reward and got["verifier_failed"] == 0.0
            assert all(type(value) is float for value in got.values())
    assert verl.compute_score("s", BROKEN, TRUTH, beta=1.0)["score"] == 0.5
    assert verl.compute_score("s", BROKEN, TRUTH)["prefix_share"] == 0.5


def test_verl_reports_a_failure_of_the_verifier(failing):
    got = verl.compute_score("s", RESPONSES[0], TRUTH)
    assert (got["score"], got["verifier_failed"]) == (0.0, 1.0)


@pytest.mark.parametrize("chat", [False, True])
def test_trl_signature_and_result(chat):
    prompts = ["p"] * len(RESPONSES)
    completions = RESPONSES
    if chat:
        prompts = [[{"role": "user", "content": "p"}]] * len(RESPONSES)
        completions = [[{"role": "assistant", "content": r}] for r in RESPONSES]
    extra = {
        "completion_ids": [[1]] * len(RESPONSES),
        "trainer_state": None,
        "ground_truth": TRUTHS,
    }
    for function, expected in [(trl.asr_reward_func, ASR), (trl.outcome_reward_func, OUTCOME)]:
        assert function(prompts=prompts, completions=completions, **extra) == expected


def test_trl_skips_a_rollout_that_the_verifier_failed_on(failing):
    got = trl.asr_reward_func(prompts=["p"] * 2, completions=RESPONSES[:2], ground_truth=TRUTHS[:2])
    assert got == [None, 1.0]


def test_tunix_signature_and_result():
    for function, expected in [(tunix.asr_reward_fn, ASR), (tunix.outcome_reward_fn, OUTCOME)]:
        got = function(prompts=["p"] * 6, completions=RESPONSES, ground_truth=TRUTHS, level=[1] * 6)
        assert got == expected
    as_array = np.array(TRUTHS, object)
    assert tunix.asr_reward_fn(["p"] * 6, RESPONSES, ground_truth=as_array) == ASR


def test_tunix_shows_a_failure_of_the_verifier(failing):
    got = tunix.asr_reward_fn(["p"] * 2, RESPONSES[:2], ground_truth=TRUTHS[:2])
    assert math.isnan(got[0]) and got[1] == 1.0


def test_tunix_names_the_missing_field():
    with pytest.raises(ValueError, match="'ground_truth'; it has answer"):
        tunix.asr_reward_fn(["p"], ["c"], answer=["1"])


@pytest.mark.parametrize(
    "function",
    [verl.compute_score, trl.asr_reward_func, tunix.asr_reward_fn, tunix.outcome_reward_fn],
)
def test_functions_have_names_and_can_be_sent_to_workers(function):
    assert pickle.loads(pickle.dumps(function)) is function
    assert function.__name__
