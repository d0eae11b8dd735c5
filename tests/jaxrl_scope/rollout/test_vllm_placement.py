"""Commands and environments of the processes, and servers that end with their trainer."""

import os
import signal
import subprocess
import sys
import time

import pytest

from jaxrl_scope.cli import describe, parse
from jaxrl_scope.rollout.vllm.placement import trainer_env
from jaxrl_scope.rollout.vllm.server import ServerStartError, check_installed, plan
from jaxrl_scope.rollout.vllm.settings import VllmConfig


def test_split_gives_every_gpu_to_one_process():
    config = VllmConfig(servers=2, tensor=2, gpus=(4, 5, 6, 7))
    assert trainer_env(config, 4) == {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    launches = [plan(config, i, model="m", dtype="bfloat16", max_len=9, port=1) for i in (0, 1)]
    assert [launch.env["CUDA_VISIBLE_DEVICES"] for launch in launches] == ["4,5", "6,7"]
    assert all("--enable-sleep-mode" not in launch.command for launch in launches)


def test_colocated_shares_the_memory():
    config = VllmConfig(tensor=8, gpus=tuple(range(8)), placement="colocated", memory_fraction=0.4)
    env = trainer_env(config, 8)
    assert env["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.6"
    assert env["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"
    assert "--enable-sleep-mode" in plan(config, 0, model="m", dtype="x", max_len=9, port=1).command


def test_the_dry_run_prints_every_command():
    words = ["--rollout", "vllm", "--rollout.vllm.servers", "2", "--rollout.vllm.gpus", "1", "2"]
    text = describe(parse(words))
    assert "trainer: CUDA_VISIBLE_DEVICES=0" in text
    for i, gpu in enumerate((1, 2)):
        line = next(line for line in text.splitlines() if f"server {i} " in line)
        assert f"CUDA_VISIBLE_DEVICES={gpu}" in line and "VLLM_SERVER_DEV_MODE=1" in line
        assert "vllm.entrypoints.openai.api_server" in line


def test_importance_weights_are_on_for_vllm_alone():
    assert parse(["--rollout", "vllm"]).policy_loss.tis_cap == 2.0
    assert parse([]).policy_loss.tis_cap == 0.0
    assert parse(["--rollout", "vllm", "--loss.tis-cap", "0"]).policy_loss.tis_cap == 0.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rollout.urls", "http://a:1"], "--rollout vllm"),
        (["--rollout", "vllm", "--rollout.urls", "a:1"], "http://host:8000"),
        (["--rollout", "vllm", "--rollout.vllm.gpus", "1", "2"], "names 2 GPUs"),
    ],
)
def test_settings_that_do_not_fit_are_refused(words, message, capsys):
    with pytest.raises((ValueError, SystemExit)) as caught:
        parse(words)
    assert message in f"{caught.value}{capsys.readouterr()}".replace("\n", " ")


def test_a_missing_vllm_is_a_clear_message(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho $FAKE_VLLM\n")
    python.chmod(0o755)
    os.environ["FAKE_VLLM"] = ""
    with pytest.raises(ServerStartError, match=r"jaxrl-scope\[vllm\]"):
        check_installed(VllmConfig(python=str(python)))
    os.environ["FAKE_VLLM"] = "0.33.0"
    with pytest.raises(ServerStartError, match=r"0\.33\.0 is not supported"):
        check_installed(VllmConfig(python=str(python)))
    with pytest.raises(ServerStartError, match="cannot be run"):
        check_installed(VllmConfig(python=str(tmp_path / "nothing")))


def test_a_server_and_its_children_end_with_a_trainer_that_is_killed(tmp_path):
    pids = tmp_path / "pids"
    server = f"sh -c 'sleep 100 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait'"
    trainer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import shlex, subprocess, sys, time\n"
            "subprocess.Popen([sys.executable, '-m', 'jaxrl_scope.rollout.vllm.guard',\n"
            f"    *shlex.split({server!r})], stdin=subprocess.PIPE)\n"
            "time.sleep(100)",
        ]
    )
    deadline = time.monotonic() + 60
    while not pids.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    trainer.send_signal(signal.SIGKILL)
    trainer.wait()
    while any(os.path.exists(f"/proc/{pid}/exe") for pid in pids.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
