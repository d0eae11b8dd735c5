"""Bounds on what is read and computed, and how a text that exceeds them is reported.

They come before any arithmetic: a text within them costs milliseconds to read, and every number
that is built has a bounded size. What exceeds them is *failed*, not *incorrect*.
"""

MAX_CHARS = 4096  # of an answer; the longest real ones (10 x 10 matrices) have about 1,500
MAX_TOKENS = 2000
MAX_DEPTH = 40  # nested groups; each level costs about a dozen Python frames
MAX_DIGITS = 2000  # of one numeral inside an expression
MAX_ITEMS = 64  # of a list or set: matching is quadratic
MAX_BITS = 8192  # of an exact rational that is carried around
MAX_FACTORIAL = 5000
MAX_EXPONENT = 10**6  # of an exact power; 10^(10^10) is nobody's final answer
MAX_MAGNITUDE = 10**7  # binary exponent of a high-precision number


class LimitExceededError(Exception):
    """The answer is too long, too deep or too large to be graded."""


class UnreadableError(Exception):
    """The text is no answer that the grammar knows."""


class UndefinedError(Exception):
    """The expression has no value: a division by zero, an indeterminate form."""


class NeedsWorkerError(Exception):
    """Exact arithmetic does not settle the question; a worker process may."""


class NeedsSympyError(NeedsWorkerError):
    """As its base, and the gold answer is outside the grammar: sympy has to read it."""
