"""Shapes of published models, for planning a run before its weights are there.

Loading always reads the model's own `config.json`; nothing here is used for that.

Sources, read in December 2026: the `config.json` of Qwen3-4B, 8B, 14B and 32B as quoted in
citsjtu2020/LLM-Prof (sglang/Model_Config.md); of Qwen3-0.6B and 1.7B the fields in google/tunix
(tunix/models/qwen3/model.py, release 0.1.7); of the R1 distillations the `Qwen2Config` that
transformers 4.48.3 printed, for 7B in VainF/Torch-Pruning (examples/LLMs/readme.md) and for 1.5B
as in google/tunix (tunix/models/qwen2/model.py).
"""

from models.config import ModelConfig


def _qwen3(layers: int, width: int, mlp: int, heads: int, *, tied: bool) -> ModelConfig:
    return ModelConfig(
        vocab_size=151_936,
        num_layers=layers,
        embed_dim=width,
        mlp_dim=mlp,
        num_q_heads=heads,
        num_kv_heads=8,
        head_dim=128,
        tie_embeddings=tied,
        dtype="bfloat16",
        param_dtype="bfloat16",
    )


def _r1_distill_qwen(
    vocab: int, layers: int, width: int, mlp: int, heads: int, kv_heads: int
) -> ModelConfig:
    return ModelConfig(
        vocab_size=vocab,
        num_layers=layers,
        embed_dim=width,
        mlp_dim=mlp,
        num_q_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=128,
        rope_theta=10_000.0,
        qk_norm=False,
        qkv_bias=True,
        max_position=131_072,
        model_type="qwen2",
        dtype="bfloat16",
        param_dtype="bfloat16",
    )


PUBLISHED = {
    "Qwen3-0.6B": _qwen3(28, 1024, 3072, 16, tied=True),
    "Qwen3-1.7B": _qwen3(28, 2048, 6144, 16, tied=True),
    "Qwen3-4B": _qwen3(36, 2560, 9728, 32, tied=True),
    "Qwen3-8B": _qwen3(36, 4096, 12288, 32, tied=False),
    "Qwen3-14B": _qwen3(40, 5120, 17408, 40, tied=False),
    "Qwen3-32B": _qwen3(64, 5120, 25600, 64, tied=False),
    "DeepSeek-R1-Distill-Qwen-1.5B": _r1_distill_qwen(151_936, 28, 1536, 8960, 12, 2),
    "DeepSeek-R1-Distill-Qwen-7B": _r1_distill_qwen(152_064, 28, 3584, 18944, 28, 4),
}
