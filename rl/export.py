"""Trained weights as a folder that vLLM and ``transformers serve`` load: adapters merged, our chat template, a model card.

<out>/model*.safetensors config.json    weights in one dtype, cast once, at the end
      generation_config.json            a turn ends at the end-of-turn token; greedy unless a request says otherwise
      tokenizer*.json chat_template.jinja   the template renders what the chat writer of training writes
      README.md                         model card
      export.json                       everything the card says in hashes, and the SHA-256 of every other file

The folder appears by a rename: it is whole or absent.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from envs.chat import END, ChatML, Message
from envs.chat_template import chat_template, response_template
from envs.config import ConfigError, Strict, UserError
from envs.hashes import SOURCES, protocol_of, rules_record
from envs.runs import DataError, provenance, read_json, sha256_file, write_json_atomic
from rl.origin import Origin, base_of, lineage, read_origin

EXPORT, CARD = "export.json", "README.md"
WEIGHTS, ADAPTER = "*.safetensors", "adapter_config.json"
Dtype = Literal["bfloat16", "float32"]
BYTES = {"bfloat16": 2, "float32": 4}
SPARE = 64 * 2**20
"""Bytes wanted beyond the weights: tokenizer, card, and what else the disk must do meanwhile."""


class Rounding(Strict):
    """What the cast at the end changed. ``largest`` is the largest change of a weight, ``changed`` the share that changed."""

    to: str
    rule: str = "to nearest, ties to even"
    largest: float
    changed: float


class Export(Strict):
    """``export.json``."""

    v: int = 1
    stage: Literal["rl", "sft"]
    run: str
    weights: str
    step: int | None
    source: dict[str, str]
    """SHA-256 of the files that the weights were read from."""
    adapter: bool
    """An adapter was merged here (``final`` and ``best`` of a run were merged by the run itself)."""
    dtype: Dtype
    rounding: Rounding | None
    base: dict[str, str | None]
    lineage: list[dict[str, Any]]
    """The runs from these weights back to the base: stage, folder name, data hashes."""
    rules: dict[str, Any]
    rules_now: bool
    """The run recorded no rules (it is older than that): these are of the code that exported."""
    settings: dict[str, Any]
    metrics: dict[str, Any]
    lock: dict[str, str] | None = None
    trained_with: dict[str, Any]
    exported_with: dict[str, Any]
    files: dict[str, str] = Field(min_length=1)


def export(
    folder: Path,
    out: Path | None = None,
    *,
    weights: str | None = None,
    dtype: Dtype = "bfloat16",
    lock: Path | None = None,
    licence: str | None = None,
) -> tuple[Path, Export]:
    """Write the export of the run in ``folder``; returns its folder (``<run>/export-<weights>`` by default) and ``export.json``.

    An export of the same content that is there already is left as it is. Raises UserError for anything that can't be exported.
    """
    origin = read_origin(folder)
    name = origin.choose(weights)
    target = out or folder / f"export-{name}"
    if target.exists() and not (target / EXPORT).is_file():
        raise UserError(f"{target}: exists and is no export: choose another folder with --out")
    tokenizer, chat = _tokenizer(origin, name)
    used = (origin.settings.get("profile", "core@1"), origin.settings.get("prompt", "neutral"))
    rules = origin.rules or rules_record([used], chat)
    locked = check_lock(lock, rules, chat) if lock else None
    partial = target.with_name(f"{target.name}.partial")
    with _disk(target):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            made = _write(partial, origin, name, dtype, tokenizer, chat)
            runs = list(lineage(origin))
            base = base_of(runs)
            about = Export(
                stage=origin.stage,
                run=folder.resolve().name,
                weights=name,
                step=origin.step_of(name),
                dtype=dtype,
                base={**base, "licence": licence or base["licence"]},
                lineage=[{"stage": r.stage, "run": r.folder.resolve().name, "data": r.data} for r in runs],
                rules=rules,
                rules_now=not origin.rules,
                settings=origin.settings,
                metrics=origin.metrics,
                lock=locked,
                trained_with=origin.trained_with,
                exported_with=provenance(),
                files=_hashes(partial),
                **made,
            )
            _card(partial, about)
            write_json_atomic(partial / EXPORT, about)
            if target.exists():
                if not _same(read_export(target), about):
                    raise UserError(f"{target}: holds another export: choose another folder with --out, or move that one away")
                return target, read_export(target)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return target, about


def check(folder: Path) -> Export:
    """Verify an export: every file by its hash, no weight file too many, the chat template against the chat writer.

    Raises DataError naming the first file that isn't what was exported.
    """
    about = read_export(folder)
    for name, digest in about.files.items():
        if (now := sha256_file(folder / name)) != digest:
            raise DataError(
                f"{folder / name}: SHA-256 {now[:12]}…, exported was {digest[:12]}…: copy the folder again, or export again"
            )
    if extra := sorted({p.name for p in folder.glob(WEIGHTS)} - set(about.files)):
        raise DataError(f"{folder / extra[0]}: weights that weren't exported: a server would read them: take the file away")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    views = [
        [Message("system", "a"), Message("user", "b c\n"), Message("assistant", " d"), Message("user", "7")],
        [Message("user", "")],
    ]
    chat = ChatML(tokenizer)
    for view in views:
        if template_ids(tokenizer, view) != chat.render(view):
            raise DataError(f"{folder}: its chat template doesn't render what the chat writer of this code writes: export again")
    return about


def template_ids(tokenizer: Any, view: list[Message]) -> list[int]:
    """The ids that a chat endpoint makes of a view."""
    return list(
        tokenizer.apply_chat_template([m.as_dict() for m in view], tokenize=True, add_generation_prompt=True, return_dict=False)
    )


def read_export(folder: Path) -> Export:
    """``export.json`` of a folder. Raises DataError."""
    try:
        return Export.model_validate(read_json(folder / EXPORT))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise DataError(f"{folder / EXPORT}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}: export again") from None


def check_lock(path: Path, rules: dict[str, Any], chat: ChatML) -> dict[str, str]:
    """``lock`` and ``name`` of an evaluation's lock whose rules are those that were trained under. Raises UserError."""
    lock = read_json(path)
    held = lock.get("rules", {}) if isinstance(lock, dict) else {}
    if not isinstance(held, dict) or not lock.get("lock"):
        raise DataError(f"{path}: not an evaluation's lock: name the lock.json that python -m eval freeze wrote")
    profiles = [k.removeprefix("profile.") for k in held if k.startswith("profile.")]
    sources = {name: held.get(f"source.play.envs/{name}.py", "") for name in SOURCES}
    for profile, protocol in rules["protocol"].items():
        if profile not in profiles:
            raise UserError(
                f"{path}: lock: freezes profile {', '.join(profiles)}, the run trained under {profile}: name a lock of that profile"
            )
        frozen = protocol_of(held[f"profile.{profile}"], chat, held.get("prompt.maintenance", ""), sources)
        if frozen != protocol:
            raise UserError(
                f"{path}: lock: protocol {frozen} of {profile}, the run trained under {protocol}: another version of the rules, or "
                "another tokenizer: freeze with the code of the run, or leave --lock out"
            )
    for pair, digest in rules["prompt"].items():
        if (frozen := held.get(f"prompt.{pair.replace(' ', '.')}", digest)) != digest:
            raise UserError(
                f"{path}: lock: prompt {pair} is {frozen}, the run trained under {digest}: name a lock of that prompt"
            )
    return {"name": str(lock.get("name", "")), "lock": str(lock["lock"])}


