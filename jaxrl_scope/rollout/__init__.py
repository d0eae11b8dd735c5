"""Rollouts: the sampler protocol and its implementations."""
