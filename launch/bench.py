"""Run a benchmark: `python launch/bench.py NAME [options]`, `-h` after the name for its options."""

import importlib
import sys

from jaxrl_scope.huge_pages import restart_with_huge_pages

# Each is a module of `jaxrl_scope.bench` with `main(argv)`, imported only when it is asked for.
BENCHMARKS = {
    "kernels": "reward kernels against per-sample Python loops and a plain copy",
    "logprob": "log-probabilities of given responses, on the work of the peer benchmark (W3)",
    "rollout": "the in-process sampler, on the work of the peer benchmark (W1)",
    "sandbox": "code sandbox: short executions per second, projected to a GRAFT arm",
    "scaffold": "scaffold construction from recorded replies: speed and memory",
    "sync": "a weight sync to a real vLLM server, beside plain safetensors",
    "train": "a train step, on the work of the peer benchmark (W2)",
    "verifier": "answer verifier: accuracy and speed on published cases and on rollouts",
}
# So that the driver of the peer benchmark can pass its own names on.
ALIASES = {"W1": "rollout", "W2": "train", "W3": "logprob"}


def main(argv: list[str]) -> int:
    """Run one benchmark with the rest of the arguments; returns the exit status."""
    name = ALIASES.get(argv[0], argv[0]) if argv else None
    if name not in BENCHMARKS:
        asked = f"unknown benchmark {argv[0]!r}" if argv else "no benchmark was named"
        known = "".join(f"\n  {name:10} {what}" for name, what in BENCHMARKS.items())
        print(f"error: {asked}; known:{known}", file=sys.stderr)
        return 2
    return importlib.import_module(f"jaxrl_scope.bench.{name}").main(argv[1:]) or 0


if __name__ == "__main__":
    restart_with_huge_pages()  # as launch/train.py does
    sys.exit(main(sys.argv[1:]))
