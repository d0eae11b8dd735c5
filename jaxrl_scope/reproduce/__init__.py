"""The papers' claims on the built-in world: which runs to make, and what to make of them."""
