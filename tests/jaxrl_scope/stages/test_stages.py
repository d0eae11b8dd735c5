"""Routing, replacement, gates and rewards, with answers put in the policy's mouth.

A fake sampler answers from a function of the prompt's text and the rollout's number; everything
after it (tokenizer, verifier, kernels, experience) is the real thing.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future

import numpy as np
import pytest

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.prompts import PromptBuilder
from jaxrl_scope.data.world_tokenizer import make_tokenizer
from jaxrl_scope.grading import VerifierPool
from jaxrl_scope.grading.judge import JudgeFailureError, JudgeResult, StepLabel
from jaxrl_scope.grading.judge_config import JudgeConfig
from jaxrl_scope.rollout.types import Request, Rollouts, SamplingParams
from jaxrl_scope.stages.asr import AsrConfig, AsrStage
from jaxrl_scope.stages.base import Tools
from jaxrl_scope.stages.mix import MixStage
from jaxrl_scope.stages.outcome import OutcomeStage
from jaxrl_scope.stages.qpr import QprConfig, QprStage

WIDTH, GROUP = 24, 4
RULES = JudgeConfig(kind="rules")


class FakeSampler:
    """Answers from a function; `...` at the end means truncated, `LOST` that nothing came back."""

    def __init__(self, tokenizer, answer: Callable[[str, int], str]):
        self.tokenizer, self.answer = tokenizer, answer
        self.prompts: list[str] = []
        self.keys: list[int] = []

    def generate(self, requests: Sequence[Request], params: SamplingParams) -> Rollouts:
        shape = (len(requests), params.num_rollouts)
        ids, lengths = np.zeros((*shape, WIDTH), np.int32), np.zeros(shape, np.int32)
        finished, valid = np.ones(shape, bool), np.ones(shape, bool)
        for b, request in enumerate(requests):
            prompt = self.tokenizer.decode(request.prompt_ids)
            self.prompts.append(prompt)
            self.keys.append(request.key)
            for g in range(params.num_rollouts):
                text = self.answer(prompt, g)
                valid[b, g] = text != "LOST"
                finished[b, g] = not text.endswith("...")
                row = self.tokenizer(text.removesuffix("...").replace("LOST", "?"))["input_ids"]
                row = row + [self.tokenizer.eos_token_id] * bool(finished[b, g])
                ids[b, g, : len(row)], lengths[b, g] = row, len(row)
        logprobs = np.full(ids.shape, -1.0, np.float32)
        return Rollouts(ids, lengths, logprobs, finished, np.zeros(shape, np.int32), valid)

    def load(self, params: object, version: int) -> None:
        del params, version

    def close(self) -> None:
        pass


class FakeJudge:
    """Labels every trace with as many useful steps as `useful` says, and records what it saw."""

    def __init__(self, useful: Callable[[str], int | None]):
        self.useful = useful
        self.seen: list[str] = []

    def submit(self, items) -> "Future[list[JudgeResult]]":
        self.seen += [item.response for item in items]
        done: Future[list[JudgeResult]] = Future()
        done.set_result([self._judge(item.response) for item in items])
        return done

    def _judge(self, response: str) -> JudgeResult:
        useful = self.useful(response)
        if useful is None:
            return JudgeResult(failure="refusal")
        labels = [StepLabel.USEFUL] * useful + [StepLabel.REDUNDANT]
        return JudgeResult(tuple((i, i + 1) for i in range(len(labels))), tuple(labels))

    def metrics(self):
        return {"calls": float(len(self.seen))}

    def close(self) -> None:
        pass


def box(value: object) -> str:
    return f"\\boxed{{ {value} }}"


def make_problem(name: str, text: str, answer: str, difficulty: str = "") -> Problem:
    message = ({"role": "user", "content": text},)
    return Problem(name, text, answer, difficulty=difficulty, messages=message)


def make_scaffold(problem: Problem, *answers: str) -> Scaffold:
    text = "[SUB] " * len(answers) + f"[MAIN] {problem.text}"
    message = ({"role": "user", "content": text},)
    questions = tuple(f"question {i}" for i in range(len(answers)))
    return Scaffold(problem.id, questions, answers, problem.text, problem.answer, message)


EASY, HARD = make_problem("easy", "5 + 2 ?", "7", "k1"), make_problem("hard", "5 * 2 ?", "20", "k5")
SCAFFOLD = make_scaffold(HARD, "10", "15")
SCAFFOLDED = (  # one answer per rollout, with its prefix-product reward at beta = .5
    (f"[SUB-1 ANSWER] {box(10)} [SUB-2 ANSWER] {box(15)} [MAIN ANSWER] {box(20)}", 1.0),
    (f"[SUB-1 ANSWER] {box(10)} [SUB-2 ANSWER] {box(15)} [MAIN ANSWER] {box(21)}", 0.5),
    (f"[SUB-1 ANSWER] {box(11)} [SUB-2 ANSWER] {box(15)} [MAIN ANSWER] {box(20)}", 0.0),
    (f"[SUB-1 ANSWER] {box(10)} [MAIN ANSWER] {box(20)}", 0.25),
)


def answer(prompt: str, g: int) -> str:
    if "[SUB]" in prompt:
        return SCAFFOLDED[g][0]
    return box(7) if prompt == EASY.text and g != 3 else box(0)


@pytest.fixture
def make_tools():
    opened: list[Tools] = []

    def build(answer=answer, scaffolds: Sequence[Scaffold] = (SCAFFOLD,)) -> Tools:
        tokenizer = make_tokenizer(61)
        opened.append(
            Tools(
                sampler=FakeSampler(tokenizer, answer),
                prompts=PromptBuilder(tokenizer),
                tokenizer=tokenizer,
                verifier=VerifierPool(num_workers=1),
                scaffolds={s.problem_id: s for s in scaffolds},
                sampling=SamplingParams(num_rollouts=GROUP, max_response_len=WIDTH),
            )
        )
        return opened[-1]

    yield build
    for tools in opened:
        tools.close()


def normalised(rewards: Sequence[float]) -> np.ndarray:
    rewards = np.array(rewards)
    return (rewards - rewards.mean()) / rewards.std()


def advantages(experience, group: int) -> np.ndarray:
    """[G] advantages of one group, checked to be constant over the tokens of each rollout."""
    rows = experience.advantages[group * GROUP : (group + 1) * GROUP]
    assert (rows == rows[:, :1]).all()
    return rows[:, 0]


def test_outcome_stage_rewards_the_verdict(make_tools):
    experience = OutcomeStage().collect([EASY, HARD], make_tools())
    np.testing.assert_allclose(advantages(experience, 0), normalised([1, 1, 1, 0]), rtol=1e-5)
    assert not advantages(experience, 1).any()  # all wrong: no gradient
    assert experience.metrics["outcome/mean"] == 3 / 8
    assert experience.metrics["eta_r"] == 0.5


def test_hard_problem_is_replaced_by_its_scaffold_and_easy_one_kept(make_tools):
    tools = make_tools()
    experience = AsrStage(AsrConfig()).collect([EASY, HARD], tools)
    assert experience.num_rows == 2 * GROUP
    np.testing.assert_allclose(advantages(experience, 0), normalised([1, 1, 1, 0]), rtol=1e-5)
    expected = normalised([reward for _, reward in SCAFFOLDED])
    np.testing.assert_allclose(advantages(experience, 1), expected, rtol=1e-5)
    assert experience.metrics["route/share"] == 0.5
    assert experience.metrics["outcome/mean"] == 3 / 8  # of the original prompts
    assert tools.sampler.prompts == [EASY.text, HARD.text, SCAFFOLD.messages[0]["content"]]
    # The prompt trained on is the scaffold's, left-padded.
    length = experience.prompt_len[GROUP]
    text = tools.tokenizer.decode(experience.prompt_ids[GROUP, -length:])
    assert text == SCAFFOLD.messages[0]["content"]


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        ("prefix", [r for _, r in SCAFFOLDED]),
        ("independent", [1.0, 0.5, 0.75, 0.75]),
        ("final", [1.0, 0.0, 1.0, 1.0]),
    ],
)
def test_reward_variants(make_tools, reward, expected):
    stage = AsrStage(AsrConfig(routing="all", reward=reward))
    experience = stage.collect([HARD], make_tools())
    np.testing.assert_allclose(advantages(experience, 0), normalised(expected), rtol=1e-4)
    np.testing.assert_allclose(experience.metrics["reward/mean"], np.mean(expected), rtol=1e-6)


def test_all_routed_makes_no_original_rollouts(make_tools):
    tools = make_tools()
    AsrStage(AsrConfig(routing="all")).collect([HARD], tools)
    assert tools.sampler.prompts == [SCAFFOLD.messages[0]["content"]]


def test_no_routing_is_the_outcome_stage(make_tools):
    asr = AsrStage(AsrConfig(routing="none")).collect([EASY, HARD], make_tools())
    outcome = OutcomeStage().collect([EASY, HARD], make_tools())
    np.testing.assert_array_equal(asr.advantages, outcome.advantages)
    np.testing.assert_array_equal(asr.response_ids, outcome.response_ids)


def test_offline_routing_goes_by_label(make_tools):
    tools = make_tools(scaffolds=(make_scaffold(EASY, "6"), SCAFFOLD))
    AsrStage(AsrConfig(routing="offline", hard_labels=("k5",))).collect([EASY, HARD], tools)
    assert tools.sampler.prompts[2:] == [SCAFFOLD.messages[0]["content"]]
    with pytest.raises(ValueError, match="hard_labels"):
        AsrConfig(routing="offline")


def test_no_decomposition_resamples_the_original_prompt(make_tools):
    tools = make_tools(scaffolds=())
    experience = AsrStage(AsrConfig(resample="original")).collect([EASY, HARD], tools)
    assert tools.sampler.prompts == [EASY.text, HARD.text, HARD.text]
    assert len(set(tools.sampler.keys)) == 3  # fresh rollouts, not the same ones again
    assert experience.metrics["route/share"] == 0.5


def test_a_routed_problem_without_scaffold_keeps_its_group(make_tools):
    experience = AsrStage(AsrConfig()).collect([EASY, HARD], make_tools(scaffolds=()))
    assert experience.metrics["route/scaffold_miss"] == 1.0
    assert experience.metrics["route/share"] == 0.0
    assert experience.num_rows == 2 * GROUP


@pytest.mark.parametrize(("tau", "routed"), [(0.75, 0.0), (0.76, 1.0), (0.0, 0.0)])
def test_routing_threshold_is_strict(make_tools, tau, routed):
    tools = make_tools(scaffolds=(make_scaffold(EASY, "6"),))
    experience = AsrStage(AsrConfig(tau=tau)).collect([EASY], tools)
    assert experience.metrics["route/wanted"] == routed


def test_truncated_is_wrong_and_lost_leaves_the_group(make_tools):
    texts = [box(7), f"{box(7)}...", "LOST", box(8)]
    experience = OutcomeStage().collect([EASY], make_tools(lambda prompt, g: texts[g]))
    np.testing.assert_allclose(
        advantages(experience, 0), [np.sqrt(2), -np.sqrt(0.5), 0, -np.sqrt(0.5)], rtol=1e-5
    )
    assert experience.mask.any(axis=1).tolist() == [True, True, False, True]
    assert experience.metrics["response_length/clip_ratio"] == pytest.approx(1 / 3)


def test_mask_covers_the_response_and_its_end(make_tools):
    experience = OutcomeStage().collect([EASY], make_tools())
    np.testing.assert_array_equal(experience.mask.sum(axis=1), experience.response_len)


def test_a_problem_twice_in_a_batch_gets_different_rollouts(make_tools):
    tools = make_tools()
    OutcomeStage().collect([EASY, EASY], tools)
    assert len(set(tools.sampler.keys)) == 2


# Four right answers of EASY: 3 of 4, 1 of 2 and 1 of 2 steps useful; the last is wrong.
TRACES = (f"+ + + {box(7)}", f"+ {box(7)}", f"+ {box(7)}", f"+ + {box(8)}")


def count_pluses(response: str) -> int | None:
    return response.count("+")


def quality(useful: int) -> float:
    """S_u x Φ x κ of `useful` useful steps and a redundant one (spec section 3)."""
    n = useful + 1
    return useful / n * (1 - 0.20 / n) / (1 + 0.5 * np.log(n + 1))


@pytest.mark.parametrize("chunks", [1, 2])
def test_qpr_judges_only_the_correct_and_rewards_their_steps(make_tools, chunks):
    judge = FakeJudge(count_pluses)
    stage = QprStage(QprConfig(judge=RULES, chunks=chunks), judge)
    tools = make_tools(lambda prompt, g: TRACES[g])
    experience = stage.collect([EASY, HARD], tools)
    assert judge.seen == list(TRACES[:3])
    expected = normalised([quality(3), quality(1), quality(1), 0.0])
    np.testing.assert_allclose(advantages(experience, 0), expected, rtol=1e-4)
    assert experience.metrics["steps/useful"] == pytest.approx(5 / 8)
    assert experience.metrics["outcome/mean"] == 3 / 8


def test_a_judge_failure_leaves_the_group_and_is_not_a_zero(make_tools):
    judge = FakeJudge(lambda response: None if response == TRACES[0] else count_pluses(response))
    experience = QprStage(QprConfig(judge=RULES), judge).collect(
        [EASY], make_tools(lambda prompt, g: TRACES[g])
    )
    # The two equal correct ones against the wrong one; nothing for the one that was not judged.
    expected = [0.0, np.sqrt(0.5), np.sqrt(0.5), -np.sqrt(2)]
    np.testing.assert_allclose(advantages(experience, 0), expected, rtol=1e-5)
    assert not experience.mask[0].any()
    assert experience.metrics["judge/failed"] == 1.0


def test_too_many_judge_failures_stop_the_run(make_tools):
    config = JudgeConfig(kind="rules", max_failure_share=0.5, failure_window=3)
    stage = QprStage(QprConfig(judge=config), FakeJudge(lambda response: None))
    with pytest.raises(JudgeFailureError, match="judge failed"):
        stage.collect([EASY], make_tools(lambda prompt, g: TRACES[g]))


def test_overlong_penalty_needs_no_judge(make_tools):
    stage = QprStage(QprConfig(reward="overlong", overlong_buffer=WIDTH), None)
    experience = stage.collect([EASY], make_tools(lambda prompt, g: TRACES[g]))
    lengths = experience.response_len
    expected = normalised(np.array([1, 1, 1, 0]) - lengths / WIDTH)
    np.testing.assert_allclose(advantages(experience, 0), expected, rtol=1e-4)


def test_holistic_reward_and_judge_go_together():
    with pytest.raises(ValueError, match="holistic"):
        QprConfig(reward="holistic", judge=RULES)


def test_mix_routes_hard_problems_and_judges_the_others(make_tools):
    def both(prompt: str, g: int) -> str:
        return TRACES[g] if prompt == EASY.text else answer(prompt, g)

    judge = FakeJudge(count_pluses)
    stage = MixStage(AsrConfig(), QprStage(QprConfig(judge=RULES), judge))
    experience = stage.collect([EASY, HARD], make_tools(both))
    assert judge.seen == list(TRACES[:3])
    easy = normalised([quality(3), quality(1), quality(1), 0.0])
    np.testing.assert_allclose(advantages(experience, 0), easy, rtol=1e-4)
    hard = normalised([reward for _, reward in SCAFFOLDED])
    np.testing.assert_allclose(advantages(experience, 1), hard, rtol=1e-4)
