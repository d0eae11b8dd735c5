"""Is an answer text equal to a gold answer text? See `answers.equivalent`."""
