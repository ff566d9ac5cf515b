"""A session file played by arms under every condition: no config, a lock that is frozen by itself, one table (docs/sessions.md).

    from eval.sessions import SessionsConfig, named_arms, run
    run(SessionsConfig(file="my_sessions.jsonl", arms=named_arms(["base", "pinned"], "smollm2")))

The folder holds ``lock.json``, ``arms/<arm>/episodes.jsonl`` (one CaseRecord a line, exact inputs included), ``results.json`` and
``report.md``. The lock's entries are those of the file, the rules and each arm: an arm may join later, what was played stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self

import yaml
from pydantic import Field, ValidationError, model_validator

from envs.chat import ChatML, get_chat
from envs.config import Strict, UserError
from envs.episode import Episode
from envs.managers import MANAGERS, get_manager
from envs.policies.base import Policy
from envs.profiles import MODEL_WINDOW, get_profile
from envs.runs import hash_obj, provenance, write_json_atomic
from envs.session_run import READING, CaseEpisode, CaseRecord, Condition, conditions_of
from envs.sessions import Case, load
from envs.sessions_cli import Script, script_policy
from eval.config import WHERE, Arm, Decoding
from eval.freeze import MODELS, Lock, LockError, backbone_of, read_lock_at, rule_entries, set_aside, tell_change
from eval.player import Job, Played, Sample, play_job
from eval.policies import close, make_policy
from eval.sources import SESSIONS, SESSIONS_SCORE, play_sources, score_sources
from eval.store import Key, Shard, parts, read_arm, read_meta

MODEL_ARMS = {"base": ("core@1", "neutral"), "prompt": ("core@1", "guided"), "plain": ("plain@1", "neutral")}
"""Arms that a model plays, by name: profile and prompt."""
PROFILES = ("core@1", "plain@1")


class CaseArm(Strict):
    """One contestant: a script that knows the case, or any arm of an evaluation under ``core@1`` or ``plain@1``."""

    script: Script | None = None
    arm: Arm | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.script is None) == (self.arm is None):
            raise ValueError("give script or arm, not both")
        if self.arm and (self.arm.profile not in PROFILES or self.arm.policy not in MODELS):
            raise ValueError(
                f"an arm of a session file is a model under {' or '.join(PROFILES)}: the others play generated tasks"
            )
        return self

    @property
    def plain(self) -> bool:
        """Plain history: nothing can be read back."""
        return bool(self.arm and not get_profile(self.arm.profile).managed)


class SessionsConfig(Strict):
    """What a session file is played by, and how. Everything but ``out``, ``batch_size`` and ``reuse_tokens`` goes into the lock."""

    file: str
    arms: dict[str, CaseArm] = Field(min_length=1)
    out: str | None = None
    tokenizer: str = "smollm2"
    """Counts for scripts; a model counts with its own."""
    decoding: Decoding = Decoding()
    budget: int = Field(default=MODEL_WINDOW, ge=1664)
    """Tokens of the model's window: view and reply together."""
    manager_budget: int = Field(default=1536, ge=128)
    """Tokens of the view that managers keep to, unless the arm says its own: the main profile's."""
    batch_size: int = Field(default=8, ge=1)
    reuse_tokens: int = Field(default=30_000, ge=0)

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.out or f"runs/sessions/{Path(self.file).stem}")

    def arm_folder(self, arm: str) -> Path:
        """Where an arm's episodes lie."""
        return self.folder / "arms" / arm

    def view_budget(self, arm: CaseArm) -> int:
        """Largest view of an arm, in tokens."""
        if arm.arm and arm.arm.manager:
            return arm.arm.view_budget or self.manager_budget
        return self.budget - self.decoding.max_new_tokens


def named_arms(names: Sequence[str], model: str | None) -> dict[str, CaseArm]:
    """Arms by what ``--arm`` says: a script, ``base``, ``prompt``, ``plain``, a manager, ``NAME=MODEL`` or ``NAME={fields of Arm}``.

    Raises UserError naming the choices.
    """
    arms: dict[str, CaseArm] = {}
    for text in names or ():
        name, sep, body = text.partition("=")
        if not name.replace("_", "").replace("-", "").isalnum():
            raise UserError(f"--arm {text!r}: arm name {name!r}: use letters, digits, - and _ (it names a folder)")
        if name in arms:
            raise UserError(f"--arm {text!r}: arm {name!r} is given twice: give each its own name, NAME=MODEL")
        try:
            arms[name] = _arm(name, body if sep else None, model)
        except (ValidationError, yaml.YAMLError) as error:
            told = (
                error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
                if isinstance(error, ValidationError)
                else error
            )
            raise UserError(f"--arm {text!r}: {' '.join(str(told).split())}") from None
    return arms


