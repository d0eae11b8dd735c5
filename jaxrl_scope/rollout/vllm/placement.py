"""Which devices the trainer gets beside its vLLM servers, and every command in words."""

from collections.abc import Sequence

from jaxrl_scope.rollout.vllm.server import plan
from jaxrl_scope.rollout.vllm.settings import VllmConfig


def trainer_env(config: VllmConfig, num_devices: int) -> dict[str, str]:
    """Environment of the trainer; JAX reads it when it first touches a device.

    Split: the first `num_devices` GPUs that no server has. Colocated: the servers' own GPUs, of
    whose memory JAX, which never gives any back, takes what the servers leave.
    """
    if not config.gpus:
        return {}
    if config.placement == "colocated":
        share = round(1.0 - config.memory_fraction, 3)
        return {
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, config.gpus)),
            "XLA_PYTHON_CLIENT_MEM_FRACTION": str(share),
        }
    free = [i for i in range(num_devices + len(config.gpus)) if i not in config.gpus]
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, free[:num_devices]))}


def describe_processes(
    config: VllmConfig, *, urls: Sequence[str], num_devices: int, dtype: str, max_len: int
) -> list[str]:
    """Say what each process is started with; for `urls`, what they must be started with."""
    env = trainer_env(config, num_devices)
    trainer = " ".join(f"{name}={value}" for name, value in env.items()) or "no variables"
    lines = [f"rollouts: vLLM, placement {config.placement}", f"  trainer: {trainer}"]
    if urls:
        launch = plan(config, 0, model="MODEL", dtype=dtype, max_len=max_len, port=8000)
        lines += [f"  running already: {', '.join(urls)}", f"  each as by: {launch}"]
        return lines
    for i in range(config.servers):
        launch = plan(
            config, i, model="RUN/vllm/model", dtype=dtype, max_len=max_len, port=8000 + i
        )
        lines.append(f"  server {i} (on a free port): {launch}")
    return lines
