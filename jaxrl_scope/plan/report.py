"""Whether a run fits its devices, and what to change where it does not."""

import dataclasses
import math

from jaxrl_scope.config import TrainConfig
from jaxrl_scope.plan.programs import (
    Decoding,
    Program,
    bytes_per_device,
    compile_program,
    decode_program,
    fake_mesh,
    train_programs,
)
from models import ModelConfig

GB = 10**9
DEVICES_GB = (80, 141)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run takes per device; bytes unless said otherwise.

    Attributes:
      params, optimizer: the train state.
      sampler: the weights as decoding reads them, held throughout.
      gradient: the accumulated gradient.
      cache: keys and values at full length, and the cache before its last growth.
      logits: one chunk of float32 logits; part of the temporaries.
      rows: of a microbatch of the longest rows, over all devices.
      decode_rows: sampled at a time, over all devices.
      microbatches: of such rows in one update.
      programs: "gradient", "apply", "logprobs" and "decode".
    """

    params: int
    optimizer: int
    sampler: int
    gradient: int
    cache: int
    logits: int
    rows: int
    decode_rows: int
    microbatches: int
    programs: dict[str, Program]

    @property
    def held(self) -> int:
        """What lies on a device whatever runs."""
        return self.params + self.optimizer + self.sampler

    @property
    def phases(self) -> dict[str, int]:
        """Peak of each phase of an update."""
        extra = {name: program.extra for name, program in self.programs.items()}
        return {
            "gradient": self.held + self.gradient + extra["gradient"],
            "apply": self.held + self.gradient + extra["apply"],
            "logprobs": self.held + extra["logprobs"],
            "decode": self.held + self.cache + extra["decode"],
        }

    @property
    def peak(self) -> int:
        """The largest of the phases."""
        return max(self.phases.values())

    @property
    def flops(self) -> float:
        """Per device and update, all rows at full length: gradients and optimizer."""
        gradient, apply = self.programs["gradient"].cost, self.programs["apply"].cost
        return self.microbatches * gradient.flops + apply.flops

    def collective_bytes(self) -> dict[str, float]:
        """Per device and update, by kind, as `flops`."""
        total = dict(self.programs["apply"].cost.collective_bytes)
        for kind, size in self.programs["gradient"].cost.collective_bytes.items():
            total[kind] = total.get(kind, 0.0) + self.microbatches * size
        return total


def make_plan(config: TrainConfig, model: ModelConfig) -> Plan:
    """Compile a run's programs for its mesh on fake devices, and add up."""
    mesh = fake_mesh(config)
    state, batch, lowered = train_programs(config, model, mesh)
    decoding: Decoding = decode_program(config, model, mesh, state.params)
    programs = {name: compile_program(each) for name, each in lowered.items()}
    programs["decode"] = compile_program(decoding.lowered)
    rows = batch.prompt_ids.shape[0]
    chunk = rows * max(1, config.update.chunk_tokens // rows)
    params = bytes_per_device(state.params)
    return Plan(
        params=params,
        optimizer=bytes_per_device(state.opt_state),
        sampler=decoding.weights,
        gradient=params,
        cache=decoding.cache + decoding.growth,
        logits=4 * chunk * model.vocab_size // config.mesh.num_devices,
        rows=rows,
        decode_rows=decoding.rows,
        microbatches=math.ceil(config.data.batch_problems * config.rollout.group / rows),
        programs=programs,
    )


def describe(plan: Plan) -> str:
    """The plan as a table, per device, in GB of 10^9 bytes."""
    lines = [f"{'per device':<34}{'GB':>9}"]

    def add(name: str, size: float) -> None:
        lines.append(f"{name:<34}{size / GB:>9.2f}")

    add("params", plan.params)
    add("optimizer", plan.optimizer)
    add("sampler's weights", plan.sampler)
    add("gradient", plan.gradient)
    add("activations, gradient (peak)", plan.programs["gradient"].temporaries)
    add("  of them one chunk of logits", plan.logits)
    add("activations, logprobs (peak)", plan.programs["logprobs"].temporaries)
    add("KV cache, with its last growth", plan.cache)
    add("activations, decode (peak)", plan.programs["decode"].temporaries)
    lines.append("")
    for name, size in plan.phases.items():
        add(f"peak while in {name}", size)
    lines.append("")
    lines.append(
        f"an update at full length: {plan.microbatches} microbatches of {plan.rows} rows, "
        f"{plan.flops / 1e15:.2f} PFLOP per device; decoding {plan.decode_rows} rows at a time"
    )
    traffic = ", ".join(
        f"{kind} {size / GB:.0f} GB" for kind, size in sorted(plan.collective_bytes().items())
    )
    lines.append(f"collectives of an update, per device: {traffic or 'none'}")
    return "\n".join(lines)


def verdicts(plan: Plan, config: TrainConfig) -> list[str]:
    """One line per size of device: whether the run fits, or what to change."""
    lines = []
    for size in DEVICES_GB:
        over = plan.peak - size * GB
        if over <= 0:
            lines.append(f"fits {size} GB: {-over / GB:.1f} GB to spare")
        else:
            lines.append(f"does NOT fit {size} GB, by {over / GB:.1f} GB: {advice(plan, config)}")
    return lines


def advice(plan: Plan, config: TrainConfig) -> str:
    """The setting that frees most in the phase that needs most."""
    phase = max(plan.phases, key=plan.phases.__getitem__)
    shards = config.mesh.data * config.mesh.fsdp
    wider = (
        f"use more devices (mesh.fsdp {config.mesh.fsdp}, mesh.tensor {config.mesh.tensor}), which "
        "split weights, optimizer and gradient further"
    )
    if phase == "decode":
        if plan.sampler > plan.cache:
            return (
                "raise mesh.tensor (with fewer on mesh.fsdp): the sampler's weights are split over "
                f"it alone (now {config.mesh.tensor})"
            )
        if plan.decode_rows > shards * config.rollout.group:
            return f"lower rollout.cache_gib (now {config.rollout.cache_gib:g})"
        return (
            "one problem a device is the least: lower rollout.max_response_len or rollout.group, "
            f"or raise mesh.tensor (now {config.mesh.tensor})"
        )
    program = plan.programs[phase]
    if program.temporaries < plan.held:
        return wider
    if plan.logits > program.temporaries / 4:
        return f"lower update.chunk_tokens (now {config.update.chunk_tokens})"
    if plan.rows > shards:
        width = config.data.max_prompt_len + config.rollout.max_response_len
        return (
            f"lower update.token_budget (now {config.update.token_budget}; one row a device is "
            f"{width})"
        )
    if config.model.remat != "full" and phase == "gradient":
        return f"set model.remat full (now {config.model.remat or 'the default'})"
    return wider
