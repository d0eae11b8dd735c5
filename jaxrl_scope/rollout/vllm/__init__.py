"""Rollouts by vLLM servers, with weights synced to them through orbax checkpoints."""
