"""Problems, scaffolds, prompts, and the built-in world."""
