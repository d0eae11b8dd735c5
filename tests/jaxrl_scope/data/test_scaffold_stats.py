import pytest

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.scaffold_cache import ScaffoldCache
from jaxrl_scope.data.scaffold_file import save_scaffolds
from jaxrl_scope.data.scaffold_rules import Violation
from jaxrl_scope.data.scaffold_stats import collect_stats, format_stats


def problem(name, source="dapo"):
    return Problem(name, f"What of {name}?", "1", source=source)


def chain(of, num_sub):
    answers = tuple(map(str, range(num_sub)))
    return Scaffold(of.id, ("?",) * num_sub, answers, of.text, of.answer, source=of.source)


@pytest.fixture
def cache(tmp_path):
    cache = ScaffoldCache(tmp_path / "s.jsonl")
    for number, num_sub in enumerate((2, 4, 6)):
        cache.accept(problem(f"ok{number}"), chain(problem(f"ok{number}"), num_sub))
    bad = problem("bad")
    cache.reject(bad, chain(bad, 2), [Violation("V", "x"), Violation("H", "y")])
    cache.reject(bad, chain(bad, 2), [Violation("H", "y"), Violation("H", "z")])
    cache.give_up(bad, "filtered", ["H: y"])
    cache.give_up(problem("down"), "failed", ["teacher: timeout"])
    cache.give_up(problem("down"), "failed", ["teacher: timeout"])
    other = problem("b", "big-math")
    cache.give_up(other, "failed", ["teacher: timeout"])
    cache.accept(other, chain(other, 1))
    return cache


def test_columns_of_the_published_table(cache):
    stats = collect_stats(cache.path)
    dapo = stats["dapo"]
    assert (dapo.total, dapo.success, dapo.filtered, dapo.failed) == (5, 3, 1, 1)
    assert dapo.rate == 0.6
    assert dapo.mean_subs == 4.0
    assert dapo.predicates == {"V": 1, "H": 2}
    assert (stats["big-math"].total, stats["big-math"].success) == (1, 1)
    table = format_stats(stats)
    assert "| dapo | 5 | 3 | 1 | 1 | 60.0% | 4.00 | 6 | 2 |" in table
    assert "| big-math | 1 | 1 | 0 | 0 | 100.0% | 1.00 | 1 | 1 |" in table
    assert "V 1, P 0, D 0, H 2" in table


def test_a_problem_done_twice_counts_once(cache):
    cache.accept(problem("ok0"), chain(problem("ok0"), 3))
    stats = collect_stats(cache.path)["dapo"]
    assert stats.success == 3
    assert sorted(stats.sub_counts) == [3, 4, 6]


def test_a_file_made_elsewhere_has_statistics_too(tmp_path):
    path = tmp_path / "s.parquet"
    save_scaffolds(path, [chain(problem(f"p{i}"), i) for i in (1, 2)])
    assert collect_stats(path)["dapo"].mean_subs == 1.5


def test_rejections_alone_have_statistics(tmp_path):
    ScaffoldCache(tmp_path / "s.jsonl").give_up(problem("x"), "filtered", ["why"])
    stats = collect_stats(tmp_path / "s.jsonl")["dapo"]
    assert (stats.total, stats.rate, stats.mean_subs) == (1, 0.0, 0.0)
    assert "| dapo | 1 | 0 | 1 | 0 | 0.0% | 0.00 | 0 | 0 |" in format_stats({"dapo": stats})


def test_no_file_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        collect_stats(tmp_path / "none.jsonl")
