"""vLLM's side of a sync: a weight-transfer engine that reads orbax checkpoints in each worker."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The worker's devices belong to torch: JAX, which orbax imports, must not claim any.
os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from vllm.distributed.weight_transfer.base import (  # pyright: ignore[reportMissingImports]
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.model_executor.model_loader.reload import (  # pyright: ignore[reportMissingImports]
    finalize_layerwise_reload,
    initialize_layerwise_reload,
)
from vllm.platforms import current_platform  # pyright: ignore[reportMissingImports]

from jaxrl_scope.rollout.vllm.weights import check_model, read_groups, read_manifest


@dataclass
class OrbaxInitInfo(WeightTransferInitInfo):
    """Nothing is agreed on beforehand."""


@dataclass
class OrbaxUpdateInfo(WeightTransferUpdateInfo):
    """One update.

    Attributes:
      path: folder that `write_weights` wrote, as this host sees it.
      version: number that the folder must hold.
    """

    path: str
    version: int


class OrbaxWeightTransferEngine(WeightTransferEngine[OrbaxInitInfo, OrbaxUpdateInfo]):
    """Loads a version of the weights from a folder.

    Everything that can be checked is checked before the model is touched. The reload as a whole
    happens in `receive_weights`, so that a refused update leaves the model as it was.
    """

    init_info_cls = OrbaxInitInfo
    update_info_cls = OrbaxUpdateInfo
    supports_draft_weight_update = False

    def init_transfer_engine(self, init_info: OrbaxInitInfo) -> None:
        """Do nothing: there is no connection to make."""

    def start_weight_update(self) -> None:
        """Do nothing: see `receive_weights`."""

    def finish_weight_update(self) -> None:
        """Do nothing: see `receive_weights`."""

    def shutdown(self) -> None:
        """Do nothing: no resource is held."""

    def receive_weights(self, update_info: OrbaxUpdateInfo) -> None:
        """Read one folder into the model.

        Raises:
          BadWeightsError: the folder was refused; the model is as it was.
        """
        folder = Path(update_info.path)
        manifest = read_manifest(folder)
        if manifest.version != update_info.version:
            raise ValueError(
                f"{folder} holds version {manifest.version}, expected {update_info.version}"
            )
        check_model(manifest, self.model_config.hf_text_config)
        initialize_layerwise_reload(self.model)
        try:
            self.model.load_weights(_tensors(folder, manifest))
        finally:
            finalize_layerwise_reload(self.model, self.model_config)
        _repack_tied_head(self.model)


def _tensors(folder, manifest) -> Iterator[tuple[str, torch.Tensor]]:
    for group in read_groups(folder, manifest):
        for name, value in group.items():
            yield name, _to_torch(value)


def _to_torch(value: np.ndarray) -> torch.Tensor:
    """A tensor on the host; numpy's bfloat16 is unknown to torch and goes through its bits."""
    value = np.array(value, copy=None if value.flags.writeable else True)
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)


def _repack_tied_head(model: torch.nn.Module) -> None:
    """Make the CPU backend's packed copy of a tied head again.

    A tied head owns no weight that the reload could see, so that vLLM 0.32 leaves the copy that
    its CPU matrix product uses as it was: logits of the old head, without an error.
    """
    if not current_platform.is_cpu():
        return
    head = getattr(model, "lm_head", None)
    if head is not None and getattr(head, "quant_method", None) is not None:
        head.quant_method.process_weights_after_loading(head)
