"""TP-GRPO's stage: what is judged, where rewards lie, and how it falls back to plain GRPO."""

from types import SimpleNamespace

import numpy as np
import pytest

from jaxrl_scope.data.problems import Problem
from jaxrl_scope.data.world_thoughts import label_thoughts
from jaxrl_scope.data.world_tokenizer import make_tokenizer
from jaxrl_scope.grading.judge import JudgeFailureError
from jaxrl_scope.grading.judge_config import JudgeConfig
from jaxrl_scope.grading.thought_judge import RulesThoughtJudge, ThoughtSkips
from jaxrl_scope.grading.thought_tokens import TokenThoughts
from jaxrl_scope.rollout.types import Rollouts
from jaxrl_scope.stages.base import Groups, Tools
from jaxrl_scope.stages.outcome import OutcomeStage
from jaxrl_scope.stages.phased import Rolled
from jaxrl_scope.stages.propositions import PropositionError, check_propositions
from jaxrl_scope.stages.tp import TpConfig, TpStage
from rewards import group_advantages

TOKENIZER = make_tokenizer(61)
PROBLEM = Problem(
    "p", "55 - 3 * 2 ?", "25", messages=({"role": "user", "content": "55 - 3 * 2 ?"},)
)
STRAIGHT = "55 - 3 : 54 53 52 ; 52 * 2 : 43 25 ; \\boxed{ 25 }"
MENDED = "55 - 3 = 51 ; wait 55 - 3 : 54 53 52 ; 52 * 2 : 43 25 ; \\boxed{ 25 }"
WRONG = "55 - 3 = 51 ; 51 * 2 = 21 ; so 21 ; \\boxed{ 21 }"
RULES = JudgeConfig(kind="rules", failure_window=4)
JUDGE_ALL = ThoughtSkips(0, 0)


def roll(*answers: str, truncated: bool = False) -> Rolled:
    """One group with these answers; verdicts by the box."""
    rows = [TOKENIZER(text + f" {TOKENIZER.eos_token}")["input_ids"] for text in answers]
    width = max(map(len, rows)) + 3
    ids, length = np.zeros((1, len(rows), width), np.int32), np.zeros((1, len(rows)), np.int32)
    for g, row in enumerate(rows):
        ids[0, g, : len(row)], length[0, g] = row, len(row)
    ones = np.ones(length.shape, bool)
    rollouts = Rollouts(ids, length, np.zeros(ids.shape, np.float32), ones, ones * 0, ones)
    if truncated:
        rollouts = Rollouts(ids, length, rollouts.logprobs, ~ones, ones * 0, ones)
    verdicts = np.array([["25 }" in text and not truncated for text in answers]], np.int8)
    return Rolled(Groups([np.array([5], np.int32)], rollouts, [list(answers)]), verdicts)


def make_tools() -> Tools:
    unused = SimpleNamespace()
    return Tools(unused, unused, TOKENIZER, unused, {}, unused)  # pyright: ignore[reportArgumentType]


def labeller(problem: str, response: str, correct: bool):
    return label_thoughts(problem, response, correct, modulus=61)


def reward(rolled: Rolled, labeller=labeller, **settings):
    config = TpConfig(
        **({"skips": JUDGE_ALL, "judge": RULES, "check_propositions": True} | settings)
    )
    return TpStage(config, RulesThoughtJudge(labeller)).reward([PROBLEM], rolled, make_tools())


def outcome(rolled: Rolled):
    return OutcomeStage().reward([PROBLEM], rolled, make_tools())


def test_a_mixed_group_by_hand():
    rolled = roll(MENDED, WRONG)
    advantages = reward(rolled, alpha=0.5).advantages
    length = rolled.groups.rollouts.response_len[0]
    # acc_mean = 1/2, so r_c = 1/4; "55 - 3 = 51 ;" is six tokens, and "wait" is none of them.
    bad = 6
    assert advantages[0, :bad].tolist() == [0.75] * bad
    assert advantages[0, bad : length[0]].tolist() == [1.0] * (length[0] - bad)
    # "so 21 ;" is not used by the answer.
    unused = slice(2 * bad, 2 * bad + 3)
    assert advantages[1, unused].tolist() == [0.0] * 3
    rest = np.delete(advantages[1, : length[1]], np.arange(length[1])[unused])
    assert rest.tolist() == [-1.0] * (length[1] - 3)
    assert not advantages[1, length[1] :].any()


def test_all_wrong_groups_are_plain_grpo():
    rolled = roll(WRONG, WRONG, STRAIGHT.replace("25 }", "24 }"))
    assert (reward(rolled).advantages == outcome(rolled).advantages).all()


