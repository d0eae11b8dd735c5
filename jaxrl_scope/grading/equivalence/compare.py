"""Is this answer the gold answer? The rules of the policy, one per method.

`Comparator.same` dispatches on what the two trees are: lists and sets, matrices, tuples, regions,
equations, scalars. With `allow_numeric` off, only exact arithmetic of bounded cost is done and
`NeedsWorkerError` is raised where more is needed; a worker process then asks again with it on.
"""

import itertools

from jaxrl_scope.grading.equivalence.limits import (
    MAX_ITEMS,
    LimitExceededError,
)
from jaxrl_scope.grading.equivalence.nodes import Node, canonical, integer
from jaxrl_scope.grading.equivalence.regions import (
    looks_like_region,
    read_region,
    same_region,
)
from jaxrl_scope.grading.equivalence.scalars import ScalarComparator
from jaxrl_scope.grading.equivalence.shapes import (
    INEQUALITIES,
    as_matrix,
    atoms,
    contains,
    difference,
    is_label,
    is_name,
    numeral,
    plus_minus,
    rename,
    rewrite,
    split_unit,
)
from jaxrl_scope.grading.equivalence.units import conflict

_LIST_BRACKETS = (("(", ")"), ("⟨", "⟩"))
_FALSE = Node("text", (), "")  # a false chain of equations: equal to nothing
_Item = tuple[Node | None, Node]  # name, value


