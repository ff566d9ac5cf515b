"""The words of all families: every sentence is read back by its own list alone, briefs fit, and the expert is right."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from envs.chat import get_chat
from envs.episode import Episode, play
from envs.policies.expert import Expert
from envs.policies.reading import brief_facts, brief_text, entity_fields
from envs.profiles import get_profile
from envs.scoring import score
from envs.tasks import ALL_SPECS
from envs.tasks.engine import Builder
from envs.tasks.surface import find_all
from envs.tasks.words import bounded
from envs.text import HAN

SPECS = list(ALL_SPECS.values())
TIMES = 6
"""Random fillings of every template."""
STOP = frozenset(
    re.findall(
        r"\w+",
        "about after does down from have having into many more most much should still that their them then there they this through "
        "until were what when where which whom whose will with would your been could being over",
    )
)

FUNCTION = frozenset(
    "的是了在这那哪我你他它们个一有没不要给请把和与及为于按由到从就也都还再先后来去上下里里边多少几什么谁何时怎么样需可能会被吗呢吧"
)
"""Characters that carry grammar, not content."""

each = pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.id)


def groups(spec):
    """Every list of templates: name -> (templates, kind of ``{v}``)."""
    fact, rule = spec.user_fact, spec.rule
    found = {}
    for a in spec.attrs:
        for part in ("says", "other", "none", "guesses"):
            found[f"{a.name}.{part}"] = (getattr(a, part), a.kind)
    for part in ("says", "changes", "asks"):
        found[f"user_fact.{part}"] = (getattr(fact, part), fact.kind)
    for part in ("says", "exceptions", "withdrawals", "reinstatements", "once", "asks"):
        found[f"rule.{part}"] = (getattr(rule, part), rule.kind)
    for part in ("heads", "change_heads", "work", "changes", "fillers", "totals", "across"):
        found[part] = (getattr(spec, part), "amount")
    found["brief"], found["change_brief"] = ((spec.brief,), "amount"), ((spec.change_brief,), "amount")
    if spec.compare:
        found["compare.asks"] = (spec.compare.asks, "amount")
    found |= {
        "ASKS": (spec.words.asks, "amount"),
        "KEEPS": (spec.words.keeps, "amount"),
        "TELLS": (spec.words.tells, "amount"),
        "CLOSES": (spec.words.closes, "amount"),
        "VERIFIES": (spec.words.verifies, "amount"),
    }
    return {name: g for name, g in found.items() if g[0]}


def fields_of(spec, name, kind):
    fields = {**entity_fields(spec), "v": spec.pattern(kind)}
    if name in ("brief", "change_brief"):
        fields["entity"] = "|".join(spec.entities)
    return {**fields, "other": fields["entity"], "noun": "|".join(re.escape(a.noun) for a in spec.attrs)}


def filled(spec, name, template, kind, rng):
    entity, other = rng.sample(spec.entities, 2)
    if name not in ("brief", "change_brief"):
        entity, other = spec.phrase(entity), spec.phrase(other)
    return template.format(
        v=spec.draw(kind, rng), entity=entity, other=other, qty=rng.randrange(3, 90), source=rng.choice(spec.sources),
        noun=rng.choice(spec.attrs).noun,
    )  # fmt: skip


def words(text):
    """Content words; of Chinese, pairs of characters."""
    bare = re.sub(r"\{\w+\}", " ", text)
    if HAN.search(text):
        pairs = {a + b for run in re.findall(rf"{HAN.pattern}+", bare) for a, b in itertools.pairwise(run)}
        return {p for p in pairs if not set(p) & FUNCTION}
    return {w for w in re.findall(r"[a-z]+", re.sub(r"\{\w+\}", " ", text).lower()) if len(w) > 3 and w not in STOP}


@each
def test_a_sentence_is_read_by_its_own_list_alone(spec):
    rng = random.Random(spec.id)
    lists = groups(spec)
    texts = [
        (name, filled(spec, name, t, kind, rng))
        for name, (templates, kind) in lists.items()
        for t in templates
        for _ in range(TIMES)
    ]
    # Two sentences in a row must not make a third one either.
    joined = [(f"{a} + {b}", f"{s}{spec.words.joint}{t}") for (a, s), (b, t) in itertools.pairwise(rng.sample(texts, len(texts)))]
    for name, text in texts + joined:
        finders = {n for n, (templates, kind) in lists.items() if find_all(templates, text, fields_of(spec, n, kind))}
        assert finders == set(name.split(" + ")), text


@each
def test_each_template_is_found_once_with_its_value(spec):
    rng = random.Random(spec.id)
    for name, (templates, kind) in groups(spec).items():
        for template in templates:
            value = spec.draw(kind, rng)
            text = filled(spec, name, template.replace("{v}", value), kind, rng)
            hits = find_all(templates, text, fields_of(spec, name, kind))
            assert len(hits) == 1, text
            assert hits[0].group() == text
            if "{v}" in template:
                assert hits[0]["v"] == value


@each
def test_no_says_finds_a_guess_or_a_none(spec):
    rng = random.Random(spec.id)
    for a, b in itertools.product(spec.attrs, repeat=2):
        for template in (*a.guesses, *a.none):
            for _ in range(TIMES):
                text = filled(spec, "", template, a.kind, rng)
                assert not find_all(b.says, text, {"v": spec.pattern(b.kind)}), text


@each
def test_what_a_family_has(spec):
    assert (len(spec.entities), len(spec.attrs)) == (16, 7)
    assert len(spec.sources) >= 8
    assert len({a.kind for a in spec.attrs}) >= 4
    assert all((len(a.says), len(a.other)) == (3, 2) for a in spec.attrs)
    assert all(len(a.none) in (0, 2) and len(a.guesses) in (0, 2) for a in spec.attrs)
    assert sum(bool(a.none) for a in spec.attrs) >= 2
    assert sum(bool(a.guesses) for a in spec.attrs) >= 3
    assert [len(x) for x in (spec.heads, spec.change_heads, spec.work, spec.changes)] == [3] * 4
    assert len(spec.fillers) >= 16
    assert (len(spec.totals), len(spec.across)) == (2, 2)
    if spec.compare is None:  # nothing is compared with its constraint
        return
    assert len(spec.compare.asks) == 2
    assert spec.attr(spec.compare.attr).kind == spec.user_fact.kind == "amount"
    assert not spec.attr(spec.compare.attr).none, "what is compared and summed is a number"
    rule = spec.rule
    assert rule.kind in ("code", "clock", "person", "room")
    counts = [len(x) for x in (rule.says, rule.exceptions, rule.withdrawals, rule.reinstatements, rule.once, rule.asks)]
    assert counts == [3, 3, 2, 2, 2, 3]
    texts = [t for templates, _ in groups(spec).values() for t in templates]
    assert len(set(texts)) == len(texts)


@each
def test_placeholders(spec):
    wanted = {
        "says": {"v"}, "guesses": {"v"}, "none": set(), "other": {"entity"}, "heads": {"source", "entity", "qty"},
        "change_heads": {"source", "entity"}, "work": {"entity", "qty"}, "changes": {"entity"}, "fillers": set(), "totals": set(),
        "across": {"entity", "other"}, "brief": {"source", "entity"}, "change_brief": {"entity"}, "compare.asks": {"entity"},
        "user_fact.changes": {"v"}, "user_fact.asks": set(), "rule.exceptions": {"entity", "v"}, "rule.withdrawals": {"entity"},
        "rule.reinstatements": {"entity"}, "rule.once": {"entity", "v"}, "rule.asks": {"entity"},
    }  # fmt: skip
    for name, (templates, _) in groups(spec).items():
        for template in templates if not name.isupper() else ():
            given = wanted.get(name, wanted.get(name.split(".")[-1]))
            if len(spec.lookup.args) == 1:
                given = given - {"qty"}
            assert set(re.findall(r"\{(\w+)\}", template)) == given, template
            assert template[0] != "{" or template.startswith(("{v}", "{source}", "{qty}", "{entity}"))
            assert spec.lang == "en" or name.endswith("brief") or template[-1] in "。？！：；，", template
            opens = spec.entity_phrase[0].islower() and template.startswith("{entity}") and "brief" not in name
            assert not opens, f"{template}: a phrase in lower case opens a sentence"


@each
def test_fillers_give_no_value_and_no_text_names_a_record(spec):
    for filler in spec.fillers:
        assert not [a for a in spec.attrs if re.search(spec.pattern(a.kind), filler)], filler
    for templates, _ in groups(spec).values():
        for text in templates:
            assert not [
                e for e in spec.entities if re.search(bounded(e).removesuffix(r"(?![A-Za-z0-9_-])"), text, re.IGNORECASE)
            ], text


@each
def test_names_are_told_apart(spec):
    nouns = [a.noun for a in spec.attrs] + [spec.user_fact.noun, spec.rule.noun]
    for a, b in itertools.permutations(nouns, 2):
        assert not a.startswith(b)
        assert not a.endswith(b)
    for a, b in itertools.permutations(spec.entities, 2):
        assert a.lower() not in b.lower()
    for a, b in itertools.product(spec.entities, spec.sources):
        assert a.lower() not in b.lower()
    for a, b in itertools.permutations(spec.sources, 2):
        assert a not in b
    names = [a.name for a in spec.attrs]
    assert len({*names, spec.user_fact.key, "over", "gap"}) == len(names) + 3
    keys = [spec.key(e, a) for e, a in itertools.product(spec.entities, names)] + [spec.user_fact.key]
    assert all(re.fullmatch(r"[a-z0-9_.]{1,40}", k) for k in keys)
    assert all(re.fullmatch(r"\w+", e) for e in spec.entities)
    if spec.lang == "zh":
        assert not [(e, t) for e in spec.entities for texts, _ in groups(spec).values() for t in texts if HAN.match(e) and e in t]


def test_tool_names_are_unique_over_all_families():
    tools = [t.name for s in SPECS if s.lang == "en" for t in (s.lookup, s.change)]
    assert len(set(tools)) == len(tools)
    assert not set(tools) & set(get_profile("core@1").tools)
    assert all(re.fullmatch(r"[a-z]+", t) for t in tools)


@each
def test_near_twin_codes_stand_side_by_side(spec):
    if spec.name == "logistics":
        for a, b in zip(spec.entities[::2], spec.entities[1::2], strict=True):
            assert len(a) == len(b)
            assert sum(x != y for x, y in zip(a, b, strict=True)) <= 2


def chat_of(spec, chat):
    """What counts the tokens: Chinese would cost SmolLM2's tokenizer twice to three times as much as English."""
    return get_chat("qwen") if spec.lang == "zh" else chat


