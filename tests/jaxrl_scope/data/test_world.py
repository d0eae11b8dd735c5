"""The built-in world: arithmetic, scaffolds, demonstrations, exact labels, files."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxrl_scope.data.loaders import load_problems
from jaxrl_scope.data.scaffold_file import load_scaffolds
from jaxrl_scope.data.world import (
    Chain,
    Operation,
    apply,
    draw_chains,
    parse_chain,
    slip,
    to_problem,
    to_scaffold,
)
from jaxrl_scope.data.world_build import WorldConfig, demonstrations, prepare_world
from jaxrl_scope.data.world_demos import DemoRates, write_original, write_scaffolded
from jaxrl_scope.data.world_labels import label_trace, split_steps
from jaxrl_scope.data.world_tokenizer import make_tokenizer
from jaxrl_scope.grading import Verdict, is_correct, verify_scaffold
from jaxrl_scope.grading.judge import StepLabel
from jaxrl_scope.grading.segment import check_partition
from jaxrl_scope.train.warm_start import WarmStartConfig, pack
from models import load_hf

N = 61
CAREFUL = DemoRates(careful=1.0, check=0.0, restate=0.0, repair=0.0)
CHAIN = Chain(55, (Operation("-", 3), Operation("*", 2), Operation("+", 3)), N)
USEFUL, MECHANICAL, REDUNDANT, REVERSION, ERROR = StepLabel

operations = st.builds(Operation, st.sampled_from("+-*"), st.sampled_from([2, 3]))
chains = st.builds(
    Chain,
    st.integers(0, N - 1),
    st.lists(operations, min_size=1, max_size=8).map(tuple),
    st.just(N),
)
rates = st.builds(DemoRates, *[st.sampled_from([0.0, 0.3, 1.0])] * 6)


def test_values_by_hand():
    # 55-3 = 52; 52*2*2 = 208 = 25 mod 61; 25+3 = 28.
    assert CHAIN.values == (52, 25, 28)
    assert apply(55, Operation("-", 3), N) == [54, 53, 52]
    assert to_problem(CHAIN).text == "55 - 3 * 2 + 3 ?"
    assert to_problem(CHAIN).difficulty == "k3"


def test_scaffold_by_hand():
    scaffold = to_scaffold(CHAIN)
    assert scaffold.questions == ("55 - 3", "* 2")
    assert scaffold.answers == ("52", "25")
    content = scaffold.messages[0]["content"]
    assert content == "[SUB] 55 - 3 [SUB] * 2 [MAIN] 55 - 3 * 2 + 3 ?"
    assert to_scaffold(Chain(1, (Operation("+", 2),), N)) is None


@given(chains)
def test_chains_survive_their_text(chain):
    assert parse_chain(to_problem(chain).text, N) == chain


@pytest.mark.parametrize("text", ["", "5", "5 +", "5 + 2 -", "x + 2", "5 / 2", "5 + 2 + y"])
def test_text_that_is_no_chain_is_refused(text):
    with pytest.raises(ValueError, match="chain"):
        parse_chain(text, N)


def test_slips_are_wrong_and_never_cancel_over_plus_and_minus():
    for value, operator, count in itertools.product(range(N), "+-*", (2, 3)):
        operation = Operation(operator, count)
        right = apply(value, operation, N)[-1]
        assert slip(value, operation, N) != right or value == 0
        if operator != "*":
            assert (slip(value, operation, N) - right) % N == N - 1


@given(chains, rates, st.integers(0, 1000))
def test_labels_of_demonstrations_partition_and_agree_with_the_verifier(chain, rates, seed):
    problem = to_problem(chain)
    text = write_original(np.random.default_rng(seed), chain, rates)
    spans, labels = label_trace(problem.text, text, modulus=N)
    check_partition(spans, text)
    if ERROR not in labels:
        assert is_correct(problem.answer, text)
    if not is_correct(problem.answer, text):
        assert ERROR in labels


@given(chains, st.integers(0, 1000))
def test_careful_answers_are_right_on_both_prompts(chain, seed):
    rng = np.random.default_rng(seed)
    assert is_correct(to_problem(chain).answer, write_original(rng, chain, CAREFUL))
    scaffold = to_scaffold(chain)
    if scaffold is not None:
        sub, main = verify_scaffold(write_scaffolded(rng, chain, CAREFUL), scaffold)
        assert (sub == 1).all()
        assert main == 1


def test_labels_by_hand():
    trace = (
        "55 - 3 : 54 53 52 ; check 55 - 3 : 54 53 52 ; so 52 ; 52 * 2 = 24 ; wait 52 * 2 : 43 25 ; "
        "so 24 ; check 52 * 2 = 24 ; 25 + 3 : 26 27 28 ; hello ; \\boxed{ 28 }"
    )
    spans, labels = label_trace("55 - 3 * 2 + 3 ?", trace, modulus=N)
    assert labels == [
        USEFUL,
        REDUNDANT,
        MECHANICAL,
        ERROR,  # mental and wrong
        REVERSION,
        ERROR,  # restates a value that was taken back
        ERROR,  # a check that repeats the mistake
        USEFUL,
        ERROR,  # no step of the language; the box behind it joins it
    ]
    assert trace[slice(*spans[-1])] == "hello ; \\boxed{ 28 }"


@given(st.text(alphabet="5 +-*:=;wait check so boxed{}\\", max_size=80))
def test_any_text_is_labelled_without_losing_a_character(text):
    spans, labels = label_trace("55 - 3 ?", text, modulus=N)
    assert "".join(text[a:b] for a, b in spans) == text
    assert len(labels) == len(spans) == len(split_steps(text))


@given(chains, st.integers(0, 100))
def test_tokenizer_gives_the_text_back(chain, seed):
    tokenizer = make_tokenizer(N)
    rng = np.random.default_rng(seed)
    for text in (
        write_original(rng, chain, DemoRates()),
        write_scaffolded(rng, chain, DemoRates()),
    ):
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids) == text
        assert tokenizer.pad_token_id not in ids


def test_draws_are_distinct():
    drawn = draw_chains(np.random.default_rng(0), [2, 3], 200, N)
    assert len(set(drawn)) == 400
    assert [len(chain.operations) for chain in drawn[:4]] == [2, 3, 2, 3]


def test_packing_loses_nothing_and_keeps_demonstrations_apart():
    config = WorldConfig()
    source = demonstrations(config, np.random.default_rng(0), frozenset())
    demos = list(itertools.islice(source, 60))
    batches = list(pack(demos, rows=2, width=128))
    packed = sum(int((b.segments >= 0).sum()) for b in batches)
    assert 0 < packed <= sum(len(p) + len(r) for p, r in demos)
    prompt, response = demos[0]
    first = batches[0]
    np.testing.assert_array_equal(first.ids[0, : len(prompt)], prompt)
    assert not first.is_response[0, : len(prompt)].any()
    assert first.is_response[0, len(prompt) : len(prompt) + len(response)].all()
    for batch in batches:
        starts = (batch.positions == 0) & (batch.segments >= 0)
        assert (starts.sum(axis=1) == batch.segments.max(axis=1) + 1).all()


TINY = WorldConfig(
    train_per_length=20,
    eval_per_length=4,
    width=32,
    layers=1,
    warm_start=WarmStartConfig(updates=2, rows=4),
)


def test_files_load_through_the_loaders_of_real_data(tmp_path):
    files = prepare_world(TINY, tmp_path)
    train, _ = load_problems(files.train)
    held_out, _ = load_problems(files.validation)
    scaffolds, _ = load_scaffolds(files.scaffolds, problems=train)
    assert len(train) == 40
    assert len(held_out) == 20
    assert set(scaffolds) == {problem.id for problem in train}
    assert not {p.text for p in train} & {p.text for p in held_out}
    assert all(is_correct(p.answer, f"\\boxed{{{p.answer}}}") for p in train)
    config, _ = load_hf(files.model)
    assert config == dataclasses.replace(TINY.model, remat=config.remat)


def test_a_world_is_built_once_and_named_by_its_settings(tmp_path):
    built = []
    prepare_world(TINY, tmp_path, lambda update, loss: built.append(update))
    prepare_world(TINY, tmp_path, lambda update, loss: built.append(update))
    assert built == [1, 2]
    assert dataclasses.replace(TINY, seed=1).digest != TINY.digest
    assert [p.name for p in tmp_path.iterdir()] == [f"world-{TINY.digest}"]


def test_a_failed_build_leaves_nothing(tmp_path):
    def fail(update, loss):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_world(TINY, tmp_path, fail)
    assert list(tmp_path.iterdir()) == []


def test_parity_questions_are_answered_by_their_answers():
    """Right by working it out, and right half of the time by guessing."""
    rng = np.random.default_rng(0)
    chain = draw_chains(rng, [5], 1, N)[0]
    scaffold = to_scaffold(chain, parity=True)
    values = chain.values
    assert scaffold.questions[1:4] == (str(chain.operations[1]), "odd", str(chain.operations[2]))
    assert scaffold.answers[1:4] == (str(values[1]), str(values[1] % 2), str(values[2]))
    sub, main = verify_scaffold(write_scaffolded(rng, chain, CAREFUL, parity=True), scaffold)
    assert sub.tolist() == [Verdict.CORRECT] * 7
    assert main == Verdict.CORRECT
    careless = dataclasses.replace(CAREFUL, careful=0.0, mental_right=0.0)
    verdicts = [
        verify_scaffold(write_scaffolded(rng, chain, careless, parity=True), scaffold)[0]
        for _ in range(100)
    ]
    lucky = np.mean(np.array(verdicts)[:, [2, 4, 6]] == Verdict.CORRECT)
    assert 0.4 < lucky < 0.6
    assert len(make_tokenizer(N, parity=True)) == len(make_tokenizer(N)) + 1