class Comparator(ScalarComparator):
    """Compares trees of any kind; see `ScalarComparator` for the argument."""

    def same(self, gold: Node, answer: Node, *, strict: bool = False) -> bool:
        """Decide whether an answer is the gold answer.

        Args:
          gold: tree of the gold answer.
          answer: tree of the answer.
          strict: the gold answer is a whole answer; if it is an integer, only a numeral will do.

        Raises:
          NeedsWorkerError: exact arithmetic does not settle it.
          LimitExceededError: a number in it is too large.
        """
        gold, gold_unit = split_unit(gold)
        answer, answer_unit = split_unit(answer)
        gold_read, answer_read = self.resolve(gold, is_name), self.resolve(answer, is_label)
        if gold_read is None or answer_read is None:
            return False
        (gold_name, gold_value), (answer_name, answer_value) = gold_read, answer_read
        gold_unit = gold_unit or split_unit(gold_value)[1]
        answer_unit = answer_unit or split_unit(answer_value)[1]
        if conflict(gold_unit, answer_unit):
            return False
        both_are_equations = _is_equation(gold) and _is_equation(answer)
        if both_are_equations and "rel" in (gold_value.kind, answer_value.kind):
            return self.same_equation(gold, answer)
        if answer_value.kind == "rel" and _is_equation(answer):
            return False
        if gold_name is None or answer_name is None:
            return self.same_value(gold_value, answer_value, strict=strict)
        if canonical(gold_name) != canonical(answer_name):
            return self.same_named(gold, answer)
        is_same = self.same_value(gold_value, answer_value, strict=strict)
        return is_same or self.same_equation(gold, answer)

    def resolve(self, node: Node, names) -> tuple[Node | None, Node] | None:
        """Read "x = 5", "2+3 = 5", "x = 2+3 = 5", "9√15 ≈ 34.86" as (name, value).

        Returns None for a false chain, (None, node) for a relation that is no assignment.
        """
        if node.kind != "rel" or not set(node.data) <= {"=", "≈"}:
            return None, node
        sides = node.args
        if "≈" in node.data:
            cut = node.data.index("≈") + 1
            sides = sides[: cut + 1] if cut == 1 and names(sides[0]) else sides[:cut]
        if len(sides) == 2 and numeral(sides[0]) and names(sides[1]):
            sides = sides[::-1]  # "2 = y"
        name = sides[0] if len(sides) > 1 and names(sides[0]) else None
        values = sides[1:] if name else sides
        if len(values) > 1:
            if name is None and any(atoms(value) for value in values):
                return None, node
            if not all(self.same_value(a, b) for a, b in itertools.pairwise(values)):
                return None
        written = [value for value in values if numeral(value)]
        return name, (written or list(values))[-1]

    # Equations and names.

    def same_named(self, gold: Node, answer: Node) -> bool:
        """Compare two assignments with different names on the left."""
        gold_name, answer_name = gold.args[0], answer.args[0]
        gold_value, answer_value = gold.args[-1], answer.args[-1]
        if {gold_name.kind, answer_name.kind} == {"apply", "sym"}:
            symbol = gold_name if gold_name.kind == "sym" else answer_name
            if symbol.data == "y":
                return self.same_value(gold_value, answer_value)
        if gold_name.kind == answer_name.kind == "apply" and gold_name.data == answer_name.data:
            renamed = answer_value
            for old, new in zip(answer_name.args, gold_name.args, strict=False):
                if old.kind != "sym" or new.kind != "sym":
                    return False
                renamed = rename(renamed, old.data, f"{new.data} bound")
            for argument in gold_name.args:
                gold_value = rename(gold_value, argument.data, f"{argument.data} bound")
            return self.same_value(gold_value, renamed)
        return self.same_equation(gold, answer)

    def same_equation(self, gold: Node, answer: Node) -> bool:
        """Compare two equations up to a constant factor that is not zero.

        d1 = c d2 for a constant c if and only if d1(x) d2(y) = d1(y) d2(x) for all points x, y.
        """
        if len(gold.args) != 2 or len(answer.args) != 2:
            return canonical(gold) == canonical(answer)
        left, right = difference(*gold.args), difference(*answer.args)
        if contains(left, "seq", "set", "list", "matrix") or contains(
            right, "seq", "set", "matrix"
        ):
            return all(map(self.same_value, gold.args, answer.args))
        zero = integer(0)
        if self.same_expression(left, zero) or self.same_expression(right, zero):
            return False
        products = (
            Node("mul", (left, _at_another_point(right))),
            Node("mul", (_at_another_point(left), right)),
        )
        return self.same_expression(*products)

    def same_relation(self, gold: Node, answer: Node) -> bool:
        """Compare unsolved inequalities and other relations side by side."""
        if gold.kind != answer.kind or gold.data != answer.data:
            return False
        if len(gold.args) != len(answer.args):
            return False
        return all(map(self.same_value, gold.args, answer.args))

    # Dispatch on the kind of value.

    def same_value(self, gold: Node, answer: Node, *, strict: bool = False) -> bool:
        """Compare what stands on the right of the names."""
        gold, gold_unit = split_unit(gold)
        answer, answer_unit = split_unit(answer)
        if conflict(gold_unit, answer_unit):
            return False
        gold, answer = _without_membership(gold), _without_membership(answer)
        if looks_like_region(gold) or looks_like_region(answer):
            return self.same_set_of_reals(gold, answer)
        gold_items, answer_items = self.items(gold), self.items(answer)
        if gold_items is not None or answer_items is not None:
            return self.same_collection(gold, answer, gold_items, answer_items, strict=strict)
        if "text" in (gold.kind, answer.kind):
            return gold == answer != _FALSE
        if contains(gold, "matrix") or contains(answer, "matrix"):
            if gold.kind == "matrix" and answer.kind == "seq" and answer.data in _LIST_BRACKETS:
                column = tuple(row.args[0] for row in gold.args if len(row.args) == 1)
                return self.in_order(column, answer.args)
            return self.same_matrix(gold, answer)
        if "seq" in (gold.kind, answer.kind):
            return gold.data == answer.data and self.in_order(gold.args, answer.args)
        if {gold.kind, answer.kind} & {"rel", "ratio", "cases", "row", "member"}:
            if _is_equation(gold) and _is_equation(answer):
                return self.same(gold, answer)
            return self.same_relation(gold, answer)
        return self.same_scalar(gold, answer, strict=strict)

    def in_order(self, gold: tuple[Node, ...], answer: tuple[Node, ...]) -> bool:
        """Compare components one by one."""
        return len(gold) == len(answer) and all(map(self.same, gold, answer))

    def same_matrix(self, gold: Node, answer: Node) -> bool:
        """Compare matrices entry by entry."""
        gold_matrix, answer_matrix = as_matrix(gold), as_matrix(answer)
        if gold_matrix is None or answer_matrix is None:
            return False
        return len(gold_matrix.args) == len(answer_matrix.args) and all(
            self.in_order(a.args, b.args)
            for a, b in zip(gold_matrix.args, answer_matrix.args, strict=True)
        )

    # Lists and sets.

    def items(self, node: Node) -> list[_Item] | None:
        """Return the values of a list, set or ±, with their names; None for a single value."""
        if node.kind == "union" and all(arg.kind == "set" for arg in node.args):
            return [item for arg in node.args for item in self.items(arg) or []]
        if node.kind not in ("list", "set"):
            values = plus_minus(node) if node.kind != "seq" else (node,)
            return [(None, value) for value in values] if len(values) > 1 else None
        found: list[_Item] = []
        for part in node.args:
            resolved = self.resolve(part, is_name)
            name, value = resolved if resolved is not None else (None, _FALSE)
            inner = self.items(value)
            found.extend([(name, item) for _, item in inner] if inner else [(name, value)])
        if len(found) > MAX_ITEMS:
            raise LimitExceededError(f"{len(found)} values; at most {MAX_ITEMS}")
        if found and found[0][0] and not any(name for name, _ in found[1:]):
            found[0] = None, found[0][1]  # "n = 1, 2, 3"
        return found

    def same_collection(
        self,
        gold: Node,
        answer: Node,
        gold_items: list[_Item] | None,
        answer_items: list[_Item] | None,
        *,
        strict: bool,
    ) -> bool:
        """Compare lists and sets of exactly the same size; order counts next to a tuple."""
        for node, other in ((gold, answer), (answer, gold)):
            if node.kind == "seq":
                if other.kind != "list" or node.data not in _LIST_BRACKETS:
                    return False
                values = tuple(value for _, value in self.items(other) or [])
                pair = (node.args, values) if node is gold else (values, node.args)
                return self.in_order(*pair)
        gold_items = gold_items if gold_items is not None else [(None, gold)]
        answer_items = answer_items if answer_items is not None else [(None, answer)]
        if len(gold_items) != len(answer_items):
            return False
        if len(gold_items) == 1:
            return self.same(gold_items[0][1], answer_items[0][1], strict=strict)
        gold_names, answer_names = _distinct_names(gold_items), _distinct_names(answer_items)
        if gold_names and answer_names:
            if gold_names.keys() != answer_names.keys():
                return False
            return all(self.same(gold_names[name], answer_names[name]) for name in gold_names)
        gold_values = [value for _, value in gold_items]
        answer_values = [value for _, value in answer_items]
        if gold_names or answer_names:
            if "set" in (gold.kind, answer.kind):
                return False
            return self.in_order(tuple(gold_values), tuple(answer_values))
        return self.same_multiset(gold_values, answer_values)

    def same_multiset(self, gold: list[Node], answer: list[Node]) -> bool:
        """Pair every gold value with one answer value."""
        left = list(answer)
        for value in gold:
            match = next((index for index, a in enumerate(left) if self.same(value, a)), None)
            if match is None:
                return False
            del left[match]
        return True

    # Regions.

    def same_set_of_reals(self, gold: Node, answer: Node) -> bool:
        """Compare intervals, unions and solved inequalities as sets of reals."""
        gold_region, answer_region = read_region(gold), read_region(answer)
        if gold_region is None or answer_region is None:
            if gold.kind == answer.kind == "list":
                return self.same_multiset(list(gold.args), list(answer.args))
            is_solved = gold_region is not None or answer_region is not None
            if gold.kind == answer.kind == "rel" and len(gold.args) == len(answer.args) == 2:
                return not is_solved and self.same_inequality(gold, answer)
            return self.same_relation(gold, answer)
        if gold_region[1] and answer_region[1] and gold_region[1] != answer_region[1]:
            return False
        return same_region(gold_region[0], answer_region[0], self.order)

    def same_inequality(self, gold: Node, answer: Node) -> bool:
        """Compare unsolved inequalities up to a positive factor, or a negative one that flips."""
        gold, answer = _oriented(gold), _oriented(answer)
        if gold.data != answer.data:
            return False
        if not self.same_equation(gold, answer):
            return False
        ratio = Node("div", (difference(*gold.args), difference(*answer.args)))
        primes = iter((2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37))
        values = {name: integer(next(primes)) for name in sorted(atoms(ratio))[:12]}
        point = rewrite(ratio, lambda part: values.get(canonical(part)))
        return "≠" in gold.data or self.order(point, integer(0)) > 0


def _is_equation(node: Node) -> bool:
    return node.kind == "rel" and not INEQUALITIES & set(node.data)


def _without_membership(node: Node) -> Node:
    """Read "x ∈ {1, 2}" as the set."""
    is_finite = node.kind == "member" and node.data == "∈" and node.args[1].kind in ("set", "list")
    return node.args[1] if is_finite else node


def _oriented(node: Node) -> Node:
    """Turn "a > b" into "b < a"."""
    flipped = {">": "<", "≥": "≤"}.get(node.data[0])
    return Node("rel", node.args[::-1], (flipped,)) if flipped else node


def _at_another_point(node: Node) -> Node:
    return rewrite(
        node,
        lambda part: Node("sym", (), f"{part.data} elsewhere") if part.kind == "sym" else None,
    )


def _distinct_names(items: list[_Item]) -> dict[str, Node]:
    """Return the values by name if every item has a name of its own; else nothing."""
    named = {canonical(name): value for name, value in items if name is not None}
    return named if len(named) == len(items) else {}
