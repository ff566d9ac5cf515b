"""A page of stored episodes: one HTML file, no outside resources, one compressed block an episode.

The page opens with the index of labels alone; a block is unpacked by the browser when its episode is shown. Texts stand in no markup
(blocks are base64, the index has its angle brackets escaped), so they may hold anything.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from envs.rewards import saving
from envs.runs import write_text_atomic
from envs.scoring import Score
from envs.tasks.base import Injection
from envs.trajectory import Trajectory
from envs.viewer.blocks import DamagedError, block

HERE = Path(__file__).parent
SCRIPTS = ("data.js", "list.js", "spent.js", "sample.js", "app.js")
STANDARD = ("family", "variant", "signal", "kind", "language", "profile", "question")
"""Labels that every episode bears; an empty one is left out."""
WORST = ("wrong", "stale", "abstained", "right")
NUMBERS = ("tokens", "inferences", "reward q", "saving s", "reads", "peak input", "rewrites")
"""What the list can be sorted by, where it is known."""


class Sample(NamedTuple):
    """An episode with what is to be said of it.

    ``labels`` are added to the standard ones, or replace them (an empty one takes it away); a value may be several. ``injection``
    lets the page mark what was damaged.
    """

    trajectory: Trajectory
    labels: Mapping[str, str | Sequence[str]] = {}
    score: Score | None = None
    injection: Injection | None = None
    name: str = ""
    """Its id on the page, where the trajectory's own is not the only one (the same sample played by several arms)."""
    group: str = ""
    """Episodes of one group are linked to each other."""
    needed: Mapping[tuple[int, str], bool | None] = {}
    """Turn and answer slot -> whether what it needed stood in the exact input."""
    reference: int | None = None
    """Cost in tokens that the saving ``s`` is measured against (``envs.rewards.reference_cost``)."""


class Page(NamedTuple):
    """A page read back: its listing of labels, and one block an episode."""

    listing: dict[str, Any]
    blocks: list[dict[str, Any]]


def labels_of(sample: Sample) -> dict[str, list[str]]:
    """Every label of a sample, each with its values."""
    t = sample.trajectory
    played = t.session.turns[t.start :]
    standard = {
        "family": t.family, "variant": t.variant, "signal": t.signal, "kind": t.kind, "language": t.session.lang, "profile": t.profile,
        "question": list(dict.fromkeys(turn.question for turn in played)),
        "error": sorted({e for i in t.inferences if (e := getattr(i, "error", ""))}),
        "result": _result(sample.score),
    }  # fmt: skip
    merged = {**standard, **sample.labels}
    return {name: [value] if isinstance(value, str) else list(value) for name, value in merged.items() if value}


def _result(score: Score | None) -> str:
    """The worst verdict of an episode."""
    verdicts = {c.verdict for c in score.checks} if score else set()
    return next((v for v in WORST if v in verdicts), "")


def numbers_of(sample: Sample) -> dict[str, float | None]:
    """Every number of :data:`NUMBERS` of a sample; None where it is not known."""
    t, score = sample.trajectory, sample.score
    known = {
        "tokens": t.tokens,
        "inferences": len(t.inferences),
        "peak input": max((i.tokens_in for i in t.inferences), default=0),
    }
    known["rewrites"] = sum(i.rewrite for i in t.inferences)
    scored = {"reward q": round(score.q, 4), "reads": len(score.reads)} if score else {}
    saved = {"saving s": round(saving(sample.reference, t.tokens), 4)} if sample.reference and t.tokens else {}
    found: dict[str, float] = {**known, **scored, **saved}
    return {name: found.get(name) for name in NUMBERS}


