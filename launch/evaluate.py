"""Evaluate a policy by the Step-Quality Evaluation Protocol, or compare files of step labels.

    python launch/evaluate.py --preset world --model runs/asr-world-s0
    python launch/evaluate.py --preset aime --model DIR --problems FILE --judge.chat.model NAME
    python launch/evaluate.py score evaluations/NAME --out rescored --judge.chat.model OTHER
    python launch/evaluate.py labels FILE
    python launch/evaluate.py agreement JUDGE EXPERT_A [EXPERT_B]
    python launch/evaluate.py preference VOTES --first scope --second grpo

An evaluation that was stopped goes on when the same command is given again: samples and judge
replies are kept as they come. Exit status: 0, 2 for bad input, 1 for an evaluation that broke off.
"""

import argparse
import dataclasses
import os
import sys
from pathlib import Path
from typing import Annotated

from jaxrl_scope.huge_pages import restart_with_huge_pages

if __name__ == "__main__":
    restart_with_huge_pages()
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import jax
import tyro

from jaxrl_scope.evaluate.agreement import (
    Question,
    compare,
    compare_with_experts,
    label_statistics,
)
from jaxrl_scope.evaluate.config import EvaluateConfig, preset_config
from jaxrl_scope.evaluate.generate import LostRolloutsError
from jaxrl_scope.evaluate.label_files import load_labels
from jaxrl_scope.evaluate.preference import count_preferences
from jaxrl_scope.evaluate.run import output_directory, rescore, run_evaluation, write_json
from jaxrl_scope.evaluate.tables import (
    agreement_tables,
    preference_table,
    result_table,
    show,
    statistics_table,
)

File = Annotated[Path, tyro.conf.Positional]


def read_config(argv: list[str], prog: str) -> EvaluateConfig:
    """The settings: those of the preset, then the command line."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--preset", default=EvaluateConfig.preset)
    name = first.parse_known_args(argv)[0].preset
    return tyro.cli(
        EvaluateConfig, default=preset_config(name), args=argv, prog=prog, description=__doc__
    )


def run(argv: list[str]) -> None:
    """Sample, verify, judge and report."""
    config = read_config(argv, "python launch/evaluate.py")
    show(result_table(run_evaluation(config)))
    print(f"results: {output_directory(config)}")


def score(argv: list[str]) -> None:
    """Score the samples of an evaluation again, without generating."""
    if not argv or argv[0].startswith("-"):
        raise ValueError("score needs the directory of an evaluation, or a file of samples, first")
    config = read_config(argv[1:], "python launch/evaluate.py score SOURCE")
    show(result_table(rescore(config, Path(argv[0]))))
    print(f"results: {config.out}")


def labels(argv: list[str]) -> None:
    """Print shares and first-error positions of label files."""

    def command(files: Annotated[tuple[Path, ...], tyro.conf.Positional]) -> None:
        if not files:
            raise ValueError("labels needs at least one label file")
        for file in files:
            show(statistics_table(file.name, label_statistics(load_labels(file))))

    tyro.cli(command, args=argv, prog="python launch/evaluate.py labels")


def agreement(argv: list[str]) -> None:
    """Print how well a judge agrees with one expert, or with two and their consensus."""

    def command(
        judge: File,
        expert_a: File,
        expert_b: Annotated[Path | None, tyro.conf.Positional] = None,
        question: Question = "useful",
        out: Path | None = None,
    ) -> None:
        rater, first = load_labels(judge), load_labels(expert_a)
        if expert_b is None:
            pairs = {"judge vs. expert": compare(rater, first, question)}
        else:
            pairs = compare_with_experts(rater, first, load_labels(expert_b), question)
        show(agreement_tables(pairs))
        _save(out, {name: dataclasses.asdict(pair) for name, pair in pairs.items()})

    tyro.cli(command, args=argv, prog="python launch/evaluate.py agreement")


def preference(argv: list[str]) -> None:
    """Print which of two systems the majority of the voters prefers."""

    def command(votes: File, first: str, second: str, out: Path | None = None) -> None:
        counts = count_preferences(votes, first, second)
        show(preference_table(counts, first, second))
        _save(out, {name: dataclasses.asdict(count) for name, count in counts.items()})

    tyro.cli(command, args=argv, prog="python launch/evaluate.py preference")


def _save(path: Path | None, value: object) -> None:
    if path is not None:
        write_json(path, value)


COMMANDS = {
    "run": run,
    "score": score,
    "labels": labels,
    "agreement": agreement,
    "preference": preference,
}


def main(argv: list[str]) -> int:
    """Run one command, "run" where none is named; returns the exit status."""
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    name, rest = (argv[0], argv[1:]) if argv and argv[0] in COMMANDS else ("run", argv)
    try:
        COMMANDS[name](rest)
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (LostRolloutsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
