r"""Cuts a trace into units and maps spans of characters to tokens, losing neither.

A model judge groups numbered units into steps; it never writes trace text. So a step is always an
exact span of the trace, whatever the model does.
"""

import itertools
import re
from collections.abc import Sequence

import numpy as np

from jaxrl_scope.grading.judge import Span

# A cut inside a formula would make a unit unreadable. Lengths are bounded so that an opening
# delimiter which is never closed costs little and hides little.
_FORMULA = re.compile(
    r"\$\$.{1,2000}?\$\$|\\\[.{1,2000}?\\\]|\\\(.{1,500}?\\\)|(?<!\\)\$[^$\n]{1,300}\$", re.DOTALL
)
_CUT = re.compile(
    r"\n\s*"  # a line ends
    r"|</?think>\s*"  # the thinking part ends (or starts)
    r"|[.!?][\"')\]]*\s+(?=\S)"  # a sentence ends, ASCII
    r"|[。！？]\s*(?=\S)"
)
# "e.g. x", "Eq. 3", and "2. Substitute" at the start of a unit do not end a sentence.
_NO_SENTENCE = re.compile(r"(?:^|\W)(?:e\.g|i\.e|vs|cf|eq|fig|resp|approx)$|^\s*\d{1,3}$", re.I)
_NO_SENTENCE_CHARS = 8


def split_units(text: str) -> tuple[Span, ...]:
    """Cut `text` at line ends, sentence ends and think tags, outside formulas.

    Returns:
      Half-open spans that partition `text`: joined, they give it back character by character. White
      space belongs to the unit before it. () for "".
    """
    formulas = [match.span() for match in _FORMULA.finditer(text)]
    formula_index = 0
    cuts = [0]
    for match in _CUT.finditer(text):
        start, cut = match.span()
        while formula_index < len(formulas) and formulas[formula_index][1] <= start:
            formula_index += 1
        if formula_index < len(formulas) and formulas[formula_index][0] < cut:
            continue
        before = text[max(cuts[-1], start - _NO_SENTENCE_CHARS) : start]
        if text[start] == "." and _NO_SENTENCE.search(before):
            continue
        if cut < len(text) and text[cuts[-1] : cut].strip():
            cuts.append(cut)
    cuts.append(len(text))
    return tuple(itertools.pairwise(cuts)) if text else ()


def join_units(units: Sequence[Span], groups: Sequence[tuple[int, int]]) -> tuple[Span, ...]:
    """Spans of steps given as runs of units.

    Args:
      units: U spans that partition a text.
      groups: (first, last) unit of each step, counted from 1, both included, covering 1..U in
        order.
    """
    return tuple((units[first - 1][0], units[last - 1][1]) for first, last in groups)


def check_partition(spans: Sequence[Span], text: str) -> None:
    """Raise ValueError unless `spans` are non-empty, in order, and cover `text` without overlap."""
    edges = [0] + [end for _, end in spans]
    starts = [start for start, _ in spans]
    if starts != edges[:-1] or edges[-1] != len(text) or any(s >= e for s, e in spans):
        raise ValueError(
            f"spans must partition the {len(text)} characters of the trace in order, got {spans!r}"
        )


def step_of_token(spans: Sequence[Span], char_ends: np.ndarray) -> np.ndarray:
    """Assign every token to exactly one step.

    A token belongs to the step that holds its last character: white space belongs to the step
    before it, but a token such as " Wait" is its word's. A token without text (a part of a
    character, an end-of-text token) goes where the next character is, and at the end of the text
    to the last step.

    Args:
      spans: N spans that partition the text, N >= 1.
      char_ends: [T] int, characters of the text that are complete after each token (see
        `jaxrl_scope.grading.offsets.decode_with_ends`).

    Returns:
      [T] int32 step indices from 0, non-decreasing.
    """
    starts = np.concatenate([[0], char_ends[:-1]]).astype(np.int64)
    ends = np.array([end for _, end in spans], np.int64)
    step = np.searchsorted(ends, np.maximum(starts, char_ends - 1), side="right")
    return np.minimum(step, len(spans) - 1).astype(np.int32)
