import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxrl_scope.data.number_words import to_digits


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("twelve", "12"),
        ("Twelve balls", "12 balls"),
        ("twenty-one", "21"),
        ("twenty one", "21"),
        ("one hundred five", "105"),
        ("one hundred and five", "105"),
        ("two hundred", "200"),
        ("one thousand two hundred thirty-four", "1234"),
        ("three million", "3000000"),
        ("a dozen", "a 12"),
        ("two dozen", "24"),
        ("two, three and four", "2, 3 4"),
        ("two three", "2 3"),
        ("twelve point five", "12.5"),
        ("twelve\n  point five", "12.5"),
        ("two thirds", "2/3"),
        ("two-thirds", "2/3"),
        ("three halves", "3/2"),
        ("half", "1/2"),
        ("a quarter", "1/4"),
        ("three and a half", "3 1/2"),
        ("minus three", "-3"),
        ("negative $3$", "-$3$"),
        ("3 over 4", "3/4"),
        ("the twelfth term", "the 12 term"),
        ("twenty-first", "21"),
        ("XII", "12"),
        ("case II", "case II"),
        ("segment AB", "segment AB"),
        ("often tend to weight", "often tend to weight"),
    ],
)
def test_words_become_digits(text, digits):
    assert to_digits(text, generous=False) == digits


@pytest.mark.parametrize(
    ("text", "strict", "generous"),
    [
        ("which one of them", "which one of them", "which 1 of them"),
        ("the result is one.", "the result is 1.", "the result is 1."),
        ("is one of them", "is one of them", "is 1 of them"),
        ("the third row", "the third row", "the 3 row"),
        ("twice, both", "twice, both", "2, 2"),
    ],
)
def test_loose_statements_count_only_where_asked(text, strict, generous):
    assert to_digits(text, generous=False) == strict
    assert to_digits(text, generous=True) == generous


WORDS = """
one two ten twelve twenty ninety hundred thousand dozen and point half third thirds a fifth
twenty-first plus minus x squared 3 XII over
"""


@given(
    st.lists(st.sampled_from(WORDS.split())),
    st.sampled_from([" ", "  ", "-", "\n", " , "]),
    st.booleans(),
)
def test_no_run_of_words_breaks_the_reader(words, joint, generous):
    read = to_digits(joint.join(words), generous=generous)
    assert not {"two", "ten", "twelve", "twenty", "ninety"} & set(re.findall("[a-z]+", read))
