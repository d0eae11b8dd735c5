"""Probes of a policy; nothing is trained.

    python launch/probe.py scaffold                      the built-in world
    python launch/probe.py scaffold --model DIR --problems FILE --scaffolds FILE --num-sub 4

`scaffold` asks whether progress on prerequisites foretells success (SCOPE-RL, Figure 1a): it prints
and plots main-answer accuracy by the length of the correct prefix of sub-answers, under the
scaffold prompt and under the original prompt.
"""

import os
import sys
from collections.abc import Callable, Sequence

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import tyro

from jaxrl_scope.evaluate.probe_run import ScaffoldProbeConfig, run_scaffold_probe
from jaxrl_scope.evaluate.tables import probe_table, show


def scaffold(argv: Sequence[str]) -> None:
    """Run the scaffold probe and print its figures."""
    config = tyro.cli(
        ScaffoldProbeConfig, args=argv, prog="python launch/probe.py scaffold", description=__doc__
    )
    show(probe_table(run_scaffold_probe(config)))
    print(f"results: {config.out}")


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {"scaffold": scaffold}


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
