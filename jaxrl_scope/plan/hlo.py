"""Arithmetic and traffic of a compiled program, counted in its HLO text.

XLA's own cost analysis counts the body of a loop once, whatever its length; here every computation
is weighted by how often it runs.
"""

import dataclasses
import math
import re
from collections import defaultdict

COLLECTIVES = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")
_BITS = {"pred": 8, "bf16": 16, "f16": 16, "f32": 32, "f64": 64}

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*?) ([\w\-]+)\((.*)$")
_SHAPE = re.compile(r"\b(pred|bf16|f16|f32|f64|[su]\d+)\[([\d,]*)\]")
_CALLED = re.compile(r"(?:calls|to_apply|body|branch_computations)=\{?([%\w.\-, ]+)\}?")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one run of a program takes on each device.

    Attributes:
      flops: operations of its matrix products, a multiply-add counting as two.
      collective_bytes: bytes of the results of each kind of collective.
    """

    flops: float
    collective_bytes: dict[str, float]


def program_cost(text: str) -> Cost:
    """Count the HLO text of a compiled program; a loop of unknown length counts once."""
    flops: dict[str, float] = defaultdict(float)
    traffic: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    calls: dict[str, list[tuple[str, int]]] = defaultdict(list)
    entry, here = "", ""
    shapes: dict[str, str] = {}
    for line in text.splitlines():
        if match := _COMPUTATION.match(line):
            here, shapes = match[1], {}
            entry = here if line.startswith("ENTRY") else entry
        elif match := _INSTRUCTION.match(line):
            name, shape, op, rest = match.groups()
            shapes[name] = shape
            kind = op.removesuffix("-start")
            if kind == "dot":
                flops[here] += _dot_flops(shape, rest, shapes)
            elif kind in COLLECTIVES:
                traffic[here][kind] += _result_bytes(shape, started=op != kind)
            trips = _TRIPS.search(rest)
            times = int(trips[1]) if op == "while" and trips else 1
            for called in _CALLED.findall(rest):
                calls[here] += [(c.strip().lstrip("%"), times) for c in called.split(",")]
    runs = _times_run(entry, calls)
    total: dict[str, float] = defaultdict(float)
    for computation, times in runs.items():
        for kind, size in traffic[computation].items():
            total[kind] += times * size
    return Cost(sum(times * flops[c] for c, times in runs.items()), dict(total))


def _times_run(entry: str, calls: dict[str, list[tuple[str, int]]]) -> dict[str, int]:
    """How often each computation runs, callers before callees."""
    runs: dict[str, int] = defaultdict(int)

    def visit(name: str, times: int) -> None:
        runs[name] += times
        for called, each in calls[name]:
            visit(called, times * each)

    visit(entry, 1)
    return runs


def _dims(shape: str) -> list[int]:
    match = _SHAPE.search(shape)
    return [int(n) for n in match[2].split(",") if n] if match else []


def _dot_flops(shape: str, rest: str, shapes: dict[str, str]) -> float:
    left = rest.split(",")[0].split(")")[0]
    # Older printers write the operand's shape before its name, newer ones the name alone.
    dims = _dims(rest) if "[" in left else _dims(shapes[left.strip().lstrip("%")])
    contracted = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", rest)
    axes = [int(n) for n in contracted[1].split(",") if n] if contracted else []
    return 2.0 * math.prod(_dims(shape)) * math.prod(dims[axis] for axis in axes)


def _result_bytes(shape: str, *, started: bool) -> float:
    sizes = [
        math.prod(int(n) for n in dims.split(",") if n) * _bits(dtype) / 8
        for dtype, dims in _SHAPE.findall(shape)
    ]
    # A started collective yields its operands too; the results are the second half.
    return float(sum(sizes[len(sizes) // 2 :] if started and len(sizes) > 1 else sizes))


def _bits(dtype: str) -> int:
    return _BITS.get(dtype) or int(dtype[1:])
