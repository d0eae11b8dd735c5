"""One process of `test_distributed.py`: two updates, with a checkpoint between them.

    python multihost_worker.py MODEL_DIR CHECKPOINT_DIR DEVICES

Prints one JSON line. The same program, started once or as several processes.
"""

import json
import sys
from pathlib import Path

import jax

from jaxrl_scope.train.distributed import initialize


def main(model_dir: str, checkpoint_dir: str, devices: int) -> None:
    jax.config.update("jax_num_cpu_devices", devices)
    initialize()
    import numpy as np

    from jaxrl_scope.train.checkpoint import CheckpointConfig, Checkpoints, Progress
    from jaxrl_scope.train.experience import Experience
    from jaxrl_scope.train.losses import LossConfig
    from jaxrl_scope.train.optimizer import OptimizerConfig, make_optimizer
    from jaxrl_scope.train.update import UpdateConfig, Updater, init_state
    from models import load_hf
    from models.partition import MESH_AXES

    assert jax.device_count() == 4
    mesh = jax.make_mesh((1, 2, 2), MESH_AXES, axis_types=(jax.sharding.AxisType.Auto,) * 3)
    _, params = load_hf(model_dir, mesh=mesh)
    optimizer = make_optimizer(OptimizerConfig(lr=0.01, warmup_updates=0), 2)
    state = init_state(params, optimizer, mesh)
    rng = np.random.default_rng(0)
    rows, width = 8, 11
    lengths = rng.integers(1, width + 1, rows).astype(np.int32)
    experience = Experience(
        prompt_ids=rng.integers(0, 32, (rows, 5)).astype(np.int32),
        prompt_len=np.repeat(rng.integers(1, 6, 4), 2).astype(np.int32),
        response_ids=rng.integers(0, 32, (rows, width)).astype(np.int32),
        response_len=lengths,
        rollout_logprobs=np.full((rows, width), -3.0, np.float32),
        advantages=np.repeat(rng.normal(size=(rows, 1)), width, axis=1).astype(np.float32),
        mask=np.arange(width) < lengths[:, None],
        metrics={},
    )
    updater = Updater(
        optimizer, LossConfig(), UpdateConfig(token_budget=64, length_multiple=8), mesh=mesh
    )
    state, first = updater.update(state, experience, jax.random.key(0), 2)
    checkpoints = Checkpoints(Path(checkpoint_dir), CheckpointConfig())
    checkpoints.save(state, Progress(update=1), None)
    _, params = load_hf(model_dir, mesh=mesh)
    state, progress = checkpoints.restore(init_state(params, optimizer, mesh))
    state, second = updater.update(state, experience, jax.random.key(1), 2)
    checkpoints.close()
    own = sum(s.data.nbytes for x in jax.tree.leaves(state) for s in x.addressable_shards)
    print(json.dumps({"update": progress.update, "bytes": own, "first": first, "second": second}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
