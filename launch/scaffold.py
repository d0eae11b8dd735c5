"""Build, check and audit the answer-hidden scaffolds that ASR trains on. No training happens here.

    python launch/scaffold.py build --problems math.jsonl --out scaffolds.jsonl --teacher.model NAME
    python launch/scaffold.py --validate scaffolds.jsonl --problems math.jsonl
    python launch/scaffold.py stats scaffolds.jsonl
    python launch/scaffold.py audit scaffolds.jsonl --page page.md
    python launch/scaffold.py audit --read page.md
    python launch/scaffold.py import published.parquet --out scaffolds.jsonl

`build` may be stopped at any time and started again: it asks only for what is missing. Exit status:
0, or 1 where `validate` rejected something or the input cannot be used.
"""

import contextlib
import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import tyro

from jaxrl_scope.data.loaders import load_problems
from jaxrl_scope.data.problems import Problem
from jaxrl_scope.data.scaffold_audit import read_marks, summarise_marks, write_audit
from jaxrl_scope.data.scaffold_build import BuildSettings, ScaffoldBuilder
from jaxrl_scope.data.scaffold_cache import ScaffoldCache
from jaxrl_scope.data.scaffold_file import load_scaffolds
from jaxrl_scope.data.scaffold_stats import collect_stats, format_stats
from jaxrl_scope.data.scaffold_validate import save_validated, validate_file
from jaxrl_scope.grading import VerifierPool
from jaxrl_scope.grading.chat_types import ChatConfig
from jaxrl_scope.grading.judge_cache import ReplyCache
from jaxrl_scope.grading.llm_client import ChatClient

File = Annotated[Path, tyro.conf.Positional]


def _load(name: str, columns: str | None, limit: int | None = None, seed: int = 0) -> list[Problem]:
    problems, report = load_problems(name, columns=columns, limit=limit, seed=seed)
    print(report.summary())
    return problems


def build(
    problems: str,
    out: Path,
    teacher: ChatConfig,
    checker_model: str | None = None,
    checker_base_url: str | None = None,
    columns: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    settings: BuildSettings = BuildSettings(),  # noqa: B008  (frozen)
) -> int:
    """Ask a teacher for scaffolds and keep the valid ones.

    Args:
      problems: file or Hugging Face name of the problems.
      out: scaffold file to fill (.jsonl); rejections and paid replies go beside it.
      teacher: the decomposing model.
      checker_model: model that decides P and D beyond rules; none by default.
      checker_base_url: its server, where it is not the teacher's.
      columns: column preset of the problems.
      limit: build for a subset of this size (the paper uses 2,400).
      seed: draws the subset.
      settings: how hard to try.
    """
    chosen = _load(problems, columns, limit, seed)
    replies = ReplyCache(out.with_suffix(".replies"))
    with contextlib.ExitStack() as stack:
        verify = stack.enter_context(VerifierPool()).verify_batch
        checker = None
        if checker_model is not None:
            url = checker_base_url or teacher.base_url
            config = dataclasses.replace(teacher, model=checker_model, base_url=url)
            checker = stack.enter_context(ChatClient(config, cache=replies))
        client = stack.enter_context(ChatClient(teacher, cache=replies))
        cache = ScaffoldCache(out)
        ScaffoldBuilder(client, cache, verify, checker=checker, settings=settings).build(chosen)
        print(client.counters.metrics())
    return stats(out)


def validate(
    file: File,
    problems: str | None = None,
    columns: str | None = None,
    out: Path | None = None,
    strict: bool = False,
) -> int:
    """Apply Valid = V and P and D and H to a scaffold file made anywhere; keep what is valid.

    Args:
      file: scaffold file in the published schema, .jsonl or .parquet.
      problems: the original problems; without them the main questions stand in for them.
      columns: column preset of the problems.
      out: file for the valid scaffolds, linked to the problems; rejections go beside it.
      strict: stop at the first unreadable row.
    """
    originals = None if problems is None else _load(problems, columns)
    with VerifierPool() as pool:
        report = validate_file(file, pool.verify_batch, problems=originals, strict=strict)
    if out is not None:
        save_validated(out, report)
    print(report.summary())
    return 0 if report.is_clean else 1


def stats(file: File) -> int:
    """Print construction statistics per corpus (SCOPE-RL, Table 9)."""
    print(format_stats(collect_stats(file)))
    return 0


def audit(
    file: Annotated[Path | None, tyro.conf.Positional] = None,
    page: Path = Path("audit.md"),
    size: int = 200,
    seed: int = 0,
    problems: str | None = None,
    columns: str | None = None,
    read: tuple[Path, ...] = (),
) -> int:
    """Write a page of sampled scaffolds for people to mark, or read marked pages back.

    Args:
      file: scaffold file to sample from.
      page: page to write.
      size: scaffolds on the page.
      seed: draws them.
      problems: the original problems, to show beside their scaffolds.
      columns: column preset of the problems.
      read: marked pages, one per annotator.
    """
    if (file is None) == (not read):
        raise ValueError("audit needs either a scaffold file to sample or --read PAGE ...")
    if file is None:
        for name, share in summarise_marks([read_marks(marked) for marked in read]).items():
            print(f"{name}: {share}")
        return 0
    originals = [] if problems is None else _load(problems, columns)
    scaffolds, report = load_scaffolds(file, problems=originals or None)
    print(report.summary())
    count = write_audit(page, scaffolds, size=size, seed=seed, problems=originals)
    print(f"{page}: {count} scaffolds to mark")
    return 0


# "import" is validation with an --out: nothing enters the cache that was not checked.
COMMANDS = dict(build=build, validate=validate, stats=stats, audit=audit) | {"import": validate}


def main(argv: list[str]) -> int:
    """Run one command; returns the exit status."""
    if argv[:1] == ["--validate"]:
        argv = ["validate", *argv[1:]]
    try:
        return tyro.extras.subcommand_cli_from_dict(COMMANDS, args=argv, description=__doc__)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
