"""Operators of the generated code problems: typed, each in basic numerics and by a library.

`basic` and `library` are function bodies over the argument x (a vector, a matrix or a number) and,
where the operator has one, the parameter K; both are plain source that a sandbox runs. `short` and
`slip` are one-line expressions over X in the language that the tiny model writes: one right, one
that a careless writer takes for it; only operators that have them are in tiny problems.
"""

import dataclasses
from typing import Literal

Kind = Literal["vector", "matrix", "number"]


@dataclasses.dataclass(frozen=True)
class Operator:
    """One operation on data.

    Attributes:
      name: one word, unique.
      takes: kind of x.
      gives: kind of the result.
      text: what it does, in words; "{k}" stands for the parameter.
      basic: body in loops and arithmetic.
      library: body that calls numpy or scipy.
      parameters: values of K; () for an operator without one.
      short: right one-line expression; "" for none.
      slip: wrong one-line expression; "" for none.
      invariant: expression over the result y (and x) that always holds; "" for none.
    """

    name: str
    takes: Kind
    gives: Kind
    text: str
    basic: str
    library: str
    parameters: tuple[int, ...] = ()
    short: str = ""
    slip: str = ""
    invariant: str = ""


_V: Kind = "vector"
_M: Kind = "matrix"
_N: Kind = "number"
_FEW = (2, 3, 4)


def _map(expression: str) -> str:
    return f"return np.array([{expression} for v in x], float)"