def test_all_right_groups_still_learn():
    experience = reward(roll(MENDED, STRAIGHT), alpha=0.75)
    assert set(np.unique(experience.advantages)) == {np.float32(-0.75), np.float32(0.0)}
    assert experience.metrics["eta_r"] == 0
    assert experience.metrics["tp/eta"] == 1
    assert not experience.advantages[1].any()


@pytest.mark.parametrize(
    ("rolled", "skips", "reason"),
    [
        (roll(MENDED, STRAIGHT), ThoughtSkips(10_000, 0), "short_think"),
        (roll(WRONG, WRONG), ThoughtSkips(0, 10_000), "short_answer"),
        (roll(MENDED, WRONG, truncated=True), JUDGE_ALL, "truncated"),
    ],
)
def test_skipped_responses_keep_the_outcome_advantage(rolled, skips, reason):
    experience = reward(rolled, skips=skips)
    assert experience.metrics[f"tp/skipped/{reason}"] == 2
    assert experience.metrics["tp/judged"] == 0
    assert (experience.advantages == outcome(rolled).advantages * experience.mask).all()


def test_skips_count_characters_not_tokens():
    rolled = roll(WRONG, STRAIGHT)
    for least, judged in ((len(WRONG), 2), (len(WRONG) + 1, 1)):
        metrics = reward(rolled, skips=ThoughtSkips(0, least)).metrics
        assert metrics["tp/judged"] == judged


@pytest.mark.parametrize(("only", "row"), [("correct", 1), ("incorrect", 0)])
def test_a_variant_leaves_the_other_kind_to_plain_grpo(only, row):
    rolled = roll(MENDED, WRONG)
    experience, plain = reward(rolled, only=only), outcome(rolled)
    masked = plain.advantages * plain.mask
    assert (experience.advantages[row] == masked[row]).all()
    assert (experience.advantages[1 - row] != masked[1 - row]).any()
    assert experience.metrics["tp/judged"] == 1


def test_without_process_rewards_it_is_plain_grpo():
    rolled = roll(MENDED, STRAIGHT, WRONG)
    experience, plain = reward(rolled, alpha=0.0, only="correct"), outcome(rolled)
    assert (experience.advantages == plain.advantages * plain.mask).all()


def test_a_failed_judge_leaves_the_group_and_the_loss():
    def refuse(problem, response, correct):
        if response.startswith("55 - 3 = 51 ; wait"):
            raise ValueError("not of the language")
        return labeller(problem, response, correct)

    experience = reward(roll(MENDED, STRAIGHT, WRONG), refuse)
    assert not experience.mask[0].any()
    assert experience.mask[1:].any(axis=1).all()
    expected = np.asarray(
        group_advantages(np.array([0.0, 1.0, 0.0]), np.array([False, True, True]))
    )
    assert experience.advantages[1, 0] == expected[1]


def test_a_judge_that_always_fails_stops_the_run():
    def refuse(problem, response, correct):
        raise ValueError("down")

    with pytest.raises(JudgeFailureError, match="100%"):
        reward(roll(MENDED, STRAIGHT, WRONG, WRONG), refuse)


def test_metrics_count_tokens_of_bad_thoughts():
    rolled = roll(MENDED, STRAIGHT, WRONG)
    metrics = reward(rolled).metrics
    length = rolled.groups.rollouts.response_len[0]
    assert metrics["tp/bad_share/correct"] == pytest.approx(6 / length[:2].sum())
    assert metrics["tp/bad_share/incorrect"] == pytest.approx(3 / length[2])
    assert metrics["tp/thoughts/correct"] == 1.5


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 1.5},
        {"alpha": -0.1},
        {"skips": ThoughtSkips(-1, 0)},
        {"skips": ThoughtSkips(0, -1)},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=r"tp\."):
        TpConfig(**settings)


@pytest.mark.parametrize("correct", [True, False])
@pytest.mark.parametrize("token", [0, 3, 5])
def test_the_check_finds_a_wrong_advantage(correct, token):
    thoughts = [TokenThoughts(np.array([True, False, True]), np.array([2, 4, 6], np.int32))]
    size, base = (0.5, 1.0) if correct else (-1.0, -1.0)
    advantages = np.full((1, 7), base, np.float32)
    advantages[0, 2:4] = base - size
    arguments = (thoughts, np.array([6]), np.array([base]), np.array([size]), np.array([correct]))
    check_propositions(advantages, *arguments)
    advantages[0, token] += 0.01
    with pytest.raises(
        PropositionError, match=f"token {token} .*Proposition {1 if correct else 2}"
    ):
        check_propositions(advantages, *arguments)


def test_the_check_finds_tokens_of_no_thought():
    thoughts = [TokenThoughts(np.array([True]), np.array([3], np.int32))]
    with pytest.raises(PropositionError, match="cover 3 of its 4"):
        check_propositions(np.ones((1, 4)), thoughts, np.array([4]), *[np.ones(1)] * 3)
