"""The language the tiny model writes: one line of Python per step, words apart by spaces.

    [STEP-1] def s1 ( x ) : return x + 2 [STEP-2] def s2 ( x ) : return np . cumsum ( s1 ( x ) )

Its demonstrations have habits, each at a known rate: a slip (the wrong one of an operator's two
expressions), a result returned as a list (which passes its own test and may break the next step), a
function under another name, and a step that repeats the work of the one before instead of calling
it. What RL can find is which of them pay.
"""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from jaxrl_scope.data.code_operators import TINY
from jaxrl_scope.data.code_world import Link, Walk

MAX_STEPS = 6
_LABEL = re.compile(r"\[STEP-(\d+)\]")


@dataclasses.dataclass(frozen=True)
class CodeDemoRates:
    """How often demonstrations do what; every rate is a probability per step.

    Attributes:
      slip: the operator's wrong expression.
      as_list: the result of a step on vectors is returned as a list.
      rename: the function has another name than asked.
      inline: the step works from the step before the previous one, doing the previous one's work
        itself (from step 2 on).
    """

    slip: float = 0.30
    as_list: float = 0.08
    rename: float = 0.03
    inline: float = 0.10


def write_code(rng: np.random.Generator, walk: Walk, rates: CodeDemoRates) -> str:
    """Write a response to a problem: every step under its label."""
    parts = []
    for t, link in enumerate(walk, start=1):
        base = _call(t - 1)
        if t > 1 and rng.random() < rates.inline:
            base = f"( {_expression(rng, walk[t - 2], _call(t - 2), rates)} )"
        expression = _expression(rng, link, base, rates)
        if link.operator.gives == "vector" and rng.random() < rates.as_list:
            expression = f"list ( {expression} )"
        name = f"f{t}" if rng.random() < rates.rename else f"s{t}"
        parts.append(f"[STEP-{t}] def {name} ( x ) : return {expression}")
    return " ".join(parts)


def _call(number: int) -> str:
    return "x" if number == 0 else f"s{number} ( x )"


def _expression(rng: np.random.Generator, link: Link, base: str, rates: CodeDemoRates) -> str:
    form = link.operator.slip if rng.random() < rates.slip else link.operator.short
    return " ".join(base if word == "X" else word for word in link.fill(form).split())


def code_prompt(walk: Walk) -> str:
    """The tiny model's prompt: the operators in order, `shift 2 ; accumulate ; total ?`."""
    return " ; ".join(link.words for link in walk) + " ?"


def split_steps(text: str, num_steps: int) -> tuple[list[str | None], list[tuple[int, int]]]:
    """Cut a response into the sources of its steps.

    Labelled responses (`[STEP-2]`) are cut at the labels; without any label, the fenced blocks
    (three backquotes) are the steps in order. Where a step is written twice the last one counts.

    Returns:
      sources: [num_steps], None where a step was not written.
      spans: [num_steps] (start, end) characters of each step, its label included; (0, 0) for none.
    """
    sources: list[str | None] = [None] * num_steps
    spans = [(0, 0)] * num_steps
    labels = list(_LABEL.finditer(text))
    blocks = [] if labels else list(re.finditer(r"```(?:python|py)?[^\n]*\n(.*?)```", text, re.S))
    for index, label in enumerate(labels):
        number = int(label.group(1)) if len(label.group(1)) < 4 else 0
        end = labels[index + 1].start() if index + 1 < len(labels) else len(text)
        if 1 <= number <= num_steps:
            sources[number - 1] = text[label.end() : end].strip()
            spans[number - 1] = (label.start(), end)
    start = 0
    for number, block in enumerate(blocks[:num_steps]):
        sources[number], spans[number] = block.group(1), (start, block.end())
        start = block.end()
    return sources, spans


def code_vocabulary() -> tuple[list[str], list[str]]:
    """Labels (which are one token each) and words of the language."""
    labels = [f"[STEP-{t}]" for t in range(1, MAX_STEPS + 1)]
    words = {"def", "(", ")", ":", "return", "x", ";", "?", "list"}
    words |= {f"{letter}{t}" for letter in "sf" for t in range(1, MAX_STEPS + 1)}
    for operator in TINY:
        words.add(operator.name)
        words |= {str(k) for k in operator.parameters}
        words |= set(f"{operator.short} {operator.slip}".split()) - {"X", "K"}
    return labels, sorted(words)


def difficulty(walk: Sequence[Link]) -> str:
    """Name of a problem's length in tables, "t5"."""
    return f"t{len(walk)}"
