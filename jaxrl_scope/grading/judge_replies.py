"""Validation of what model judges answer. Every error says what to mend: it is sent back."""

from typing import Any

from jaxrl_scope.grading.judge import StepLabel
from jaxrl_scope.grading.judge_prompts import LABEL_NAMES

_LABEL_OF = dict(zip(LABEL_NAMES, StepLabel, strict=True))


def _records(reply: dict[str, Any], name: str, fields: tuple[str, ...]) -> list[dict[str, Any]]:
    """The list under `name`, each entry an object with exactly `fields`."""
    if set(reply) != {name}:
        raise ValueError(f"expected an object with the one field {name!r}, got {sorted(reply)}")
    records = reply[name]
    if not isinstance(records, list):
        raise ValueError(f"{name!r} must be a list")
    for position, record in enumerate(records, start=1):
        if not isinstance(record, dict) or set(record) != set(fields):
            raise ValueError(f"entry {position} of {name!r} must have the fields {fields}")
        for field in fields:
            _check_field(position, field, record[field])
    return records


def _check_field(position: int, field: str, value: Any) -> None:
    if field == "label":
        if not isinstance(value, str) or value not in _LABEL_OF:
            raise ValueError(f"entry {position}: label {value!r} is not one of {LABEL_NAMES}")
    elif not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"entry {position}: {field} must be an integer, got {value!r}")


def read_groups(reply: dict[str, Any], num_units: int) -> tuple[tuple[int, int], ...]:
    """(first, last) unit of every step; they cover 1..num_units in order without gap or overlap."""
    return _groups(_records(reply, "steps", ("first", "last")), num_units)


def read_labelled_groups(
    reply: dict[str, Any], num_units: int
) -> tuple[tuple[tuple[int, int], ...], tuple[StepLabel, ...]]:
    """Steps as in `read_groups`, and the label of each."""
    records = _records(reply, "steps", ("first", "last", "label"))
    return _groups(records, num_units), tuple(_LABEL_OF[record["label"]] for record in records)


def _groups(records: list[dict[str, Any]], num_units: int) -> tuple[tuple[int, int], ...]:
    expected = 1
    for position, record in enumerate(records, start=1):
        first, last = record["first"], record["last"]
        if first != expected:
            raise ValueError(f"step {position} starts at unit {first}; it must start at {expected}")
        if not first <= last <= num_units:
            raise ValueError(
                f"step {position} ends at unit {last}; it must end between {first} and {num_units}"
            )
        expected = last + 1
    if expected != num_units + 1:
        raise ValueError(f"the steps end at unit {expected - 1}; the trace has {num_units} units")
    return tuple((record["first"], record["last"]) for record in records)


def read_labels(reply: dict[str, Any], num_steps: int) -> tuple[StepLabel, ...]:
    """One label for each of the steps 1..num_steps, in order."""
    records = _records(reply, "labels", ("step", "label"))
    numbers = [record["step"] for record in records]
    if numbers != list(range(1, num_steps + 1)):
        raise ValueError(
            f"expected exactly the steps 1 to {num_steps}, each once and in order; "
            f"got {len(numbers)} entries, numbered {numbers[:20]}{'...' * (len(numbers) > 20)}"
        )
    return tuple(_LABEL_OF[record["label"]] for record in records)


def read_score(reply: dict[str, Any]) -> float:
    """The holistic grade, a number in [0, 1]."""
    if set(reply) != {"score"}:
        raise ValueError(f"expected an object with the one field 'score', got {sorted(reply)}")
    score = reply["score"]
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise ValueError(f"score must be a number from 0 to 1, got {score!r}")
    return float(score)


def read_retractions(reply: dict[str, Any], num_units: int) -> tuple[tuple[int, int], ...]:
    """(source, reflection) units of every turn: 1 <= source < reflection <= num_units."""
    records = _records(reply, "retractions", ("source", "reflection"))
    for position, record in enumerate(records, start=1):
        if not 1 <= record["source"] < record["reflection"] <= num_units:
            raise ValueError(
                f"retraction {position} has source {record['source']} and reflection "
                f"{record['reflection']}; need 1 <= source < reflection <= {num_units}"
            )
    return tuple((record["source"], record["reflection"]) for record in records)


def read_used_units(reply: dict[str, Any], num_units: int) -> tuple[tuple[int, int], ...]:
    """Increasing, disjoint (first, last) ranges within 1..num_units."""
    records = _records(reply, "used", ("first", "last"))
    free = 1
    for position, record in enumerate(records, start=1):
        first, last = record["first"], record["last"]
        if not free <= first <= last <= num_units:
            raise ValueError(
                f"range {position} is {first} to {last}; ranges must be in increasing order, must "
                f"not overlap, and lie within 1 to {num_units}"
            )
        free = last + 1
    return tuple((record["first"], record["last"]) for record in records)
