"""Text of the prompts, and their token ids through the tokenizer's chat template."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxrl_scope.data.problems import Problem, Scaffold

INSTRUCTION = "Reason step by step, and give the final answer inside \\boxed{}."
CHOICE_INSTRUCTION = (
    "Reason step by step, and give the letter of the right choice inside \\boxed{}."
)
SCAFFOLD_INSTRUCTION = (
    "Solve the questions below in the order in which they stand, in one response. Each question "
    "may need what you found in the ones before it, and the main question comes last. When you "
    "have answered a question, write the answer alone on a line under its label, exactly like this:"
)

Messages = Sequence[Mapping[str, str]]


def problem_text(problem: Problem) -> str:
    """The problem's text, followed by its lettered choices if it has any."""
    if not problem.choices:
        return problem.text
    lines = [f"({chr(ord('A') + i)}) {choice}" for i, choice in enumerate(problem.choices)]
    return problem.text + "\n\n" + "\n".join(lines)


def original_messages(
    problem: Problem,
    *,
    instruction: str = INSTRUCTION,
    choice_instruction: str = CHOICE_INSTRUCTION,
    system: str | None = None,
) -> list[dict[str, str]]:
    """Chat messages of the original prompt; `problem.messages`, if any, as they are."""
    if problem.messages is not None:
        return [dict(message) for message in problem.messages]
    instruction = choice_instruction if problem.choices else instruction
    return _messages("\n\n".join(filter(None, (problem_text(problem), instruction))), system)


def scaffold_messages(
    scaffold: Scaffold,
    *,
    instruction: str = SCAFFOLD_INSTRUCTION,
    system: str | None = None,
) -> list[dict[str, str]]:
    """Chat messages of the scaffolded prompt: ordered sub-questions, the main question, the labels.

    Only the questions are read, never the answers. `scaffold.messages` as they are where the file
    has them.
    """
    if scaffold.messages is not None:
        return [dict(message) for message in scaffold.messages]
    labels = answer_labels(scaffold.num_sub)
    form = "\n".join(f"{label} \\boxed{{...}}" for label in labels)
    names = [f"Sub-question {i}:" for i in range(1, scaffold.num_sub + 1)] + ["Main question:"]
    questions = (*scaffold.questions, scaffold.main_question)
    body = "\n\n".join(f"{name} {text}" for name, text in zip(names, questions, strict=True))
    head = f"{instruction}\n{form}\n\n" if instruction else ""
    return _messages(head + body, system)


def answer_labels(num_sub: int) -> list[str]:
    """The labels that the verifier reads: [SUB-1 ANSWER] ... [SUB-m ANSWER], [MAIN ANSWER]."""
    return [f"[SUB-{i} ANSWER]" for i in range(1, num_sub + 1)] + ["[MAIN ANSWER]"]


def _messages(content: str, system: str | None) -> list[dict[str, str]]:
    head = [{"role": "system", "content": system}] if system else []
    return [*head, {"role": "user", "content": content}]


class PromptBuilder:
    """Prompt ids of problems and scaffolds.

    The rendered chat is tokenized once, here; everything later (sampler, trainer, caches) passes
    these ids on, because decoding and encoding again need not give the same ids.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        instruction: str = INSTRUCTION,
        choice_instruction: str = CHOICE_INSTRUCTION,
        scaffold_instruction: str = SCAFFOLD_INSTRUCTION,
        system: str | None = None,
        thinking: bool | None = None,
    ) -> None:
        """Check that the tokenizer can do what is asked.

        Args:
          tokenizer: a Hugging Face tokenizer with a chat template.
          instruction: what follows a problem; "" for the bare problem.
          choice_instruction: the same for multiple-choice problems.
          scaffold_instruction: what precedes the questions of a scaffold, followed by the list of
            labels; "" for the bare questions.
          system: system message; None for none (the template may still add its own).
          thinking: switch of templates that have one (Qwen3's `enable_thinking`); None leaves the
            template's default.

        Raises:
          ValueError: the tokenizer has no chat template, or `thinking` is set and the template has
            no such switch (it would be ignored without a word).
        """
        template = getattr(tokenizer, "chat_template", None)
        if not template:
            raise ValueError(
                "the tokenizer has no chat template: set tokenizer.chat_template, or use the "
                "tokenizer of a chat model"
            )
        if thinking is not None and "enable_thinking" not in str(template):
            raise ValueError(
                f"thinking={thinking}, but the tokenizer's chat template has no enable_thinking "
                "switch; use thinking=None"
            )
        self._tokenizer = tokenizer
        self._template_args = {} if thinking is None else {"enable_thinking": thinking}
        self._instruction = instruction
        self._choice_instruction = choice_instruction
        self._scaffold_instruction = scaffold_instruction
        self._system = system

    def original(self, problem: Problem) -> np.ndarray:
        """[p] int32 ids of the original prompt, ready for the response to follow."""
        return self.encode(
            original_messages(
                problem,
                instruction=self._instruction,
                choice_instruction=self._choice_instruction,
                system=self._system,
            )
        )

    def scaffold(self, scaffold: Scaffold) -> np.ndarray:
        """[p] int32 ids of the scaffolded prompt."""
        return self.encode(
            scaffold_messages(scaffold, instruction=self._scaffold_instruction, system=self._system)
        )

    def encode(self, messages: Messages) -> np.ndarray:
        """[p] int32 ids of a chat, generation prompt included.

        Raises:
          ValueError: the template renders the chat to no token at all.
        """
        ids = self._tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
            **self._template_args,
        )
        if not len(ids):
            raise ValueError(f"the chat template renders {messages!r} to no token")
        return np.asarray(ids, np.int32)
