"""The tables that can be reproduced, a function each.

Of SCOPE-RL Tables 1 to 4, 7, 8 and 13; of TP-GRPO the claim on updates, and Table 4; of GRAFT its
predictions.
"""

from collections.abc import Callable

from jaxrl_scope.reproduce.arms import Arm, Claim, Table

QUALITY = ("accuracy", "greedy", "useful", "first_error", "tokens")
FIRST_HALF = tuple(f"eta_r/{i}-{i + 4}" for i in range(1, 22, 5))
REFINE = ("--stage", "qpr")
# What stage 2 uses, for the arms that refine without it or train on after stage 1.
SAME_BUDGET = ("--updates", "60", "--lr", "4e-4", "--optimizer.schedule", "cosine")


def _train(name: str, key: str, *words: str, preset: str = "world") -> Arm:
    return Arm(name, key, words, preset)


def _verbose(name: str, key: str, *words: str, start: str = "") -> Arm:
    return Arm(name, f"verbose-{key}", words, "world-verbose", start)


def _two_stages(loss: str = "") -> tuple[Arm, ...]:
    """Base, outcome RL, ASR alone and both stages, the last three with 105 updates each."""
    words, tag = (("--loss", loss), f"-{loss}") if loss else ((), "")
    stage_1 = f"asr-45{tag}"
    return (
        Arm("base", "verbose-base", preset="world-verbose"),
        _verbose("outcome", f"outcome{tag}", "--stage", "outcome", "--updates", "105", *words),
        _verbose("ASR", f"asr{tag}", "--stage", "asr", "--updates", "105", *words),
        Arm(
            "ASR, stage 1 of SCOPE",
            f"verbose-{stage_1}",
            ("--stage", "asr", *words),
            "world-verbose",
            shown=False,
        ),
        _verbose("SCOPE", f"scope{tag}", *REFINE, *words, start=f"verbose-{stage_1}"),
    )


def _two_stage_claims(tag: str, source: str) -> tuple[Claim, ...]:
    outcome, asr, scope = (f"verbose-{name}{tag}" for name in ("outcome", "asr", "scope"))
    return (
        Claim("ASR more accurate than outcome RL", ("accuracy",), asr, outcome, source=source),
        Claim("SCOPE more accurate than outcome RL", ("accuracy",), scope, outcome, source=source),
        Claim("SCOPE no less accurate than ASR", ("accuracy",), scope, asr, -0.02, source=source),
        Claim("SCOPE's steps more useful than ASR's", ("useful",), scope, asr, source=source),
        Claim(
            "SCOPE at least 20 % shorter than ASR",
            ("tokens",),
            asr,
            scope,
            0.2,
            relative=True,
            source=f"{source}, up to 27 %",
        ),
    )


def main() -> Table:
    """Table 1: both stages against outcome RL with the same number of updates."""
    eta = Claim(
        "ASR has more groups with a gradient than GRPO, in every 5 of the first 25 updates",
        FIRST_HALF,
        "verbose-asr",
        "verbose-outcome",
        source="section 3",
    )
    return Table(
        title="Outcome RL, ASR and SCOPE-RL at 105 updates each",
        arms=_two_stages(),
        measures=(*QUALITY, "accuracy/k1", "accuracy/k2", "accuracy/k3", "accuracy/k4"),
        claims=(*_two_stage_claims("", "Table 1"), eta),
        paper={
            "verbose-outcome": "55.80 / 56.79 / .606 / 6,936",
            "verbose-asr": "65.86 / 60.73 / .638 / 6,948",
            "verbose-scope": "66.35 / 64.52 / .703 / 5,815",
        },
        note="World `world-verbose`. Paper: Qwen3-8B on DAPO-Math; accuracy % / useful % / "
        "first-error position / tokens.",
    )


def gspo() -> Table:
    """Table 13a: the same with the GSPO loss."""
    return Table(
        title="The same with the GSPO loss",
        arms=_two_stages("gspo"),
        measures=QUALITY,
        claims=_two_stage_claims("-gspo", "Table 13a"),
        paper={
            "verbose-outcome-gspo": "61.60 / 60.89 / .736 / 6,719",
            "verbose-asr-gspo": "66.04 / 58.51 / .697 / 7,460",
            "verbose-scope-gspo": "66.93 / 63.27 / .752 / 5,836",
        },
        note="World `world-verbose`.",
    )


