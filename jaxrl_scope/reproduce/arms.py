"""What a reproduction is made of: arms, the measures taken of them, and the claims to test."""

import dataclasses
from collections.abc import Sequence
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Arm:
    """One way to train; run once per seed.

    Attributes:
      name: as the tables print it.
      key: names the arm's directories. Arms of several tables that share a key share their runs.
      train: arguments of launch/train.py; () trains nothing, and evaluates the arm `start`, or the
        warm-started model.
      preset: preset of the run and of what it starts from.
      start: key of the arm whose best checkpoint this one starts from; "" for the warm start.
      evaluate: more arguments of launch/evaluate.py; arms that differ in them need other keys. None
        takes all measures from the run itself.
      shown: whether the tables show it; an arm may be there only for others to start from.
    """

    name: str
    key: str
    train: tuple[str, ...] = ()
    preset: str = "world"
    start: str = ""
    evaluate: tuple[str, ...] | None = ()
    shown: bool = True


@dataclasses.dataclass(frozen=True)
class Claim:
    """`high` exceeds `low` in a measure, seed by seed, by more than `margin`.

    Attributes:
      text: the claim in words.
      measures: in each of these.
      high: key of the arm that should have more.
      low: key of the arm that should have less.
      margin: what the difference must exceed; negative for "no lower than".
      relative: take the difference as a share of `high`'s value.
      versus: the measure of `low`, if it is another one.
      source: where the paper says so.
    """

    text: str
    measures: tuple[str, ...]
    high: str
    low: str
    margin: float = 0.0
    relative: bool = False
    versus: str = ""
    source: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a paper, reproduced small.

    Attributes:
      title: what it shows.
      arms: in the order of the rows; an arm stands after the one that it starts from.
      measures: the columns.
      claims: what is tested.
      paper: the paper's figures for the first columns, by arm key, as text.
      note: what the reader has to know.
      curves: metrics of the runs that the plot shows over updates.
    """

    title: str
    arms: tuple[Arm, ...]
    measures: tuple[str, ...]
    claims: tuple[Claim, ...]
    paper: dict[str, str] = dataclasses.field(default_factory=dict)
    note: str = ""
    curves: tuple[str, ...] = ("eval/accuracy", "eta_r")

    def __post_init__(self):
        keys = [arm.key for arm in self.arms]
        unknown = {c.high for c in self.claims} | {c.low for c in self.claims}
        unknown = (unknown | {arm.start for arm in self.arms if arm.start}) - set(keys)
        if unknown or len(set(keys)) < len(keys):
            raise ValueError(f"table {self.title!r}: arms {keys}, of which unknown: {unknown}")
        for i, arm in enumerate(self.arms):
            if arm.evaluate is None and not arm.train:
                raise ValueError(f"arm {arm.key!r} has neither a run nor an evaluation to measure")
            if arm.start and arm.start not in keys[:i]:
                raise ValueError(f"arm {arm.key!r} stands before {arm.start!r}, its start")

    def only(self, keys: Sequence[str]) -> "Table":
        """The table of these arms, what they start from, and the claims about them.

        Raises:
          ValueError: an arm is unknown.
        """
        known = {arm.key: arm for arm in self.arms}
        if unknown := [key for key in keys if key not in known]:
            raise ValueError(f"unknown arms {unknown}; known: {', '.join(known)}")
        wanted, more = set(), set(keys)
        while more:
            wanted |= more
            more = {known[key].start for key in more if known[key].start}
        return dataclasses.replace(
            self,
            arms=tuple(arm for arm in self.arms if arm.key in wanted),
            claims=tuple(claim for claim in self.claims if {claim.high, claim.low} <= set(keys)),
        )


Budget = Literal["quick", "full"]
SEEDS: dict[Budget, int] = {"quick": 3, "full": 5}


def select(arms: Sequence[Arm]) -> list[Arm]:
    """The arms that a table shows."""
    return [arm for arm in arms if arm.shown]
