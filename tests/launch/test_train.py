"""`launch/train.py` from the command line's point of view, on a world that is built in seconds."""

import itertools
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxrl_scope.evaluate.policy import load_policy
from jaxrl_scope.train.experience import load_experience
from jaxrl_scope.train.update import Updater
from launch.train import main

TINY = [
    *("--world.width", "32", "--world.layers", "1", "--world.train-per-length", "40"),
    *("--world.eval-per-length", "2", "--world.warm-start.updates", "3"),
    *("--world.warm-start.rows", "4", "--data.batch-problems", "4", "--rollout.group", "4"),
    *("--rollout.max-response-len", "32", "--eval.every", "3", "--eval.samples", "2"),
    *("--checkpoint.every", "2", "--updates", "6", "--log.no-tensorboard"),
    *("--loss.entropy-coef", "0.1", "--lr", "1e-2"),  # moves the weights where no reward is earned
]
NAMES = (
    *("reward/mean", "outcome/mean", "eta_r", "route/share", "route/scaffold_miss"),
    *("response_length/mean", "response_length/clip_ratio", "policy/loss", "policy/clip_frac"),
    *("policy/entropy", "policy/grad_norm", "time/rollout_s", "time/grade_s", "time/update_s"),
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def finished(cache, tmp_path_factory) -> Path:
    """A finished run of six updates."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    assert main(arguments(run, cache)) == 0
    return run


def arguments(run: Path, cache: Path, *more: str) -> list[str]:
    return ["--stage", "asr", *TINY, "--run-dir", str(run), "--cache-dir", str(cache), *more]


def rows(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def without_times(run: Path) -> list[dict]:
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows(run)]


def test_a_run_writes_what_it_promises(finished):
    history = rows(finished)
    assert [row["update"] for row in history] == list(range(7))
    for row in history[1:]:
        assert not set(NAMES) - set(row)
    for row in (history[0], history[3], history[6]):
        assert {"eval/accuracy", "eval/accuracy_greedy", "eval/accuracy/k5"} <= set(row)
    for name in ("config.json", "curves.png", "samples.txt", "checkpoints"):
        assert (finished / name).exists()
    assert history[1]["sampler/logprob_gap_mean"] < 1e-5


def test_a_resumed_run_repeats_the_uninterrupted_one(finished, cache, tmp_path):
    """As after kill -9 between the checkpoint of update 4 and that of update 6."""
    run = tmp_path / "killed"
    shutil.copytree(finished, run)
    shutil.rmtree(run / "checkpoints" / "6")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    (run / "metrics.jsonl").write_text("\n".join(lines[:6]) + '\n{"update": 6, "rew')
    assert main(arguments(run, cache, "--resume")) == 0
    assert without_times(run) == without_times(finished)


def test_a_damaged_checkpoint_is_passed_over(finished, cache, tmp_path, capsys):
    run = tmp_path / "damaged"
    shutil.copytree(finished, run)
    for file in (run / "checkpoints" / "6" / "state").rglob("d/*"):
        file.write_bytes(b"damaged")
    assert main(arguments(run, cache, "--resume")) == 0
    shown = capsys.readouterr().out
    assert "unreadable checkpoint, update 6" in shown
    assert "resuming after update 4" in shown
    assert without_times(run) == without_times(finished)


def test_a_directory_with_a_run_is_not_overwritten(finished, cache, capsys):
    before = (finished / "metrics.jsonl").read_text()
    assert main(arguments(finished, cache)) == 2
    assert "--resume" in capsys.readouterr().err
    assert main(arguments(finished, cache, "--resume", "--asr.tau", "0.25")) == 2
    assert "asr.tau: 0.5 there, 0.25 here" in capsys.readouterr().err
    assert (finished / "metrics.jsonl").read_text() == before


def test_gspo_with_minibatches_runs(cache, tmp_path):
    more = ["--loss", "gspo", "--update.minibatches", "2", "--updates", "2", "--eval.every", "0"]
    assert main(arguments(tmp_path / "run", cache, *more)) == 0
    assert rows(tmp_path / "run")[1]["policy/steps"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preset", "wrold"], "unknown preset"),
        (["--stage", "asr2"], "unknown stage"),
        (["--asr.tau", "1.5"], "asr.tau"),
        (["--data.batch-problems", "30", "--mesh.data", "8"], "divisible"),
        (["--rollout.group", "1"], "no baseline"),
        (["--mesh.tensor", "64"], "devices"),
        (["--model.path", "/no/such/model"], "no model directory"),
        (["--data.problems", "no-such-file.jsonl"], "no-such-file"),
        (["--config", "no-such-config.json"], "no-such-config"),
        (["--resume"], "no run to resume"),
    ],
)
def test_bad_input_is_one_clear_error(words, message, cache, tmp_path, capsys):
    run = tmp_path / "run"
    try:
        code = main([*arguments(run, cache), *words])
    except SystemExit as refused:  # by the parser, which frames its message
        code = refused.code
    assert code == 2
    error = " ".join(capsys.readouterr().err.split())
    assert message in error
    assert "Traceback" not in error
    assert not run.exists()


def test_a_broken_scaffold_line_names_file_line_and_field(finished, cache, tmp_path, capsys):
    source = next((cache / "worlds").glob("world-*")) / "scaffolds.jsonl"
    lines = source.read_text().splitlines()
    row = json.loads(lines[1])
    row["reward_model"]["ground_truth"].pop("main")
    broken = tmp_path / "scaffolds.jsonl"
    broken.write_text("\n".join([lines[0], json.dumps(row), *lines[2:]]))
    words = ["--data.scaffolds", str(broken), "--data.strict"]
    assert main([*arguments(tmp_path / "run", cache), *words]) == 2
    error = capsys.readouterr().err
    assert "scaffolds.jsonl:2" in error
    assert "ground_truth" in error


def test_a_tokenizer_of_another_model_is_refused(finished, cache, tmp_path, capsys):
    from jaxrl_scope.data.world_tokenizer import make_tokenizer

    model = tmp_path / "model"
    shutil.copytree(next((cache / "worlds").glob("world-*")) / "model", model)
    make_tokenizer(97).save_pretrained(model)
    words = ["--model.path", str(model)]
    assert main([*arguments(tmp_path / "run", cache), *words]) == 2
    assert "belongs to another model" in capsys.readouterr().err


def test_an_unwritable_place_is_an_error(cache, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(arguments(tmp_path / "file" / "run", cache)) == 2
    assert "error:" in capsys.readouterr().err


def test_a_full_disk_keeps_the_checkpoint_before(finished, cache, tmp_path, monkeypatch, capsys):
    import orbax.checkpoint as ocp

    run = tmp_path / "full"
    shutil.copytree(finished, run)
    shutil.rmtree(run / "checkpoints" / "6")

    def no_room(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ocp.CheckpointManager, "save", no_room)
        assert main(arguments(run, cache, "--resume")) == 1
    error = capsys.readouterr().err
    assert "No space left" in error
    assert "--resume" in error
    assert main(arguments(run, cache, "--resume")) == 0
    assert without_times(run) == without_times(finished)


@pytest.mark.parametrize("stage", ["asr", "outcome", "qpr", "mix", "scope", "tp"])
@pytest.mark.parametrize(
    ("preset", "rows"),
    [
        *(("world", 128), ("world-verbose", 128), ("world-backtrack", 128)),
        *(("qwen3-8b-dapo", 384), ("qwen3-0.6b-bigmath", 384)),
        *(("r1-qwen-1.5b-i50", 40), ("r1-qwen-7b-i25", 40)),
    ],
)
def test_every_preset_of_every_stage_passes_the_dry_run(preset, rows, stage, capsys):
    assert main(["--stage", stage, "--preset", preset, "--dry-run"]) == 0
    assert f"{rows} rows" in capsys.readouterr().out


def test_settings_file_lies_between_preset_and_command_line(tmp_path, capsys):
    path = tmp_path / "settings.toml"
    path.write_text("updates = 7\n[asr]\ntau = 0.25\n[optimizer]\nlr = 0.5\n")
    assert main(["--config", str(path), "--lr", "0.125", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "--updates 7" in shown
    assert "--asr.tau 0.25" in shown
    assert "--optimizer.lr 0.125" in shown
    path.write_text("[asr]\ntua = 0.25\n")
    assert main(["--config", str(path), "--dry-run"]) == 2
    assert "did you mean tau" in capsys.readouterr().err


def start(run: Path, cache: Path, *more: str) -> subprocess.Popen:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, str(root / "launch" / "train.py"), *arguments(run, cache, *more)]
    env = {**os.environ, "PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_for_updates(process: subprocess.Popen, run: Path, updates: int) -> None:
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        path = run / "metrics.jsonl"
        if path.exists() and path.read_text().count("\n") > updates:
            return
        time.sleep(0.05)


@pytest.mark.slow
def test_kill_9_in_every_phase_and_resume(cache, tmp_path):
    """As often as JAXRL_SCOPE_KILLS says, at random moments of each phase in turn."""
    rng, kills = random.Random(0), int(os.environ.get("JAXRL_SCOPE_KILLS", "5"))
    words = ["--stage", "scope", *TINY, "--updates", "14", "--scope.qpr-updates", "6"]
    words += ["--cache-dir", str(cache)]
    whole, run, died = tmp_path / "whole", tmp_path / "killed", 0
    assert call("launch/train.py", *words, "--run-dir", str(whole)) == 0

    def go_on(*script: str) -> int:
        resume = ["--resume"] if (run / "asr" / "config.json").exists() else []
        return call(*script, *words, "--run-dir", str(run), *resume)

    phases = itertools.cycle(["rollout", "grading", "update", "checkpoint", "hand-over"])
    for phase in itertools.islice(phases, kills):
        # A run is prepared once for each stage; the other calls are a few updates apart.
        number = 2 if phase == "hand-over" else rng.randrange(2, 5)
        script = ("tests/launch/killed_train.py", phase, str(number), f"{rng.random() * 0.4:.3f}")
        died += go_on(*script, "--") == -signal.SIGKILL
    assert go_on("launch/train.py") == 0
    assert died >= 0.6 * kills
    for stage in ("asr", "qpr"):
        assert without_times(run / stage) == without_times(whole / stage)


def call(script: str, *words: str) -> int:
    """Run a script of the repository; returns its exit status."""
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(root / script), *words]
    return subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=False).returncode


@pytest.mark.slow
def test_sigterm_saves_and_exits(cache, tmp_path):
    more = ("--updates", "200", "--eval.every", "0", "--checkpoint.every", "1000")
    process = start(tmp_path / "run", cache, *more)
    wait_for_updates(process, tmp_path / "run", 3)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 0, output
    assert "--resume" in output
    last = rows(tmp_path / "run")[-1]["update"]
    assert (tmp_path / "run" / "checkpoints" / str(last)).is_dir()


@pytest.mark.slow
def test_scope_hands_the_best_checkpoint_over_and_resumes(cache, tmp_path):
    words = ["--stage", "scope", *TINY, "--run-dir", str(tmp_path / "run")]
    words += ["--cache-dir", str(cache), "--scope.qpr-updates", "3"]
    assert main(words) == 0
    assert main([*words, "--resume"]) == 0  # nothing left to do
    first, second = rows(tmp_path / "run" / "asr"), rows(tmp_path / "run" / "qpr")
    assert (first[-1]["update"], second[-1]["update"]) == (6, 3)
    best = max(row["eval/accuracy"] for row in first if "eval/accuracy" in row)
    policy = load_policy(str(tmp_path / "run" / "qpr"), cache_dir=str(cache))
    assert policy.origin.endswith("qpr, update 3")  # its tokenizer is that of the world's model
    # Same weights, same problems, same keys up to the update number: greedy accuracy is equal.
    greedy = [r["eval/accuracy_greedy"] for r in first if r.get("eval/accuracy") == best]
    assert second[0]["eval/accuracy_greedy"] == greedy[0]


@pytest.mark.slow
def test_asr_really_learns(tmp_path):
    """The README's main job: accuracy on original prompts rises by more than 20 points."""
    run = tmp_path / "run"
    assert main(["--stage", "asr", "--run-dir", str(run)]) == 0
    history = rows(run)
    assert history[-1]["eval/accuracy"] > history[0]["eval/accuracy"] + 0.2
    assert history[-1]["reward/mean"] > history[1]["reward/mean"] + 0.2


def test_recorded_rollouts_give_the_same_run_again(cache, tmp_path):
    short = ("--updates", "2", "--checkpoint.every", "1", "--eval.every", "0")
    saving, replaying = tmp_path / "saving", tmp_path / "replaying"
    assert main(arguments(saving, cache, *short, "--save-rollouts")) == 0
    kept = str(saving / "rollouts")
    assert main(arguments(replaying, cache, *short, "--replay-rollouts", kept)) == 0
    assert without_times(replaying) == without_times(saving)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_batch(
    cache, tmp_path, capsys, monkeypatch
):
    update = Updater.update

    def fail_at_the_second(self, state, *args):
        state, metrics = update(self, state, *args)
        return state, metrics | ({"policy/loss": math.nan} if int(state.step) == 2 else {})

    monkeypatch.setattr(Updater, "update", fail_at_the_second)
    run = tmp_path / "run"
    assert main(arguments(run, cache, "--checkpoint.every", "1")) == 1
    error = capsys.readouterr().err
    assert "not finite" in error
    batch = next(run.glob("batch-*.npz"))
    assert str(batch) in error
    experience = load_experience(batch)
    assert experience.num_rows == 16
    assert experience.response_ids.shape == experience.advantages.shape
    assert batch.name == "batch-2.npz"
    assert max(int(p.name) for p in (run / "checkpoints").iterdir() if p.name.isdigit()) == 1


def test_a_missing_wandb_is_named(cache, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(arguments(tmp_path / "run", cache, "--log.wandb", "project")) == 2
    assert "jaxrl-scope[wandb]" in capsys.readouterr().err
