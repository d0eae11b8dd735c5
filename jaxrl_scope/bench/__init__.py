"""Benchmarks: each sub-module has a `main(argv)` that `launch/bench.py` calls."""
