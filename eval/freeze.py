"""The lock: what an evaluation depends on, hashed before anything is played.

``lock.json`` has a *rules* part (probes, sessions, task families, profiles with their limits and tool syntax, prompts, renderer,
parser, chat and scorer sources, decoding, hypotheses, metric and rules of exclusion…) and a *backbone* part (weights, tokenizer
and chat template of every model arm, sources of the scripted ones). Each entry is one hash, so a mismatch can name what changed.
Results of different locks are never compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from envs.chat import END, START, get_chat
from envs.config import UserError, dump_config
from envs.hashes import tokenizer_hash
from envs.profiles import COMPACT_LINES, get_profile, prompt_hash
from envs.runs import hash_obj, provenance, read_json, read_jsonl, write_json_atomic, write_text_atomic
from envs.tasks.base import Probe, Session
from eval.config import WHERE, EvalConfig, check_split
from eval.power import statement
from eval.sources import files_hash, play_sources, policy_files, prompt_files, score_sources, task_sources

SCRIPTS = ("envs.policies.scripted", "envs.policies.flawed", "envs.policies.unified", "envs.policies.sessions")
MODELS = {
    "hf": ("envs.policies.hf",),
    "openai": ("envs.policies.openai", "envs.policies.vllm"),
    "vllm": ("envs.policies.vllm",),
}
"""What the policies that ask a model are made of."""
PLAYED = ("source.play.", "source.tasks.", "profile.", "limits.", "tool_syntax.", "prompt.", "chat.")
"""Rules that decide what is played and no more: stored episodes are scored without them."""
NAMED = 4
"""Changed entries that an error names."""
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".gguf")
OWN_FILES = (
    "arms",
    "scores.jsonl",
    "details.json",
    "results.json",
    "report.html",
    "report.md",
    "episodes.html",
    "export",
    "eval.yaml",
    "lock.json",
)
TEXTS = ("hypotheses", "primary_metric", "selection", "exclusion", "stopping", "diagnostic")


class LockError(UserError):
    """What is about to be played or scored is not what was frozen; one line that names the entry and the remedy."""


class Lock(BaseModel):
    """The frozen evaluation. ``rules`` and ``backbone`` map an entry to its SHA-256; ``lock`` is the hash over both."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    v: int = 1
    name: str
    lock: str
    rules: dict[str, str]
    backbone: dict[str, str]
    stated: dict[str, Any]
    """The frozen words and settings in clear: split, hypotheses, metric, decoding, arms…"""
    provenance: dict[str, Any] = {}

    @property
    def short(self) -> str:
        return self.lock[:12]


def freeze(config: EvalConfig, *, new: bool = False) -> Lock:
    """Write ``<out>/lock.json``; nothing happens if it already says the same.

    Raises LockError if another lock stands there, unless ``new``: then its lock, episodes and results are moved to
    ``<out>/earlier/<lock>`` and the new lock is written.
    """
    path = config.folder / "lock.json"
    lock = build_lock(config)
    if path.is_file():
        old = read_lock(config)
        changed = tell_change({**old.rules, **old.backbone}, {**lock.rules, **lock.backbone})
        if changed is None:
            return old
        if not new:
            raise LockError(f"{path}: {changed}: undo that change, or freeze again with --new (earlier results are kept apart)")
        set_aside(config.folder, old)
    elif (config.folder / "arms").exists():
        raise LockError(
            f"{config.folder}: has arms/ but no lock.json: choose another out, or restore the lock they were played under"
        )
    write_text_atomic(config.folder / "eval.yaml", dump_config(config, without={"references", "plain"} - config.model_fields_set))
    lock = lock.model_copy(update={"provenance": provenance()})
    write_json_atomic(path, lock)
    return lock


def read_lock(config: EvalConfig) -> Lock:
    """The lock of the run folder. Raises LockError if there is none."""
    path = config.folder / "lock.json"
    if not path.is_file():
        raise LockError(f"{path}: nothing is frozen yet: run the freeze command with the same config first")
    return read_lock_at(path)


def read_lock_at(path: Path) -> Lock:
    """The lock of a file. Raises LockError if it is no lock of this version, DataError if there is none."""
    try:
        return Lock.model_validate(read_json(path))
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"])) or "(the object)"
        raise LockError(f"{path}: {field}: not a lock of this version: freeze again with --new") from None


