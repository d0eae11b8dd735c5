"""Units of a trace: nothing lost, nothing invented, no formula cut, no pathological cost."""

import itertools
import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxrl_scope.grading.segment import check_partition, join_units, split_units, step_of_token

TRACES = Path(__file__).parents[4] / "shared" / "data" / "traces"


def texts(text):
    return [text[start:end] for start, end in split_units(text)]


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("", []),
        ("  \n ", ["  \n "]),
        ("One.", ["One."]),
        ("One. Two! Three? Four", ["One. ", "Two! ", "Three? ", "Four"]),
        ("A line\nand another\n\n\nlast\n", ["A line\n", "and another\n\n\n", "last\n"]),
        ("\n\nstart", ["\n\nstart"]),
        ("It is 3.14 or v1.2 here.", ["It is 3.14 or v1.2 here."]),
        ("E.g. this, i.e. that. Next.", ["E.g. this, i.e. that. ", "Next."]),
        ("1. First.\n2. Second.", ["1. First.\n", "2. Second."]),
        ("So $a. B$ holds. Done.", ["So $a. B$ holds. ", "Done."]),
        ("So \\[x = 1.\n y = 2.\n\\] and", ["So \\[x = 1.\n y = 2.\n\\] and"]),
        ("It costs $5. Then $6 more.", ["It costs $5. Then $6 more."]),
        ("It costs \\$5. Then more.", ["It costs \\$5. ", "Then more."]),
        ("an open \\[ bracket. Goes on.", ["an open \\[ bracket. ", "Goes on."]),
        ("<think>hm</think>Answer", ["<think>", "hm</think>", "Answer"]),
        ("他走了。然后停下！好", ["他走了。", "然后停下！", "好"]),
        ('He said "no." Then left.', ['He said "no." ', "Then left."]),
    ],
)
def test_where_units_end(text, units):
    assert texts(text) == units


@given(st.text(alphabet=st.sampled_from(list("ab1.?!$\\[]() \n。<>/think\"'")), max_size=80))
def test_units_partition_any_text(text):
    units = split_units(text)
    if text:
        check_partition(units, text)
    assert "".join(text[start:end] for start, end in units) == text
    if text.strip():
        assert all(text[start:end].strip() for start, end in units)


@pytest.mark.parametrize(
    "piece", [" ", ". ", "\\[", "e.g. ", "$", "\n \n", ".]", "<think>", "\\(", "1. "]
)
def test_degenerate_text_costs_little(piece):
    text = piece * (100_000 // len(piece))
    start = time.monotonic()
    check_partition(split_units(text), text)
    assert time.monotonic() - start < 10


def test_groups_of_units_are_spans():
    units = split_units("One. Two. Three.")
    assert join_units(units, [(1, 2), (3, 3)]) == ((0, 10), (10, 16))


@pytest.mark.parametrize(
    "spans", [[], [(0, 2)], [(0, 2), (3, 4)], [(0, 3), (2, 4)], [(0, 2), (2, 2), (2, 4)], [(1, 4)]]
)
def test_what_is_no_partition_is_refused(spans):
    with pytest.raises(ValueError, match="must partition"):
        check_partition(spans, "abcd")


def test_tokens_belong_to_the_step_of_their_last_character():
    spans = [(0, 4), (4, 5), (5, 9)]
    # pieces: "abc" | "de" over the boundary | "" | "fgh" | "i" | "" at the end
    char_ends = np.array([3, 5, 5, 8, 9, 9])
    assert step_of_token(spans, char_ends).tolist() == [0, 1, 2, 2, 2, 2]


@given(st.data())
def test_every_token_belongs_to_one_step_in_order(data):
    length = data.draw(st.integers(1, 30))
    cuts = data.draw(st.lists(st.integers(1, length), max_size=6))
    edges = sorted({0, length, *cuts})
    spans = list(itertools.pairwise(edges))
    ends = [*sorted(data.draw(st.lists(st.integers(0, length), max_size=12))), length]
    steps = step_of_token(spans, np.array(ends))
    assert steps.shape == (len(ends),)
    assert (np.diff(steps) >= 0).all() and steps.min() >= 0 and steps.max() < len(spans)


@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not part of the repository")
def test_real_traces_lose_no_character_and_units_refine_human_steps():
    count = 0
    for path in sorted(TRACES.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            for text in [row["response"]] if "response" in row else tree_texts(row["tree"]):
                units = split_units(text)
                check_partition(units, text)
                count += 1
                starts = {start for start, _ in units}
                position = 0
                for step in row.get("steps", []):
                    position = text.index(step["text"], position)
                    assert position in starts, (row["id"], step["text"])
                    position += len(step["text"])
    assert count == 599


def tree_texts(node):
    return [node["text"], *(text for child in node["children"] for text in tree_texts(child))]