def asr() -> Table:
    """Tables 2 and 8: what stage 1 needs."""
    words = ("--stage", "asr")
    arms = (
        _train("GRPO", "grpo", "--stage", "outcome"),
        _train("No-Decomp", "no-decomp", *words, "--asr.resample", "original"),
        _train("All-Decomp", "all-decomp", *words, "--asr.routing", "all"),
        _train(
            "Offline-Route",
            "offline-route",
            *words,
            "--asr.routing",
            "offline",
            "--asr.hard-labels",
            "k5",
        ),
        _train("scaffold, final reward", "final-only", *words, "--asr.reward", "final"),
        _train("scaffold, independent", "independent", *words, "--asr.reward", "independent"),
        _train("ASR", "asr", *words),
    )
    pairs = (
        ("grpo", "no-decomp", "Table 2"),
        ("grpo", "all-decomp", "Table 2"),
        ("no-decomp", "asr", "Table 2"),
        ("all-decomp", "asr", "Table 2"),
        ("offline-route", "asr", "Table 2"),
        ("final-only", "asr", "Table 8"),
        ("independent", "asr", "Table 8"),
    )
    eta = Claim(
        "ASR has more groups with a gradient than GRPO, in every 5 of the first 25 updates",
        FIRST_HALF,
        "asr",
        "grpo",
        source="section 3",
    )
    paper = ("55.80", "56.89", "58.54", "58.88", "57.63", "60.19", "65.86")
    return Table(
        title="Stage 1 and what it needs, 45 updates each",
        arms=arms,
        measures=("accuracy", "greedy", "accuracy/k4", "accuracy/k5", "eta_r", "route"),
        claims=(*(_more_accurate(arms, high, low, source) for low, high, source in pairs), eta),
        paper=dict(zip((arm.key for arm in arms), paper, strict=True)),
        note="World `world`; offline labels call k5 hard, training uses k4 and k5. Paper: average "
        "accuracy, %.",
    )


def gate() -> Table:
    """Table 8 on a world where later sub-questions can be guessed without the earlier ones."""
    words = ("--stage", "asr")
    arms = tuple(
        Arm(name, f"gate-{key}", extra, "world-gate")
        for name, key, extra in (
            ("GRPO", "grpo", ("--stage", "outcome")),
            ("scaffold, final reward", "final-only", (*words, "--asr.reward", "final")),
            ("scaffold, independent", "independent", (*words, "--asr.reward", "independent")),
            ("ASR", "asr", words),
        )
    )
    pairs = (
        ("gate-independent", "gate-asr"),
        ("gate-final-only", "gate-asr"),
        ("gate-final-only", "gate-independent"),
        ("gate-grpo", "gate-asr"),
    )
    return Table(
        title="The prefix gate: later sub-questions can be guessed",
        arms=arms,
        measures=("accuracy", "greedy", "accuracy/k3", "accuracy/k4", "accuracy/k5", "eta_r"),
        claims=tuple(_more_accurate(arms, high, low, "Table 8") for low, high in pairs),
        paper=dict(
            zip((arm.key for arm in arms), ("55.80", "57.63", "60.19", "65.86"), strict=True)
        ),
        note="World `world-gate`: scaffolds also ask for the parity of intermediate values, right "
        "half of the time by guessing; careful steps are rare on both prompts. Paper: average "
        "accuracy, %.",
    )


def tau() -> Table:
    """Table 7: the routing threshold."""
    arms = (
        _train("tau .25", "tau-25", "--stage", "asr", "--asr.tau", "0.25"),
        _train("tau .5", "asr", "--stage", "asr"),
        _train("tau .75", "tau-75", "--stage", "asr", "--asr.tau", "0.75"),
    )
    return Table(
        title="The routing threshold of stage 1",
        arms=arms,
        measures=("accuracy", "greedy", "eta_r", "route"),
        claims=tuple(_more_accurate(arms, "asr", low, "Table 7") for low in ("tau-25", "tau-75")),
        paper={"tau-25": "63.81", "asr": "65.86", "tau-75": "64.10"},
        note="World `world`. Paper: average accuracy on DAPO-Math, %.",
    )


