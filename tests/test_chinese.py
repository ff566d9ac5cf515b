"""Chinese surfaces: the same generator, records and tools; the expert, the probes, the sets and the reports in both languages."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from data_gen.build import build, candidate
from data_gen.card import card
from data_gen.config import Counts, DataConfig
from data_gen.near import masked, sketch
from data_gen.tally import Tally
from envs.chat import get_chat
from envs.cost import cost_markdown, cost_table
from envs.episode import Episode, play
from envs.manager_bench import bench, bench_markdown
from envs.policies.expert import Expert
from envs.policies.seen import spec_of
from envs.policies.unified import UnifiedExpert
from envs.profiles import get_profile
from envs.scoring import judge, score
from envs.search import words as search_words
from envs.tasks import CHINESE, FAMILIES, SPECS, get_spec
from envs.tasks.base import Slot
from envs.tasks.damage import variants_of
from envs.tasks.engine import RICH, Builder
from envs.tasks.probes import KINDS, make_base, probes_of
from envs.tasks.words import bounded
from envs.text import HAN

each = pytest.mark.parametrize("spec", CHINESE.values(), ids=lambda s: s.id)


@pytest.fixture(scope="module")
def qwen():
    return get_chat("qwen")


def test_every_family_has_chinese_words():
    assert set(CHINESE) == set(FAMILIES)
    for name, spec in CHINESE.items():
        english = SPECS[name]
        assert spec.rule.slot_name == english.rule.slot_name
        assert [spec.key(e, "x") for e in spec.entities] == [english.key(e, "x") for e in english.entities]


@each
def test_a_chinese_session_is_chinese(spec):
    """No English sentence is left over: Latin letters stand in tool names, codes and slots alone."""
    latin = re.compile(r"[A-Za-z]{3,}")
    for seed in range(6):
        session = Builder(spec, seed, replace(RICH, turns=(8, 14))).session()
        assert session.lang == "zh"
        assert session.id.startswith(f"{spec.name}.zh-")
        names = "|".join(re.escape(e) for e in (*spec.entities, *spec.sources))
        for text in (*(t.text.partition("回答：")[0] for t in session.turns), *session.responses.values()):
            assert HAN.search(text)
            assert not latin.search(re.sub(names, "", text)) or re.search(r"KB|NTU|CPU|VPN|API|PDF|App", text), text
            assert not re.search(r"[\u3400-\u9fff] [\u3400-\u9fff]", text), f"a space between Chinese sentences: {text}"
            assert not re.search(r"[\u3400-\u9fff][,;?!]", text), f"half-width punctuation: {text}"


@each
def test_the_expert_is_right_on_everything_at_once(spec, qwen):
    knobs = replace(RICH, bundle=0.15, rule_out=0.15)
    episodes = [Episode(Builder(spec, seed, knobs).session(), get_profile("core@1"), qwen) for seed in range(8)]
    play(episodes, Expert(qwen))
    for episode in episodes:
        assert score(episode.trajectory("expert")).fully_right, episode.session.id


@each
def test_the_expert_is_right_on_every_variant_with_a_signal(spec, qwen):
    seen = Counter()
    for kind in KINDS:
        base = make_base(spec.name, 1, kind, qwen, "zh")
        assert base is not None
        probes = probes_of(base, 1) + (variants_of(base, 1, hint=True) if kind in ("static", "changed") else [])
        probes = [p for p in probes if not p.windows and not (p.variant == "corrupted" and p.signal == "none")]
        episodes = [Episode.from_probe(p, get_profile("core@1"), qwen) for p in probes]
        play(episodes, Expert(qwen))
        for probe, episode in zip(probes, episodes, strict=True):
            result = score(episode.trajectory("expert"))
            assert result.fully_right, probe.id
            seen[probe.variant] += 1
    assert {"present", "missing", "never_stated"} <= set(seen)


def test_windows_and_json_too(qwen):
    for profile in ("unified@4", "unified@4-compact"):
        spec = get_spec("travel", "zh")
        episodes = [Episode(Builder(spec, seed, RICH).session(), get_profile(profile), qwen) for seed in range(4)]
        play(episodes, UnifiedExpert(qwen, get_profile(profile)))
        assert all(score(e.trajectory("expert")).fully_right for e in episodes)


def test_the_language_is_told_by_the_messages(qwen):
    for lang in ("en", "zh"):
        episode = Episode(Builder(get_spec("support", lang), 0).session(), get_profile("core@1"), qwen)
        assert spec_of(episode.view().messages).lang == lang


def test_answers_in_chinese_forms():
    slot = Slot(name="total", accept=get_spec("procurement", "zh").accepted("amount", "9500", ("报价合计{v}元。",)))
    for reply in ("total=9500", "total=9500元", "total＝9,500元；", "total=“9500”"):
        assert judge(slot, reply)[0] == "right", reply
    assert judge(slot, "total=9500公斤")[0] == "wrong"
    assert judge(slot, "total=不知道")[0] == "abstained"
    day = Slot(name="day", accept=get_spec("procurement", "zh").accepted("date", "3月5日"))
    assert judge(day, "day=3月5号")[0] == judge(day, "day=03月05日")[0] == "right"
    assert judge(day, "day=13月5日")[0] == "wrong"


def test_a_date_does_not_stand_in_a_longer_one():
    assert re.search(get_spec("travel", "zh").pattern("date"), "于11月12日出发").group() == "11月12日"
    assert not re.search(bounded("1月2日"), "于11月2日")


def test_search_finds_chinese_by_pairs_of_characters():
    assert search_words("办公桌ABC-12") == ["办公", "公桌", "abc-12", "abc", "12"]
    assert search_words("的") == ["的"]


def test_near_duplicates_of_chinese_differ_in_values_alone():
    spec = get_spec("procurement", "zh")
    session = Builder(spec, 3).session()
    text = masked(session)
    assert not re.search(spec.pattern("date"), text)
    assert any(e in text for e in spec.entities), "the names of records stay"
    assert sketch(session) == sketch(session.model_copy(update={"seed": 9}))
    assert sketch(session) != sketch(Builder(spec, 4).session())


def test_a_data_set_in_both_languages(qwen):
    counts = dict.fromkeys(Counts.model_fields, 0) | {"managed": 8, "static": 4}
    config = DataConfig(languages=("en", "zh"), tokenizer="qwen", counts=counts, rl_bases=4, val_bases=4)
    data = build(config)
    langs = Counter(t.session.lang for t in data.trajectories)
    assert langs["en"]
    assert langs["zh"]
    text = card(config, Tally.of(data))
    assert "language: [en, zh]" in text
    assert f"| {len(data.trajectories)} | en {langs['en']}, zh {langs['zh']} |" in text


def test_shards_have_every_language():
    config = DataConfig(languages=("en", "zh"), families=("procurement", "support"), shard="1/2")
    for shard in ("1/2", "2/2"):
        part = config.model_copy(update={"shard": shard})
        assert {part.surface(candidate(part, i)) for i in range(4)} == {
            (f, lang) for f in ("procurement", "support") for lang in ("en", "zh")
        }


def test_an_unknown_language_is_named():
    with pytest.raises(ValueError, match="unknown language 'fr': choose one of en, zh"):
        get_spec("support", "fr")


def test_cost_and_manager_tables_have_a_column_of_languages():
    rows = cost_table([3], 2, ("en", "zh"))
    assert {r.lang for r in rows} == {"en", "zh"}
    assert not any(r.unfinished for r in rows)
    text = cost_markdown(rows, "x")
    assert "| language |" in text
    assert "| zh | stages | 3 |" in text
    told = bench_markdown([r for lang in ("en", "zh") for r in bench(2, 600, lang)], 600, "x")
    assert "| zh | layered | 2 |" in told
    assert "| en | layered | 2 |" in told
