"""The vLLM sampler: token ids in, token ids with log-probabilities and weight version out."""

import contextlib
import hashlib
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_scope.rollout.types import Request, Rollouts, SamplingParams
from jaxrl_scope.rollout.vllm.client import (
    BadRequestError,
    RolloutError,
    ServerGoneError,
    ServerRefusedError,
)
from jaxrl_scope.rollout.vllm.fleet import Fleet, Server
from jaxrl_scope.rollout.vllm.publish import write_weights
from jaxrl_scope.rollout.vllm.settings import VllmConfig
from models import Qwen3, response_logprobs

_NAN_LOGPROB = -9999.0  # what vLLM sends for NaN, and for anything below
_PROBE = SamplingParams(num_rollouts=4, max_response_len=32)
_response_logprobs = jax.jit(response_logprobs)


class ProbeError(RolloutError):
    """After a sync, vLLM and the trainer disagree about the same tokens."""


class VllmSampler:
    """Samples on vLLM servers.

    The seed of a rollout is a function of (seed, update, request.key, rollout index). The same
    weights then give the same rollouts up to rounding: a server's matrix products depend in the
    last bits on what else is in its batch, and a draw that falls between two tokens can flip.
    """

    def __init__(
        self,
        fleet: Fleet,
        config: VllmConfig,
        *,
        eos_token_ids: Sequence[int],
        sync_dir: Path,
        dtype: str = "",
    ):
        """Use the servers of `fleet`, which have no weights before the first `load`.

        Args:
          fleet: running servers; closed with the sampler.
          config: settings.
          eos_token_ids: any of them ends a response.
          sync_dir: absolute; versions of the weights are written here.
          dtype: that they are written in; "" keeps the trainer's.
        """
        self._fleet, self._config = fleet, config
        self._eos = sorted(eos_token_ids)
        self._sync_dir, self._dtype = sync_dir, dtype
        self._version = -1
        self._probe: Request | None = None
        self._asleep = False
        self._pool = ThreadPoolExecutor(len(fleet.servers) * config.max_in_flight)
        self._metrics: dict[str, float] = {}
        self._lock = threading.Lock()
        # Versions of an earlier run of this directory: no server of this one is on them.
        for old in sync_dir.glob("v*"):
            shutil.rmtree(old)

    def generate(self, requests: Sequence[Request], params: SamplingParams) -> Rollouts:
        """Sample `params.num_rollouts` responses to every request, in the order given.

        A group that no server could answer comes back with `valid` False.

        Raises:
          ValueError: no requests or no weights yet, or the servers refuse a request as malformed.
          NoServerError: no server is left.
        """
        if not requests or self._version < 0:
            raise ValueError("generate needs at least one request, and load to have been called.")
        self._wake()
        groups = list(self._pool.map(lambda request: self._group(request, params), requests))
        out = _empty(len(requests), params)
        for b, choices in enumerate(groups):
            for choice in choices:
                _fill(out, b, choice, self._eos)
        self._count(groups, out, params)
        return out

    def _group(self, request: Request, params: SamplingParams) -> list[dict[str, Any]]:
        """One request, tried on up to `attempts` servers; [] if all failed."""
        prompt = np.asarray(request.prompt_ids).tolist()
        for _ in range(self._config.attempts):
            with self._fleet.lease() as server:
                try:
                    choices = server.client.generate(prompt, self._sampling(request, params))
                    self._check_version(server, choices)
                    if params.temperature == 0:  # answered once: all G are the same
                        return [choices[0] | {"index": g} for g in range(params.num_rollouts)]
                    return choices
                except BadRequestError as error:
                    raise ValueError(str(error)) from error
                except (ServerRefusedError, ServerGoneError):
                    self._fleet.suspect(server)
            self._add("rollout/retries", 1.0)
        return []

    def _sampling(self, request: Request, params: SamplingParams) -> dict[str, Any]:
        name = f"{params.seed} {params.update} {request.key}".encode()
        seed = int.from_bytes(hashlib.sha256(name).digest()[:8], "big") >> 2
        return {
            # Rollout g is sampled with seed + g. vLLM refuses greedy groups of more than one.
            "n": params.num_rollouts if params.temperature else 1,
            "seed": seed,
            "temperature": params.temperature,
            "top_p": 1.0,
            "top_k": 0,
            "max_tokens": params.max_response_len,
            "stop_token_ids": self._eos,
            "logprobs": 0,  # of the sampled token alone
            "detokenize": False,
        }

    def _check_version(self, server: Server, choices: list[dict[str, Any]]) -> None:
        versions = {span["version"] for c in choices for span in c["weight_versions"]}
        if versions != {str(self._version)}:
            raise ServerGoneError(
                f"{server.client.url} answered with weights {sorted(versions)}, expected version "
                f"{self._version}: it was restarted or updated by somebody else"
            )

    def _count(self, groups, out: Rollouts, params: SamplingParams) -> None:
        answered = np.array([bool(choices) for choices in groups])
        self._add("rollout/lost_groups", float((~answered).sum()))
        self._add("rollout/nan_rollouts", float((~out.valid[answered]).sum()))
        versions = out.version[out.valid]
        if versions.size:
            # The trainer is on version update - 1 when it collects the batch of an update, and on
            # version update when it evaluates after it.
            age = np.maximum(params.update - 1 - versions, 0)
            self._metrics["rollout/staleness_mean"] = float(age.mean())
            self._metrics["rollout/staleness_max"] = float(age.max())

    def _add(self, name: str, value: float) -> None:
        with self._lock:
            self._metrics[name] = self._metrics.get(name, 0.0) + value

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self._add(name, time.perf_counter() - start)

    def load(self, params: object, version: int) -> None:
        """Make `params` (a `Qwen3`) version `version` on every server, and check that it arrived.

        Raises:
          SyncError: the servers are on the old version still.
          ProbeError: the weights arrived wrong.
        """
        if not isinstance(params, Qwen3):
            raise ValueError(f"expected a model, got {type(params).__name__}.")
        folder = self._sync_dir / f"v{version}"
        if folder.exists():  # the same version again, after a resume: written anew
            shutil.rmtree(folder)
        with self._timed("sync/write_s"):
            write_weights(folder, params, version, self._dtype)
        self._wake()
        with self._timed("sync/servers_s"):
            self._fleet.sync(folder, version)
        self._version = version
        for old in self._sync_dir.glob("v*"):
            if old != folder:
                shutil.rmtree(old, ignore_errors=True)
        if self._probe is not None:
            with self._timed("sync/probe_s"):
                self._check_probe(params)

    def set_probe(self, prompt_ids: np.ndarray) -> None:
        """Choose the prompt whose responses are scored by both sides after every sync."""
        self._probe = Request(np.asarray(prompt_ids, np.int32), 0)

    def _check_probe(self, model: Qwen3) -> None:
        """Let every server answer the probe, and score its tokens with the trainer's weights."""
        assert self._probe is not None
        request = self._probe
        worst = 0.0

        answers: list[tuple[Server, list[dict[str, Any]]]] = []

        def ask(server: Server) -> None:
            try:
                prompt = request.prompt_ids.tolist()
                answers.append(
                    (server, server.client.generate(prompt, self._sampling(request, _PROBE)))
                )
            except (ServerGoneError, ServerRefusedError):
                self._fleet.suspect(server)

        self._fleet.each_ready(ask)
        for server, choices in answers:
            out = _empty(1, _PROBE)
            for choice in choices:
                _fill(out, 0, choice, self._eos)
            theirs, ours = out.logprobs[0], _score(model, request, out)
            mask = np.arange(theirs.shape[1]) < out.response_len[0][:, None]
            gap = float(np.abs(np.where(mask, theirs - ours, 0.0)).sum() / mask.sum())
            if not gap <= self._config.max_gap:
                raise ProbeError(
                    f"after the sync of version {self._version}, {server.client.url} and the "
                    f"trainer differ by {gap:.4f} nats per token on the same "
                    f"{int(mask.sum())} tokens (rollout.vllm.max_gap is {self._config.max_gap}).\n"
                    f"vLLM:    {np.round(theirs[0][mask[0]], 3).tolist()}\n"
                    f"trainer: {np.round(ours[0][mask[0]], 3).tolist()}\n"
                    "Its weights are not the trainer's, or its model computes something else."
                )
            worst = max(worst, gap)
        self._metrics["sync/probe_gap"] = worst

    def metrics(self) -> dict[str, float]:
        """Numbers since the last call, by name."""
        taken, self._metrics = self._metrics, {}
        return taken | {
            "rollout/version": float(self._version),
            "rollout/server_restarts": float(self._fleet.num_restarts),
        }

    def rest(self) -> None:
        """Give the servers' GPU memory to the trainer until the next sync (colocated only)."""
        if self._config.placement == "colocated" and not self._asleep:
            self._fleet.each_ready(lambda server: server.client.sleep())
            self._asleep = True

    def _wake(self) -> None:
        if self._asleep:
            self._fleet.each_ready(lambda server: server.client.wake())
            self._asleep = False

    def stop_waiting(self) -> None:
        """Let `generate` fail, instead of waiting, while no server is up."""
        self._fleet.stop_waiting()

    def close(self) -> None:
        """Stop the servers that are ours."""
        self._fleet.close()
        self._pool.shutdown(cancel_futures=True)