_VECTORS = (
    Operator("shift", _V, _V, "add {k} to every entry", _map("v + K"), "return np.add(x, K)",
             _FEW, "X + K", "X - K"),
    Operator("scale", _V, _V, "multiply every entry by {k}", _map("v * K"),
             "return np.multiply(x, K)", _FEW, "X * K", "X + K"),
    Operator("square", _V, _V, "square every entry", _map("v * v"), "return np.square(x)",
             (), "X ** 2", "X * 2", "np.all(y >= 0)"),
    Operator("magnitude", _V, _V, "take the absolute value of every entry",
             _map("v if v >= 0 else -v"), "return np.abs(x)", (), "np . abs ( X )", "X * - 1",
             "np.all(y >= 0)"),
    Operator("rectify", _V, _V, "replace negative entries by 0", _map("v if v > 0 else 0.0"),
             "return np.maximum(x, 0)", (), "np . maximum ( X , 0 )", "np . minimum ( X , 0 )",
             "np.all(y >= 0)"),
    Operator("reverse", _V, _V, "put the entries in reverse order",
             "return np.array([x[len(x) - 1 - i] for i in range(len(x))], float)",
             "return np.flip(x)", (), "X [ : : - 1 ]", "X [ : : 1 ]"),
    Operator("ascend", _V, _V, "sort the entries in ascending order",
             "out = list(x)\nfor i in range(len(out)):\n    for j in range(i):\n"
             "        if out[i] < out[j]:\n            out[i], out[j] = out[j], out[i]\n"
             "return np.array(out, float)",
             "return np.sort(x)", (), "np . sort ( X )", "X [ : : 1 ]", "np.all(np.diff(y) >= 0)"),
    Operator("accumulate", _V, _V, "replace each entry by the sum of the entries up to it",
             "out, total = [], 0.0\nfor v in x:\n    total += v\n    out.append(total)\n"
             "return np.array(out, float)",
             "return np.cumsum(x)", (), "np . cumsum ( X )", "np . cumprod ( X )",
             "np.isclose(y[-1], np.sum(x))"),
    Operator("rotate", _V, _V, "rotate the entries by {k} places to the right",
             "n = len(x)\nreturn np.array([x[(i - K) % n] for i in range(n)], float)",
             "return np.roll(x, K)", (1, 2), "np . roll ( X , K )", "np . roll ( X , - K )"),
    Operator("negate", _V, _V, "change the sign of every entry", _map("-v"),
             "return np.negative(x)", (), "X * - 1", "np . abs ( X )"),
    Operator("halve", _V, _V, "divide every entry by 2", _map("v / 2"), "return np.divide(x, 2)",
             (), "X / 2", "X * 2"),
    Operator("limit", _V, _V, "replace entries above {k} by {k}", _map("v if v < K else K"),
             "return np.minimum(x, K)", _FEW, "np . minimum ( X , K )", "np . maximum ( X , K )",
             "np.all(y <= K)"),
    Operator("center", _V, _V, "subtract the mean from every entry",
             "mean = sum(x) / len(x)\n" + _map("v - mean"),
             "return x - np.mean(x)", invariant="np.isclose(np.sum(y), 0, atol=1e-6)"),
    Operator("differences", _V, _V, "take each entry minus the one before it, 0 for the first",
             "return np.array([x[i] - x[i - 1] if i else 0.0 for i in range(len(x))], float)",
             "return np.diff(x, prepend=x[0])"),
    Operator("softmax", _V, _V, "turn the entries into weights by the softmax",
             "top = max(x)\ne = [np.exp(v - top) for v in x]\n"
             "return np.array([v / sum(e) for v in e])",
             "from scipy.special import softmax\nreturn softmax(x)",
             invariant="np.isclose(np.sum(y), 1)"),
    Operator("smooth", _V, _V, "average each entry with its neighbours, 0 beyond the ends",
             "n, out = len(x), []\nfor i in range(n):\n"
             "    out.append(sum(x[j] for j in (i - 1, i, i + 1) if 0 <= j < n) / 3)\n"
             "return np.array(out, float)",
             "return np.convolve(x, np.ones(3) / 3, 'same') if len(x) > 2 else "
             "np.convolve(x, np.ones(3) / 3)[1:-1]"),
    Operator("ranks", _V, _V, "replace each entry by the number of entries below it",
             _map("sum(1 for w in x if w < v)"),
             "from scipy.stats import rankdata\nreturn rankdata(x, 'min') - 1.0"),
)  # fmt: skip
_NUMBERS = (
    Operator("total", _V, _N, "add up the entries",
             "out = 0.0\nfor v in x:\n    out += v\nreturn out", "return float(np.sum(x))",
             (), "np . sum ( X )", "np . max ( X )"),
    Operator("largest", _V, _N, "take the largest entry",
             "out = x[0]\nfor v in x:\n    out = v if v > out else out\nreturn float(out)",
             "return float(np.max(x))", (), "np . max ( X )", "np . min ( X )",
             "np.all(np.asarray(x) <= y)" ),
    Operator("smallest", _V, _N, "take the smallest entry",
             "out = x[0]\nfor v in x:\n    out = v if v < out else out\nreturn float(out)",
             "return float(np.min(x))", (), "np . min ( X )", "np . max ( X )"),
    Operator("average", _V, _N, "take the mean of the entries",
             "return float(sum(x) / len(x))", "return float(np.mean(x))",
             (), "np . mean ( X )", "np . sum ( X )"),
    Operator("length", _V, _N, "take the Euclidean norm", "return sum(v * v for v in x) ** 0.5",
             "return float(np.linalg.norm(x))", invariant="y >= 0"),
    Operator("area", _V, _N, "integrate by the trapezoidal rule with unit spacing",
             "return float(sum((x[i] + x[i + 1]) / 2 for i in range(len(x) - 1)))",
             "from scipy.integrate import trapezoid\nreturn float(trapezoid(x))"),
    Operator("variance", _V, _N, "take the population variance",
             "m = sum(x) / len(x)\nreturn float(sum((v - m) ** 2 for v in x) / len(x))",
             "return float(np.var(x))", invariant="y >= 0"),
    Operator("median", _V, _N, "take the median",
             "s, n = sorted(x), len(x)\nreturn float((s[(n - 1) // 2] + s[n // 2]) / 2)",
             "return float(np.median(x))"),
    Operator("polynomial", _V, _N, "evaluate at {k} the polynomial whose coefficients, highest "
             "power first, are the entries",
             "out = 0.0\nfor v in x:\n    out = out * K + v\nreturn float(out)",
             "return float(np.polyval(x, K))", _FEW),
    Operator("increase", _N, _N, "add {k}", "return float(x) + K", "return float(np.add(x, K))",
             _FEW, "X + K", "X - K"),
    Operator("multiply", _N, _N, "multiply by {k}", "return float(x) * K",
             "return float(np.multiply(x, K))", _FEW, "X * K", "X + K"),
    Operator("power", _N, _N, "square it", "return float(x) * float(x)",
             "return float(np.square(x))", (), "X ** 2", "X * 2", "y >= 0"),
    Operator("sigmoid", _N, _N, "apply the logistic function",
             "return 1 / (1 + np.exp(-x)) if x >= 0 else np.exp(x) / (1 + np.exp(x))",
             "from scipy.special import expit\nreturn float(expit(x))", invariant="0 <= y <= 1"),
)  # fmt: skip
_MATRICES = (
    Operator("outer", _V, _M, "form the outer product with itself",
             "return np.array([[v * w for w in x] for v in x], float)", "return np.outer(x, x)",
             invariant="np.allclose(y, y.T)"),
    Operator("circulant", _V, _M, "form the circulant matrix whose first column it is",
             "n = len(x)\nreturn np.array([[x[(i - j) % n] for j in range(n)] for i in range(n)],"
             " float)", "from scipy.linalg import circulant\nreturn circulant(x)"),
    Operator("transpose", _M, _M, "transpose it",
             "return np.array([[r[j] for r in x] for j in range(len(x[0]))], float)",
             "return np.transpose(x)"),
    Operator("matsquare", _M, _M, "multiply it by itself",
             "n = len(x)\nreturn np.array([[sum(x[i][k] * x[k][j] for k in range(n)) "
             "for j in range(n)] for i in range(n)], float)", "return x @ x"),
    Operator("lower", _M, _M, "set the entries above the diagonal to 0",
             "n = len(x)\nreturn np.array([[x[i][j] if j <= i else 0.0 for j in range(n)] "
             "for i in range(n)], float)", "return np.tril(x)"),
    Operator("rowsums", _M, _V, "add up each row",
             "return np.array([sum(r) for r in x], float)", "return np.sum(x, axis=1)"),
    Operator("diagonal", _M, _V, "take the diagonal",
             "return np.array([x[i][i] for i in range(len(x))], float)", "return np.diag(x)"),
    Operator("trace", _M, _N, "take the trace",
             "return float(sum(x[i][i] for i in range(len(x))))", "return float(np.trace(x))"),
    Operator("frobenius", _M, _N, "take the Frobenius norm",
             "return float(sum(v * v for r in x for v in r) ** 0.5)",
             "return float(np.linalg.norm(x))", invariant="y >= 0"),
    Operator("onenorm", _M, _N, "take the largest absolute column sum",
             "n = len(x)\nreturn float(max(sum(abs(x[i][j]) for i in range(n)) for j in range(n)))",
             "from scipy.linalg import norm\nreturn float(norm(x, 1))", invariant="y >= 0"),
)  # fmt: skip

OPERATORS: tuple[Operator, ...] = _VECTORS + _NUMBERS + _MATRICES
TINY: tuple[Operator, ...] = tuple(op for op in OPERATORS if op.short)
