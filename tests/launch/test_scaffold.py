"""The scaffold command line, in process and once as a user calls it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jaxrl_scope.data.loaders import save_problems
from jaxrl_scope.data.problems import Scaffold
from jaxrl_scope.data.rows import write_rows
from jaxrl_scope.data.scaffold_file import load_scaffolds, save_scaffolds
from jaxrl_scope.data.world import draw_chains, to_problem, to_scaffold
from launch.scaffold import main

ROOT = Path(__file__).parents[2]
PUBLISHED = {
    "data_source": "step_math",
    "prompt": [
        {
            "role": "user",
            "content": "Sub-problem 1: Find the area $A$ of a square with side $s$.\n"
            "Sub-problem 2: Using $A$ from Sub-problem 1, find the volume of the cube.\n"
            "Main Problem: Find the ratio of that volume to $A$ as a power of $s$.",
        }
    ],
    "reward_model": {
        "ground_truth": {"sub1": "s^2", "sub2": "s^3", "main": "s^1"},
        "style": "rule",
    },
}


@pytest.fixture
def world(tmp_path):
    """Problems and scaffolds of the built-in world, as files."""
    chains = draw_chains(np.random.default_rng(0), (2, 4), 10, 61)
    save_problems(tmp_path / "problems.jsonl", map(to_problem, chains))
    save_scaffolds(tmp_path / "scaffolds.jsonl", [to_scaffold(chain) for chain in chains])
    return tmp_path


def test_the_built_in_world_passes_validation(world):
    files = [str(world / "scaffolds.jsonl"), "--problems", str(world / "problems.jsonl")]
    done = subprocess.run(
        [sys.executable, "launch/scaffold.py", "--validate", *files],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "valid 20, rejected 0" in done.stdout


def test_validation_fails_on_a_leak_and_on_a_broken_row(world, capsys):
    path = world / "scaffolds.jsonl"
    leaking = Scaffold("x", ("How many?", "Which of the 66 results?"), ("66", "7"), "Main?", "29")
    save_scaffolds(path, [leaking])
    assert main(["--validate", str(path)]) == 1
    assert "x: H: sub-answer 1 can be read in sub-question 2" in capsys.readouterr().out
    path.write_text("{broken\n")
    assert main(["--validate", str(path)]) == 1
    assert main(["--validate", str(path), "--strict"]) == 1
    assert "scaffolds.jsonl:1: not valid JSON" in capsys.readouterr().err


def test_import_of_the_published_schema(tmp_path, capsys):
    write_rows(tmp_path / "published.jsonl", [PUBLISHED])
    out = tmp_path / "out.jsonl"
    assert main(["import", str(tmp_path / "published.jsonl"), "--out", str(out)]) == 0
    (scaffold,) = load_scaffolds(out)[0].values()
    assert scaffold.answers == ("s^2", "s^3")
    assert "valid 1, rejected 0" in capsys.readouterr().out


def test_stats(world, capsys):
    assert main(["stats", str(world / "scaffolds.jsonl")]) == 0
    assert "| chains | 20 | 20 | 0 | 0 | 100.0% | 2.00 | 3 | 1 |" in capsys.readouterr().out


def test_audit_writes_and_reads(world, capsys):
    page = world / "page.md"
    files = [str(world / "scaffolds.jsonl"), "--problems", str(world / "problems.jsonl")]
    assert main(["audit", *files, "--page", str(page), "--size", "5"]) == 0
    page.write_text(page.read_text().replace("D _", "D y"))
    assert main(["audit", "--read", str(page)]) == 0
    output = capsys.readouterr().out
    assert "D: 100.0% of 5" in output
    assert "V: not marked" in output
    assert main(["audit"]) == 1


@pytest.mark.parametrize(
    "argv",
    [
        ["--validate", "missing.jsonl"],
        ["stats", "missing.jsonl"],
        ["build", "--problems", "missing.jsonl", "--out", "x.jsonl", "--teacher.model", "m"],
    ],
)
def test_bad_input_is_one_line_on_stderr(argv, capsys):
    assert main(argv) == 1
    assert "error: no such file: missing.jsonl" in capsys.readouterr().err