def _arm(name: str, body: str | None, model: str | None) -> CaseArm:
    if body is not None and body.lstrip().startswith("{"):
        return CaseArm(arm=Arm.model_validate(yaml.safe_load(body)))
    if body is None and name in list(Script):
        return CaseArm(script=Script(name))
    manager = name if name in MANAGERS else None
    if body is None and name not in MODEL_ARMS and not manager:
        known = ", ".join([*Script, *MODEL_ARMS, *MANAGERS])
        raise UserError(
            f"--arm {name!r}: no such arm: use one of {known}; NAME=MODEL for another model, or NAME={{policy: hf, …}}"
        )
    model = body or model
    if not model:
        raise UserError(f"--arm {name!r}: needs a model: add --model smollm2, or a model folder")
    profile, prompt = ("plain@1", "neutral") if manager else MODEL_ARMS.get(name, MODEL_ARMS["base"])
    return CaseArm(
        arm=Arm.model_validate({"policy": "hf", "model": model, "profile": profile, "prompt": prompt, "manager": manager})
    )


# ---- the lock -----------------------------------------------------------------------------------------------------------------


def build_lock(config: SessionsConfig, cases: Sequence[Case], *, weights: bool = True) -> Lock:
    """The lock of file, rules and arms as they are now. Without ``weights`` the backbone part stays empty."""
    rules = {
        "sessions": hash_obj(cases),
        "decoding": hash_obj(config.decoding),
        "budget": hash_obj([config.budget, config.manager_budget]),
        **rule_entries(MODEL_ARMS.values()),
        **play_sources(SESSIONS),
        **score_sources(SESSIONS_SCORE),
        **{f"arm.{name}": _arm_hash(config, arm) for name, arm in config.arms.items()},
    }
    backbone: dict[str, str] = {}
    for name, arm in config.arms.items() if weights else ():
        policy, model = (arm.arm.policy, arm.arm.model) if arm.arm else ("script", None)
        parts = backbone_of(policy, model, model or config.tokenizer)
        backbone |= {f"backbone.{name}.{part}": value for part, value in parts.items()}
    stated = {"file": config.file, **config.model_dump(mode="json", include={"arms", "decoding", "budget", "manager_budget"})}
    return Lock(name=Path(config.file).stem, lock=hash_obj([rules, backbone]), rules=rules, backbone=backbone, stated=stated)


def _arm_hash(config: SessionsConfig, arm: CaseArm) -> str:
    rules = rule_entries([(arm.arm.profile, arm.arm.prompt)]) if arm.arm else {}
    told = arm.arm.model_dump(mode="json", exclude=set(WHERE)) if arm.arm else arm.script
    return hash_obj([told, config.view_budget(arm), rules])


def own_part(lock: Lock, arm: str) -> dict[str, str]:
    """The entries that an arm's episodes depend on: all rules, and of the arms its own alone."""
    rules = {k: v for k, v in lock.rules.items() if not k.startswith("arm.") or k == f"arm.{arm}"}
    return {**rules, **{k: v for k, v in lock.backbone.items() if k.startswith(f"backbone.{arm}.")}}


def arm_lock(lock: Lock, arm: str) -> str:
    """Hash of :func:`own_part`: what an arm's ``meta.json`` says it was played under."""
    return hash_obj(own_part(lock, arm))


def freeze(config: SessionsConfig, cases: Sequence[Case], *, new: bool = False) -> Lock:
    """Write the lock, or add the config's arms to the one that stands there. Raises LockError where an entry differs, unless ``new``."""
    path = config.folder / "lock.json"
    now = build_lock(config, cases)
    if path.is_file():
        old = read_lock_at(path)
        before, after = {**old.rules, **old.backbone}, {**now.rules, **now.backbone}
        if changed := tell_change(_beside(before, after), _beside(after, before)):
            if not new:
                raise LockError(
                    f"{path}: {changed}: undo that change, give another --out, or --new (earlier results are kept apart)"
                )
            set_aside(config.folder, old)
        else:
            rules, backbone = {**old.rules, **now.rules}, {**old.backbone, **now.backbone}
            if (rules, backbone) == (old.rules, old.backbone):
                return old
            stated = {**old.stated, "arms": {**old.stated["arms"], **now.stated["arms"]}}
            now = Lock(name=now.name, lock=hash_obj([rules, backbone]), rules=rules, backbone=backbone, stated=stated)
    elif (config.folder / "arms").exists():
        raise LockError(f"{config.folder}: has arms/ but no lock.json: choose another --out, or restore the lock")
    now = now.model_copy(update={"provenance": provenance()})
    write_json_atomic(path, now)
    return now


