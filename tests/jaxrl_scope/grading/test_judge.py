"""The failure guard, the label arrays and the choice of a judge."""

import dataclasses
import logging

import numpy as np
import pytest

from jaxrl_scope.grading.judge import (
    FailureGuard,
    JudgeFailureError,
    JudgeItem,
    JudgeResult,
    StepLabel,
    pad_labels,
)
from jaxrl_scope.grading.judge_config import (
    JudgeConfig,
    build_judge,
    build_thought_judge,
    warn_if_same_judge,
)
from jaxrl_scope.grading.judge_rules import RulesJudge
from jaxrl_scope.grading.llm_client import ChatConfig
from rewards.process import STEP_LABELS

U, M, D, R, E = StepLabel


def test_labels_stand_in_the_order_of_the_reward_kernels():
    assert tuple(label.name.lower() for label in StepLabel) == STEP_LABELS


def test_the_guard_waits_for_a_full_window_and_names_the_reasons():
    guard = FailureGuard(max_share=0.5, window=4)
    guard.record(["timeout", "refusal", None])
    assert guard.share == pytest.approx(2 / 3)
    guard.record([None])
    assert guard.share == 0.5
    with pytest.raises(JudgeFailureError, match=r"75% of the last 4 .*50%.*malformed, refusal"):
        guard.record([None, "malformed", "malformed", "refusal"])


def test_the_guard_forgets_what_left_the_window():
    guard = FailureGuard(max_share=0.0, window=2)
    guard.record(["timeout"])
    with pytest.raises(JudgeFailureError):
        guard.record([None])
    guard.record([None, None])
    assert guard.share == 0.0


@pytest.mark.parametrize("limits", [{"max_share": 1.5}, {"max_share": -0.1}, {"window": 0}])
def test_a_guard_with_senseless_limits_is_refused(limits):
    with pytest.raises(ValueError, match="must be"):
        FailureGuard(**limits)


def test_label_arrays_hold_zero_steps_where_the_judge_failed():
    results = [
        JudgeResult(steps=((0, 1), (1, 2), (2, 3)), labels=(E, U, R)),
        JudgeResult(failure="timeout"),
        JudgeResult(steps=((0, 5),), labels=(D,)),
    ]
    labels, num_steps, judged = pad_labels(results)
    assert labels.tolist() == [[4, 0, 3, 0], [0, 0, 0, 0], [2, 0, 0, 0]]
    assert num_steps.tolist() == [3, 0, 1] and judged.tolist() == [True, False, True]
    assert (labels.dtype, num_steps.dtype, judged.dtype) == (np.int32, np.int32, np.bool_)
    assert pad_labels([])[0].shape == (0, 1)


def words(problem, response):
    """Every word a step; 'bad' is an error; a digit is not of the language."""
    if any(character.isdigit() for character in response):
        raise ValueError("digits")
    spans, start = [], 0
    for word in response.split(" "):
        end = min(start + len(word) + 1, len(response))
        spans.append((start, end))
        start = end
    if not response:
        return [], []
    return spans, [E if "bad" in response[a:b] else U for a, b in spans]


def test_the_rules_judge_labels_counts_and_names_failures():
    judge = RulesJudge(words)
    items = [JudgeItem("p", text) for text in ("good bad good", "x 1", "")]
    results = judge.submit(items).result()
    assert results[0].labels == (U, E, U) and results[0].steps == ((0, 5), (5, 9), (9, 13))
    assert [result.failure for result in results] == [None, "not_in_language", "no_steps"]
    assert judge.metrics() == {
        "questions": 3.0,
        "failures": 2.0,
        "failures/no_steps": 1.0,
        "failures/not_in_language": 1.0,
    }
    judge.close()


@pytest.mark.parametrize(
    ("labelled", "message"),
    [
        (([(0, 2)], [U]), "partition"),
        (([(0, 4), (4, 4)], [U, U]), "partition"),
        (([(0, 4)], [U, U]), "2 labels for 1 steps"),
    ],
)
def test_a_faulty_labeller_is_an_error_and_not_a_reward(labelled, message):
    with pytest.raises(ValueError, match=message):
        RulesJudge(lambda problem, response: labelled).label_steps([JudgeItem("p", "text")])


def test_the_configuration_chooses_the_judge(chat_server, tmp_path):
    chat = ChatConfig(model="m", base_url=chat_server.url, api_key_env="")
    reply = {"steps": [{"first": 1, "last": 1, "label": "useful"}]}
    chat_server.script = [chat_server.acts.say(reply)]
    item = JudgeItem("p", "One step.")
    live = JudgeConfig(kind="openai", chat=chat, cache_dir=str(tmp_path))
    for config in (live, dataclasses.replace(live, kind="replay")):
        judge = build_judge(config)
        assert judge.label_steps([item])[0].labels == (U,)
        judge.close()
    assert len(chat_server.requests) == 1
    rules = build_judge(JudgeConfig(kind="rules"), words)
    assert rules.label_steps([item])[0].labels == (U, U)


def test_impossible_configurations_are_refused():
    with pytest.raises(ValueError, match="set cache_dir"):
        JudgeConfig(kind="replay")
    with pytest.raises(ValueError, match="max_share"):
        JudgeConfig(kind="rules", max_failure_share=2)
    for build in (build_judge, build_thought_judge):
        with pytest.raises(ValueError, match="built-in world only"):
            build(JudgeConfig(kind="rules"))


def test_one_judge_for_training_and_evaluation_is_warned_about(caplog):
    mini, other = (JudgeConfig(chat=ChatConfig(model=name)) for name in ("mini", "other"))
    rules = JudgeConfig(kind="rules")
    with caplog.at_level(logging.WARNING):
        assert not warn_if_same_judge(mini, other)
        assert not warn_if_same_judge(rules, rules)
        assert not caplog.records
        assert warn_if_same_judge(mini, dataclasses.replace(mini, kind="replay", cache_dir="x"))
    assert "same judge (mini)" in caplog.text