def check_play(config: EvalConfig) -> Lock:
    """The lock, if everything that playing depends on is as frozen. Raises LockError."""
    return _check(config, lambda lock: {**lock.rules, **lock.backbone}, build_lock(config))


def check_score(config: EvalConfig) -> Lock:
    """The lock, if everything that scoring depends on is as frozen; needs no model. Raises LockError."""

    return _check(config, score_part, build_lock(config, weights=False))


def score_part(lock: Lock) -> dict[str, str]:
    """The entries that scores depend on, once the episodes are stored."""
    return {name: value for name, value in lock.rules.items() if not name.startswith(PLAYED)}


def build_lock(config: EvalConfig, *, weights: bool = True) -> Lock:
    """The lock of the files as they are now. Without ``weights`` the backbone part stays empty."""
    probes, sessions = load_samples(config)
    hashed = cache(backbone_of)  # for this call only: a folder of weights may be written again later
    rules = {
        "probes": hash_obj([hash_obj(p) for p in probes]),
        "sessions": hash_obj([hash_obj(s) for s in sessions]),
        "split": hash_obj(config.split),
        "decoding": hash_obj(config.decoding),
        "bootstrap": hash_obj(config.bootstrap),
        "comparison": hash_obj([config.references, config.plain, config.inference]),
        "repeats": hash_obj(config.repeats),
        **{f"text.{name}": hash_obj(getattr(config, name)) for name in TEXTS},
        # Whose weights act is the backbone's part: the same rules on two models differ there alone.
        **{
            f"arm.{name}": hash_obj(arm.model_dump(mode="json", exclude={*WHERE, "model", "served_model"}))
            for name, arm in config.arms.items()
        },
        **rule_entries({(arm.rules.name, arm.prompt) for arm in config.arms.values()}),
        **play_sources(),
        **task_sources(),
        **score_sources(),
    }
    backbone: dict[str, str] = {}
    for name, arm in config.arms.items() if weights else ():
        parts = hashed(arm.policy, arm.model, arm.model or config.tokenizer)
        backbone |= {f"backbone.{name}.{part}": value for part, value in parts.items()}
        backbone |= {f"backbone.{name}.model": hash_obj([arm.model, arm.served_model])} if arm.policy in MODELS else {}
    stated = config.model_dump(mode="json", exclude={"name", "out", "batch_size", "reuse_tokens", "worst"})
    stated["power"] = _power(config, probes, sessions)
    return Lock(name=config.name, lock=hash_obj([rules, backbone]), rules=rules, backbone=backbone, stated=stated)


def load_samples(config: EvalConfig) -> tuple[list[Probe], list[Session]]:
    """The config's probes and sessions. Raises DataError, and ConfigError for held-out families under another split."""
    probes = read_jsonl(config.probes, model=Probe) if config.probes else []
    sessions = read_jsonl(config.sessions, model=Session) if config.sessions else []
    for path, items in ((config.probes, probes), (config.sessions, sessions)):
        seen: set[str] = set()
        for item in items:
            if item.id in seen:
                raise UserError(f"{path}: id {item.id!r} stands there twice: give every line its own id")
            seen.add(item.id)
    if not probes and not sessions:
        raise UserError(f"{config.probes or config.sessions}: no line to play: make the file again")
    check_split(config, {*(p.family for p in probes), *(s.family for s in sessions)})
    return probes, sessions


