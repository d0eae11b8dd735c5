"""Rows of a data set on the Hugging Face hub, through the optional `datasets` package."""

import re
from collections.abc import Iterator, Mapping

from jaxrl_scope.data.rows import Row

_PART = r"(?::([\w.+-]+(?:\[[^\]]*\])?))?"  # "train", "test[:10%]"
_NAME = re.compile(rf"([\w.-]+/[\w.-]+){_PART}{_PART}")

# What is usually meant by a name alone: column preset, configuration, split.
KNOWN: Mapping[str, tuple[str, str | None, str]] = {
    "BytedTsinghua-SIA/DAPO-Math-17k": ("dapo-math", None, "train"),
    "open-r1/DAPO-Math-17k-Processed": ("dapo-math-processed", "en", "train"),
    "SynthLabsAI/Big-Math-RL-Verified": ("big-math", None, "train"),
    "openai/gsm8k": ("gsm8k", "main", "train"),
    "HuggingFaceH4/MATH-500": ("math500", None, "test"),
    "HuggingFaceH4/aime_2024": ("aime", None, "train"),
    "Maxwell-Jia/AIME_2024": ("aime", None, "train"),
    "math-ai/aime25": ("aime", None, "test"),
    "Idavidrein/gpqa": ("gpqa", "gpqa_diamond", "train"),
}


def is_hub_name(name: str) -> bool:
    """Whether `name` reads "owner/name", "owner/name:split" or "owner/name:config:split"."""
    return bool(_NAME.fullmatch(name)) and not name.endswith((".jsonl", ".parquet", ".json"))


def hub_preset(name: str) -> str | None:
    """The column preset of a well-known data set."""
    known = KNOWN.get(name.partition(":")[0])
    return known[0] if known else None


def read_hub(name: str) -> Iterator[tuple[str, Row]]:
    """Yield ("name:row number", row) of a data set.

    Raises:
      ValueError: the `datasets` package is missing, or the data set cannot be had: no network, no
        such name or split, no access.
    """
    try:
        import datasets  # pyright: ignore[reportMissingImports]  (optional extra)
    except ImportError as error:
        raise ValueError(
            f"{name!r} is no file, and reading it from the Hugging Face hub needs the datasets "
            "package: pip install 'jaxrl-scope[data]'"
        ) from error
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(
            f"{name!r}: expected owner/name, owner/name:split or owner/name:config:split"
        )
    repository, first, second = match.groups()
    _, config, split = KNOWN.get(repository, ("", None, "train"))
    if second:
        config, split = first, second
    elif first:
        split = first
    try:
        table = datasets.load_dataset(repository, config, split=split)
    except (OSError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"cannot read {repository} (configuration {config}, split {split}) from the Hugging "
            f"Face hub: {error}. Without a network, save it as .jsonl or .parquet elsewhere and "
            "name that file."
        ) from error
    for number, row in enumerate(table, start=1):
        yield f"{name}:{number}", dict(row)
