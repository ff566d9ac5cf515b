"""Aims held against what was measured: a table for the page of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import model_validator

from envs.config import ConfigError, Strict, nearest


class Aim(Strict):
    """One aim. Its value is a metric of an arm, its difference to another arm (``minus``), or the share of plain history's tokens in
    sessions of a length (``length``) that both finished: one that ended at a limit spent few tokens for a bad reason.
    """

    about: str
    run: str
    arm: str
    metric: str = "tokens"
    minus: str | None = None
    length: str | None = None
    least: float | None = None
    most: float | None = None
    above: float | None = None
    """Like ``least``, but a value at the bound misses it."""
    below: float | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if sum(bound is not None for bound in (self.least, self.most, self.above, self.below)) != 1:
            raise ValueError("an aim has one bound: give least, most, above or below")
        if self.minus and self.length:
            raise ValueError("minus and length are both given: leave one out")
        return self


def value_of(aim: Aim, results: Mapping[str, Any], details: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """``mean``, ``lo``, ``hi`` and ``n`` of an aim; None where nothing was measured. Raises ConfigError for an unknown arm."""
    for arm in (aim.arm, *([aim.minus] if aim.minus else [])):
        if arm not in results["arms"]:
            raise ConfigError(f"aim {aim.about!r}: arm {arm!r}: {nearest(arm, results['arms'])}")
    if aim.length:
        bands = details["crossover"].get("session", {}).get(aim.arm, {}).get("bands", {})
        found: Mapping[str, Any] | None = bands.get(aim.length, {}).get("finished")
        return found
    if aim.minus:
        pairs = [p for p in results["paired"] if p["metric"] == aim.metric and {p["a"], p["b"]} == {aim.arm, aim.minus}]
        if not pairs:
            return None
        pair = pairs[0]
        return pair if pair["a"] == aim.arm else _turned(pair)
    return results["arms"][aim.arm].get(aim.metric)  # type: ignore[no-any-return]  # JSON


def _turned(pair: Mapping[str, Any]) -> dict[str, Any]:
    """The difference the other way round."""
    turned = {k: None if pair[k] is None else -pair[k] for k in ("mean", "lo", "hi")}
    return {**pair, **turned, "lo": turned["hi"], "hi": turned["lo"]}


def verdict(aim: Aim, value: Mapping[str, Any] | None) -> str:
    """Whether an aim is met: by its interval, by its mean alone, or not."""
    if value is None or value["mean"] is None:
        return "not measured"
    _, sign, strict, bound = _bound(aim)
    mean, near = value["mean"], value["lo"] if sign > 0 else value["hi"]

    def holds(end: float) -> bool:
        return sign * (end - bound) > 0 or (not strict and end == bound)

    if near is not None and holds(near):
        return "met"
    return "met by the mean, not by the interval" if holds(mean) else "missed"


def _bound(aim: Aim) -> tuple[str, int, bool, float]:
    """Sign as text, direction, whether the bound itself misses, and the bound."""
    for bound, found in (
        (aim.least, ("≥", 1, False)),
        (aim.most, ("≤", -1, False)),
        (aim.above, (">", 1, True)),
        (aim.below, ("<", -1, True)),
    ):
        if bound is not None:
            return (*found, bound)
    raise AssertionError("an aim has one bound")


def aims_table(aims: Sequence[Aim], runs: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
    """One row an aim; ``runs`` are results and details by name, a run that isn't there counts as not measured."""
    lines = ["| aim | measured (95 %) | n | bound | outcome |", "| --- | ---: | ---: | ---: | --- |"]
    for aim in aims:
        value = value_of(aim, *runs[aim.run]) if aim.run in runs else None
        sign, _, _, limit = _bound(aim)
        bound = f"{sign} {limit:g}"
        whole = aim.metric.endswith("tokens") and not aim.length
        style = ("+" if aim.minus else "") + (",.0f" if whole else ".3f")
        if value is None or value["mean"] is None:
            shown, n = "–", "–"
        else:
            ends = "[–]" if value["lo"] is None or value["hi"] is None else f"[{value['lo']:{style}}, {value['hi']:{style}}]"
            shown, n = f"{value['mean']:{style}} {ends}", str(value["n"])
        lines.append(f"| {aim.about} | {shown} | {n} | {bound} | {verdict(aim, value)} |")
    return "\n".join(lines)
