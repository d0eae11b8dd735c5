"""Which column of a data set holds what: one row of any known layout becomes a `Problem`."""

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from jaxrl_scope.data.problems import Problem, problem_hash
from jaxrl_scope.data.rows import Row, RowError, as_messages, as_text, get_path

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclasses.dataclass(frozen=True)
class Columns:
    """Where the parts of a problem stand in a row.

    A name may reach into nested columns ("reward_model.ground_truth", "prompt.0.content") and may
    list alternatives ("problem|question"): the first one present is read.

    Attributes:
      problem: the problem's text; a list of chat messages is read for its last user message.
      answer: the gold answer.
      id: the row's id; rows without one are named by `problem_hash`.
      source: corpus name.
      difficulty: difficulty label.
      task: verifier mode.
      choices: list of the choices of a multiple-choice problem, already in order.
      wrong_choices: columns of the wrong choices. Where given, `answer` is the text of the right
        one: the choices are shuffled by (seed, id) and the answer becomes the right one's letter.
      answer_mark: the answer is what follows the last such mark in its column ("####" in GSM8K).
      wrapped: the text stands between an instruction paragraph and a reminder paragraph, both of
        which name "Answer:", and these are removed (DAPO-Math).
      default_source: corpus name of rows that give none.
    """

    problem: str = "problem|question|Problem"
    answer: str = "answer|Answer"
    id: str = "id|ID|unique_id"
    source: str = "source|data_source"
    difficulty: str = "difficulty|level"
    task: str = "task"
    choices: str = "choices"
    wrong_choices: tuple[str, ...] = ()
    answer_mark: str = ""
    wrapped: bool = False
    default_source: str = ""


VERL = Columns(
    problem="prompt",
    answer="reward_model.ground_truth",
    id="extra_info.id|extra_info.index|extra_info.problem_id",
    source="data_source",
    difficulty="extra_info.difficulty",
    task="extra_info.task",
    choices="extra_info.choices",
)

# Column names as published by the owners of the data sets on the Hugging Face hub.
PRESETS: Mapping[str, Columns] = {
    "plain": Columns(),
    "verl": VERL,
    # BytedTsinghua-SIA/DAPO-Math-17k: verl rows, every problem repeated many times.
    "dapo-math": dataclasses.replace(VERL, id="extra_info.index", wrapped=True),
    # open-r1/DAPO-Math-17k-Processed: one row a problem, wrapper removed by its authors.
    "dapo-math-processed": Columns(
        problem="prompt", answer="solution", id="extra_info.index", source="data_source"
    ),
    # SynthLabsAI/Big-Math-RL-Verified: no ids; the solve rate of an 8B model is its difficulty.
    "big-math": Columns(difficulty="llama8b_solve_rate", default_source="big-math"),
    # openai/gsm8k.
    "gsm8k": Columns(problem="question", answer_mark="####", default_source="gsm8k"),
    # HuggingFaceH4/MATH-500.
    "math500": Columns(id="unique_id", difficulty="level", default_source="math500"),
    # HuggingFaceH4/aime_2024, Maxwell-Jia/AIME_2024, math-ai/aime25, opencompass/AIME2025.
    "aime": Columns(default_source="aime"),
    # Idavidrein/gpqa.
    "gpqa": Columns(
        problem="Question",
        answer="Correct Answer",
        id="Record ID",
        difficulty="Writer's Difficulty Estimate",
        wrong_choices=("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"),
        default_source="gpqa",
    ),
}


def detect_columns(row: Row) -> Columns:
    """Tell the layout from one row; other layouts than verl, GPQA and plain need a preset."""
    if isinstance(row.get("reward_model"), Mapping) and "prompt" in row:
        return VERL
    if "Correct Answer" in row:
        return PRESETS["gpqa"]
    return PRESETS["plain"]


def resolve_columns(columns: Columns | str | None) -> Columns | None:
    """The mapping that a config or a command line means.

    Args:
      columns: None for "tell from each row"; a mapping as it is; the name of a preset; or settings
        such as "problem=body.text,answer=final" on top of the plain layout, `wrong_choices` with
        "|" between the columns.

    Raises:
      ValueError: unknown preset or field; the message lists the known ones.
    """
    if not isinstance(columns, str):
        return columns
    if "=" in columns:
        return _parse_columns(columns)
    if columns not in PRESETS:
        raise ValueError(f"unknown column preset {columns!r}; known: {', '.join(PRESETS)}")
    return PRESETS[columns]


def _parse_columns(text: str) -> Columns:
    readers = {field.name: str for field in dataclasses.fields(Columns)}
    readers |= {"wrong_choices": lambda v: tuple(v.split("|")), "wrapped": lambda v: v == "true"}
    settings: dict[str, Any] = {}
    for item in text.split(","):
        name, _, value = (part.strip() for part in item.partition("="))
        if name not in readers:
            raise ValueError(
                f"unknown column field {name!r} in {text!r}; known: {', '.join(readers)}"
            )
        settings[name] = readers[name](value)
    return Columns(**settings)


