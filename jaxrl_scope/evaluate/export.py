"""A policy of ours as a Hugging Face directory."""

import os
import shutil
import tempfile
from pathlib import Path

from jaxrl_scope.evaluate.policy import Dtype, load_policy
from models import save_hf


def export(source: Path, out: Path, *, checkpoint: str = "", dtype: Dtype = "") -> str:
    """Write weights, config and tokenizer of `source` into the new directory `out`.

    The directory appears whole or not at all: it is written beside its place and then renamed.

    Args:
      source: run directory, checkpoint of a run (RUN/checkpoints/UPDATE), or Hugging Face
        directory.
      out: must not exist; its parent is made.
      checkpoint: of a run, "best" (also ""), "latest" or an update.
      dtype: "float32" or "bfloat16"; "" keeps the source's weights bit for bit.

    Returns:
      What was written, in words.

    Raises:
      ValueError: `out` exists, or `source` holds no policy.
      OSError: `out` cannot be written.
    """
    if out.exists():
        raise ValueError(f"{out} exists; export writes a new directory, so name another or move it")
    run_dir, chosen = _split(source, checkpoint)
    policy = load_policy(str(run_dir), checkpoint=chosen, dtype=dtype)
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        staging.chmod(0o755)  # mkdtemp's 0o700 would hide the model from a server's own user
        policy.tokenizer.save_pretrained(str(staging))
        save_hf(staging, policy.config, policy.model)
        os.rename(staging, out)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return (
        f"{policy.origin}: {policy.config.num_params:,} weights ({policy.config.param_dtype}) "
        f"in {out}"
    )


def _split(source: Path, checkpoint: str) -> tuple[Path, str]:
    """(Directory to load, checkpoint of it): RUN/checkpoints/UPDATE names both at once."""
    if source.parent.name == "checkpoints" and source.name.isdigit():
        if checkpoint and checkpoint != source.name:
            raise ValueError(f"{source} names its checkpoint already; leave --checkpoint out")
        return source.parent.parent, source.name
    return source, checkpoint or "best"
