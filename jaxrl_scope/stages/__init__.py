"""Stages: problems to `Experience`. A stage changes what enters the reward, nothing else."""