def row_to_problem(row: Row, columns: Columns, *, seed: int = 0) -> Problem:
    """Read one row.

    Rows of the verl layout that other programs wrote carry their final prompt, which is sent as it
    is (`Problem.messages`). Rows that `save_problems` wrote say so in `extra_info.verbatim`.

    Raises:
      RowError: a needed column is missing, empty or of the wrong type.
    """
    text, messages = _read_prompt(row, columns)
    answer = _read_answer(row, columns)
    given_id = _optional(row, columns.id)
    problem = Problem(
        id=given_id or problem_hash(text, answer),
        text=text,
        answer=answer,
        source=_optional(row, columns.source) or columns.default_source,
        difficulty=_optional(row, columns.difficulty),
        task=_optional(row, columns.task) or None,
        choices=_read_choices(row, columns),
        messages=messages,
        meta=_rest(row, columns),
    )
    return _shuffle_choices(problem, row, columns, seed) if columns.wrong_choices else problem


def first_present(row: Row, names: str) -> tuple[str, Any]:
    """The first of the "a|b.c" alternatives that holds something, with its name."""
    for name in names.split("|"):
        value = get_path(row, name) if name else None
        if value is not None:
            return name, value
    return names, None


def _optional(row: Row, names: str) -> str:
    name, value = first_present(row, names)
    is_missing = value is None or value == "" or value != value  # NaN in tables without nulls
    return "" if is_missing else as_text(value, name)


def _read_prompt(row: Row, columns: Columns) -> tuple[str, tuple[dict[str, str], ...] | None]:
    name, value = first_present(row, columns.problem)
    if not isinstance(value, list):
        return as_text(value, name), None
    messages = as_messages(value, name)
    users = [m["content"] for m in messages if m["role"] == "user"]
    if not users:
        raise RowError("holds no message of role 'user'", field=name)
    own_text = get_path(row, "extra_info.problem")
    if columns.wrapped and own_text is None:
        return _unwrap(users[-1], name), None
    verbatim = get_path(row, "extra_info.verbatim")
    text = as_text(users[-1] if own_text is None else own_text, name)
    return text, messages if verbatim or own_text is None else None


def _unwrap(text: str, field: str) -> str:
    """Drop the first and the last paragraph where both of them speak of the answer's format."""
    parts = text.strip().split("\n\n")
    if len(parts) >= 3 and "Answer:" in parts[0] and '"Answer:"' in parts[-1]:
        return as_text("\n\n".join(parts[1:-1]), field)
    return as_text(text, field)


def _read_answer(row: Row, columns: Columns) -> str:
    name, value = first_present(row, columns.answer)
    answer = as_text(value, name)
    if columns.answer_mark:
        _, mark, answer = answer.rpartition(columns.answer_mark)
        if not mark:
            raise RowError(f"holds no {columns.answer_mark!r} before the answer", field=name)
        # GSM8K writes thousands as "1,080".
        answer = re.sub(r"(?<=\d),(?=\d{3}\b)", "", as_text(answer, name))
    return answer


def _read_choices(row: Row, columns: Columns) -> tuple[str, ...] | None:
    name, value = first_present(row, columns.choices)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) < 2:
        raise RowError("expected a list of two or more choices", field=name)
    return tuple(as_text(choice, f"{name}.{index}") for index, choice in enumerate(value))


def _shuffle_choices(problem: Problem, row: Row, columns: Columns, seed: int) -> Problem:
    """Put right and wrong choices in an order that depends on (seed, problem, choice) only."""
    wrong = [as_text(get_path(row, name), name) for name in columns.wrong_choices]
    choices = [problem.answer, *wrong]
    if len(set(choices)) != len(choices):
        raise RowError("two choices are the same text", field=columns.answer)
    # The id names the problem, not its order in the file, so that a subset keeps every order.
    order = sorted(choices, key=lambda text: seeded_rank(seed, f"{problem.id}\x00{text}"))
    return dataclasses.replace(
        problem,
        answer=LETTERS[order.index(problem.answer)],
        choices=tuple(order),
        task="mcq",
        meta={**problem.meta, "answer_text": problem.answer},
    )


def seeded_rank(seed: int, name: str) -> str:
    """A sort key that shuffles names by seed: the same on every machine and library version."""
    return hashlib.sha256(f"{seed}\x00{name}".encode()).hexdigest()


def _rest(row: Row, columns: Columns) -> dict[str, Any]:
    """What no field of `Problem` holds: the other columns, those of `extra_info` at top level."""
    named = [getattr(columns, name) for name in ("problem", "answer", "id", "source")]
    named += [columns.difficulty, columns.task, columns.choices]
    used = {name for names in named for name in names.split("|")}
    used |= {*columns.wrong_choices, "extra_info", "extra_info.problem", "extra_info.verbatim"}
    if columns.problem == VERL.problem:
        used |= {"reward_model", "ability"}
    extra = row.get("extra_info")
    extra = extra if isinstance(extra, Mapping) else {}
    rest = dict(row) | {f"extra_info.{key}": value for key, value in extra.items()}
    # Parquet fills columns that a row lacks with nulls.
    return {
        key.removeprefix("extra_info."): value
        for key, value in rest.items()
        if key not in used and value is not None
    }