def qpr() -> Table:
    """Table 3: what stage 2 needs, from one stage-1 checkpoint per seed."""
    start = "verbose-asr-45"
    refine = tuple(
        _verbose(name, key, *REFINE, *words, start=start)
        for name, key, words in (
            (
                "holistic judge",
                "holistic",
                ("--qpr.reward", "holistic", "--qpr.judge.mode", "holistic"),
            ),
            ("overlong penalty", "overlong", ("--qpr.reward", "overlong")),
            ("no positive", "no-positive", ("--qpr.without", "positive")),
            ("no penalty", "no-penalty", ("--qpr.without", "penalty")),
            ("no length", "no-length", ("--qpr.without", "length")),
        )
    )
    arms = (
        Arm("ASR checkpoint", start, ("--stage", "asr"), "world-verbose"),
        _verbose("outcome RL", "control", "--stage", "outcome", *SAME_BUDGET, start=start),
        *refine,
        _verbose("mix-stage, from base", "mix", "--stage", "mix", "--updates", "105"),
        _verbose("SCOPE", "scope", *REFINE, start=start),
    )
    scope = "verbose-scope"

    def fewer(low: str, text: str) -> Claim:
        return Claim(text, ("tokens",), f"verbose-{low}", scope, source="Table 3")

    others = ("holistic", "overlong", "no-positive", "no-penalty", "no-length", "mix")
    return Table(
        title="Stage 2 and what it needs, 60 updates from one ASR checkpoint per seed",
        arms=arms,
        measures=(*QUALITY, "redundant"),
        claims=(
            *(_more_accurate(arms, scope, f"verbose-{low}", "Table 3") for low in others),
            Claim(
                "SCOPE at least 20 % shorter than outcome RL from the same checkpoint",
                ("tokens",),
                "verbose-control",
                scope,
                0.2,
                relative=True,
                source="Table 1",
            ),
            Claim(
                "SCOPE no less accurate than it",
                ("accuracy",),
                scope,
                "verbose-control",
                -0.02,
                source="Table 1",
            ),
            fewer("holistic", "SCOPE shorter than the holistic judge"),
            fewer("no-length", "SCOPE shorter than without the length factor"),
            Claim(
                "SCOPE's steps more useful than without the penalty",
                ("useful",),
                scope,
                "verbose-no-penalty",
                source="Table 3",
            ),
        ),
        paper={
            "verbose-asr-45": "65.86 / 60.73 / .638 / 6,948",
            "verbose-holistic": "63.98 / 64.14 / .707 / 7,277",
            "verbose-overlong": "59.81 / 58.97 / .708 / 6,424",
            "verbose-no-positive": "58.81 / 58.84 / .658 / 4,281",
            "verbose-no-penalty": "60.86 / 61.00 / .751 / 5,328",
            "verbose-no-length": "63.33 / 62.37 / .700 / 7,882",
            "verbose-mix": "60.98 / 65.86 / .727 / 6,518",
            scope: "66.35 / 64.52 / .703 / 5,815",
        },
        note="World `world-verbose`. Concise Prompt (62.53 / 58.69 / .662 / 4,115) cannot be made "
        "here: the tiny model reads no instruction. Paper: accuracy % / useful % / first-error "
        "position / tokens.",
    )


def passk() -> Table:
    """Table 4: whether training narrows what 128 attempts can solve."""
    wide = ("--samples", "128", "--no-step-quality", "--limit", "80")
    arms: list[Arm] = []
    for arm in _two_stages():
        arms.append(Arm(arm.name, arm.key, arm.train, arm.preset, arm.start, shown=False))
        if arm.shown:
            key = f"{arm.key}-128"
            arms.append(Arm(arm.name, key, (), arm.preset, arm.key, wide))
    asr_wide, outcome_wide = "verbose-asr-128", "verbose-outcome-128"
    return Table(
        title="pass@k of the runs of `main`",
        arms=tuple(arms),
        measures=("pass@1", "pass@8", "pass@32", "pass@128"),
        claims=(
            Claim(
                "ASR solves no fewer problems than GRPO in 128 attempts",
                ("pass@128",),
                asr_wide,
                outcome_wide,
                -0.02,
                source="Table 4",
            ),
        ),
        note="World `world-verbose`, 80 of its validation problems, 128 samples each.",
    )