def _tokenizer(origin: Origin, name: str) -> tuple[Any, ChatML]:
    """The tokenizer of the run, the chat template and end of turn of training set, and its chat writer."""
    from envs.policies.smollm2 import load_tokenizer

    source = origin.weights[name]
    tokenizer = load_tokenizer(source if (source / "tokenizer_config.json").is_file() else origin.model)
    chat = ChatML(tokenizer)
    tokenizer.chat_template, tokenizer.response_template = chat_template(chat), response_template(chat)
    tokenizer.eos_token = END
    tokenizer.padding_side = "left"
    return tokenizer, chat


def _write(partial: Path, origin: Origin, name: str, dtype: Dtype, tokenizer: Any, chat: ChatML) -> dict[str, Any]:
    """Weights and tokenizer into ``partial``; returns ``source``, ``adapter`` and ``rounding`` of ``export.json``."""
    import torch
    from transformers import GenerationConfig

    source = origin.weights[name]
    files = sorted(source.glob(WEIGHTS))
    adapter = (source / ADAPTER).is_file()
    if not files:
        raise UserError(f"{source}: holds no {WEIGHTS}: weights of several devices, say: export final or best, which are whole")
    model = _merged(origin, source) if adapter else _whole(source)
    needed = sum(p.numel() for p in model.parameters()) * BYTES[dtype]
    if (free := shutil.disk_usage(partial).free) < needed + SPARE:
        raise DataError(
            f"{partial.parent}: {free / 1e9:.1f} GB free, {(needed + SPARE) / 1e9:.1f} GB needed: free disk space, or give --out "
            "on another disk"
        )
    rounding = _round(model, dtype)
    known = tokenizer.get_vocab()
    stops = [chat.end_id, *(known[t] for t in ("<|endoftext|>",) if t in known and known[t] != chat.end_id)]
    ids = {"bos_token_id": tokenizer.bos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model.config.update({**ids, "eos_token_id": chat.end_id, "use_cache": True})
    model.generation_config = GenerationConfig(**ids, eos_token_id=stops, do_sample=False)
    model.to(getattr(torch, dtype)).save_pretrained(str(partial))
    tokenizer.save_pretrained(str(partial))
    return {"source": {f.name: sha256_file(f) for f in files}, "adapter": adapter, "rounding": rounding}


def _whole(source: Path) -> Any:
    from envs.policies.smollm2 import load_model

    _no_quantisation(source)
    return load_model(source, dtype="float32", device="cpu")


def _merged(origin: Origin, source: Path) -> Any:
    """The adapter in ``source`` on the start weights as they were trained on, added in fp32."""
    import torch
    from peft import PeftModel

    from envs.policies.smollm2 import load_model

    if origin.four_bit:
        raise ConfigError(
            f"{source}: an adapter on 4-bit weights (qlora): let the run end (its own command goes on) and export final, which the run "
            "merges into the weights as they computed"
        )
    _no_quantisation(origin.model)
    base = load_model(origin.model, dtype=origin.adapter_dtype, device="cpu")
    # safe_merge looks for NaN. On bf16 weights the sum would round the adapter away.
    return PeftModel.from_pretrained(base.to(torch.float32), str(source)).merge_and_unload(safe_merge=True)


def _no_quantisation(name: str | Path) -> None:
    from transformers import AutoConfig

    from envs.policies.smollm2 import resolve_model

    # Asked before the weights are loaded: where it can't compute with them, transformers turns them into bf16 without a word.
    if getattr(AutoConfig.from_pretrained(resolve_model(name)), "quantization_config", None) is not None:
        raise ConfigError(
            f"model {str(name)!r}: its weights are quantised, and an export would be of other weights than were trained: start the run from "
            "unquantised weights (qlora: true holds them in 4 bits while it trains, and merges by itself)"
        )


def _round(model: Any, dtype: Dtype) -> Rounding | None:
    """What a cast to ``dtype`` changes. Raises UserError for weights that aren't finite."""
    import torch

    largest, changed, count = 0.0, 0, 0
    for name, value in model.named_parameters():
        if not torch.isfinite(value).all():
            raise UserError(f"weights: {name} holds NaN or infinity: the training diverged: export an earlier checkpoint")
        gap = (value.detach().float() - value.detach().to(getattr(torch, dtype)).float()).abs()
        largest, changed, count = max(largest, gap.max().item()), changed + int((gap > 0).sum()), count + gap.numel()
    return None if dtype == "float32" else Rounding(to=dtype, largest=largest, changed=changed / max(count, 1))


def _hashes(folder: Path) -> dict[str, str]:
    return {p.name: sha256_file(p) for p in sorted(folder.iterdir()) if p.is_file()}


def _same(a: Export, b: Export) -> bool:
    """Whether two exports hold the same, whoever made them when."""
    return a.model_dump(exclude={"exported_with"}) == b.model_dump(exclude={"exported_with"})


def _card(folder: Path, about: Export) -> None:
    from rl.card import card

    (folder / CARD).write_text(card(about), encoding="utf-8")


@contextlib.contextmanager
def _disk(target: Path) -> Iterator[None]:
    """Tell a full disk, and a folder that can't be written, in one line."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError) as error:
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        what = "no space left on the disk" if full else " ".join(str(error).split())[:200]
        raise DataError(
            f"{target}: can't be written ({what}): free disk space or choose another folder with --out; nothing was left behind"
        ) from error
