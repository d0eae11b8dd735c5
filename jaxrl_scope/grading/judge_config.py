"""Choice of a judge by configuration."""

import dataclasses
import logging
from typing import Literal

from jaxrl_scope.grading.judge import FailureGuard, Judge
from jaxrl_scope.grading.judge_openai import JudgeMode, OpenAIJudge, ReplayJudge
from jaxrl_scope.grading.judge_rules import Labeller, RulesJudge
from jaxrl_scope.grading.llm_client import ChatClient, ChatConfig, ReplyCache
from jaxrl_scope.grading.thought_judge import (
    OpenAIThoughtJudge,
    RulesThoughtJudge,
    ThoughtJudge,
    ThoughtLabeller,
)

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class JudgeConfig:
    """Which judge, and what it may cost.

    Attributes:
      kind: "openai" asks a model; "replay" repeats a recorded cache; "rules" labels the built-in
        world exactly.
      chat: the model asked, or whose recording is replayed; unused by "rules".
      mode: one call (training), two calls (evaluation protocol) or one score (holistic ablation).
      cache_dir: folder of replies already paid for; "" keeps none ("openai" only).
      max_failure_share: a run stops once a larger share of the last `failure_window` traces
        could not be judged.
      failure_window: traces looked back on.
    """

    kind: Literal["openai", "replay", "rules"] = "openai"
    chat: ChatConfig = ChatConfig()
    mode: JudgeMode = "one_call"
    cache_dir: str = ""
    max_failure_share: float = 0.2
    failure_window: int = 200

    def __post_init__(self):
        if self.kind == "replay" and not self.cache_dir:
            raise ValueError('kind "replay" repeats a recorded cache: set cache_dir to it')
        FailureGuard(self.max_failure_share, self.failure_window)  # raises on a bad limit

    @property
    def name(self) -> str:
        """What judges, for logs and for telling two judges apart."""
        return "rules" if self.kind == "rules" else self.chat.model


def build_judge(config: JudgeConfig, labeller: Labeller | None = None) -> Judge:
    """The step judge that `config` names; `labeller` is needed by "rules" alone."""
    if config.kind == "rules":
        if labeller is None:
            raise ValueError('judge kind "rules" works on the built-in world only; use "openai"')
        return RulesJudge(labeller)
    if config.kind == "replay":
        return ReplayJudge(config.chat, ReplyCache(config.cache_dir), mode=config.mode)
    return OpenAIJudge(_client(config), mode=config.mode)


def build_thought_judge(
    config: JudgeConfig, labeller: ThoughtLabeller | None = None
) -> ThoughtJudge:
    """The thought judge that `config` names; `labeller` is needed by "rules" alone."""
    if config.kind == "rules":
        if labeller is None:
            raise ValueError('judge kind "rules" works on the built-in world only; use "openai"')
        return RulesThoughtJudge(labeller)
    return OpenAIThoughtJudge(_client(config))


def _client(config: JudgeConfig) -> ChatClient:
    cache = ReplyCache(config.cache_dir) if config.cache_dir else None
    return ChatClient(config.chat, cache=cache, offline=config.kind == "replay")


def warn_if_same_judge(training: JudgeConfig, evaluation: JudgeConfig) -> bool:
    """Warn, and return True, if one model both shapes the policy and measures it.

    The built-in world's rules are exact, so sharing them is no conflict.
    """
    same = training.name == evaluation.name and training.kind != "rules"
    if same:
        _LOG.warning(
            "training and evaluation use the same judge (%s): the measured step quality partly "
            "shows how well the policy learned this judge. Configure another one for evaluation.",
            training.name,
        )
    return same