def tp() -> Table:
    """TP-GRPO against GRPO with the same number of updates and problems."""
    judged = ("--stage", "tp", "--eval.every", "9")
    alone = "--tp.only"
    arms = tuple(
        Arm(name, f"backtrack-{key}", (*judged, *words), "world-backtrack")
        for name, key, words in (
            ("GRPO, judged", "grpo", (alone, "correct", "--tp.alpha", "0")),
            ("TP-GRPO", "tp", ()),
            ("right solutions only", "tp-correct", (alone, "correct")),
            ("wrong solutions only", "tp-incorrect", (alone, "incorrect")),
        )
    )
    grpo, source = "backtrack-grpo", "TP-GRPO"
    claims = []
    for arm in arms[1:3]:
        claims += [
            Claim(
                f"{arm.name}: GRPO's final accuracy after 60 % of the updates",
                ("at_60",),
                arm.key,
                grpo,
                versus="at_100",
                source=source,
            ),
            Claim(
                f"{arm.name}: no less accurate at the end",
                ("accuracy",),
                arm.key,
                grpo,
                -0.02,
                source=source,
            ),
            Claim(
                f"{arm.name}: fewer tokens taken back than at the start",
                ("taken_back_start",),
                arm.key,
                arm.key,
                versus="taken_back",
                source=source,
            ),
            Claim(f"{arm.name}: fewer than GRPO's", ("taken_back",), grpo, arm.key, source=source),
        ]
    return Table(
        title="TP-GRPO against GRPO, 45 updates each",
        arms=arms,
        measures=(
            *("at_60", "at_100", "accuracy", "greedy", "tokens"),
            *("taken_back_start", "taken_back", "unused_start", "unused"),
        ),
        claims=tuple(claims),
        note="World `world-backtrack`. at_60: accuracy after 60 % of the updates; taken_back: "
        "tokens of right rollouts in work that they take back themselves; unused: tokens of wrong "
        "rollouts in work that their answer does not use. Process rewards of weight 0 make the "
        "first row GRPO with its rollouts judged.",
        curves=("eval/accuracy", "tp/bad_share/correct", "tp/bad_share/incorrect"),
    )


def graft() -> Table:
    """The four arms of GRAFT and the two comparators, on the same ledger."""
    words = ("--stage", "graft", "--graft.credit")
    arms = tuple(
        Arm(name, f"graft-{credit}", (*words, credit), "code-world-short", evaluate=None)
        for name, credit in (
            ("A (SciWalker)", "A"),
            ("B (A, r + λ r̃)", "B"),
            ("C (A, prefix held)", "C"),
            ("D (B and C)", "D"),
            ("GiGPO", "gigpo"),
            ("BEACON", "beacon"),
        )
    )
    chains = ("pass/all",)
    gains = (
        Claim(
            f"A gains at step {t}",
            (f"pass/t{t}",),
            "graft-A",
            "graft-A",
            versus=f"pass/t{t}_start",
            source="P2 says no" if t >= 3 else "P2 says yes",
        )
        for t in range(1, 5)
    )
    no_worse = (
        Claim(f"D no worse than {low}", chains, "graft-D", f"graft-{low}", -0.02, source="P3")
        for low in ("B", "C")
    )
    better = (
        Claim(f"D passes more chains than {name}", chains, "graft-D", f"graft-{key}")
        for name, key in (("A", "A"), ("GiGPO", "gigpo"), ("BEACON", "beacon"))
    )
    steps = tuple(f"pass/t{t}" for t in range(1, 5))
    return Table(
        title="Step credit in multi-step code, 24 updates each",
        arms=arms,
        measures=("pass/all_start", "pass/all", *steps, "greedy"),
        claims=(*gains, *no_worse, *better),
        note="World `code-world-short`. pass/tN: rollouts of the last 5 updates whose step N "
        "passes on their own prefix, pass/all: all steps; _start: of the first 5 updates; greedy: "
        "whole chains on validation problems.",
        curves=("graft/end_to_end", "graft/step_pass"),
    )


def _more_accurate(arms: tuple[Arm, ...], high: str, low: str, source: str) -> Claim:
    names = {arm.key: arm.name for arm in arms}
    text = f"{names[high]} more accurate than {names[low]}"
    return Claim(text, ("accuracy",), high, low, source=source)


TABLES: dict[str, Callable[[], Table]] = {
    "main": main,
    "asr": asr,
    "gate": gate,
    "tau": tau,
    "qpr": qpr,
    "gspo": gspo,
    "passk": passk,
    "tp": tp,
    "graft": graft,
}
