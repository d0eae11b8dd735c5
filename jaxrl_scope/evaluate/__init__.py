"""Accuracy, pass@k, step quality and probes."""
