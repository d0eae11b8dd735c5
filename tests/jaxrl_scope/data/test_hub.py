import sys
import types

import pytest

from jaxrl_scope.data.hub import hub_preset, is_hub_name
from jaxrl_scope.data.loaders import load_problems


@pytest.fixture
def fake_datasets(monkeypatch):
    """The `datasets` package with one function; returns the calls it got."""
    calls = []

    def load_dataset(name, config, split):
        calls.append((name, config, split))
        if name == "no/net":
            raise ConnectionError("offline")
        return [{"question": "q1", "answer": "#### 1"}, {"question": "q2"}]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    return calls


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("openai/gsm8k", ("openai/gsm8k", "main", "train")),
        ("openai/gsm8k:test", ("openai/gsm8k", "main", "test")),
        ("openai/gsm8k:socratic:test[:10%]", ("openai/gsm8k", "socratic", "test[:10%]")),
    ],
)
def test_names_give_configuration_split_and_preset(fake_datasets, name, call):
    problems, report = load_problems(name)
    assert fake_datasets == [call]
    assert [p.answer for p in problems] == ["1"]
    assert report.drops[0].where == f"{name}:2"


def test_offline_is_a_clear_error(fake_datasets):
    with pytest.raises(ValueError, match=r"no/net.*split train.*offline.*\.jsonl or \.parquet"):
        load_problems("no/net")


def test_missing_package_is_a_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"pip install 'jaxrl-scope\[data\]'"):
        load_problems("openai/gsm8k")


def test_paths_are_not_names():
    assert not is_hub_name("data/train.jsonl")
    assert not is_hub_name("/abs/dir/file")
    assert not is_hub_name("name")
    assert is_hub_name("owner/name")
    assert hub_preset("BytedTsinghua-SIA/DAPO-Math-17k:train") == "dapo-math"
    assert hub_preset("some/other") is None


def test_a_missing_file_is_not_taken_for_a_name(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        load_problems(tmp_path / "gone.jsonl")
