"""The scaffold probe on responses written by hand: bins, both accuracies, the plot."""

import pytest

from jaxrl_scope.data.prompts import PromptBuilder
from jaxrl_scope.data.world import parse_chain, to_problem, to_scaffold
from jaxrl_scope.evaluate.intervals import wilson_interval
from jaxrl_scope.evaluate.probe_plot import plot_probe
from jaxrl_scope.evaluate.scaffold_probe import bin_by_prefix, choose_problems, probe_scaffolds
from jaxrl_scope.grading import VerifierPool
from jaxrl_scope.rollout.types import SamplingParams

CHAINS = [parse_chain(f"{n} + 2 + 2 + 2 ?", 61) for n in (10, 20, 30)]
PAIRS = [(to_problem(chain), to_scaffold(chain)) for chain in CHAINS]


def say(prompt, g):
    """Start 10: a whole prefix, right. 20: sub 1 only, main right (lucky). 30: none, cut off.

    On the original prompt 10 is always right, 20 on every other rollout, 30 never.
    """
    n = int(prompt.replace("[SUB]", " ").split()[0])
    right = n + 6
    if "[SUB]" not in prompt:
        answer = right if n == 10 or (n == 20 and g == 0) else 0
        return f"\\boxed{{ {answer} }} <|end|>"
    first, second = {10: (12, 14), 20: (22, 0), 30: (0, 34)}[n]
    text = (
        f"[SUB-1 ANSWER] \\boxed{{ {first} }} [SUB-2 ANSWER] \\boxed{{ {second} }} "
        f"[MAIN ANSWER] \\boxed{{ {right} }}"
    )
    return text if n == 30 else f"{text} <|end|>"


def test_bins_by_hand(scripted, tokenizer, tmp_path):
    sampler = scripted(say)
    with VerifierPool(num_workers=1) as verifier:
        samples = probe_scaffolds(
            PAIRS, sampler, PromptBuilder(tokenizer), tokenizer, verifier,
            SamplingParams(num_rollouts=2, max_response_len=32),
        )  # fmt: skip
    bins = bin_by_prefix(samples)
    assert [(b.prefix, b.num_samples, b.num_problems) for b in bins] == [(0, 2, 1), (1, 2, 1),
                                                                        (2, 2, 1)]  # fmt: skip
    assert [b.scaffold_accuracy for b in bins] == [0.0, 1.0, 1.0]
    assert [b.original_accuracy for b in bins] == [0.0, 0.5, 1.0]
    assert bins[2].scaffold_interval == pytest.approx(wilson_interval(1.0, 1))
    assert len({request.key for request in sampler.requests}) == 6
    plot_probe(bins, tmp_path / "probe.png")
    assert (tmp_path / "probe.png").read_bytes().startswith(b"\x89PNG")


def test_only_one_chain_length_is_compared():
    short = parse_chain("5 + 2 + 2 ?", 61)
    problems = [*(problem for problem, _ in PAIRS), to_problem(short)]
    scaffolds = {p.id: s for p, s in [*PAIRS, (to_problem(short), to_scaffold(short))]}
    assert [p.id for p, _ in choose_problems(problems, scaffolds, 1)] == [to_problem(short).id]
    with pytest.raises(ValueError, match=r"lengths there are: \[1, 2\]"):
        choose_problems(problems, scaffolds, 4)
