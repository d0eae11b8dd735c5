"""Thought judges: retractions and used units to flags, flags to thoughts of tokens."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxrl_scope.grading.llm_client import ChatClient, ChatConfig
from jaxrl_scope.grading.segment import check_partition, split_units
from jaxrl_scope.grading.thought_judge import (
    OpenAIThoughtJudge,
    RulesThoughtJudge,
    ThoughtItem,
    ThoughtResult,
    ThoughtSkips,
    answer_start,
)
from jaxrl_scope.grading.thought_tokens import pad_thoughts, token_thoughts
from rewards.thoughts import thought_advantages

RIGHT = ThoughtItem("p", "<think>A. B. Wait. C. No. D.</think>So 7.", True)
WRONG = ThoughtItem("p", "<think>A. B. C. D.</think>By B. it is 8.", False)
# units of RIGHT: <think> | A. | B. | Wait. | C. | No. | D.</think> | So 7.
# units of WRONG: <think> | A. | B. | C. | D.</think> | By B. | it is 8.


@pytest.fixture
def judge_one(chat_server):
    def run(item, *replies):
        chat_server.script = [chat_server.acts.say(reply) for reply in replies]
        config = ChatConfig(
            model="m", base_url=chat_server.url, api_key_env="", backoff_s=0.01, max_retries=1
        )
        judge = OpenAIThoughtJudge(ChatClient(config))
        [result] = judge.label_thoughts([item])
        judge.close()
        return result

    return run


def test_retracted_work_is_bad_up_to_the_turn(judge_one):
    reply = {"retractions": [{"source": 3, "reflection": 4}, {"source": 5, "reflection": 6}]}
    result = judge_one(RIGHT, reply)
    assert [RIGHT.response[a:b] for a, b in result.steps][3] == "Wait. "
    assert result.good == (True, True, False, True, False, True, True, True)
    check_partition(result.steps, RIGHT.response)


def test_overlapping_retractions_add_up(judge_one):
    reply = {"retractions": [{"source": 3, "reflection": 5}, {"source": 2, "reflection": 6}]}
    assert judge_one(RIGHT, reply).good == (True, *[False] * 4, True, True, True)


def test_a_right_solution_without_a_turn_is_good_throughout(judge_one):
    assert judge_one(RIGHT, {"retractions": []}).good == (True,) * 8


def test_a_wrong_solution_is_good_where_the_answer_uses_it(judge_one, chat_server):
    result = judge_one(WRONG, {"used": [{"first": 3, "last": 3}]})
    assert result.good == (False, False, True, False, False, True, True)
    message = chat_server.requests[0].user
    assert '"By B. it is 8."' in message.split("FINAL ANSWER")[1]
    assert "it is 8" not in message.split("FINAL ANSWER")[0]


def test_a_wrong_answer_that_uses_nothing_keeps_only_itself(judge_one):
    assert judge_one(WRONG, {"used": []}).good == (*[False] * 5, True, True)


def test_without_thinking_there_is_nothing_to_ask(judge_one, chat_server):
    result = judge_one(ThoughtItem("p", "It is 8.", False))
    assert result.good == (True,) and chat_server.requests == []


@pytest.mark.parametrize(
    "reply",
    [
        {"retractions": [{"source": 4, "reflection": 4}]},
        {"retractions": [{"source": 5, "reflection": 4}]},
        {"retractions": [{"source": 0, "reflection": 4}]},
        {"retractions": [{"source": 2, "reflection": 9}]},
        {"retractions": [{"source": 2}]},
        {"retractions": None},
        {"used": []},
        "none",
    ],
)
def test_impossible_retractions_are_asked_again_then_fail(judge_one, chat_server, reply):
    assert judge_one(RIGHT, reply, {"retractions": []}).ok
    chat_server.otherwise = chat_server.acts.say(reply)
    result = judge_one(RIGHT)
    assert result.failure == "malformed" and result.steps == () and result.good == ()


@pytest.mark.parametrize(
    "used",
    [
        [{"first": 2, "last": 1}],
        [{"first": 0, "last": 1}],
        [{"first": 4, "last": 6}],
        [{"first": 3, "last": 3}, {"first": 2, "last": 2}],
        [{"first": 2, "last": 3}, {"first": 3, "last": 4}],
        [2, 3],
    ],
)
def test_impossible_ranges_of_used_units_fail(judge_one, chat_server, used):
    chat_server.otherwise = chat_server.acts.say({"used": used})
    assert judge_one(WRONG).failure == "malformed"


def test_a_batch_mixes_right_and_wrong_solutions(chat_server):
    def obey(handler, body):
        right = "THINKING UNITS" not in body["messages"][1]["content"]
        reply = {"retractions": []} if right else {"used": []}
        chat_server.acts.say(reply)(handler, body)

    chat_server.otherwise = obey
    config = ChatConfig(model="m", base_url=chat_server.url, api_key_env="")
    judge = OpenAIThoughtJudge(ChatClient(config), max_trace_chars=100)
    items = [RIGHT, WRONG, ThoughtItem("p", "x" * 101, True), ThoughtItem("p", " ", False), RIGHT]
    results = judge.submit(items).result(timeout=10)
    assert [result.failure for result in results] == [
        None, None, "trace_too_long", "no_steps", None,
    ]  # fmt: skip
    assert judge.metrics()["failures"] == 2
    judge.close()


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<think>A.</think>\n\nB. C.", "B. C."),
        ("<think>A.</think> B.</think> C.", "C."),
        ("A. B. C.", "C."),
        ("<think>A. B.</think>", "B.</think>"),
        ("A.", "A."),
        ("", ""),
    ],
)
def test_where_the_answer_starts(response, answer):
    assert response[answer_start(response) :] == answer


def test_skips_count_characters_of_their_part():
    skips = ThoughtSkips(min_think_chars=20, min_answer_chars=5)
    think, answer = "<think>" + "a" * 5 + "</think>", "b" * 5
    assert skips.reason(ThoughtItem("p", think + answer, True), False) is None
    assert skips.reason(ThoughtItem("p", think[1:] + answer, True), False) == "short_think"
    assert skips.reason(ThoughtItem("p", think + answer, False), False) is None
    assert skips.reason(ThoughtItem("p", think + answer[1:], False), False) == "short_answer"
    assert skips.reason(ThoughtItem("p", think + answer, True), True) == "truncated"


def test_the_rules_judge_takes_the_last_step_as_good():
    judge = RulesThoughtJudge(lambda p, r, correct: ([(0, 1), (1, len(r))], [False, False]))
    [result] = judge.submit([ThoughtItem("p", "abc", True)]).result()
    assert result.steps == ((0, 1), (1, 3)) and result.good == (False, True)
    with pytest.raises(ValueError, match="partition"):
        judge.label_thoughts([ThoughtItem("p", "", True)])


def test_what_is_not_of_the_language_is_counted():
    def refuse(problem, response, correct):
        raise ValueError("not in the language")

    judge = RulesThoughtJudge(refuse)
    assert judge.label_thoughts([RIGHT])[0].failure == "not_in_language"
    assert judge.metrics() == {"questions": 1.0, "failures": 1.0}


def test_thoughts_are_runs_of_tokens():
    result = ThoughtResult(((0, 2), (2, 4), (4, 6), (6, 9)), (True, False, False, True))
    # tokens: "ab" | "cd" | "" | "ef" | "g" | "hi" | end of text
    thoughts = token_thoughts(result, np.array([2, 4, 4, 6, 7, 9, 9]))
    assert thoughts.good.tolist() == [True, False, True]
    assert thoughts.end.tolist() == [1, 4, 7]


def test_a_step_inside_one_token_disappears_and_the_last_token_is_good():
    result = ThoughtResult(((0, 2), (2, 3), (3, 4)), (True, False, True))
    assert token_thoughts(result, np.array([1, 4])).good.tolist() == [True]
    result = ThoughtResult(((0, 3), (3, 4)), (False, True))
    thoughts = token_thoughts(result, np.array([2, 4]))
    assert thoughts.good.tolist() == [False, True] and thoughts.end.tolist() == [1, 2]


def test_thoughts_of_another_text_are_refused():
    result = ThoughtResult(((0, 4),), (True,))
    with pytest.raises(ValueError, match="4 characters but the tokens spell 3"):
        token_thoughts(result, np.array([1, 3]))
    with pytest.raises(ValueError, match="not judged \\(timeout\\)"):
        token_thoughts(ThoughtResult(failure="timeout"), np.array([1, 3]))


flags_and_widths = st.lists(st.tuples(st.booleans(), st.integers(1, 4)), min_size=1, max_size=8)


ADVANTAGES = jax.jit(
    lambda good, end, count, length: thought_advantages(
        good, end, count, length, jnp.ones(1), jnp.full(1, 0.25), max_len=16
    )
)


@given(flags_and_widths, st.lists(st.integers(0, 3), max_size=12))
def test_every_token_is_in_one_thought_and_the_propositions_hold(steps, pieces):
    """Proposition 1 on tokens cut without regard to the steps."""
    edges = np.cumsum([0, *(width for _, width in steps)])
    spans = tuple((int(a), int(b)) for a, b in itertools.pairwise(edges))
    result = ThoughtResult(spans, (*(flag for flag, _ in steps[:-1]), True))
    char_ends = np.append(np.minimum(np.cumsum([0, *pieces]), edges[-1]), edges[-1])
    thoughts = token_thoughts(result, char_ends)
    good, end = thoughts
    assert end[-1] == len(char_ends) and (np.diff([0, *end]) > 0).all()
    assert good[-1] and (good[1:] != good[:-1]).all()
    step_good, step_end, num_steps = pad_thoughts([thoughts])
    widen = ((0, 0), (0, 8 - step_good.shape[1]))  # one shape, one compilation
    step_good, step_end = np.pad(step_good, widen), np.pad(step_end, widen)
    advantages = np.asarray(ADVANTAGES(step_good, step_end, num_steps, np.array([len(char_ends)])))
    advantages = advantages[0]
    by_token = np.repeat(good, np.diff([0, *end]))
    expected = np.where(by_token, 1.0, 0.75)
    assert advantages[: len(char_ends)].tolist() == expected.tolist()
    assert not advantages[len(char_ends) :].any()


def test_responses_that_were_not_judged_have_no_thoughts():
    thoughts = token_thoughts(ThoughtResult(((0, 1), (1, 2)), (False, True)), np.array([1, 2]))
    good, end, num_steps = pad_thoughts([None, thoughts])
    assert num_steps.tolist() == [0, 2]
    assert good.tolist() == [[False, False], [False, True]] and end.tolist() == [[0, 0], [1, 2]]


def test_units_of_the_examples():
    assert len(split_units(RIGHT.response)) == 8 and len(split_units(WRONG.response)) == 7
