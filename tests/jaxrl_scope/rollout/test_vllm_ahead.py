"""A training run on (fake) vLLM servers with its rollouts one update ahead."""

import json

import pytest

from launch.train import main

TINY = (
    *("--stage", "outcome", "--rollout", "vllm", "--rollout.ahead", "--rollout.vllm.max-gap", "99"),
    *("--world.width", "32", "--world.layers", "1", "--world.train-per-length", "40"),
    *("--world.eval-per-length", "2", "--world.warm-start.updates", "3"),
    *("--world.warm-start.rows", "4", "--data.batch-problems", "4", "--rollout.group", "4"),
    *("--rollout.max-response-len", "32", "--eval.every", "0", "--eval.samples", "2"),
    *("--log.no-tensorboard", "--log.no-plots", "--updates", "4"),
)


def test_rollouts_are_one_version_old_and_never_of_two(fakes, tmp_path):
    words = [*TINY, "--rollout.urls", *(server.url for server in fakes)]
    assert main([*words, "--run-dir", str(tmp_path / "run"), "--cache-dir", str(tmp_path)]) == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()][1:]
    assert [row["rollout/staleness_max"] for row in rows] == [0, 1, 1, 1]
    assert [row["rollout/version"] for row in rows] == [1, 2, 3, 4]
    assert all({"time/rollout_s", "time/wait_s", "time/sync_s"} <= set(row) for row in rows)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--rollout", "jax"), "needs --rollout vllm"),
        (("--rollout.vllm.placement", "colocated"), "placement split"),
        (("--pipeline.update-interval", "2"), "two ways to be off-policy"),
        (("--loss.tis-cap", "0"), "importance weights"),
    ],
)
def test_what_does_not_go_with_it_is_named(words, says, capsys):
    with pytest.raises(SystemExit):
        main([*TINY, *words])
    assert says in " ".join(capsys.readouterr().err.split())
