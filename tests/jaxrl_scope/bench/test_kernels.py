"""The kernel benchmark at a small size: its loops agree with the kernels, its report is whole."""

import json

import numpy as np
import pytest

from jaxrl_scope.bench import kernels


@pytest.fixture
def small(monkeypatch):
    workloads = {
        "asr_workload": kernels.asr_workload(64, 5, loop_rows=4),
        "thought_workload": kernels.thought_workload(16, 40, num_steps=6, loop_rows=1),
        "graft_workload": kernels.graft_workload(64, 4, loop_rows=8),
    }
    for name, workload in workloads.items():
        monkeypatch.setattr(kernels, name, lambda *_, workload=workload, **__: workload)
    return workloads


@pytest.mark.parametrize("name", ["asr_workload", "thought_workload", "graft_workload"])
def test_loops_agree_with_the_kernels_on_all_rows(name, small):
    workload = small[name]
    expected = workload.loop(*workload.args)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(workload.kernel(*workload.args), expected, rtol=1e-4, atol=1e-4)


def test_report(small, capsys):
    assert kernels.main(["--rounds", "1"]) == 0
    *table, line = capsys.readouterr().out.splitlines()
    assert len(table) == 4
    report = json.loads(line)
    assert [r["workload"] for r in report["results"]] == [w.name for w in small.values()]
    for row in report["results"]:
        assert row["compile_s"] > 0 and row["kernel_ms"] > 0 and row["speedup_over_loop"] > 0


def test_disagreement_is_an_error(small):
    workload = small["asr_workload"]
    wrong = kernels.Workload(
        workload.name, workload.kernel, workload.args, lambda *args: workload.loop(*args) + 1, 4
    )
    with pytest.raises(RuntimeError, match="does not agree"):
        kernels.measure(wrong, rounds=1)


@pytest.mark.parametrize("argv", [["--rounds", "0"], ["--scale", "0"], ["--scale", "2"]])
def test_bad_options_are_refused(argv, capsys):
    with pytest.raises(SystemExit):
        kernels.main(argv)
    assert argv[0] in capsys.readouterr().err
