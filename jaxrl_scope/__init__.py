"""The system: data, grading, rollouts, stages, training, evaluation and reports."""
