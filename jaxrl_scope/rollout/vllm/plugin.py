"""What vLLM loads in each of its processes: entry point group `vllm.general_plugins`."""

BACKEND = "orbax"


def register() -> None:
    """Make `--weight-transfer-config '{"backend": "orbax"}'` known to vLLM."""
    from vllm.distributed.weight_transfer.factory import (  # pyright: ignore[reportMissingImports]
        WeightTransferEngineFactory,
    )

    if BACKEND not in WeightTransferEngineFactory._registry:  # plugins may be loaded repeatedly
        WeightTransferEngineFactory.register_engine(
            BACKEND, "jaxrl_scope.rollout.vllm.engine", "OrbaxWeightTransferEngine"
        )
