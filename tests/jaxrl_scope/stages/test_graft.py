"""Stage `graft`: ledgers from text, credit per token, the arms, the guard."""

import dataclasses
import json

import numpy as np
import pytest

from jaxrl_scope.data.code_demos import code_prompt, code_vocabulary, write_code
from jaxrl_scope.data.code_operators import TINY
from jaxrl_scope.data.code_problems import to_problem
from jaxrl_scope.data.code_world import draw_problems
from jaxrl_scope.data.prompts import PromptBuilder
from jaxrl_scope.data.world_tokenizer import word_tokenizer
from jaxrl_scope.grading import VerifierPool
from jaxrl_scope.grading.code_verifier import CodeVerifier
from jaxrl_scope.grading.sandbox import Limits, SandboxPool
from jaxrl_scope.rollout.types import Rollouts, SamplingParams
from jaxrl_scope.stages.base import Tools
from jaxrl_scope.stages.graft import (
    GraftConfig,
    GraftStage,
    PassRateGuard,
    PassRateGuardError,
    credit,
    grade_steps,
)
from rewards import sciwalker_advantages

GROUP, WIDTH = 4, 96
FLAWLESS = {"slip": 0.0, "as_list": 0.0, "rename": 0.0, "inline": 0.0}


@dataclasses.dataclass
class Scripted:
    """A sampler that says what it is told, by prompt."""

    tokenizer: object
    texts: list[list[str]]

    def generate(self, requests, params):
        del params
        shape = (len(requests), GROUP)
        ids, lengths = np.zeros((*shape, WIDTH), np.int32), np.zeros(shape, np.int32)
        for b, row in enumerate(self.texts):
            for g, text in enumerate(row):
                tokens = self.tokenizer(f"{text} {self.tokenizer.eos_token}")["input_ids"]
                ids[b, g, : len(tokens)], lengths[b, g] = tokens, len(tokens)
        full = np.ones(shape, bool)
        zeros = np.zeros(ids.shape, np.float32)
        return Rollouts(ids, lengths, zeros, full, np.zeros(shape, np.int32), full)

    def load(self, params, version):
        del params, version

    def close(self):
        pass


@pytest.fixture(scope="module")
def pool():
    with SandboxPool(2, Limits(wall_s=30.0)) as pool:
        yield pool


@pytest.fixture(scope="module")
def batch(pool):
    """Two problems of 3 and 4 steps; in each group: right, first step wrong, last wrong, empty."""
    tokenizer = word_tokenizer(*code_vocabulary())
    pairs = draw_problems(np.random.default_rng(8), (3, 4), 1, TINY)
    from jaxrl_scope.data.code_demos import CodeDemoRates

    texts = []
    for walk, problem in pairs:
        right = write_code(np.random.default_rng(0), walk, CodeDemoRates(**FLAWLESS))
        n = len(problem.steps)
        first = right.replace("return", "return - 1 *", 1)
        last = right.replace(f"def s{n} ( x ) : return", f"def s{n} ( x ) : return - 1 *")
        texts.append([right, first, last, ""])
    tools = Tools(
        sampler=Scripted(tokenizer, texts),
        prompts=PromptBuilder(tokenizer),
        tokenizer=tokenizer,
        verifier=CodeVerifier(pool),
        scaffolds={},
        sampling=SamplingParams(GROUP, WIDTH),
    )
    return [to_problem(p, code_prompt(w)) for w, p in pairs], tools


def graded(batch):
    from jaxrl_scope.stages.base import roll_out

    problems, tools = batch
    prompts = [tools.prompts.original(problem) for problem in problems]
    return grade_steps(problems, roll_out(tools, prompts, ["a", "b"], "original"), tools)


def test_ledger_of_known_responses(batch):
    result = graded(batch)
    assert result.num_steps.tolist() == [3, 4]
    assert result.end_to_end.tolist() == [[True, False, False, False]] * 2
    assert result.keep.all()
    ledger = result.ledger
    assert np.asarray(ledger.first_failure).tolist() == [[4, 1, 3, 1], [5, 1, 4, 1]]
    assert np.asarray(ledger.grafted)[0, 1].tolist() == [False, True, True, False]
    assert not np.asarray(ledger.alignable)[:, 3].any()


