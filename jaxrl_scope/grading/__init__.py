"""Text to verdict arrays: answer verifier, judges, code sandbox."""

from jaxrl_scope.grading.pool import VerifierPool
from jaxrl_scope.grading.verdicts import Item, Verdict
from jaxrl_scope.grading.verifier import is_correct, is_gradable, verify, verify_scaffold

__all__ = [
    "Item",
    "Verdict",
    "VerifierPool",
    "is_correct",
    "is_gradable",
    "verify",
    "verify_scaffold",
]
