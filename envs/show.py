"""A stored episode as text: for people who want to see what the policy saw."""

from __future__ import annotations

from envs.scoring import score
from envs.trajectory import Trajectory

RULE = "─" * 100


def _indent(text: str, mark: str) -> str:
    return "\n".join(f"  {mark} {line}" for line in text.split("\n"))


def show_trajectory(trajectory: Trajectory, whole: bool = False) -> str:
    """The episode inference by inference: view (only what is new, unless ``whole``), turn, outcomes, what the view leaves out."""
    t = trajectory
    lines = [
        f"{t.id}  family {t.family}  profile {t.profile}  policy {t.policy}" + (f"  kind {t.kind}" if t.kind else ""),
        f"ended: {t.reason}, {t.tokens} tokens in {len(t.inferences)} inferences"
        + (f"; probe {t.variant}, signal {t.signal}" if t.variant else ""),
    ]
    texts = {(e["seq"], e["sub"]): e for e in t.events}
    for number, (inference, view) in enumerate(zip(t.inferences, t.views(), strict=True), 1):
        kept = 0 if whole else inference.keep
        lines += [
            RULE,
            f"inference {number}  turn {inference.turn + 1}  {inference.tokens_in} tokens in  fill {inference.fill:.0%}",
        ]
        if kept:
            lines.append(f"  … {kept} messages as before")
        elif number > 1:
            lines.append("  (view rewritten)")
        lines += [_indent(m.content, {"system": "S│", "user": "U│", "assistant": "A│"}[m.role]) for m in view[kept:]]
        left = "; ".join(inference.out) or "nothing"
        lines.append(f"  left out: {left}")
        error = f", error: {inference.error}" if inference.error else ""
        masked = "" if inference.trained else f"  (masked in training{error})"
        lines.append(f"  ▶ e{inference.event} {inference.kind}{masked}")
        lines.append(_indent(inference.text or "(empty)", "▶"))
        lines += [_indent(o.text if o.code != "result" else f"e{o.event}: {o.text}", f"← {o.code}:") for o in inference.outcomes]
        if inference.out and inference.kind == "answer":
            hidden = [texts[(n, 0)] for e in inference.out for n in _events(e) if (n, 0) in texts]
            lines += [f"  not in view: e{e['seq']} {e['role']}: {e['text'][:90]}" for e in hidden if e["role"] != "assistant"]
    result = score(t)
    lines += [
        RULE,
        "checks: " + "; ".join(f"turn {c.turn + 1} {c.slot}: {c.verdict}" for c in result.checks) + f"   q = {result.q:.2f}",
    ]
    return "\n".join(lines)


def _events(entry: str) -> range:
    first, _, last = entry.split(" ", 1)[0].partition("-")
    return range(int(first[1:]), int((last or first)[1:]) + 1)
