"""Figures of the GRAFT diagnosis and of trained arms as text."""

from collections.abc import Mapping, Sequence

from jaxrl_scope.evaluate.graft_diagnosis import Rate, StepFigures


def diagnosis_table(figures: Sequence[StepFigures]) -> str:
    """One line per step number."""
    head = "t      n   prefix holds      step passes       std across/within  |A| 10/50/90 %   "
    lines = [f"{head} eps != 0: interface/convention/local   NA"]
    for entry in figures:
        quantiles = "/".join(f"{value:.2f}" for value in entry.advantage)
        kinds = "/".join(f"{r.share:.3f}" for kind, r in entry.residual.items() if kind != "any")
        lines.append(
            f"{entry.step} {entry.prefix_ok.count:6,}   {_rate(entry.prefix_ok)} "
            f"{_rate(entry.passed)}  {entry.std_across:.3f}/{entry.std_within:.3f} "
            f"(n={entry.num_within})  {quantiles}   {entry.residual['any'].share:.3f}: {kinds}"
            f"   {entry.na.share:.3f}"
        )
    return "\n".join(lines)


def arms_table(arms: Mapping[str, Mapping[str, Sequence[Rate]]], last: int) -> str:
    """Step pass rates (r, own prefix) by t at the start and the end of each arm."""
    lines = [f"step pass rate on the own prefix by t, 95 %, first and last {last} updates"]
    for arm, parts in arms.items():
        for when, place in (("first", 0), ("last", 1)):
            cells = "  ".join(_rate(value) for value in parts[when])
            lines.append(
                f"{arm:8} {when:5}  {cells}  all steps {_rate(parts['end_to_end'][place])}"
            )
        counts = " ".join(f"t{t}={value.count}" for t, value in enumerate(parts["last"], start=1))
        lines.append(f"{'':8} trajectories: {counts}")
    return "\n".join(lines)


def cost_line(cost: Mapping[str, float]) -> str:
    """Measured and projected cost of executions."""
    measured = f"{cost['executions']:,.0f} executions, {1e3 * cost['seconds_per_execution']:.1f} ms"
    one, four = cost["projected_hours_one_arm"], cost["projected_hours_four_arms"]
    return (
        f"{measured} each; {cost['projected_executions_per_arm']:,.0f} for an arm of the published "
        f"scale: {one:.2f} h with {cost['workers']:.0f} workers, four arms {four:.2f} h"
    )


def _rate(value: Rate) -> str:
    return f".{round(1000 * value.share):03d} [{value.low:.2f} {value.high:.2f}]".replace(
        ".1000", "1.000"
    )
