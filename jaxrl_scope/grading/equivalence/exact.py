"""Exact evaluation: rationals as fractions, identities modulo large primes.

Two expressions built from numbers, symbols, i, + - * / and integer powers are equal if and only if
they agree as elements of Q(i)(x, y, ...). Evaluating both at a random point modulo a 61-bit prime
decides that: different residues prove them different, and equal residues at three points of three
primes leave a chance below 10^-40 that they differ (Schwartz-Zippel). Powers cost one modular
exponentiation, so 2^100000 = 4^50000 is settled without a large number.
"""

import functools
import random
from fractions import Fraction
from math import comb, factorial, gcd, lcm

from jaxrl_scope.grading.equivalence.limits import (
    MAX_BITS,
    MAX_EXPONENT,
    MAX_FACTORIAL,
    LimitExceededError,
    UndefinedError,
)
from jaxrl_scope.grading.equivalence.nodes import Node, canonical

# The three largest primes below 2^61 that are 1 modulo 4, so that -1 has a square root.
_PRIMES = (2305843009213693921, 2305843009213693693, 2305843009213693669)
ATOMIC = frozenset(["sym", "apply", "opaque", "based", "text"])  # values nothing is known about


class InexactError(Exception):
    """The expression is not built from the operations that exact arithmetic knows."""


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise LimitExceededError(f"an exact number of more than {MAX_BITS} bits")
    return value


def rational(node: Node) -> Fraction:
    """Return the value of a rational constant.

    Raises:
      InexactError: it is not rational by construction.
      LimitExceededError: it, or a number on the way to it, is too large.
      UndefinedError: it divides by zero.
    """
    kind = node.kind
    if kind == "num":
        return node.data.value
    if kind not in ("add", "mul", "div", "neg", "pow", "percent", "fn"):
        raise InexactError
    if kind == "fn":
        return _rational_function(node.data, [rational(arg) for arg in node.args])
    args = [rational(arg) for arg in node.args]
    if kind == "add":
        return _bounded(sum(args, Fraction(0)))
    if kind == "mul":
        return _bounded(functools.reduce(lambda a, b: _bounded(a * b), args))
    if kind == "neg":
        return -args[0]
    if kind == "percent":
        return args[0] / 100
    if kind == "div":
        if not args[1]:
            raise UndefinedError("a division by zero")
        return _bounded(args[0] / args[1])
    return _rational_power(*args)


def _rational_power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise InexactError
    if not base and exponent <= 0:
        raise UndefinedError("zero to a power that is not positive")
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) != 1 and bits * abs(exponent) > MAX_BITS:
        raise LimitExceededError(f"a power of more than {MAX_BITS} bits")
    if abs(exponent) > MAX_EXPONENT:
        raise LimitExceededError("an exponent that is too large")
    return base ** int(exponent)


def _rational_function(name: str, args: list[Fraction]) -> Fraction:
    integers = [int(arg) for arg in args if arg.denominator == 1]
    if name == "abs":
        return abs(args[0])
    if name == "floor":
        return Fraction(args[0].numerator // args[0].denominator)
    if name == "ceil":
        return Fraction(-(-args[0].numerator // args[0].denominator))
    if name in ("max", "min"):
        return max(args) if name == "max" else min(args)
    if len(integers) != len(args):
        raise InexactError
    if name in ("gcd", "lcm"):
        return Fraction(gcd(*integers) if name == "gcd" else lcm(*integers))
    if name == "factorial" and integers[0] >= 0:
        if integers[0] > 1000:
            raise LimitExceededError("a factorial that is too large")
        return _bounded(Fraction(factorial(integers[0])))
    if name == "binom" and min(integers) >= 0:
        if integers[0] > MAX_FACTORIAL:
            raise LimitExceededError("a binomial coefficient that is too large")
        return _bounded(Fraction(comb(*integers)))
    raise InexactError


@functools.lru_cache(maxsize=256)
def _factorial_residue(number: int, prime: int) -> int:
    if number > MAX_FACTORIAL:
        raise LimitExceededError("a factorial that is too large")
    result = 1
    for factor in range(2, number + 1):
        result = result * factor % prime
    return result


class _Residues:
    """Evaluation modulo one prime, at a point drawn from one seed."""

    def __init__(self, prime: int, seed: str) -> None:
        self.prime = prime
        self.seed = seed
        generator = next(g for g in range(2, 100) if pow(g, (prime - 1) // 2, prime) != 1)
        self.atoms: dict[str, int] = {}
        self.root_of_minus_one = pow(generator, (prime - 1) // 4, prime)

    def of(self, node: Node) -> int:
        """Return the residue of a node's value."""
        kind = node.kind
        if kind == "num":
            value = node.data.value
            return self.quotient(value.numerator, value.denominator)
        if kind in ATOMIC:
            name = canonical(node)
            if name not in self.atoms:
                draw = random.Random(f"{self.seed} {name}")
                self.atoms[name] = draw.randrange(1, self.prime)
            return self.atoms[name]
        if kind == "const" and node.data == "i":
            return self.root_of_minus_one
        if kind == "add":
            return sum(map(self.of, node.args)) % self.prime
        if kind == "mul":
            return functools.reduce(lambda a, b: a * b % self.prime, map(self.of, node.args))
        if kind == "neg":
            return -self.of(node.args[0]) % self.prime
        if kind == "percent":
            return self.quotient(self.of(node.args[0]), 100)
        if kind == "div":
            return self.quotient(self.of(node.args[0]), self.of(node.args[1]))
        if kind == "pow":
            return self.power(node)
        if kind == "fn":
            return self.function(node)
        raise InexactError

    def quotient(self, top: int, bottom: int) -> int:
        if bottom % self.prime == 0:
            raise UndefinedError("a division by zero")
        return top * pow(bottom, -1, self.prime) % self.prime

    def power(self, node: Node) -> int:
        exponent = rational(node.args[1])
        if exponent.denominator != 1:
            raise InexactError
        if abs(exponent) > MAX_EXPONENT:
            raise LimitExceededError("an exponent that is too large")
        base = self.of(node.args[0])
        if base == 0 and exponent <= 0:
            raise UndefinedError("zero to a power that is not positive")
        return pow(base, int(exponent), self.prime)

    def function(self, node: Node) -> int:
        if node.data in ("factorial", "binom"):
            args = [rational(arg) for arg in node.args]
            if all(arg.denominator == 1 and arg >= 0 for arg in args):
                return self.counted(node.data, [int(arg) for arg in args])
        value = rational(node)
        return self.quotient(value.numerator, value.denominator)

    def counted(self, name: str, args: list[int]) -> int:
        top = _factorial_residue(args[0], self.prime)
        if name == "factorial":
            return top
        if args[1] > args[0]:
            return 0
        bottom = _factorial_residue(args[1], self.prime)
        return self.quotient(top, bottom * _factorial_residue(args[0] - args[1], self.prime))


def residues(node: Node) -> list[int]:
    """Return the values of an expression at one random point per prime.

    The same symbols get the same values in every call.

    Raises:
      InexactError: it holds roots, transcendental functions or constants.
      UndefinedError: it divides by zero at every point tried.
      LimitExceededError: a number in it is too large.
    """
    return [_Residues(prime, f"{index}").of(node) for index, prime in enumerate(_PRIMES)]
