"""What a run trains on, step by step: stages that narrow the tasks by variant, kind, family and length.

The order of the whole run is drawn at once from the seed, so it doesn't hang on where a run was interrupted. Without stages every
task comes once before any comes again.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import Field, field_validator

from envs.config import ConfigError, Strict, nearest
from envs.tasks.base import Probe, Session, Variant
from envs.tasks.probes import KINDS

SESSION = "session"
"""Variant and kind of a full session."""
Task = Probe | Session


class Stage(Strict):
    """Tasks of the steps up to ``until_step``; what isn't given doesn't narrow them."""

    until_step: int | None = Field(None, ge=1)
    """Last step of the stage; None: to the end of the run."""
    variants: list[str] | None = None
    """``present``, ``missing``…, and ``session`` for full sessions."""
    kinds: list[str] | None = None
    """Kinds of base (``static``, ``changed``…), and ``session``."""
    families: list[str] | None = None
    min_turns: int = Field(1, ge=1)
    """User turns of the script, those of a probe's frozen prefix included."""
    max_turns: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=1)
    """Tokens of the script: its user turns and the results of the calls that they need."""

    @field_validator("variants", "kinds")
    @classmethod
    def _known(cls, value: list[str] | None, info: Any) -> list[str] | None:
        names = {*(get_args(Variant) if info.field_name == "variants" else KINDS), SESSION}
        for name in value or ():
            if name not in names:
                raise ValueError(f"no {info.field_name[:-1]} is called {name!r}: {nearest(name, names)}")
        return value

    def takes(self, task: Task, count: Callable[[str], int]) -> bool:
        """Whether a task belongs to the stage; ``count`` gives the tokens of a text."""
        script, variant = (task.session, task.variant) if isinstance(task, Probe) else (task, SESSION)
        kind = str(script.knobs.get("probe", "")) if isinstance(task, Probe) else SESSION
        given = ((self.variants, variant), (self.kinds, kind), (self.families, script.family))
        if any(names is not None and name not in names for names, name in given):
            return False
        turns = len(script.turns)
        if turns < self.min_turns or (self.max_turns is not None and turns > self.max_turns):
            return False
        return self.max_tokens is None or script_tokens(script, count) <= self.max_tokens


def script_tokens(session: Session, count: Callable[[str], int]) -> int:
    """Tokens of a session's user turns and of the results of the calls that they need."""
    texts = [turn.text for turn in session.turns]
    texts += [session.responses.get(call, "") for turn in session.turns for call in turn.calls]
    return sum(count(text) for text in texts)


@dataclass(frozen=True, slots=True)
class Plan:
    """Tasks in the order of their use, ``groups`` a step, and for each stage its last step and its first and last place."""

    tasks: list[Any]
    stages: list[tuple[int, range]]

    def stage_of(self, step: int) -> int:
        """Number of the stage of a step (both from 1)."""
        return next((i for i, (last, _) in enumerate(self.stages, start=1) if step <= last), len(self.stages))

    def pool(self, step: int) -> range:
        """Places in ``tasks`` that belong to the stage of a step."""
        return self.stages[self.stage_of(step) - 1][1]


def make_plan(
    tasks: Sequence[Task], stages: Sequence[Stage], *, steps: int, groups: int, seed: int, count: Callable[[str], int]
) -> Plan:
    """The tasks of a run of ``steps`` steps with ``groups`` groups each. Raises ConfigError for a stage without tasks."""
    if not stages:
        order = draw(tasks, steps * groups, seed)
        return Plan(order, [(steps, range(len(order)))])
    plan = Plan([], [])
    done = 0
    for number, stage in enumerate(stages, start=1):
        last = min(steps, stage.until_step or steps)
        pool = [task for task in tasks if stage.takes(task, count)]
        if not pool:
            raise ConfigError(f"curriculum: stage {number} takes none of the {len(tasks)} tasks: widen it, or add such tasks")
        start = len(plan.tasks)
        plan.tasks.extend(draw(pool, max(0, last - done) * groups, f"{seed}/stage {number}"))
        plan.stages.append((last, range(start, len(plan.tasks))))
        done = max(done, last)
    return plan


def check_stages(stages: Sequence[Stage], steps: int) -> None:
    """Raise ValueError unless the stages follow each other and reach the last step."""
    ends = [stage.until_step or steps for stage in stages]
    if any(b <= a for a, b in itertools.pairwise(ends)):
        raise ValueError(f"stages end at steps {', '.join(map(str, ends))}: each must end after the one before it")
    if ends and ends[-1] < steps:
        raise ValueError(f"the last stage ends at step {ends[-1]} of {steps}: leave its until_step out")


def draw(items: Sequence[Any], count: int, seed: int | str) -> list[Any]:
    """``count`` items in a seeded order that takes each once before any comes again."""
    rng = random.Random(f"order {seed}")
    out: list[Any] = []
    while len(out) < count:
        out += rng.sample(list(items), len(items))
    return out[:count]
