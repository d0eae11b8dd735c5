"""Pairwise preferences by majority vote, from files of votes (SCOPE-RL, Appendix P).

    {"id": "example 7", "dimension": "clarity", "votes": ["ours", "theirs", "ours"]}

A vote names one of the two systems or is "tie".
"""

import dataclasses
from collections import defaultdict
from pathlib import Path

import numpy as np

from jaxrl_scope.data.rows import Row, RowError, read_rows
from rewards.quality import FIRST, SECOND, TIE, majority_preferences


@dataclasses.dataclass(frozen=True)
class Preference:
    """Pairs of one dimension by what the majority of their voters prefers.

    Attributes:
      first: pairs won by the first system.
      second: pairs won by the second system.
      undecided: pairs without a majority for either.
    """

    first: int
    second: int
    undecided: int


def count_preferences(path: str | Path, first: str, second: str) -> dict[str, Preference]:
    """Count the pairs of a vote file, by dimension in the order of the file.

    Args:
      path: JSONL file of votes.
      first: name of the first system.
      second: name of the second.

    Raises:
      RowError: a row that cannot be read, or a vote for neither system; it names file and line.
      ValueError: no such file, no row, a pair that stands twice in a dimension, or pairs with
        different numbers of voters in one dimension.
    """
    if first == second or "tie" in (first, second):
        raise ValueError(f"need two different names, neither of them 'tie'; got {first}, {second}")
    codes = {first: FIRST, second: SECOND, "tie": TIE}
    votes: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for where, row in read_rows(path):
        if isinstance(row, RowError):
            raise row
        try:
            pair, dimension, given = _read(row, codes)
        except RowError as error:
            raise error.at(where) from None
        if pair in votes[dimension]:
            raise ValueError(f"{where}: {pair!r} stands twice under {dimension!r}")
        votes[dimension][pair] = given
    if not votes:
        raise ValueError(f"{path} holds no votes")
    return {dimension: _count(dimension, list(rows.values())) for dimension, rows in votes.items()}


def _read(row: Row, codes: dict[str, int]) -> tuple[str, str, list[int]]:
    pair, dimension, votes = row.get("id"), row.get("dimension", "overall"), row.get("votes")
    if not isinstance(pair, str):
        raise RowError("expected the text that names the pair", field="id")
    if not isinstance(dimension, str):
        raise RowError("expected text", field="dimension")
    if not isinstance(votes, list) or not votes:
        raise RowError("expected a non-empty list", field="votes")
    unknown = [vote for vote in votes if not isinstance(vote, str) or vote not in codes]
    if unknown:
        raise RowError(f"{unknown[0]!r} is none of {', '.join(codes)}", field="votes")
    return pair, dimension, [codes[vote] for vote in votes]


def _count(dimension: str, votes: list[list[int]]) -> Preference:
    sizes = sorted({len(given) for given in votes})
    if len(sizes) > 1:
        raise ValueError(f"{dimension!r}: pairs have {sizes} votes; a majority needs one number")
    counts = majority_preferences(np.array(votes, np.int32))
    return Preference(int(counts.first), int(counts.second), int(counts.undecided))
