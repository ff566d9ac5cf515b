"""The expert over results larger than the view and sessions of up to sixty turns: right, within the caps, a function of the view."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from envs.episode import Episode, play
from envs.policies.base import View
from envs.policies.expert import Expert
from envs.policies.scripted import ClosedBook
from envs.policies.unified import UnifiedExpert
from envs.profiles import get_profile
from envs.scoring import normal_form, score
from envs.tasks import FAMILIES, SPECS
from envs.tasks.engine import LARGE, LONG, Builder, Knobs
from envs.tasks.surface import PATTERNS

CORE = get_profile("core@1")
VALUE = re.compile("|".join(rf"(?<!\w)(?:{PATTERNS[k]})(?!\w)" for k in ("amount", "code", "clock", "hotel", "address")))
REFUSED = re.compile(r"^! ")


def expert_of(profile, chat):
    return UnifiedExpert(chat, profile) if profile.windows else Expert(chat, profile.view_budget)


def played(chat, family, seeds, knobs, profile="core@1"):
    """Episodes of a family, each held to the caps of its profile and to no refused call."""
    rules = get_profile(profile)
    episodes = [Episode(FAMILIES[family].generate(seed, knobs), rules, chat) for seed in seeds]
    play(episodes, expert_of(rules, chat))
    for e in episodes:
        t = e.trajectory("expert")
        wrong = [(c.turn, c.slot, c.verdict) for c in score(t).checks if c.verdict != "right"]
        assert (t.reason, wrong) == ("answered", []), t.id
        assert max(i.tokens_in for i in t.inferences) <= rules.view_budget
        assert max(len(i.ids) for i in t.inferences) <= rules.reply_tokens
        assert not [o.text for i in t.inferences for o in i.outcomes if REFUSED.match(o.text)], t.id
    return episodes


def log_tokens(chat, episode):
    return sum(chat.count(e.text) for e in episode.log if not e.sub)


@pytest.fixture(scope="module")
def large(chat):
    """Sessions with large results, of three families; ``analysis`` has tables of hundreds of rows."""
    return [e for family in ("analysis", "support", "travel") for e in played(chat, family, range(2), LARGE)]


def test_the_expert_is_right_where_results_are_larger_than_the_view(chat, large):
    pages = [o for e in large for i in e.inferences for o in i.outcomes if o.tool == "read" and re.search(r" p[2-9]/", o.text)]
    assert len(pages) > 20, "it reads on"
    assert max(chat.count(e.text) for x in large for e in x.log if e.role == "tool") > CORE.view_budget
    briefs = [i.text for e in large for i in e.inferences if re.search(r"\(e\d+ p\d+-\d+/\d+\)", i.text)]
    assert briefs, "and says which pages it folded"


def test_what_it_folds_of_pages_stands_in_the_view_it_saw(chat, large):
    told = 0
    for e in large:
        t = e.trajectory("expert")
        for inference, view in zip(t.inferences, t.views(), strict=True):
            shown = "\n".join(m.content for m in view)
            # A value may be cut by the end of a page: the next page goes on with it.
            text = normal_form(shown) + normal_form(re.sub(r"\n(?:\[host\] [^\n]*\n)?\[e\d+ \w+\] p\d+/\d+\n", "", shown))
            for line in inference.text.split("\n"):
                if line.startswith(("fold ", "compress ", "note ")):
                    body = re.sub(r"\be\d+\b", "", line)
                    for value in VALUE.findall(body):
                        assert normal_form(value) in text, line
                        told += 1
            ids = chat.render(view)
            assert Expert(chat).act([View(view, ids)])[0].text == inference.text, "the messages are all it takes"
    assert told > 40


def test_another_future_of_a_large_session_changes_no_action_before_it(chat):
    expert = Expert(chat)
    for family in ("analysis", "support"):
        acts = []
        for future in (1, 2):
            session = FAMILIES[family].generate(3, LARGE, future)
            episode, texts = Episode(session, CORE, chat), []
            while not episode.done and episode.turn < session.knobs["split_turn"]:
                sampled = expert.act([episode.view()])[0]
                texts.append(sampled.text)
                episode.step(sampled)
            acts.append(texts)
        assert acts[0] == acts[1]


def test_the_value_of_a_table_is_its_sum_and_is_told_in_a_sentence(chat):
    """A tool that returns hundreds of rows also says what they add up to; nobody has to add up pages."""
    sums = 0
    for seed in range(6):
        session = FAMILIES["analysis"].generate(seed, LARGE)
        for call, text in session.responses.items():
            rows = re.findall(r"(?:Mon|Tue|Wed|Thu|Fri) (\d+)[,.]", text)
            if rows and call.startswith("report "):
                assert 200 <= len(rows) <= 400
                told = {f.value for f in session.facts if f.where == f"call:{call}" and f.key.endswith(".revenue")}
                assert told == {str(sum(map(int, rows)))}
                assert told.pop() in text.split("Takings")[0]
                sums += 1
    assert sums > 5


def test_closed_book_fails_on_large_results_too(chat):
    episodes = [Episode(FAMILIES[f].generate(seed, LARGE), CORE, chat) for f in ("analysis", "travel") for seed in range(3)]
    play(episodes, ClosedBook(chat))
    asked = [c for e in episodes for c in score(e.trajectory("x")).checks if not c.never and c.slot != "over"]
    assert len(asked) > 20
    assert not [c for c in asked if c.verdict == "right"]


@pytest.mark.parametrize("family", ["procurement", "logistics"])
def test_the_expert_is_right_over_forty_to_sixty_turns(chat, family):
    episodes = played(chat, family, (0, 1), LONG)
    texts = [i.text for e in episodes for i in e.inferences]
    assert any("; lists e" in t for t in texts), "a summary leaves records to the one before"
    assert len(episodes[0].session.turns) >= 40


def test_a_record_that_the_summary_lost_is_found_through_the_earlier_summaries(chat):
    """Sixteen records and a change to most of them, then a detail of the first one: more than a summary of 96 tokens can list."""
    builder = Builder(SPECS["procurement"], 7, Knobs(turns=(20, 20), fillers=(8, 12), close=1.0))
    while builder.free:
        builder.work()
    first, *others = builder.records
    for entity in others[:12]:
        builder.revise(entity)
    attr = next(a for a in builder.records[first] if (first, a) not in builder.answered and (first, a) not in builder.kept)
    builder.ask(first, attr)
    episode = Episode(builder.finish({}), CORE, chat)
    play([episode], Expert(chat))
    assert score(episode.trajectory("expert")).fully_right
    read = [o.text for i in episode.inferences if i.turn == 28 for o in i.outcomes if o.tool == "read"]
    assert any(" own] p1/" in text.split("\n")[0] for text in read), read


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["core@1", "unified@4"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_expert_is_right_on_many_more_long_sessions(chat, family, profile):
    played(chat, family, range(6), LONG, profile)
    played(chat, family, range(4), LARGE, profile)


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["core@1", "unified@4"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_expert_is_right_over_a_hundred_thousand_tokens(chat, family, profile):
    episode = played(chat, family, (0,), replace(LONG, turns=(56, 60), fillers=(320, 360)), profile)[0]
    assert log_tokens(chat, episode) > 50_000