def test_tokens_belong_to_their_steps(batch):
    problems, tools = batch
    result = graded(batch)
    ids = tools.sampler.generate([0, 0], None).response_ids
    words = [tools.tokenizer.decode([int(i)]) for i in ids[1, 0]]
    for t in range(4):
        own = [w for w, s in zip(words, result.step_of_token[1, 0], strict=True) if s == t]
        assert own[:3] == [f"[STEP-{t + 1}]", "def", f"s{t + 1}"]
    # The end-of-text token is decided with the last step; padding with none.
    end = words.index(tools.tokenizer.eos_token)
    assert result.step_of_token[1, 0, end] == 3
    assert len(problems) == 2


def test_arm_a_is_sciwalker_bit_for_bit(batch):
    result = graded(batch)
    advantages, mask, _ = credit(result, GraftConfig(credit="A", lam=0.5))
    plain = sciwalker_advantages(result.ledger.passed, result.num_steps, result.keep)
    assert np.array_equal(advantages, np.asarray(plain.advantages))
    assert np.array_equal(mask, np.asarray(plain.mask))
    zero, _, _ = credit(result, GraftConfig(credit="B", lam=0.0))
    assert np.array_equal(zero, advantages)


@pytest.mark.parametrize("kind", ["B", "C", "D", "gigpo", "beacon"])
def test_each_credit_is_another(kind, batch):
    result = graded(batch)
    base = credit(result, GraftConfig(credit="A"))
    other = credit(result, GraftConfig(credit=kind))
    assert any(not np.array_equal(a, b) for a, b in zip(base[:2], other[:2], strict=True))
    assert np.isfinite(other[0]).all()


def test_degenerate_cells_leave_the_loss(batch):
    problems, tools = batch
    result = graded(batch)
    advantages, mask, degenerate = credit(result, GraftConfig(credit="C"))
    # Step 2: the two trajectories whose first step holds both pass it: no variance.
    assert degenerate[:, 1].all()
    assert not mask[:, :, 1].any()
    assert (advantages[~mask] == 0).all()
    experience = GraftStage(GraftConfig(credit="C")).collect(problems, tools)
    own = result.step_of_token.reshape(8, -1)
    assert not experience.mask[own == 1].any()
    assert experience.mask[own == 0].any()
    assert experience.metrics["graft/group_degenerate_rate"] > 0


def test_metrics_rows_and_experience(batch, tmp_path):
    problems, tools = batch
    stage = GraftStage(GraftConfig(credit="D"), tmp_path / "ledger.jsonl")
    experience = stage.collect(problems, tools)
    rows = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    assert [row["tau"] for row in rows[:4]] == [4, 1, 3, 1]
    assert rows[1]["grafted"] == [0, 1, 1]
    assert rows[3]["grafted"] == [None] * 3
    assert rows[3]["epsilon"] == [None] * 3
    assert experience.metrics["graft/end_to_end"] == 0.25
    # The grafted rate is a training signal; nothing of it stands under another name.
    named = {name for name in experience.metrics if "grafted" in name}
    assert named == {"train_signal/grafted"}
    assert all(not name.startswith("eval/") for name in experience.metrics)
    assert (experience.advantages[~experience.mask] == 0).all()


def test_answers_are_no_code_problems(batch):
    problems, tools = batch
    with VerifierPool() as verifier:
        other = dataclasses.replace(tools, verifier=verifier)
        with pytest.raises(ValueError, match="needs code problems"):
            GraftStage(GraftConfig()).collect(problems, other)


def test_guard_looks_at_the_end_to_end_rate():
    config = GraftConfig(guard="stop", guard_window=2, guard_margin=0.05)
    guard = PassRateGuard(config)
    assert not any(guard.look(0.5 + 0.1 * i, 0.5) for i in range(6))  # rises, does not fall
    guard = PassRateGuard(config)
    assert not any(guard.look(0.5, 0.5 - 0.05 * i) for i in range(6))  # both stay or fall
    guard = PassRateGuard(config)
    with pytest.raises(PassRateGuardError, match=r"graft.lam"):
        for i in range(6):
            guard.look(0.5 + 0.1 * i, 0.5 - 0.1 * i)


def test_guard_may_warn_or_be_off(capsys):
    def looked(guard):
        watch = PassRateGuard(GraftConfig(guard=guard, guard_window=1, guard_margin=0.05))
        return [watch.look(r, e) for r, e in ((0.5, 0.5), (0.7, 0.3))]

    assert looked("warn") == [False, True]
    assert "end-to-end pass rate fell" in capsys.readouterr().out
    assert looked("off") == [False, False]


@pytest.mark.parametrize("bad", [{"lam": 1.0}, {"min_group": 1}, {"guard_window": 0}])
def test_bad_settings_are_named(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        GraftConfig(**bad)
