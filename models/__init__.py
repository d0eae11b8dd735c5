"""Qwen3, Qwen2 and Llama decoders as plain pytrees, with Hugging Face import and export."""

from models.config import ModelConfig, RopeScaling, UnsupportedConfigError
from models.hf import load_hf, read_config, save_hf, to_hf_tensors
from models.logprobs import response_logprobs, token_logprobs
from models.partition import model_shardings
from models.qwen3 import Qwen3, abstract_params, forward_hidden, init_params, logits

__all__ = [
    "ModelConfig",
    "Qwen3",
    "RopeScaling",
    "UnsupportedConfigError",
    "abstract_params",
    "forward_hidden",
    "init_params",
    "load_hf",
    "logits",
    "model_shardings",
    "read_config",
    "response_logprobs",
    "save_hf",
    "to_hf_tensors",
    "token_logprobs",
]
