import re

from jaxrl_scope.bench.scaffold import main


def test_both_passes_reach_the_same_end(capsys):
    assert main(["--problems", "12"]) == 0
    output = capsys.readouterr().out
    assert re.search(r"paid replies: \d+ problems/min", output)
    assert re.search(r"recorded replies: \d+ problems/min", output)
    assert re.search(r"\| bench \| 12 \| ([1-9]|1[012]) \| \d+ \| 0 \|", output)
