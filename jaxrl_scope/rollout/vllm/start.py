"""From settings to a sampler whose servers run and hold the policy."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from jaxrl_scope.data.rows import write_atomic
from jaxrl_scope.rollout.vllm.client import Client
from jaxrl_scope.rollout.vllm.fleet import Fleet
from jaxrl_scope.rollout.vllm.sampler import VllmSampler
from jaxrl_scope.rollout.vllm.server import ServerProcess, check_installed, free_port, plan
from jaxrl_scope.rollout.vllm.settings import VllmConfig
from models import ModelConfig, Qwen3


def start_vllm(
    model_config: ModelConfig,
    model: Qwen3,
    config: VllmConfig,
    *,
    urls: Sequence[str],
    max_len: int,
    probe: np.ndarray,
    run_dir: Path,
) -> VllmSampler:
    """Start the servers (or take those at `urls`), and put the weights on them as version 0.

    Args:
      model_config: shape of the policy; the servers get it as a config.json, without weights.
      model: the policy.
      config: settings.
      urls: servers that run already; none to start our own.
      max_len: prompt and response tokens at most.
      probe: [p] int32, prompt of the comparison after every sync.
      run_dir: logs are written to RUN/vllm, and weights to RUN/weights unless set otherwise.

    Raises:
      RolloutError: vLLM is missing, a server does not start, or the weights do not arrive.
    """
    ports = [] if urls else [free_port() for _ in range(config.servers)]
    clients = [
        Client(url, timeout_s=config.request_timeout_s)
        for url in (urls or [f"http://127.0.0.1:{port}" for port in ports])
    ]
    start = None
    if not urls:
        check_installed(config)
        start = _starter(model_config, config, run_dir, ports=ports, max_len=max_len)
        print(f"starting {config.servers} vLLM server(s); logs in {run_dir / 'vllm'}", flush=True)
    fleet = Fleet(
        clients,
        start,
        max_in_flight=config.max_in_flight,
        restarts=config.restarts,
        start_timeout_s=config.start_timeout_s,
    )
    sampler = VllmSampler(
        fleet,
        config,
        eos_token_ids=model_config.eos_token_ids,
        sync_dir=Path(config.sync_dir or run_dir / "weights").resolve(),
    )
    try:
        sampler.set_probe(probe)
        sampler.load(model, 0)
    except BaseException:
        sampler.close()
        raise
    return sampler


def _starter(
    model_config: ModelConfig, config: VllmConfig, run_dir: Path, *, ports: list[int], max_len: int
) -> Callable[[int], ServerProcess]:
    """What starts server i, the first time and after a fault; its port stays."""
    home = (run_dir / "vllm").resolve()
    text = json.dumps(model_config.to_hf(), indent=2).encode()
    write_atomic(home / "model" / "config.json", lambda file: file.write(text))

    def start(index: int) -> ServerProcess:
        launch = plan(
            config,
            index,
            model=str(home / "model"),
            dtype=model_config.dtype,
            max_len=max_len,
            port=ports[index],
        )
        return ServerProcess(launch, home / f"server-{index}.log")

    return start
