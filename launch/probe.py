"""Probes of a policy; nothing is trained.

    python launch/probe.py scaffold                      the built-in world
    python launch/probe.py scaffold --model DIR --problems FILE --scaffolds FILE --num-sub 4
    python launch/probe.py graft                         the built-in code world
    python launch/probe.py graft --simulate 10000        a policy with known rates
    python launch/probe.py graft --runs runs/A-0 ...     trained arms by step, from their ledgers

`scaffold` asks whether progress on prerequisites foretells success (SCOPE-RL, Figure 1a): it prints
and plots main-answer accuracy by the length of the correct prefix of sub-answers, under the
scaffold prompt and under the original prompt.

`graft` diagnoses step credit for multi-step code: by step number, how often the prefix still holds,
the spread of step rewards across prefixes and within sound ones, advantages, residuals by kind,
what an execution costs, and which of the proposal's predictions hold.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence

from jaxrl_scope.huge_pages import restart_with_huge_pages

if __name__ == "__main__":
    restart_with_huge_pages()
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import tyro

from jaxrl_scope.evaluate.graft_probe import GraftProbeConfig, compare_runs, run_graft_probe
from jaxrl_scope.evaluate.graft_tables import arms_table, cost_line, diagnosis_table
from jaxrl_scope.evaluate.probe_run import ScaffoldProbeConfig, run_scaffold_probe
from jaxrl_scope.evaluate.tables import probe_table, show


def scaffold(argv: Sequence[str]) -> None:
    """Run the scaffold probe and print its figures."""
    config = tyro.cli(
        ScaffoldProbeConfig, args=argv, prog="python launch/probe.py scaffold", description=__doc__
    )
    show(probe_table(run_scaffold_probe(config)))
    print(f"results: {config.out}")


def graft(argv: Sequence[str]) -> None:
    """Run the diagnosis of step credit, or compare trained runs, and print the figures."""
    config = tyro.cli(
        GraftProbeConfig, args=argv, prog="python launch/probe.py graft", description=__doc__
    )
    if config.runs:
        print(arms_table(compare_runs(config.runs, config.last), config.last))
        return
    figures = run_graft_probe(config)
    print(diagnosis_table(figures))
    report = json.loads((config.out / "diagnosis.json").read_text())
    print("\n".join(f"{name}: {text}" for name, text in report["verdicts"].items()))
    if report["cost"]:
        print(cost_line(report["cost"]))
    print(f"results: {config.out}")


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {"scaffold": scaffold, "graft": graft}


def main(argv: list[str]) -> int:
    """Run one probe; returns the exit status, 2 for bad input."""
    if not argv or argv[0] not in COMMANDS:
        print(f"{__doc__}\nerror: name a probe: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    try:
        COMMANDS[argv[0]](argv[1:])
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
