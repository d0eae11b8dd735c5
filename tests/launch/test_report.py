"""`launch/report.py` on small run directories made by hand."""

import json
import re
from pathlib import Path

import pytest

from launch.report import main

HOSTILE = "<script>alert(1)</script> & so on"


def make_run(path: Path, *, stage: str = "qpr", problems: str = "file.jsonl", **sample) -> Path:
    path.mkdir(parents=True)
    config = {"stage": stage, "preset": "world", "seed": 0, "updates": 12}
    config |= {"data": {"problems": problems}, "world": {"modulus": 61}}
    (path / "config.json").write_text(json.dumps(config))
    rows = [{"update": 0, "eval/accuracy": 0.1, "eval/accuracy/k2": 0.1}]
    rows += [
        {
            "update": u,
            "reward/mean": 0.1 * u,
            "eta_r": 0.5,
            "steps/useful": 0.6,
            "steps/error": 0.4,
            "time/rollout_s": 1.0,
            "time/update_s": 2.0,
            "time/total_s": 3.5,
            **{f"scaffold/prefix_len/{n}": 1 / 11 for n in range(11)},
        }
        for u in range(1, 13)
    ]
    rows[-1] |= {"eval/accuracy": 0.7, "eval/accuracy/k2": 0.7, "eval/accuracy_greedy": 0.8}
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    base = {"update": 12, "problem_id": "p", "prompt": "1 + 1 ?", "response": HOSTILE}
    base |= {"reward": 0.5, "verdict": 1, "scaffolded": False, "steps": []}
    (path / "samples.jsonl").write_text(json.dumps(base | sample) + "\n")
    return path


def page(capsys, *words: str) -> str:
    assert main(list(words)) == 0
    return Path(capsys.readouterr().out.split("report: ")[1].strip()).read_text()


def test_one_page_with_every_panel_that_has_numbers_and_no_network(tmp_path, capsys):
    text = page(capsys, str(make_run(tmp_path / "run")))
    assert text.count("<figure>") == 7
    for caption in ("accuracy by difficulty", "step labels", "seconds per update", "in a row"):
        assert caption in text
    assert "0.100 → 0.700" in text
    assert "12 of 12" in text
    assert not re.search(r'(src|href)="(?!#)', text.replace('xlink:href="#', ""))
    assert "url(http" not in text
    pictures = sorted((tmp_path / "run" / "report").glob("*.png"))
    assert len(pictures) == 7
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)


def test_text_of_rollouts_is_never_markup(tmp_path, capsys):
    steps = [["<script>alert(1)</script> ", "useful"], ["& so on", "error"]]
    text = page(capsys, str(make_run(tmp_path / "run", steps=steps)))
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert '<span class="step error" title="error">&amp; so on</span>' in text


def test_the_built_in_world_labels_what_no_judge_saw(tmp_path, capsys):
    sample = {"prompt": "5 + 2 - 3 ?", "response": "5 + 2 : 6 7 ; 7 - 3 = 5 ; \\boxed{ 5 }"}
    text = page(capsys, str(make_run(tmp_path / "run", stage="asr", problems="world", **sample)))
    assert 'title="useful">5 + 2 : 6 7 ; </span>' in text
    assert 'title="error">7 - 3 = 5 ; \\boxed{ 5 }</span>' in text


def test_several_runs_are_overlaid_and_told_apart(tmp_path, capsys):
    runs = [make_run(tmp_path / name / "run") for name in ("a", "b")]
    text = page(capsys, *map(str, runs), "--out", str(tmp_path / "both"))
    assert "<th>a/run</th><th>b/run</th>" in text
    assert "a/run: reward/mean" in text
    assert text.count('<figure class="wide">') == 3


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no config.json"),
        ({"asr/config.json": "{}", "qpr/config.json": "{}"}, "the runs asr and qpr"),
        ({"config.json": "{"}, "not valid JSON"),
        ({"config.json": "{}"}, "no numbers yet"),
    ],
)
def test_what_is_no_run_is_named(tmp_path, capsys, files, said):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert main([str(tmp_path)]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"update": 13, "rew')
    assert "12 of 12" in page(capsys, str(run))
