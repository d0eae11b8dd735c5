"""Step verdicts of multi-step code: on the own prefix, and grafted onto the reference's.

A grafted run puts step t of a trajectory, aligned by signature, behind the reference's steps before
t, so that all trajectories are tested on the same prefix. Where the signature cannot be aligned
without running anything, there is no grafted verdict (NA).
"""

import ast
import dataclasses
from collections.abc import Sequence

import numpy as np

from jaxrl_scope.data.code_problems import CodeProblem, PrefixLibrary, find_function
from jaxrl_scope.grading.sandbox import Kind, Run, RunResult, SandboxPool, Status
from rewards import RESIDUAL_BUCKETS

_BUCKET_OF = {
    Kind.INTERFACE: RESIDUAL_BUCKETS.index("interface mismatch"),
    Kind.STRUCTURE: RESIDUAL_BUCKETS.index("numeric convention"),
    Kind.CONVENTION: RESIDUAL_BUCKETS.index("numeric convention"),
}
_LOCAL = RESIDUAL_BUCKETS.index("local error")
MISSING = RunResult(Status.FAIL, "the response has no such step", Kind.INTERFACE)


@dataclasses.dataclass(frozen=True)
class StepVerdicts:
    """What is known of one trajectory of a problem of n steps.

    Attributes:
      passed: [n] bool, r: the tests of step t hold on the own prefix.
      grafted: [n] bool, r̃: they hold on the reference's prefix; False where not alignable.
      alignable: [n] bool, r̃ exists.
      bucket: [n] int, position in `RESIDUAL_BUCKETS`; means something where r - b r̃ is not 0.
      decided: False if a run on the own prefix could not be decided; leave the trajectory out.
      own: [n] results behind `passed`.
      graft: [n] results behind `grafted`, None where not alignable.
    """

    passed: np.ndarray
    grafted: np.ndarray
    alignable: np.ndarray
    bucket: np.ndarray
    decided: bool
    own: tuple[RunResult, ...]
    graft: tuple[RunResult | None, ...]


def align(source: str, reference: str, name: str) -> str | None:
    """Fit a step's source to the signature that the reference gives to the function `name`.

    Other names of positional parameters are harmless: a wrapper with the reference's names is
    added, so that calls by keyword reach them too.

    Returns:
      The source to inject; None (NA) where the function is missing or takes other arguments.
    """
    own, wanted = find_function(source, name), find_function(reference, name)
    if own is None or wanted is None or _shape(own.args) != _shape(wanted.args):
        return None
    own_names = [a.arg for a in own.args.posonlyargs + own.args.args]
    names = [a.arg for a in wanted.args.posonlyargs + wanted.args.args]
    if own_names == names:
        return source
    wrapper = ast.FunctionDef(
        name=name,
        args=wanted.args,
        body=ast.parse(f"return _own_{name}({_forward(wanted.args)})").body,
        decorator_list=[],
        returns=None,
    )
    text = ast.unparse(ast.fix_missing_locations(ast.Module([wrapper], [])))
    return f"{source}\n\n_own_{name} = {name}\n\n{text}"


def _shape(arguments: ast.arguments) -> tuple:
    """What of a signature a caller can notice, less the names of positional parameters."""
    return (
        len(arguments.posonlyargs) + len(arguments.args),
        len(arguments.defaults),
        arguments.vararg is not None,
        sorted(a.arg for a in arguments.kwonlyargs),
        arguments.kwarg is not None,
    )


def _forward(arguments: ast.arguments) -> str:
    parts = [a.arg for a in arguments.posonlyargs + arguments.args]
    parts += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    parts += [f"{a.arg}={a.arg}" for a in arguments.kwonlyargs]
    parts += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join(parts)


