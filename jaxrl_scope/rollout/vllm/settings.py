"""Settings of vLLM rollouts."""

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class VllmConfig:
    """How vLLM servers are started, fed and watched.

    Attributes:
      servers: servers that the trainer starts (none where `rollout.urls` are given).
      tensor: GPUs per server, for tensor parallelism.
      placement: "split": servers have GPUs of their own; "colocated": trainer and servers take
        turns on the same ones, the servers asleep during updates.
      gpus: GPU numbers of the servers, dealt out `tensor` at a time; none on a CPU.
      memory_fraction: of each GPU that a server takes; of the rest, JAX takes what it needs.
      kv_gib: key/value cache of a server on CPU, GiB.
      python: interpreter with vLLM and this package; "" for the trainer's own.
      args: further arguments of every server, "--max-num-seqs 256" say.
      sync_dir: where versions of the weights are written, under a path that all servers share; ""
        for RUN/weights.
      max_in_flight: requests (groups) that one server works on at a time.
      attempts: servers that a request is tried on before its group counts as lost.
      request_timeout_s: seconds after which a request is tried elsewhere.
      start_timeout_s: seconds that a server may take to start.
      restarts: times that a server is started again before it is given up.
      max_gap: largest mean |logprob(trainer) - logprob(vLLM)| of the probe after a sync, nats.
    """

    servers: int = 1
    tensor: int = 1
    placement: Literal["split", "colocated"] = "split"
    gpus: tuple[int, ...] = ()
    memory_fraction: float = 0.9
    kv_gib: int = 4
    python: str = ""
    args: tuple[str, ...] = ()
    sync_dir: str = ""
    max_in_flight: int = 32
    attempts: int = 3
    request_timeout_s: float = 600.0
    start_timeout_s: float = 900.0
    restarts: int = 3
    max_gap: float = 0.1

    def __post_init__(self):
        for name in ("servers", "tensor", "max_in_flight", "attempts", "kv_gib"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"rollout.vllm.{name} must be at least 1, got {getattr(self, name)}"
                )
        for name in ("request_timeout_s", "start_timeout_s", "max_gap"):
            if getattr(self, name) <= 0:
                raise ValueError(f"rollout.vllm.{name} must be above 0, got {getattr(self, name)}")
        if not 0 < self.memory_fraction < 1:
            raise ValueError(
                f"rollout.vllm.memory_fraction must lie in (0, 1), got {self.memory_fraction}"
            )
        if self.gpus and len(self.gpus) != self.servers * self.tensor:
            raise ValueError(
                f"rollout.vllm.gpus names {len(self.gpus)} GPUs, but {self.servers} servers x "
                f"{self.tensor} GPUs each take {self.servers * self.tensor}"
            )