def _empty(count: int, params: SamplingParams) -> Rollouts:
    shape = (count, params.num_rollouts)
    wide = (*shape, params.max_response_len)
    return Rollouts(
        response_ids=np.zeros(wide, np.int32),
        response_len=np.ones(shape, np.int32),
        logprobs=np.zeros(wide, np.float32),
        finished=np.zeros(shape, bool),
        version=np.full(shape, -1, np.int32),
        valid=np.zeros(shape, bool),
    )


def _fill(out: Rollouts, b: int, choice: dict[str, Any], eos: Sequence[int]) -> None:
    """Write one choice of an answer into its row."""
    g, ids = choice["index"], choice["token_ids"]
    content = choice["logprobs"]["content"]
    if not ids or len(content) != len(ids):
        return
    logprobs = np.array([token["logprob"] for token in content], np.float32)
    out.response_ids[b, g, : len(ids)] = ids
    out.response_len[b, g] = len(ids)
    out.logprobs[b, g, : len(ids)] = logprobs
    out.finished[b, g] = ids[-1] in eos
    out.version[b, g] = min(int(span["version"]) for span in choice["weight_versions"])
    out.valid[b, g] = bool(np.isfinite(logprobs).all() and (logprobs > _NAN_LOGPROB).all())


def _score(model: Qwen3, request: Request, out: Rollouts) -> np.ndarray:
    """[n, T] float32 log-probabilities of the probe's responses under the trainer's weights."""
    rows = out.response_len.shape[1]
    prompt = np.asarray(request.prompt_ids)[None].repeat(rows, axis=0)
    logprobs, _ = _response_logprobs(
        model,
        jnp.asarray(prompt),
        jnp.full((rows,), prompt.shape[1], jnp.int32),
        jnp.asarray(out.response_ids[0]),
        jnp.asarray(out.response_len[0]),
    )
    return np.asarray(logprobs)