@each
def test_every_brief_fits_and_is_read_back(spec, chat):
    chat = chat_of(spec, chat)
    rng = random.Random(spec.id)
    assert max(chat.count(spec.change_brief.format(entity=e)) for e in spec.entities) < 14
    by_size = sorted(
        itertools.product(spec.entities, spec.sources), key=lambda p: -chat.count(spec.brief.format(entity=p[0], source=p[1]))
    )
    for a, b in itertools.permutations(spec.attrs, 2):
        for entity, source in [*by_size[:2], rng.choice(by_size)]:
            values = {x.name: spec.draw(x.kind, rng) for x in (a, b)}
            text = brief_text(spec, entity, source, values, changed=False)
            assert chat.count(text) < 40, text
            assert (got := brief_facts(spec, text)) is not None
            assert (got.entity, got.source, dict(got.fields), got.changed) == (entity, source, values, False)
            got = brief_facts(spec, brief_text(spec, entity, source, values, changed=True))
            assert got is not None
            assert (got.entity, dict(got.fields), got.changed) == (entity, values, True)


@each
def test_other_questions_share_no_content_word_with_what_they_ask(spec):
    for a in spec.attrs:
        taken = set().union(*(words(t) for t in (a.noun, *a.says)))
        for question in a.other:
            assert not words(question) & taken, f"{a.name}: {question} {words(question) & taken}"
            assert not [b.noun for b in spec.attrs if b.noun in question]


@each
def test_the_expert_is_fully_right(spec, chat):
    chat = chat_of(spec, chat)
    episodes = [Episode(Builder(spec, seed).session(), get_profile("core@1"), chat) for seed in range(40)]
    play(episodes, Expert(chat))
    for episode in episodes:
        t = episode.trajectory("expert")
        assert score(t).fully_right, f"{t.id}: {[c for c in score(t).checks if c.verdict != 'right']}"
        assert not [o.text for i in t.inferences for o in i.outcomes if o.text.startswith("! ")], t.id