class Grafter:
    """Makes the runs of trajectories and turns their results into step verdicts."""

    def __init__(self, pool: SandboxPool, *, seed: int = 0):
        """Run in `pool`; `seed` is that of every run."""
        self.pool = pool
        self._seed = seed
        self._library = PrefixLibrary()

    def grade(
        self, problems: Sequence[CodeProblem], trajectories: Sequence[Sequence[str | None]]
    ) -> list[StepVerdicts]:
        """Grade K trajectories.

        Args:
          problems: [K] their problems.
          trajectories: [K] sources of the steps in order; None, or an end before the last step, is
            a step that was not written.
        """
        plans = []
        for problem, codes in zip(problems, trajectories, strict=True):
            codes = [*codes, *[None] * (len(problem.steps) - len(codes))]
            plans.append((self._own_runs(problem, codes), self._grafted_runs(problem, codes)))
        runs = [run for own, graft in plans for run in (*own, *graft) if run is not None]
        results = iter(self.pool.run_batch(runs))
        out = []
        for own, graft in plans:
            own_results = [MISSING if run is None else next(results) for run in own]
            graft_results = [None if run is None else next(results) for run in graft]
            out.append(_verdicts(own_results, graft_results))
        return out

    def _own_runs(self, problem: CodeProblem, codes: Sequence[str | None]) -> list[Run | None]:
        written = [code or "" for code in codes]
        return [
            None if code is None else problem.run(t, written[:t], self._seed)
            for t, code in enumerate(codes, start=1)
        ]

    def _grafted_runs(self, problem: CodeProblem, codes: Sequence[str | None]) -> list[Run | None]:
        runs: list[Run | None] = []
        for t, (step, code) in enumerate(zip(problem.steps, codes, strict=True), start=1):
            aligned = None if code is None else align(code, step.reference, step.name)
            prefix = self._library.prefix(problem, t)
            runs.append(None if aligned is None else problem.run(t, [*prefix, aligned], self._seed))
        return runs


def check_references(
    problems: Sequence[CodeProblem], pool: SandboxPool
) -> list[tuple[str, int, str, RunResult]]:
    """Differential test: reference and oracle must both pass every step's tests.

    Step t of the oracle is tested on the reference's prefix too, so that a disagreement is laid to
    the step that has it.

    Returns:
      (problem id, step from 1, "reference" or "oracle", result) of each run that did not pass.
    """
    library, names, runs = PrefixLibrary(), [], []
    for problem in problems:
        for t, step in enumerate(problem.steps, start=1):
            for which, source in (("reference", step.reference), ("oracle", step.oracle)):
                if source:
                    names.append((problem.id, t, which))
                    runs.append(problem.run(t, [*library.prefix(problem, t), source]))
    results = pool.run_batch(runs)
    return [(*n, result) for n, result in zip(names, results, strict=True) if not result.passed]


def _verdicts(own: Sequence[RunResult], graft: Sequence[RunResult | None]) -> StepVerdicts:
    passed = np.array([result.passed for result in own])
    known = np.array([result is not None and result.status is not Status.NA for result in graft])
    grafted = np.array([result is not None and result.passed for result in graft])
    return StepVerdicts(
        passed=passed,
        grafted=grafted,
        alignable=known,
        bucket=np.array([_bucket(t, own, graft) for t in range(len(own))], np.int32),
        decided=all(result.status is not Status.NA for result in own),
        own=tuple(own),
        graft=tuple(graft),
    )


def _bucket(t: int, own: Sequence[RunResult], graft: Sequence[RunResult | None]) -> int:
    """Sort a residual by the run that failed where the other held.

    r = 0 against b r̃ = 1: the own run of step t. r = 1 against b r̃ = 0: the grafted run if it
    failed, else the first failing step of the own prefix, which step t got round.
    """
    grafted = graft[t]
    if not own[t].passed:
        blamed = own[t]
    elif grafted is not None and not grafted.passed:
        blamed = grafted
    else:
        blamed = next((result for result in own[:t] if not result.passed), own[t])
    return _BUCKET_OF.get(blamed.kind, _LOCAL)
