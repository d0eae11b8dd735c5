"""The dispatcher finds benchmarks by name and says which there are."""

import sys
import types

import pytest

from launch import bench


@pytest.mark.parametrize("argv", [[], ["kernel"], ["-h"], ["__init__"]])
def test_unknown_names_list_the_known_ones(argv, capsys):
    assert bench.main(argv) == 2
    error = capsys.readouterr().err
    assert all(name in error for name in bench.BENCHMARKS)
    assert not argv or repr(argv[0]) in error


@pytest.mark.parametrize("name", bench.BENCHMARKS)
def test_every_name_is_a_benchmark(name, capsys):
    with pytest.raises(SystemExit) as exit:
        bench.main([name, "-h"])
    assert exit.value.code == 0
    assert name in capsys.readouterr().out


@pytest.mark.parametrize("status", [None, 0, 3])
def test_arguments_and_status_pass_through(status, monkeypatch):
    seen = []
    fake = types.SimpleNamespace(main=lambda argv: seen.append(argv) or status)
    monkeypatch.setitem(sys.modules, "jaxrl_scope.bench.kernels", fake)
    assert bench.main(["kernels", "--rounds", "1"]) == (status or 0)
    assert seen == [["--rounds", "1"]]