def rule_entries(used: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Profiles with their limits and tool syntax, prompts, and the chat format, of every ``(profile, prompt)`` that is played."""
    used = sorted(set(used))
    entries = {"chat.format": hash_obj([START, END])}
    for name in dict.fromkeys(profile for profile, _ in used):
        profile = get_profile(name)
        limits = {
            field: value
            for field, value in asdict(profile).items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        tools = [[tool, COMPACT_LINES.get(tool, "")] for tool in profile.tools]
        entries[f"profile.{name}"] = profile.hash
        entries[f"limits.{name}"] = hash_obj(limits)
        entries[f"tool_syntax.{name}"] = hash_obj([profile.syntax, profile.position_check, tools])
    for name, prompt in used:
        entries[f"prompt.{name}.{prompt}"] = prompt_hash(prompt, get_profile(name).managed, get_profile(name).syntax)
    return {**entries, "prompt.maintenance": prompt_hash("maintenance"), **prompt_files(prompt for _, prompt in used)}


def backbone_of(policy: str, model: str | None, tokenizer: str) -> dict[str, str]:
    """Hashes of what acts in an arm: tokenizer and source, and the weights of a model, where there is one.

    Of a served model that is the folder that the config names; no lock can tell what the server has loaded.
    """
    files = policy_files(MODELS.get(policy, SCRIPTS))
    hashes = {"source": files_hash(files), "tokenizer": _tokenizer_hash(tokenizer), "chat_template": _template_hash(tokenizer)}
    return {"weights": _weights_hash(model), **hashes} if model else hashes


def _power(config: EvalConfig, probes: Sequence[Probe], sessions: Sequence[Session]) -> str:
    """What difference these data can show, said before any is seen: paired, one pair a base of the primary metric."""
    bases = len(
        {p.base for p in probes if p.variant != "present" and p.twin} or {s.id for s in sessions} or {p.base for p in probes}
    )
    rules = config.inference
    told = statement(bases, discordance=rules.discordance, margin=rules.margin, power_wanted=rules.power)
    return f"{len(probes)} probes and {len(sessions)} sessions; {told}"


def _check(config: EvalConfig, parts: Callable[[Lock], dict[str, str]], now: Lock) -> Lock:
    lock = read_lock(config)
    changed = tell_change(parts(lock), parts(now))
    if changed:
        raise LockError(f"{config.folder / 'lock.json'}: {changed}: undo that change, or freeze again with --new and play again")
    return lock


def changed_entries(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Names of the entries that differ between two locks' parts, in their order."""
    return [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]


def tell_change(old: Mapping[str, str], new: Mapping[str, str], since: str = "since the freeze") -> str | None:
    """What differs, in words: the first entry with both hashes, the next by name; None where nothing does."""
    names = changed_entries(old, new)
    if not names:
        return None
    name, others = names[0], names[1:NAMED]
    before, after = (side[name][:8] if name in side else "absent" for side in (old, new))
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    more = f" (and {', '.join(others)}{rest})" if others else ""
    return f"{name} changed {since}, {before} -> {after}{more}"


def set_aside(folder: Path, old: Lock) -> None:
    """Move a lock, its episodes and its results to ``<folder>/earlier/<lock>``."""
    number, target = 1, folder / "earlier" / old.short
    # The lock goes last: a folder without one is a move that was killed, and is gone on with.
    while (target / "lock.json").exists():
        number += 1
        target = folder / "earlier" / f"{old.short}-{number}"
    target.mkdir(parents=True, exist_ok=True)
    for name in OWN_FILES:
        if (item := folder / name).exists():
            item.rename(target / name)


def _weights_hash(model: str) -> str:
    """Hash over weight and config files, an adapter's base model included. Large files are read in a stream."""
    folder = _folder(model)
    files = [p for p in folder.iterdir() if p.suffix in WEIGHT_SUFFIXES or p.name in ("config.json", "generation_config.json")]
    if not any(p.suffix in WEIGHT_SUFFIXES for p in files):
        raise UserError(
            f"model {model!r}: no weights (*.safetensors, *.bin) in {folder}: name the folder that save_pretrained wrote"
        )
    adapter = folder / "adapter_config.json"
    if not adapter.is_file():
        return files_hash(files)
    base = json.loads(adapter.read_text(encoding="utf-8")).get("base_model_name_or_path") or ""
    return hash_obj([files_hash([*files, adapter]), _weights_hash(base)])


def _tokenizer_hash(model: str) -> str:
    """Hash of the tokenizer that the arm will count and write with."""
    chat = get_chat(model)
    return hash_obj([tokenizer_hash(chat), chat.tokenizer.special_tokens_map])


def _template_hash(model: str) -> str:
    """Hash of the chat template that the tokenizer brings: what a server would write the conversation with."""
    return hash_obj(getattr(get_chat(model).tokenizer, "chat_template", None))


def _folder(model: str) -> Path:
    from envs.policies.smollm2 import resolve_model

    source = Path(resolve_model(model))
    if source.is_dir():
        return source
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(str(source)))
