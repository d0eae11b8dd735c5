"""Entry points, about a screen each; the work is done in `jaxrl_scope`."""
