"""Write a checkpoint as a Hugging Face directory, which transformers and vLLM load.

    python launch/export.py runs/asr-world-s0 exported
    python launch/export.py runs/asr-world-s0/checkpoints/45 exported --dtype bfloat16

The source is a run of launch/train.py (its best checkpoint unless --checkpoint says otherwise), one
of its checkpoints, or a Hugging Face directory. It runs on the CPU whatever is there: exporting
needs the host's memory, not an accelerator's. Exit status: 0, or 2 for bad input.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import jax
import tyro

from jaxrl_scope.evaluate.export import export


def run(
    source: Annotated[Path, tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.Positional],
    checkpoint: str = "",
    dtype: Literal["", "float32", "bfloat16"] = "",
) -> None:
    """Export one policy.

    Args:
      source: run directory, checkpoint of a run (RUN/checkpoints/UPDATE), or Hugging Face
        directory.
      out: directory to make; it must not exist yet.
      checkpoint: which one of a run: "best" by validation accuracy (the default), "latest", or an
        update.
      dtype: of the weights written; "" keeps the source's, bit for bit.
    """
    print(export(source, out, checkpoint=checkpoint, dtype=dtype))


def main(argv: list[str]) -> int:
    """Export; returns the exit status."""
    jax.config.update("jax_platforms", "cpu")
    try:
        tyro.cli(run, args=argv, prog="python launch/export.py", description=__doc__)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
