"""What a worker hands back: finished text, and beside it the few numbers that the parquet file and the card need.

So the process that writes parses no trajectory, and memory does not grow with the set.
"""

from __future__ import annotations

import gc
from collections import Counter
from functools import lru_cache
from typing import Any

from data_gen.build import Stream, Unit, candidate, make_unit
from data_gen.config import DataConfig
from data_gen.equal import trained
from data_gen.near import as_text, body_hash, sketch
from envs.chat import ChatML, get_chat
from envs.text import normalise
from envs.trajectory import Trajectory

CHUNK = 16
"""Most candidates of one task: one line of the journal, one wait for the disk."""
FORGET = 4_000
"""Texts that a process remembers the tokens of; sessions are new all the time, so more would only be memory."""


def chunk_size(count: int) -> int:
    """Candidates of one task of a stream of ``count`` units, the same on every machine."""
    return max(1, min(CHUNK, count // 8))


def make_chunk(config: DataConfig, stream: Stream, first: int, size: int) -> dict[str, Any]:
    """The accepted units of candidates ``first`` to ``first + size - 1`` of this shard, as a line of the journal."""
    chat = get_chat(config.tokenizer)
    units = [make_unit(config, stream, candidate(config, index), chat) for index in range(first, first + size)]
    forget(chat)
    return {"first": first, "next": first + size, "units": [record(u) for u in units if u is not None]}


@lru_cache(maxsize=1)
def caches_of_texts() -> tuple[Any, ...]:
    """Every large cache of the simulator in this process (parsed views, normalised texts, token ids). Ask before ``gc.freeze``."""
    kind = type(normalise)
    caches = [c for c in gc.get_objects() if type(c) is kind and str(c.__module__).startswith("envs")]
    return tuple(c for c in caches if (c.cache_parameters()["maxsize"] or 0) > FORGET)


def forget(chat: ChatML) -> None:
    """Empty the process's caches of whole texts once they are large: left alone they grow by several hundred MB."""
    for cache in (chat._encode, chat._host, *caches_of_texts()):
        if cache.cache_info().currsize > FORGET:
            cache.cache_clear()
    if len(chat._pieces) > 5 * FORGET:  # words come again, values are new all the time
        chat._pieces.clear()


def record(unit: Unit) -> dict[str, Any]:
    """A unit as JSON values."""
    return {
        "number": unit.number,
        "name": unit.body.id,
        "body": body_hash(unit.body),
        "sketch": as_text(sketch(unit.body)),
        "trajectories": [{"row": row(t), "facts": facts(t), "text": t.model_dump_json()} for t in unit.trajectories],
        "probes": [
            {"variant": p.variant, "family": p.family, "lang": p.session.lang, "text": p.model_dump_json()} for p in unit.probes
        ],
    }


def row(trajectory: Trajectory) -> dict[str, Any]:
    """The columns of the parquet file but for the record itself: labels, sizes, the last view with its reply as chat messages."""
    *_, last = trajectory.views()
    messages = [m.as_dict() for m in last] + [{"role": "assistant", "content": trajectory.inferences[-1].text}]
    return {
        "id": trajectory.id, "kind": trajectory.kind or "", "family": trajectory.family, "variant": trajectory.variant or "",
        "profile": trajectory.profile, "lang": trajectory.session.lang, "inferences": len(trajectory.inferences), "tokens": trajectory.tokens, "messages": messages,
    }  # fmt: skip


def facts(trajectory: Trajectory) -> dict[str, Any]:
    """What the card counts of an episode."""
    return {
        "turns": len(trajectory.session.turns) - trajectory.start,
        "log": sum(len(i.ids) for i in trajectory.inferences),
        "trained": trained(trajectory),
        "errors": dict(Counter(i.error for i in trajectory.inferences if i.error)),
        "masked": sum(not i.trained for i in trajectory.inferences),
        "inputs": [i.tokens_in for i in trajectory.inferences],
        "outputs": [len(i.ids) for i in trajectory.inferences],
        "actions": actions(trajectory),
    }


def actions(trajectory: Trajectory) -> dict[str, int]:
    """What the policy's turns did, ``tool outcome``: context tools by name, ``business``, ``answer``, ``notice``."""
    business = {t.name for t in trajectory.session.tools}
    found: Counter[str] = Counter()
    for inference in trajectory.inferences:
        if inference.kind != "calls":
            found[f"{inference.kind} ok" if inference.kind == "answer" else inference.kind] += 1
        found.update(f"{'business' if o.tool in business else o.tool} {o.code}" for o in inference.outcomes if o.tool)
    return dict(found)
