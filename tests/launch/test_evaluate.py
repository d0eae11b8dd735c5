"""`launch/evaluate.py` and `launch/probe.py` from the command line, on a tiny random model."""

import json
import re
import shutil

import jax
import jax.numpy as jnp
import pytest

from jaxrl_scope.config import SourceConfig, TrainConfig, to_dict
from jaxrl_scope.data.loaders import save_problems
from jaxrl_scope.data.scaffold_file import save_scaffolds
from jaxrl_scope.data.world import parse_chain, to_problem, to_scaffold
from jaxrl_scope.data.world_tokenizer import make_tokenizer
from jaxrl_scope.evaluate.policy import load_policy
from jaxrl_scope.evaluate.records import read_records
from jaxrl_scope.train.checkpoint import CheckpointConfig, Checkpoints, Progress
from jaxrl_scope.train.optimizer import make_optimizer
from jaxrl_scope.train.update import init_state
from launch import evaluate, probe
from models import ModelConfig, init_params, save_hf

CHAINS = [parse_chain(f"{n} + 2 * 2 ?", 61) for n in range(6)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A model directory, problems, scaffolds, and a run with two checkpoints of other weights."""
    home = tmp_path_factory.mktemp("evaluate")
    tokenizer = make_tokenizer(61)
    config = ModelConfig(
        vocab_size=len(tokenizer), num_layers=1, embed_dim=16, mlp_dim=16, num_q_heads=2,
        num_kv_heads=1, head_dim=8, tie_embeddings=True, max_position=256,
        eos_token_ids=(tokenizer.eos_token_id,), pad_token_id=tokenizer.pad_token_id, remat="none",
    )  # fmt: skip
    model = init_params(config, jax.random.key(0))
    save_hf(home / "model", config, model)
    tokenizer.save_pretrained(home / "model")
    save_problems(home / "problems.jsonl", map(to_problem, CHAINS))
    save_scaffolds(home / "scaffolds.jsonl", [to_scaffold(chain) for chain in CHAINS])
    run = TrainConfig(stage="qpr", model=SourceConfig(path=str(home / "model")))
    optimizer = make_optimizer(run.optimizer, 10)
    checkpoints = Checkpoints(home / "run" / "checkpoints", CheckpointConfig(keep=3))
    for update, accuracy in ((1, 0.5), (2, 0.25)):
        params = jax.tree.map(lambda x, update=update: x + update, model)
        progress = Progress(update=update, best_update=1, best_accuracy=0.5)
        checkpoints.save(init_state(params, optimizer), progress, accuracy)
    checkpoints.close()
    (home / "run" / "config.json").write_text(json.dumps(to_dict(run)))
    return home


def arguments(home, out, *more):
    return ["--preset", "world", "--model", str(home / "model"), "--problems",
            str(home / "problems.jsonl"), "--samples", "3", "--max-response-len", "8",
            "--out", str(out), *more]  # fmt: skip


def test_an_evaluation_writes_results_once_and_scores_them_again(home, tmp_path, capsys):
    out = tmp_path / "out"
    assert evaluate.main(arguments(home, out)) == 0
    text = capsys.readouterr().out
    assert "accuracy %" in text and "useful %" in text and "pass@1 %" in text
    results = json.loads((out / "results.json").read_text())
    overall = results["results"]["overall"]
    assert overall["num_problems"] == 6 and overall["num_samples"] == 18
    assert results["settings"]["judge"]["kind"] == "rules"
    samples = read_records(out / "samples.jsonl")
    scored = read_records(out / "scored.jsonl")
    assert len(samples) == 18 and [record.unscored() for record in scored] == samples
    assert all((r.judgement is None) == (not r.finished) for r in scored)

    before = (out / "samples.jsonl").stat().st_mtime_ns
    assert evaluate.main(arguments(home, out)) == 0
    assert (out / "samples.jsonl").stat().st_mtime_ns == before

    again = tmp_path / "again"
    assert evaluate.main(["score", str(out), "--preset", "world", "--out", str(again)]) == 0
    assert json.loads((again / "results.json").read_text())["results"] == results["results"]
    assert evaluate.main(["labels", str(again / "scored.jsonl")]) == (0 if any(
        r.judgement for r in scored) else 2)  # fmt: skip


def test_a_directory_holds_one_evaluation(home, tmp_path, capsys):
    out = tmp_path / "out"
    assert evaluate.main(arguments(home, out, "--no-step-quality")) == 0
    assert json.loads((out / "results.json").read_text())["judge"] is None
    assert evaluate.main(arguments(home, out, "--seed", "1")) == 2
    assert "seed: 0 there, 1 here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--difficulties", "k9"), "no problem of .* has a difficulty in"),
        (("--concise",), "brings its own chat messages"),
        (("--temperature", "0"), "the same response"),
        (("--judge.mode", "holistic"), "labels steps"),
        (("--max-prompt-len", "1"), "no problem of"),
        (("--model", "nowhere"), "no model directory"),
        (("--problems", "nowhere.jsonl"), "no such file"),
        (("--preset", "nothing"), "known: custom, world, gpqa, math500, aime"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_status_2(home, tmp_path, capsys, more, message):
    try:
        status = evaluate.main(arguments(home, tmp_path / "out", *more))
    except SystemExit as exit:  # tyro's own answer to values that do not fit together
        status = exit.code
    shown = capsys.readouterr().err
    assert status == 2 and "Traceback" not in shown
    assert re.search(message, " ".join(shown.split()))


def test_a_missing_judge_key_is_found_before_anything_is_sampled(
    home, tmp_path, capsys, monkeypatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert evaluate.main(arguments(home, tmp_path / "out", "--judge.kind", "openai")) == 2
    assert "OPENAI_API_KEY is not set" in capsys.readouterr().err
    assert not (tmp_path / "out" / "samples.jsonl").exists()


@pytest.mark.parametrize(("name", "update"), [("best", 1), ("latest", 2), ("2", 2)])
def test_a_run_directory_gives_the_weights_of_its_checkpoint(home, name, update):
    start = load_policy(str(home / "model")).model
    policy = load_policy(str(home / "run"), checkpoint=name)
    assert policy.origin.endswith(f"update {update}")
    gaps = jax.tree.map(lambda a, b: float(jnp.abs(a - b - update).max()), policy.model, start)
    assert max(jax.tree.leaves(gaps)) < 1e-6


def test_the_judge_of_training_is_warned_about_and_missing_replies_are_counted(
    home, tmp_path, capsys, caplog
):
    options = ["--preset", "world", "--model", str(home / "run"), "--problems",
               str(home / "problems.jsonl"), "--max-response-len", "8",
               "--samples", "3", "--out", str(tmp_path),
               "--judge.kind", "replay", "--judge.cache-dir", str(tmp_path)]  # fmt: skip
    assert evaluate.main(options) == 0
    assert "same judge (gpt-4.1-mini)" in caplog.text
    quality = json.loads((tmp_path / "results.json").read_text())["results"]["overall"]["quality"]
    finished = sum(record.finished for record in read_records(tmp_path / "samples.jsonl"))
    assert sum(quality["judge_failures"].values()) == finished and quality["num_judged"] == 0
    caplog.clear()
    assert evaluate.main([*options, "--judge.chat.model", "another"]) == 0
    assert "same judge" not in caplog.text


def test_rules_of_another_world_are_refused(home, tmp_path, capsys):
    options = ["--preset", "world", "--model", str(home / "run"), "--problems",
               str(home / "problems.jsonl"), "--out", str(tmp_path), "--modulus", "7"]  # fmt: skip
    assert evaluate.main(options) == 2
    assert "use --modulus 61" in capsys.readouterr().err


def test_a_run_directory_without_the_checkpoint_lists_those_it_has(home):
    with pytest.raises(ValueError, match="known: best, latest, 1, 2"):
        load_policy(str(home / "run"), checkpoint="7")


def test_a_damaged_checkpoint_is_an_error_that_names_it(home, tmp_path):
    shutil.copytree(home / "run", tmp_path / "run")
    for file in (tmp_path / "run" / "checkpoints" / "2" / "state").rglob("*"):
        if file.is_file():
            file.write_bytes(b"")
    with pytest.raises(ValueError, match="cannot be read"):
        load_policy(str(tmp_path / "run"), checkpoint="2")


def test_agreement_and_preference_print_and_save(tmp_path, capsys):
    steps = {"judge": "unu", "a": "unn", "b": "uuu"}
    for name, marks in steps.items():
        labels = [{"label": "useful" if m == "u" else "not useful"} for m in marks]
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": "t", "steps": labels}) + "\n")
    files = [str(tmp_path / f"{name}.jsonl") for name in steps]
    out = tmp_path / "agreement.json"
    assert evaluate.main(["agreement", *files, "--out", str(out)]) == 0
    pairs = json.loads(out.read_text())
    assert pairs["judge vs. consensus"]["accuracy"] == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert "judge vs. expert A" in capsys.readouterr().out
    assert evaluate.main(["agreement", files[0], str(tmp_path / "none.jsonl")]) == 2
    assert "no such file" in capsys.readouterr().err
    votes = tmp_path / "votes.jsonl"
    votes.write_text(json.dumps({"id": "1", "votes": ["x", "x", "y"]}) + "\n")
    assert evaluate.main(["preference", str(votes), "--first", "x", "--second", "y"]) == 0
    assert "100.0" in capsys.readouterr().out


def test_the_scaffold_probe_runs_end_to_end(home, tmp_path, capsys):
    options = ["--model", str(home / "model"), "--problems", str(home / "problems.jsonl"),
               "--scaffolds", str(home / "scaffolds.jsonl"), "--max-response-len", "8",
               "--out", str(tmp_path), "--num-sub"]  # fmt: skip
    assert probe.main(["scaffold", *options, "1"]) == 0
    assert sum(b["num_samples"] for b in json.loads((tmp_path / "bins.json").read_text())) == 6
    assert (tmp_path / "scaffold.png").stat().st_size > 1000
    assert probe.main(["scaffold", *options, "4"]) == 2
    assert "lengths there are: [1]" in capsys.readouterr().err
    assert probe.main([]) == 2
