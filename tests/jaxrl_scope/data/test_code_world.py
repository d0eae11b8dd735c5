"""Generated code problems, their tiny language, and how responses are cut into steps."""

import dataclasses
import itertools

import numpy as np
import pytest

from jaxrl_scope.data.code_demos import (
    CodeDemoRates,
    code_prompt,
    code_vocabulary,
    split_steps,
    write_code,
)
from jaxrl_scope.data.code_operators import OPERATORS, TINY
from jaxrl_scope.data.code_problems import PrefixLibrary, from_json, to_json
from jaxrl_scope.data.code_world import draw_problems, draw_walk, make_problem
from jaxrl_scope.data.code_world_build import CodeWorldConfig
from jaxrl_scope.data.world_tokenizer import word_tokenizer
from jaxrl_scope.grading.code_verifier import CodeVerifier
from jaxrl_scope.grading.grafting import Grafter, check_references
from jaxrl_scope.grading.sandbox import PRELOAD_SCIENCE, Limits, SandboxPool
from jaxrl_scope.grading.verdicts import Item, Verdict

FLAWLESS = CodeDemoRates(slip=0.0, as_list=0.0, rename=0.0, inline=0.0)


@pytest.fixture(scope="module")
def pool():
    with SandboxPool(2, Limits(wall_s=60.0), preload=PRELOAD_SCIENCE) as pool:
        yield pool


def tiny_problems(count):
    return draw_problems(np.random.default_rng(5), (3, 4), count, TINY)


def test_operators_are_a_few_dozen_with_distinct_names():
    assert len(OPERATORS) >= 36
    assert len({operator.name for operator in OPERATORS}) == len(OPERATORS)
    assert {o.takes for o in OPERATORS} == {o.gives for o in OPERATORS}


def test_both_implementations_of_every_operator_agree(pool):
    """Each operator at the end of a walk that reaches it, on values, edge cases and invariant."""
    rng, problems = np.random.default_rng(0), []
    for wanted in OPERATORS:
        found = None
        while found is None:
            walk = draw_walk(rng, 3)
            if wanted in [link.operator for link in walk]:
                found = make_problem(walk, rng)
        problems.append(found)
    assert check_references(problems, pool) == []


def test_walks_follow_the_types():
    rng = np.random.default_rng(1)
    for length in (3, 4, 5, 6):
        for _ in range(20):
            walk = draw_walk(rng, length)
            assert len(walk) == length
            assert walk[0].operator.takes == "vector"
            for before, after in itertools.pairwise(walk):
                assert before.operator.gives == after.operator.takes
                assert before.operator != after.operator


def test_problems_survive_json_and_are_the_same_for_a_seed():
    first, again = tiny_problems(4), tiny_problems(4)
    assert [to_json(p) for _, p in first] == [to_json(p) for _, p in again]
    problem = first[0][1]
    back = from_json(to_json(problem))
    assert [s.tests for s in back.steps] == [s.tests for s in problem.steps]
    with pytest.raises(ValueError, match="not a code problem"):
        from_json("{}")


def test_flawless_demonstrations_pass_and_slips_fail(pool):
    pairs = tiny_problems(8)
    rng = np.random.default_rng(2)
    verifier = CodeVerifier(pool)

    def share(rates):
        items = [Item(to_json(p), write_code(rng, walk, rates)) for walk, p in pairs]
        return float(np.mean(verifier.verify_batch(items) == Verdict.CORRECT))

    assert share(FLAWLESS) == 1.0
    assert share(dataclasses.replace(FLAWLESS, inline=1.0)) == 1.0
    assert share(dataclasses.replace(FLAWLESS, slip=1.0)) == 0.0
    assert share(dataclasses.replace(FLAWLESS, rename=1.0)) == 0.0


def test_a_list_passes_its_own_step_and_breaks_a_later_one(pool):
    pairs = tiny_problems(12)
    rng = np.random.default_rng(3)
    habit = dataclasses.replace(FLAWLESS, as_list=1.0)
    codes = [split_steps(write_code(rng, w, habit), len(p.steps))[0] for w, p in pairs]
    verdicts = Grafter(pool).grade([p for _, p in pairs], codes)
    residuals = [v for v in verdicts if not v.passed.all() and v.grafted.all()]
    assert residuals
    assert all(v.passed[0] for v in verdicts)


def test_references_in_a_box_are_graded_as_such(pool):
    (_, problem), *_ = tiny_problems(1)
    gold = to_json(problem)
    bad = dataclasses.replace(problem.steps[0], reference="def s1(x):\n    return None")
    broken = to_json(dataclasses.replace(problem, id="b", steps=(bad, *problem.steps[1:])))
    items = [Item(text, f"\\boxed{{{text}}}") for text in (gold, broken)]
    assert CodeVerifier(pool).verify_batch(items).tolist() == [Verdict.CORRECT, Verdict.FAILED]


def test_the_tokenizer_spells_every_demonstration():
    tokenizer = word_tokenizer(*code_vocabulary())
    rng = np.random.default_rng(4)
    for _ in range(50):
        walk = draw_walk(rng, int(rng.integers(3, 7)), TINY)
        for text in (code_prompt(walk), write_code(rng, walk, CodeDemoRates())):
            ids = tokenizer(text)["input_ids"]
            assert tokenizer.unk_token_id is None or tokenizer.pad_token_id not in ids
            assert tokenizer.pad_token_id not in ids
            assert tokenizer.decode(ids) == text


def test_steps_are_cut_at_labels():
    text = "noise [STEP-1] a [STEP-3] c [STEP-9] z [STEP-1] b"
    sources, spans = split_steps(text, 3)
    assert sources == ["b", None, "c"]
    assert [text[slice(*span)] for span in spans] == ["[STEP-1] b", "", "[STEP-3] c "]


def test_steps_are_fenced_blocks_where_there_is_no_label():
    text = "First:\n```python\na = 1\n```\nthen\n```\nb = 2\n```\n"
    sources, spans = split_steps(text, 3)
    assert sources == ["a = 1\n", "b = 2\n", None]
    assert spans[1][0] == spans[0][1]
    assert split_steps("no code", 1)[0] == [None]


def test_prefixes_are_cut_once():
    (_, problem), *_ = tiny_problems(1)
    library = PrefixLibrary()
    assert library.prefix(problem, 1) == ()
    assert library.prefix(problem, 3) == tuple(s.reference for s in problem.steps[:2])
    assert library.prefix(problem, 3) is library.prefix(problem, 3)


def test_settings_outside_the_language_are_refused():
    with pytest.raises(ValueError, match=r"3\.\.6"):
        CodeWorldConfig(lengths=(2,))
    assert CodeWorldConfig().digest != CodeWorldConfig(seed=1).digest
