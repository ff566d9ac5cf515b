"""What proves that no two sets share a session: a content hash, and a MinHash of the text with every value masked.

A unit's text is all it says and shows: the user's turns (of a base: of its prefix) and the results of its tools, with entities,
closings and filler sentences. Values are masked, so two sessions that differ in numbers, codes, dates, times and names alone count as
the same. Word 3-shingles, 128 hash functions: the standard error of an estimate near 0.8 is 0.035.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from datasketch import MinHash

from envs.tasks import SPECS, get_spec
from envs.tasks.base import Session, content_hash
from envs.tasks.surface import FIRST, LAST, patterns
from envs.tasks.words import Lang, bounded
from envs.text import HAN

HASHES, SHINGLE = 128, 3
_LONGEST_FIRST = ("address", "hotel", "date", "weight", "version", "reading", "clock", "code", "room", "amount")
_SCHEME = "affine32"
_PERMUTATIONS = MinHash(num_perm=HASHES, seed=1, scheme=_SCHEME).permutations


@lru_cache(maxsize=64)
def _values(family: str, lang: Lang) -> re.Pattern[str]:
    entities = sorted(get_spec(family, lang).entities, key=len, reverse=True) if family in SPECS else []
    of_kind = patterns(lang)
    names = of_kind["person"] if lang == "zh" else rf"(?:{'|'.join(FIRST)}) (?:{'|'.join(LAST)})"
    others = [p for kind, p in of_kind.items() if kind not in (*_LONGEST_FIRST, "person")]
    kept = rf"(?P<entity>{'|'.join(map(bounded, entities))})|" if entities else ""
    return re.compile(kept + "|".join([*others, *(of_kind[k] for k in _LONGEST_FIRST), names, r"\d+"]))


def masked(session: Session) -> str:
    """The text of a session, user turns and results, with ``#`` for every value; the names of entities stay."""
    text = "\n".join([*(t.text for t in session.turns), *session.responses.values()])
    return _values(session.family, "zh" if session.lang == "zh" else "en").sub(lambda m: m.groupdict().get("entity") or "#", text)


def shingled(text: str) -> list[str]:
    """Words; of Han characters each."""
    return re.findall(rf"{HAN.pattern}|[^\s{HAN.pattern[1:-1]}]+", text)


def sketch(session: Session) -> bytes:
    """The MinHash of a session's masked text, as 32-bit numbers."""
    words = shingled(masked(session))
    shingles = sorted({" ".join(words[i : i + SHINGLE]).encode() for i in range(max(1, len(words) - SHINGLE + 1))})
    made = MinHash(num_perm=HASHES, seed=1, permutations=_PERMUTATIONS, scheme=_SCHEME)
    made.update_batch(shingles)
    return made.hashvalues.astype("<u4").tobytes()


def body_hash(session: Session) -> str:
    """Hash of what a session says and shows: id, seed and the words about its making left out."""
    return content_hash(session.model_copy(update={"id": "", "seed": 0, "knobs": {}, "tags": ()}))


def as_text(sketch_bytes: bytes) -> str:
    """A sketch for a JSON line."""
    return base64.b64encode(sketch_bytes).decode()


@dataclass
class Watched:
    """The RL and validation bases of a set, against which all other units are held. Memory grows with these alone."""

    names: list[str] = field(default_factory=list)
    sets: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    rows: list[bytes] = field(default_factory=list)

    def add(self, name: str, purpose: str, body: str, sketch_bytes: bytes) -> None:
        """One more base; all are added before the first comparison."""
        self.names.append(name)
        self.sets.append(purpose)
        self.bodies.append(body)
        self.rows.append(sketch_bytes)


@dataclass
class Pair:
    """Two sets compared: how many units with how many, and what was found."""

    compared: int = 0
    exact: int = 0
    near: int = 0
    highest: float = 0.0
    """The highest Jaccard estimate of all pairs."""
    kept: float = 0.0
    """The highest among the pairs whose units both stayed."""


class Separation:
    """Keeps the sets apart: a base that another set holds already is dropped, RL after training, validation after both."""

    def __init__(self, watched: Watched, threshold: float, drop: bool) -> None:
        self.watched, self.threshold, self.drop = watched, threshold, drop
        self.matrix = np.array([_row(r) for r in watched.rows], dtype=np.uint32).reshape(-1, HASHES)
        self.is_set = {p: np.array([s == p for s in watched.sets], dtype=bool) for p in ("rl", "val")}
        self.by_body: dict[str, list[int]] = {}
        for i, body in enumerate(watched.bodies):
            self.by_body.setdefault(body, []).append(i)
        self.dropped: set[int] = set()
        self.repeated = 0
        """Bases that their own set holds twice."""
        self.pairs: dict[tuple[str, str], Pair] = {}
        self._best: dict[str, np.ndarray] = {}
        self._exact: dict[str, set[int]] = {}

    def hold_against(self, purpose: str, body: str, sketch_bytes: bytes) -> None:
        """Compare one unit of the training set (or of another folder) with every watched base."""
        best = self._best.setdefault(purpose, np.zeros(len(self.matrix)))
        self._exact.setdefault(purpose, set()).update(self.by_body.get(body, ()))
        if len(self.matrix):
            np.maximum(best, _jaccard(self.matrix, sketch_bytes), out=best)
        for p, members in self.is_set.items():
            pair = self.pairs.setdefault((purpose, p), Pair())
            pair.compared += int(members.sum())

    def close(self) -> set[int]:
        """Decide which watched bases are dropped, in order; returns their places."""
        for places in self.by_body.values():
            for purpose in ("rl", "val"):
                again = [i for i in places if self.watched.sets[i] == purpose][1:]
                self.dropped.update(again)
                self.repeated += len(again)
        for purpose, best in self._best.items():
            for p, members in self.is_set.items():
                self._judge(self.pairs[purpose, p], np.flatnonzero(members), best, self._exact[purpose])
        rl = np.array([i for i in np.flatnonzero(self.is_set["rl"]) if i not in self.dropped], dtype=int)
        val = np.flatnonzero(self.is_set["val"])
        if len(rl) and len(val):
            pair = self.pairs.setdefault(("rl", "val"), Pair(compared=len(rl) * len(val)))
            best = np.zeros(len(self.matrix))
            for i in val:
                best[i] = _jaccard(self.matrix[rl], self.watched.rows[i]).max()
            bodies = {self.watched.bodies[i] for i in rl}
            self._judge(pair, val, best, {int(i) for i in val if self.watched.bodies[i] in bodies})
        return self.dropped

    def _judge(self, pair: Pair, places: Iterable[int], best: np.ndarray, exact: set[int]) -> None:
        stay = 0.0
        for i in map(int, places):
            near, same = bool(best[i] >= self.threshold), i in exact
            pair.exact += same
            pair.near += near and not same
            pair.highest = max(pair.highest, float(best[i]))
            if same or (near and self.drop):
                self.dropped.add(i)
            else:
                stay = max(stay, float(best[i]))
        pair.kept = stay


def _row(sketch_bytes: bytes) -> np.ndarray:
    return np.frombuffer(sketch_bytes, dtype="<u4")


def _jaccard(matrix: np.ndarray, sketch_bytes: bytes) -> np.ndarray:
    return np.asarray(np.count_nonzero(matrix == _row(sketch_bytes), axis=1) / HASHES)
