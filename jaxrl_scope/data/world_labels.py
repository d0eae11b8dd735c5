"""Exact step labels of the built-in world: what an LLM judge only estimates."""

from collections.abc import Sequence

from jaxrl_scope.data.world import parse_chain
from jaxrl_scope.data.world_walk import Walker, split_units
from jaxrl_scope.grading.judge import Span, StepLabel


def label_trace(
    problem: str, response: str, *, modulus: int
) -> tuple[Sequence[Span], Sequence[StepLabel]]:
    """Segment an answer of the world at its semicolons and label each step.

    A plain step is useful if it works the next operation from the value reached and is right, else
    an error. `check` is redundant if it repeats the step before it rightly, `so` mechanical if it
    restates the value reached; either is an error otherwise. `wait` is a reversion, which goes
    before error; it may go back over several operations. The final box belongs to the last step.

    Args:
      problem: text of the problem, `55 - 3 * 2 ?`.
      response: the trace.
      modulus: N of the world.

    Returns:
      Half-open character spans that partition the response, and a label for each.

    Raises:
      ValueError: the problem is no chain of this world.
    """
    chain = parse_chain(problem, modulus)
    spans = split_steps(response)
    walker = Walker(chain)
    return spans, [walker.move(response[start:end]).label for start, end in spans]


def split_steps(response: str) -> list[Span]:
    """Cut after each semicolon and the white space behind it; what follows the last joins it."""
    units = split_units(response)
    if len(units) > 1 and ";" not in response[units[-1][0] :]:
        units[-2:] = [(units[-2][0], units[-1][1])]
    return units
