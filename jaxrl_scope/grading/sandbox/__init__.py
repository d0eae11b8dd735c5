"""Runs untrusted Python against tests, in Linux namespaces, behind a fork server."""

from jaxrl_scope.grading.sandbox.pool import PRELOAD, PRELOAD_SCIENCE, SandboxPool
from jaxrl_scope.grading.sandbox.types import Kind, Limits, Run, RunResult, SandboxError, Status

__all__ = [
    "PRELOAD",
    "PRELOAD_SCIENCE",
    "Kind",
    "Limits",
    "Run",
    "RunResult",
    "SandboxError",
    "SandboxPool",
    "Status",
]
