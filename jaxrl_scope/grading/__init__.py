"""Text to verdict arrays: answer verifier, judges, code sandbox."""
