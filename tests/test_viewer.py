"""The page of episodes: what it holds is what was recorded, whatever the texts say, in little space."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from game import Game, roomy, shop
from typer.testing import CliRunner

from data_gen.__main__ import app
from data_gen.config import Counts, DataConfig
from data_gen.samples import every_variant, samples, surfaces
from envs.config import UserError
from envs.episode import Episode, play
from envs.managers import get_manager
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.scoring import score
from envs.tasks.procurement import generate
from envs.viewer import Sample, page, read_page, views_of
from envs.viewer.blocks import UNLISTED, block, bound, out_of_view, reasons_out
from envs.viewer.page import labels_of

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> <!-- ]]> & \" ' \\ \u2028 \x00 {{ 7 }}"
LARGEST = 50 * 2**20 / 2000
"""Bytes an episode may take, so that 2,000 stay under 50 MB."""


@pytest.fixture(scope="module")
def made():
    """Every kind and variant of one family in both languages."""
    return list(samples(surfaces(["support"], ["en", "zh"], "core@1", 0)))


@pytest.fixture(scope="module")
def html(made):
    return page(made, title="All of support", intro="for a test")


@pytest.fixture(scope="module")
def stored(html):
    return read_page(html)


def columns(stored):
    """Row number -> label -> values."""
    return [
        {f["name"]: [f["values"][c] for c in f["rows"][i]] for f in stored.listing["fields"]}
        for i in range(len(stored.listing["rows"]))
    ]


def test_every_sample_is_there_and_its_views_are_byte_equal(made, stored):
    assert len(stored.listing["rows"]) == len(stored.blocks) == len(made) > 60
    for sample, row, held in zip(made, stored.listing["rows"], stored.blocks, strict=True):
        t = sample.trajectory
        assert (row["id"], row["steps"], row["tokens"]) == (t.id, len(t.inferences), t.tokens)
        assert views_of(held) == [[(m.role, m.content) for m in view] for view in t.views()]
        texts = ["\n".join(held["lines"][i] for i in e["text"]) for e in held["events"]]
        assert texts == [e["text"] for e in t.events]
        for step, inference in zip(held["steps"], t.inferences, strict=True):
            assert "\n".join(held["lines"][i] for i in step["text"]) == inference.text
            assert (step["in"], step["sampled"], step["trained"]) == (inference.tokens_in, len(inference.ids), inference.trained)
            assert [(o["tool"], o["code"]) for o in step["outcomes"]] == [(o.tool, o.code) for o in inference.outcomes]


def test_every_event_is_in_view_or_out_for_the_reason_of_the_index(made):
    reasons = Counter()
    for sample in made:
        t = sample.trajectory
        for inference, view in zip(t.inferences, t.views(), strict=True):
            out = out_of_view(t, inference, [m.content for m in view])
            whole, listed = "\n".join(m.content for m in view), reasons_out(inference.out)
            for place, event in enumerate(t.events[: bound(t, inference)]):
                reason = out.get(place, "")
                reasons[reason] += 1
                if event["sub"]:
                    assert reason or event["text"] in whole
                elif reason:
                    assert reason == listed[event["seq"]]
                    assert event["seq"] not in inference.visible
                else:
                    assert event["seq"] in inference.visible
                    assert event["text"] in whole
    assert UNLISTED not in reasons
    assert {"", "f1", "control", "dropped", "w1"} <= set(reasons)


def test_views_without_an_index_are_looked_at(chat):
    episode = Episode(generate(3), get_profile("plain@1"), chat, manager=get_manager("recent"))
    play([episode], Expert(chat))
    t = episode.trajectory("expert")
    for inference, view in zip(t.inferences, t.views(), strict=True):
        out = out_of_view(t, inference, [m.content for m in view])
        assert set(out.values()) <= {UNLISTED, "control"}
        for place, event in enumerate(t.events[: bound(t, inference)]):
            if not event["sub"]:
                assert (place not in out) == any(event["text"] in m.content for m in view[1:])


def test_the_filters_list_every_label(made, stored):
    rows = columns(stored)
    for lang in ("en", "zh"):
        mine = [r for r in rows if r["language"] == [lang]]
        assert {v for r in mine for v in r["kind"]} == set(Counts.model_fields)
        found = {(*r["variant"], *r["signal"], (r["hint"] or ["none"])[0]) for r in mine if r["part"] == ["probe variant"]}
        assert found == set(every_variant())
        assert len({v for r in mine for v in r["mistake"]}) >= 3
        assert {v for r in mine for v in r["profile"]} == {"core@1", "plain@1", "unified@4"}
    for sample, row in zip(made, rows, strict=True):
        assert {name: v for name, v in row.items() if v} == labels_of(sample)
    for field in stored.listing["fields"]:
        assert len(set(field["values"])) == len(field["values"])


def test_answers_bear_their_verdict_and_what_is_injected_is_told(made, stored):
    verdicts = Counter()
    for sample, held in zip(made, stored.blocks, strict=True):
        result = score(sample.trajectory)
        assert held["q"] == round(result.q, 4)
        got = [(i, s["name"], s["verdict"]) for i, turn in enumerate(held["turns"]) for s in turn["slots"] if i >= held["start"]]
        assert got == [(c.turn, c.slot, c.verdict) for c in result.checks]
        verdicts.update(v for *_, v in got)
        injection = sample.injection
        if injection is None:
            assert held["injected"] is None
            continue
        told = " ".join(" ".join(line) for line in held["injected"]["told"])
        assert bool(told) == (injection != type(injection)())
        for text in injection.brief.values():
            assert text in told
        for key in (*injection.note, *injection.claim, *injection.old):
            assert f"note {key}" in told
    assert verdicts["right"] > 50
    assert verdicts["wrong"] == 2  # a brief with a wrong value that no view can tell, once a language


def test_a_probe_is_marked_where_it_is_damaged(made):
    for sample in made:
        injection = sample.injection
        if not injection:
            continue
        first = "\n".join(m.content for m in next(sample.trajectory.views()))
        held = block(sample.trajectory, injection=injection)["injected"]
        assert all(f"] {text}" in first for text in held["briefs"])
        assert all(f"\n{line}" in first for line in held["notes"])


@pytest.fixture(scope="module")
def hostile(chat):
    """An episode whose texts and labels try to break out of the page."""
    game = Game(shop(1), chat, roomy())
    game.say("note cap=9000 @e1")
    game.say("total=4100")
    t = game.episode.trajectory(HOSTILE, kind=HOSTILE)
    t = t.model_copy(update={"id": HOSTILE, "events": [{**e, "text": e["text"] + HOSTILE} for e in t.events]})
    for inference in t.inferences:
        for message in inference.new:
            message.content += HOSTILE
    return Sample(t, {HOSTILE: HOSTILE}, score(t))


def test_hostile_text_stays_text(hostile):
    text = page([hostile], title=HOSTILE, intro=HOSTILE)
    assert "<img" not in text
    assert "alert(1)" not in re.sub(
        r'<script type="application/json".*?</script>|<title>.*?</title>|<h1>.*?</h1>', "", text, flags=re.S
    )
    index = re.search(r'id="index">(.*?)</script>', text, re.S)[1]
    assert not set("<>&\u2028") & set(index)
    held = read_page(text)
    assert held.listing["title"] == held.listing["intro"] == held.listing["rows"][0]["id"] == HOSTILE
    assert views_of(held.blocks[0])[0][0][1].endswith(HOSTILE)
    assert columns(held)[0][HOSTILE] == [HOSTILE]


def test_it_needs_nothing_from_outside(html):
    assert not re.findall(r"""(?:src|href)\s*=|@import|url\(|https?://|fetch\(|XMLHttpRequest""", html)


def test_it_is_small(made, html):
    sizes = [len(b) for b in re.findall(r'<script type="text/plain" id="b\d+">([^<]*)</script>', html)]
    assert len(sizes) == len(made)
    assert max(sizes) < LARGEST
    assert len(html.encode()) - len(page(made[:1]).encode()) < LARGEST / 3 * len(made)


def test_the_same_seed_makes_the_same_page(made, html):
    again = samples(surfaces(["support"], ["en", "zh"], "core@1", 0))
    assert page(again, title="All of support", intro="for a test") == html


def test_without_episodes_and_with_other_files_it_says_so():
    with pytest.raises(ValueError, match="no episode"):
        page([])
    with pytest.raises(ValueError, match="not a page"):
        read_page("<html></html>")


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--families", "shopping"], "unknown family shopping: choose from procurement"),
        (["--families", ","], "no family is given"),
        (["--languages", "fr"], "unknown language fr: choose from en, zh"),
        (["--profile", "core"], "unknown profile core: choose from core@1"),
    ],
)
def test_the_command_says_what_is_wrong_in_one_line(tmp_path, args, word):
    result = CliRunner().invoke(app, ["samples", str(tmp_path / "x.html"), *args])
    assert result.exit_code == 2
    assert word in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
    assert CliRunner().invoke(app, ["samples", str(tmp_path), "--families", "support"]).exit_code == 2


def test_the_command_teaches_itself():
    text = CliRunner().invoke(app, ["samples", "--help"], env={"COLUMNS": "160"}).output
    assert "Example: python -m data_gen samples" in text


def test_a_seed_that_gives_no_unit_is_told(monkeypatch):
    monkeypatch.setattr("data_gen.samples.make_unit", lambda *_: None)
    with pytest.raises(UserError, match="support in en: direct gives no unit"):
        list(samples(surfaces(["support"], ["en"], "core@1", 0)))
    assert DataConfig().seed == 0