def page(
    samples: Iterable[Sample],
    *,
    title: str = "Episodes",
    intro: str = "",
    noun: str = "samples",
    on_sample: Callable[[], None] = lambda: None,
) -> str:
    """The whole file as text. ``noun`` is what the list counts; ``on_sample`` is called after each episode.

    Raises ValueError when there is no episode, DamagedError for one whose stored inputs can't be read.
    """
    rows: list[dict[str, Any]] = []
    labels: list[dict[str, list[str]]] = []
    numbers: list[dict[str, float | None]] = []
    groups: dict[str, int] = {}
    packed: list[str] = []
    for sample in samples:
        t, score = sample.trajectory, sample.score
        row = {
            "id": sample.name or t.id,
            "steps": len(t.inferences),
            "tokens": t.tokens,
            "q": None if score is None else round(score.q, 4),
        }
        rows.append({**row, "group": groups.setdefault(sample.group, len(groups))} if sample.group else row)
        labels.append(labels_of(sample))
        numbers.append(numbers_of(sample))
        try:
            packed.append(pack(block(t, score, sample.injection, sample.needed, sample.reference)))
        except DamagedError as error:
            raise DamagedError(f"{row['id']}: {error}") from error
        on_sample()
    if not rows:
        raise ValueError("there is no episode to show")
    index = {"title": title, "intro": intro, "noun": noun, "rows": rows, "fields": _fields(labels), "numbers": _numbers(numbers)}
    engine = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    static = HERE / "static"
    return engine.get_template("page.html.j2").render(
        title=title,
        noun=noun.capitalize(),
        style=Markup((static / "viewer.css").read_text(encoding="utf-8")),  # noqa: S704 - the package's own file
        script=Markup("\n".join((static / name).read_text(encoding="utf-8") for name in SCRIPTS)),  # noqa: S704 - likewise
        index=Markup(_safe(index)),  # noqa: S704 - no angle bracket is left in it
        blocks=packed,
    )


def write_page(
    samples: Iterable[Sample],
    path: str | Path,
    *,
    title: str = "Episodes",
    intro: str = "",
    noun: str = "samples",
    on_sample: Callable[[], None] = lambda: None,
) -> int:
    """Write the page and return its size in bytes. Raises DataError when the file can't be written, and as :func:`page` does."""
    text = page(samples, title=title, intro=intro, noun=noun, on_sample=on_sample)
    write_text_atomic(path, text)
    return len(text.encode())


def _fields(labels: Sequence[Mapping[str, Sequence[str]]]) -> list[dict[str, Any]]:
    """Every label as a column: its values in order of first use, and their numbers by row."""
    names = dict.fromkeys([*(n for n in STANDARD if any(n in row for row in labels)), *(n for row in labels for n in row)])
    fields = []
    for name in names:
        place: dict[str, int] = {}
        rows = [[place.setdefault(value, len(place)) for value in row.get(name, ())] for row in labels]
        fields.append({"name": name, "values": list(place), "rows": rows})
    return fields


def _numbers(rows: Sequence[Mapping[str, float | None]]) -> list[dict[str, Any]]:
    """Every number that any row has, with its value by row."""
    known = [name for name in NUMBERS if any(row[name] is not None for row in rows)]
    return [{"name": name, "rows": [row[name] for row in rows]} for name in known]


def pack(value: Any) -> str:
    """JSON, deflated, in base64: letters, digits, ``+``, ``/`` and ``=`` only."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"), 9)).decode("ascii")


def unpack(text: str) -> Any:
    """What ``pack`` was given."""
    return json.loads(zlib.decompress(base64.b64decode(text)).decode("utf-8", "surrogatepass"))


def _safe(value: Any) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def read_page(html: str) -> Page:
    """Index and blocks of a page. Raises ValueError for any other text."""
    index = re.search(r'<script type="application/json" id="index">(.*?)</script>', html, re.DOTALL)
    if index is None:
        raise ValueError("not a page of episodes: it has no index")
    blocks = re.findall(r'<script type="text/plain" id="b\d+">([^<]*)</script>', html)
    return Page(json.loads(index[1]), [unpack(b) for b in blocks])


def views_of(stored: Mapping[str, Any]) -> list[list[tuple[str, str]]]:
    """The views of a block: role and content of every message, by inference."""
    lines, held, views = stored["lines"], list[tuple[str, str]](), []
    for step in stored["steps"]:
        held = held[: step["keep"]] + [(role, "\n".join(lines[i] for i in text)) for role, text in step["new"]]
        views.append(held)
    return views