def _beside(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """The entries of ``one`` without those of arms that ``other`` has not: an arm may join."""
    return {k: v for k, v in one.items() if k in other or not k.startswith(("arm.", "backbone."))}


def check_arm(config: SessionsConfig, lock: Lock, name: str) -> None:
    """Refuse episodes played under another lock. Raises LockError."""
    folder = config.arm_folder(name)
    metas = dict(read_meta(folder))
    for meta in (part / "meta.json" for part in parts(folder)):
        held = meta.parent / "episodes.jsonl"
        if held.exists() and metas.get(meta, {}).get("lock") != arm_lock(lock, name):
            raise LockError(
                f"{meta}: arm {name} was played under another lock: different locks are never compared, give another --out"
            )


# ---- playing ------------------------------------------------------------------------------------------------------------------


def run(config: SessionsConfig, *, shard: str | None = None, new: bool = False) -> tuple[Lock, dict[str, Played]]:
    """Check the whole file, freeze, and play what is owed by every arm.

    Raises DataError (file, line, field) for a bad file before anything is played, LockError where something changed.
    """
    part = Shard.parse(shard) if shard else None
    cases = load(config.file)
    lock = freeze(config, cases, new=new)
    played = {}
    for name in config.arms:
        check_arm(config, lock, name)
        played[name] = play_job(_job(config, lock, cases, name, part))
    return lock, played


def conditions_for(case: Case, arm: CaseArm) -> list[Condition]:
    """What an arm plays of a case: without tools, damage with read-back is damage."""
    return [c for c in conditions_of(case) if not (arm.plain and c in READING)]


def samples_of(config: SessionsConfig, cases: Sequence[Case], name: str, chat: ChatML) -> list[Sample]:
    """Every case under every condition, in order."""
    arm = config.arms[name]
    return [
        Sample((condition, case.id, 0), hash_obj(case), _maker(config, case, condition, arm, chat), _recorder(name))
        for case in cases
        for condition in conditions_for(case, arm)
    ]


def chat_of(config: SessionsConfig, name: str) -> ChatML:
    """The chat writer of an arm."""
    arm = config.arms[name].arm
    return get_chat((arm and arm.model) or config.tokenizer)


def key_of(record: CaseRecord) -> Key:
    """The key of a stored record."""
    return (record.condition, record.case, 0)


def stored(config: SessionsConfig, name: str) -> dict[Key, CaseRecord]:
    """Records of an arm, shards included."""
    return read_arm(config.arm_folder(name), CaseRecord, key_of)


def _job(config: SessionsConfig, lock: Lock, cases: Sequence[Case], name: str, shard: Shard | None) -> Job:
    arm, chat = config.arms[name], chat_of(config, name)
    by_id = {c.id: c for c in cases}
    made: list[Policy] = []

    def policy(batch: Sequence[Sample]) -> Policy:
        if arm.script:
            return script_policy(arm.script, by_id[batch[0].key[1]], chat)
        assert arm.arm
        if not made:
            made.append(make_policy(arm.arm, config, chat, get_profile(arm.arm.profile)))
        return made[0]

    meta = {
        "lock": arm_lock(lock, name),
        "arm": name,
        "settings": arm.model_dump(mode="json"),
        "decoding": config.decoding.model_dump(mode="json"),
    }
    size = 1 if arm.script else config.batch_size  # a script knows one case
    return Job(
        name, config.arm_folder(name), samples_of(config, cases, name, chat), CaseRecord,
        lambda line: (line["condition"], line["case"], 0), policy, size, meta, shard,
        partial(close, made),
    )  # fmt: skip


def _maker(config: SessionsConfig, case: Case, condition: Condition, arm: CaseArm, chat: ChatML) -> Callable[[], Episode]:
    def make() -> Episode:
        manager = get_manager(arm.arm.manager) if arm.arm and arm.arm.manager else None
        prompt = arm.arm.prompt if arm.arm else ""
        budget = config.view_budget(arm)
        return CaseEpisode(case, condition, chat, budget=budget, prompt=prompt, plain=arm.plain, manager=manager)

    return make


def _recorder(name: str) -> Callable[[Episode, str], CaseRecord]:
    def record(episode: Episode, inputs: str) -> CaseRecord:
        assert isinstance(episode, CaseEpisode)
        made = episode.record(name)
        return made.model_copy(update={"trajectory": made.trajectory.model_copy(update={"inputs": inputs})})

    return record


def expected_keys(cases: Sequence[Case], arm: CaseArm) -> list[Key]:
    """What an arm must have played."""
    return [(condition, case.id, 0) for case in cases for condition in conditions_for(case, arm)]


__all__ = ["CaseArm", "SessionsConfig", "arm_lock", "build_lock", "freeze", "named_arms", "run", "samples_of", "stored"]
