"""The data card: what the set holds, counted from what was written."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Sequence

from data_gen.build import DataSet
from data_gen.config import DataConfig
from envs.config import dump_config
from envs.trajectory import Trajectory


def actions(trajectory: Trajectory) -> Counter[str]:
    """What the policy's turns did: context tools, ``business``, ``answer``, ``notice``."""
    business = {t.name for t in trajectory.session.tools}
    found: Counter[str] = Counter()
    for inference in trajectory.inferences:
        if inference.kind != "calls":
            found[inference.kind] += 1
        found.update("business" if o.tool in business else o.tool for o in inference.outcomes if o.tool)
    return found


def percentiles(values: Sequence[int]) -> str:
    """Minimum, median, 90th percentile and maximum as text."""
    ordered = sorted(values)
    return (
        " / ".join(str(ordered[min(len(ordered) - 1, int(p * len(ordered)))]) for p in (0.0, 0.5, 0.9, 1.0)) if ordered else "-"
    )


def histogram(trajectories: Sequence[Trajectory]) -> str:
    """A PNG of input lengths by kind, base64."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 3))
    kinds = sorted({t.kind or "" for t in trajectories})
    axis.hist(
        [[i.tokens_in for t in trajectories if t.kind == k for i in t.inferences] for k in kinds],
        bins=24,
        stacked=True,
        label=kinds,
    )
    axis.set_xlabel("tokens of an input")
    axis.set_ylabel("inferences")
    axis.legend()
    figure.tight_layout()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    return base64.b64encode(buffer.getvalue()).decode()


def card(config: DataConfig, data: DataSet) -> str:
    """Markdown with counts, lengths, kinds, actions and the config that made the set."""
    trajectories = data.trajectories
    kinds = Counter(t.kind for t in trajectories)
    lines = [
        "# Data card",
        "",
        "Trajectories of a scripted expert in the ctxctl simulator; synthetic, English, Apache-2.0. An erroneous step stays in context and is",
        "masked (`trained: false`); only right turns carry loss. Splits are made by content hash of the session.",
        "",
        "| kind | episodes | share | inferences | masked steps | input tokens min / median / p90 / max |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for kind, n in sorted(kinds.items(), key=lambda x: str(x[0])):
        mine = [t for t in trajectories if t.kind == kind]
        inferences = [i for t in mine for i in t.inferences]
        lengths = percentiles([i.tokens_in for i in inferences])
        masked = sum(not i.trained for i in inferences)
        lines.append(f"| {kind} | {n} | {n / len(trajectories):.0%} | {len(inferences)} | {masked} | {lengths} |")
    by_family = Counter(t.family for t in trajectories)
    by_variant = Counter(t.variant or "session" for t in trajectories)
    total = sum((actions(t) for t in trajectories), Counter[str]())
    lines += [
        "",
        f"Families: {', '.join(f'{k} {v}' for k, v in sorted(by_family.items()))}. "
        f"Variants: {', '.join(f'{k} {v}' for k, v in sorted(by_variant.items()))}.",
        "",
        f"Policy actions: {', '.join(f'{k} {v}' for k, v in total.most_common())}.",
        "",
        f"RL probes: {len(data.rl_probes)} of {len({p.base for p in data.rl_probes})} bases "
        f"({', '.join(f'{k} {v}' for k, v in sorted(Counter(p.variant for p in data.rl_probes).items()))}).",
        f"Validation probes: {len(data.val_probes)} of {len({p.base for p in data.val_probes})} bases "
        f"({', '.join(f'{k} {v}' for k, v in sorted(Counter(p.variant for p in data.val_probes).items()))}).",
        "",
    ]
    if trajectories:
        lines += [f"![input lengths by kind](data:image/png;base64,{histogram(trajectories)})", ""]
    return "\n".join([*lines, "Made with this config:", "", "```yaml", dump_config(config).rstrip(), "```", ""])
