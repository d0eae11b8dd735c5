"""What the sandbox is asked and what it answers."""

import dataclasses
import enum
from typing import Any


class Status(enum.StrEnum):
    """How one run ended."""

    PASS = "pass"  # every test held
    FAIL = "fail"  # a test did not hold, or the program raised
    TIMEOUT = "timeout"  # wall or CPU limit
    CRASH = "crash"  # the program's process died: exit, signal, memory
    NA = "na"  # not decided: the tests themselves are broken, or a value cannot cross


class Kind(enum.StrEnum):
    """What a run that did not pass failed of; the rule that sorts residuals reads it."""

    NONE = ""
    INTERFACE = "interface"  # name missing, arguments do not fit
    STRUCTURE = "structure"  # a result of another shape or type than the test can compare
    CONVENTION = "convention"  # the value is right up to tolerance, sign or a constant factor
    VALUE = "value"  # a wrong value
    RAISED = "raised"  # the program raised
    RESOURCE = "resource"  # timeout or crash


class SandboxError(RuntimeError):
    """The sandbox cannot do its work here."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one run may take.

    Attributes:
      wall_s: seconds from start to verdict.
      cpu_s: CPU seconds per process.
      memory_mb: MiB of address space per process, beyond what the fork server itself has.
      file_mb: MiB of one file, and of the whole scratch directory.
      processes: processes and threads of the program, itself included.
    """

    wall_s: float = 120.0
    cpu_s: int = 120
    memory_mb: int = 1024
    file_mb: int = 16
    processes: int = 8

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) <= 0:
                raise ValueError(
                    f"sandbox limit {field.name} must be positive, got {getattr(self, field.name)}"
                )


@dataclasses.dataclass(frozen=True)
class Run:
    """A program and the tests it has to pass.

    Attributes:
      program: untrusted Python source; it runs first and sees neither tests nor targets.
      tests: test sources, run in order in one namespace in another process; a bare `assert` is the
        usual form. All must hold.
      targets: one value per test, bound to the name `target` before it runs; () for none.
      names: functions of the program that the tests call. Arguments and results cross as data, so
        only numbers, strings, built-in containers and arrays of plain dtypes can be exchanged.
      setup: source that prepares the namespace of the tests, imports mostly.
      seed: of `random` and `numpy.random`, in both processes.
    """

    program: str
    tests: tuple[str, ...]
    targets: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    setup: str = ""
    seed: int = 0

    def __post_init__(self):
        if self.targets and len(self.targets) != len(self.tests):
            raise ValueError(f"{len(self.targets)} targets for {len(self.tests)} tests")
        if not self.tests:
            raise ValueError("a run needs at least one test: a program without any always passes")


@dataclasses.dataclass(frozen=True)
class RunResult:
    """Outcome of a run.

    Attributes:
      status: how it ended.
      reason: a sentence for people; may quote untrusted text, shortened.
      kind: what it failed of.
      seconds: wall time.
    """

    status: Status
    reason: str = ""
    kind: Kind = Kind.NONE
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every test held."""
        return self.status is Status.PASS
