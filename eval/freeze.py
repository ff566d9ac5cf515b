"""The lock: what an evaluation depends on, hashed before anything is played.

``lock.json`` has a *rules* part (probes, sessions, profiles, prompts, renderer, parser, chat and scorer sources, decoding,
hypotheses, metric and rules of exclusion…) and a *backbone* part (weights and tokenizer of every model arm, sources of the
scripted ones). Each entry is one hash, so a mismatch can name what changed. Results of different locks are never compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

import envs
from envs.chat import get_chat
from envs.config import UserError, dump_config
from envs.hashes import SOURCES
from envs.profiles import get_profile, prompt_hash
from envs.runs import hash_obj, provenance, read_json, read_jsonl, write_json_atomic, write_text_atomic
from envs.tasks.base import Probe, Session
from eval.config import Arm, EvalConfig, check_split

ENVS = Path(envs.__file__).parent
EVAL = Path(__file__).parent
PLAY_SOURCES = SOURCES
SCORE_SOURCES = (
    "scoring", "answers", "conduct", "fidelity", "spending", "truth", "text", "trajectory", "ledger", "measures", "stats",
)  # fmt: skip
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".gguf")
OWN_FILES = ("arms", "scores.jsonl", "details.json", "results.json", "report.html", "report.md", "eval.yaml", "lock.json")
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
        changed = _first_change({**old.rules, **old.backbone}, {**lock.rules, **lock.backbone})
        if changed is None:
            return old
        if not new:
            raise LockError(f"{path}: {changed}: undo that change, or freeze again with --new (earlier results are kept apart)")
        _set_aside(config, old)
    elif (config.folder / "arms").exists():
        raise LockError(
            f"{config.folder}: has arms/ but no lock.json: choose another out, or restore the lock they were played under"
        )
    write_text_atomic(config.folder / "eval.yaml", dump_config(config))
    write_json_atomic(path, lock.model_copy(update={"provenance": provenance()}))
    return lock


def read_lock(config: EvalConfig) -> Lock:
    """The lock of the run folder. Raises LockError if there is none."""
    path = config.folder / "lock.json"
    if not path.is_file():
        raise LockError(f"{path}: nothing is frozen yet: run the freeze command with the same config first")
    return Lock.model_validate(read_json(path))


def check_play(config: EvalConfig) -> Lock:
    """The lock, if everything that playing depends on is as frozen. Raises LockError."""
    return _check(config, lambda lock: {**lock.rules, **lock.backbone}, build_lock(config))


def check_score(config: EvalConfig) -> Lock:
    """The lock, if everything that scoring depends on is as frozen; needs no model. Raises LockError."""

    def parts(lock: Lock) -> dict[str, str]:
        return {name: value for name, value in lock.rules.items() if not name.startswith(("source.play.", "profile.", "prompt."))}

    return _check(config, parts, build_lock(config, weights=False))


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
        "comparison": hash_obj([config.references, config.plain]),
        **{f"text.{name}": hash_obj(getattr(config, name)) for name in TEXTS},
        **{f"arm.{name}": hash_obj(arm) for name, arm in config.arms.items()},
        **{f"profile.{p.name}": p.hash for p in _used(config, lambda arm: arm.rules)},
        **{
            f"prompt.{p}.{n}": prompt_hash(n, get_profile(p).managed, get_profile(p).syntax)
            for p, n in _used(config, lambda arm: (arm.profile, arm.prompt))  # no safeguard changes the prompt
        },
        "prompt.maintenance": prompt_hash("maintenance"),
        **{f"source.play.envs/{name}.py": _file_hash(path) for name in PLAY_SOURCES if (path := ENVS / f"{name}.py").is_file()},
        **{f"source.score.envs/{name}.py": _file_hash(path) for name in SCORE_SOURCES if (path := ENVS / f"{name}.py").is_file()},
        "source.score.envs/tasks/base.py": _file_hash(ENVS / "tasks" / "base.py"),
        **{f"source.score.eval/{name}.py": _file_hash(EVAL / f"{name}.py") for name in ("metrics", "counts", "strata")},
    }
    if any(arm.manager for arm in config.arms.values()):
        rules |= {f"source.play.envs/managers/{p.name}": _file_hash(p) for p in sorted((ENVS / "managers").glob("*.py"))}
    backbone: dict[str, str] = {}
    for name, arm in config.arms.items() if weights else ():
        backbone |= {f"backbone.{name}.{part}": value for part, value in hashed(arm.model, arm.model or config.tokenizer).items()}
    stated = config.model_dump(mode="json", exclude={"name", "out", "batch_size", "reuse_tokens", "worst"})
    stated["power"] = _power(probes, sessions)
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


def backbone_of(model: str | None, tokenizer: str) -> dict[str, str]:
    """Hashes of what acts in an arm: tokenizer and source, and the weights of a model (``None``: a scripted policy)."""
    sources = ("hf", "base") if model else ("expert", "knowledge", "rulings", "scripted", "flawed", "unified", "reading", "base")
    files = [path for name in sources if (path := ENVS / "policies" / f"{name}.py").is_file()]
    hashes = {"source": _files_hash(files), "tokenizer": _tokenizer_hash(tokenizer)}
    return {"weights": _weights_hash(model), **hashes} if model else hashes


def _power(probes: Sequence[Probe], sessions: Sequence[Session]) -> str:
    """What difference these data can show, said before any is seen: paired, 80 % power, two-sided 5 %, bases independent."""
    bases = len(
        {p.base for p in probes if p.variant != "present" and p.twin} or {s.id for s in sessions} or {p.base for p in probes}
    )
    effect = 2.8 * (0.2 / bases) ** 0.5
    return (
        f"{len(probes)} probes and {len(sessions)} sessions; over the {bases} bases of the primary metric a paired difference "
        f"of about {min(effect, 1.0):.2f} is found with 80 % power, if a fifth of the pairs differ"
    )


def _check(config: EvalConfig, parts: Callable[[Lock], dict[str, str]], now: Lock) -> Lock:
    lock = read_lock(config)
    changed = _first_change(parts(lock), parts(now))
    if changed:
        raise LockError(f"{config.folder / 'lock.json'}: {changed}: undo that change, or freeze again with --new and play again")
    return lock


def _first_change(old: Mapping[str, str], new: Mapping[str, str]) -> str | None:
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    if not names:
        return None
    name = names[0]
    before, after = (side[name][:8] if name in side else "absent" for side in (old, new))
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return f"{name} changed since the freeze, {before} -> {after}{more}"


def _set_aside(config: EvalConfig, old: Lock) -> None:
    number, target = 1, config.folder / "earlier" / old.short
    # The lock goes last: a folder without one is a move that was killed, and is gone on with.
    while (target / "lock.json").exists():
        number += 1
        target = config.folder / "earlier" / f"{old.short}-{number}"
    target.mkdir(parents=True, exist_ok=True)
    for name in OWN_FILES:
        if (item := config.folder / name).exists():
            item.rename(target / name)


def _used(config: EvalConfig, field: Callable[[Arm], Any]) -> list[Any]:
    return list(dict.fromkeys(field(arm) for arm in config.arms.values()))


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files_hash(files: Iterable[Path]) -> str:
    return hash_obj([[p.name, _file_hash(p)] for p in sorted(files, key=lambda p: p.name)])


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
        return _files_hash(files)
    base = json.loads(adapter.read_text(encoding="utf-8")).get("base_model_name_or_path") or ""
    return hash_obj([_files_hash([*files, adapter]), _weights_hash(base)])


def _tokenizer_hash(model: str) -> str:
    """Hash of the tokenizer that the arm will count and write with."""
    tokenizer = get_chat(model).tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    vocabulary = backend.to_str() if backend is not None else tokenizer.get_vocab()
    return hash_obj([vocabulary, tokenizer.special_tokens_map])


def _folder(model: str) -> Path:
    from envs.policies.smollm2 import resolve_model

    source = Path(resolve_model(model))
    if source.is_dir():
        return source
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(str(source)))
