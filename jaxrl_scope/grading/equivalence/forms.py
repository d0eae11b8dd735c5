"""Does an answer have the form that the problem asks for: factored, expanded, simplified?"""

from jaxrl_scope.grading.equivalence.nodes import Node, walk
from jaxrl_scope.grading.equivalence.shapes import atoms, numeral


def has_form(task: str | None, gold: Node, answer: Node) -> bool:
    """Return whether an answer equal in value to the gold answer also has the form asked for.

    factor: at least as many factors that are not constant as the gold answer.
    expand: no product and no power of a sum.
    simplify: no more nodes than the gold answer has, and two.
    Any other task asks for no form.
    """
    if task == "factor":
        return _factors(answer) >= _factors(gold)
    if task == "expand":
        return not any(_is_unexpanded(part) for part in walk(answer))
    if task == "simplify":
        return len(list(walk(answer))) <= len(list(walk(gold))) + 2
    return True


def _factors(node: Node) -> int:
    """Count factors that hold a symbol, with multiplicity."""
    if node.kind in ("mul", "neg", "div"):
        return sum(map(_factors, node.args))
    if node.kind == "pow":
        exponent = numeral(node.args[1])
        if exponent and exponent[0].denominator == 1:
            return int(abs(exponent[0])) * _factors(node.args[0])
    return int(bool(atoms(node)))


def _is_unexpanded(node: Node) -> bool:
    if node.kind == "mul":
        return any(arg.kind == "add" for arg in node.args)
    return node.kind == "pow" and node.args[0].kind == "add"
