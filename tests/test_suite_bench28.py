"""seed_bench28: the material reaches its design targets, a lost record is BAD, and answers are split as they should be."""

from __future__ import annotations

import pytest

from envs.config import UserError
from envs.managers.base import words
from eval.config import Arm
from eval.suites import SUITES, SuiteSettings, run_suite
from eval.suites.base import LANGS
from eval.suites.bench28 import ABOUT, QUESTIONS, RECORDS, TARGETS, check, context, design, verdict

SUITE = SUITES["seed_bench28"]


@pytest.mark.parametrize("lang", LANGS)
def test_the_material_reaches_its_design_targets(lang):
    found = design(RECORDS[lang], QUESTIONS[lang])
    for strategy, (characters, present) in TARGETS.items():
        chars, ids = found[strategy]
        assert abs(chars - characters) <= ABOUT * characters, (strategy, chars)
        assert len(ids) == present, (strategy, ids)
    # The same questions as in the document survive each strategy.
    assert found["summary"][1] == ["q4"]
    assert found["retrieval"][1] == [f"q{n}" for n in range(1, 9)]
    assert found["recent"][1] == ["q4", "q8"]


@pytest.mark.parametrize("lang", LANGS)
def test_28_records_10_questions_and_their_kinds(lang):
    assert len(RECORDS[lang]) == len(set(RECORDS[lang])) == 28
    kinds = [q.kind for q in QUESTIONS[lang]]
    assert len(kinds) == 10
    q9, q10 = QUESTIONS[lang][8:]
    assert (q9.kind, q9.records) == ("across", (4, 13))
    record = RECORDS[lang][q10.records[0] - 1]
    assert q10.kind == "paraphrased"
    assert not words(q10.text) & words(record)
    if lang == "zh":  # words of Chinese are not told apart by spaces: no character is shared either
        assert not set(q10.text) & set(record)
    for q in QUESTIONS[lang]:
        for forms, number in zip(q.keys, q.records if len(q.keys) > 1 else q.records[:1], strict=True):
            holding = [n for n, r in enumerate(RECORDS[lang], 1) if forms[0] in r]
            assert holding == [number], "each answer stands in one record alone"


@pytest.mark.parametrize("lang", LANGS)
def test_retrieval_finds_one_half_of_the_question_across_records(lang):
    shown = context("retrieval", QUESTIONS[lang][8].text, RECORDS[lang]).split("\n")
    assert RECORDS[lang][3] in shown
    assert RECORDS[lang][12] not in shown


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("question", range(10))
def test_bad_when_a_needed_record_is_removed(lang, question):
    check(lang)
    for number in QUESTIONS[lang][question].records:
        left = [r for n, r in enumerate(RECORDS[lang], 1) if n != number]
        with pytest.raises(UserError, match=f"BAD.*q{question + 1}"):
            check(lang, left)


def test_bad_material_stops_before_anything_is_played(tmp_path, monkeypatch):
    from eval.suites import bench28

    monkeypatch.setitem(bench28.RECORDS, "en", RECORDS["en"][5:])
    with pytest.raises(UserError, match="BAD"):
        run_suite(SUITE, "en", "pass", Arm(policy="script", script="pass", profile="plain@1"), SuiteSettings(out=str(tmp_path)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("number", "lang", "reply", "said"),
    [
        (1, "en", "At 02:47, on lane K6.", "right"),
        (1, "en", "At 2:47.", "right"),
        (1, "en", "12:47", "invented"),
        (1, "en", "02:47 or 06:15", "off target"),
        (1, "en", "06:15", "off target"),
        (1, "en", "unknown", "abstained"),
        (1, "en", "I don't know, perhaps 02:47.", "abstained"),
        (1, "en", "", "no answer"),
        (1, "en", "When was the first stop of our sorter?", "no answer"),
        (3, "en", "3,184 parcels", "right"),
        (3, "en", "31840", "invented"),
        (2, "en", "retry_window", "invented"),
        (9, "en", "A worn belt first; a stale barcode table in the end.", "right"),
        (9, "en", "A worn belt.", "half"),
        (9, "en", "A gateway fault and a full disk.", "invented"),
        (9, "zh", "最初怀疑皮带磨损，最后认定是条码对照表过期。", "right"),
        (9, "zh", "最初怀疑皮带。", "half"),
        (3, "zh", "共 3,184 件", "right"),
        (5, "zh", "苏芮", "right"),
        (5, "zh", "苏瑞", "invented"),
        (10, "zh", "记录里没有提到", "abstained"),
    ],
)
def test_the_split_of_answers(number, lang, reply, said):
    assert verdict(reply, QUESTIONS[lang][number - 1], lang) == said


@pytest.mark.parametrize(
    ("lang", "reply", "said"),
    [
        ("en", "No.", "right"),
        ("en", "Yes.", "invented"),
        ("en", "unknown", "abstained"),
        ("zh", "没有", "right"),
        ("zh", "有没有丢包裹？丢了。", "invented"),
        ("zh", "不知道", "abstained"),
    ],
)
def test_the_yes_no_control(lang, reply, said):
    from eval.suites.bench28 import PRIOR

    assert verdict(reply, PRIOR[lang], lang) == said


def played(tmp_path, script, spec, lang):
    profile, _, manager = spec.partition("/")
    arm = Arm(policy="script", script=script, profile=profile, manager=manager or None)
    results = run_suite(SUITE, lang, f"{script}/{spec}", arm, SuiteSettings(out=str(tmp_path)), repeats=1)
    return SUITE.rows(results)[0]


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize(("spec", "strategy"), zip(SUITE.arms, TARGETS, strict=True))
def test_what_is_played_shows_what_was_designed(tmp_path, lang, spec, strategy):
    present = TARGETS[strategy][1]
    told = played(tmp_path, "pass", spec, lang)
    assert told["answer present"] == f"{present}/10"
    assert told["characters"] == round(design(RECORDS[lang], QUESTIONS[lang])[strategy][0])
    assert told["in view: right"] == f"{present}/{present}"
    assert (told["absent: credited"], told["said unknown"], told["invented"]) == (f"0/{10 - present}", 10 - present, 0)


@pytest.mark.parametrize("lang", LANGS)
def test_wrong_answers_are_never_credited(tmp_path, lang):
    invent = played(tmp_path, "invent", "plain@1/summary", lang)
    assert (invent["in view: right"], invent["invented"], invent["said unknown"]) == ("0/1", 9, 0)
    assert played(tmp_path, "list", "plain@1", lang)["in view: right"] == "0/10"
    assert played(tmp_path, "other", "plain@1", lang)["in view: right"] == "0/10"
    half = played(tmp_path, "half", "plain@1", lang)
    assert (half["in view: right"], half["half"]) == ("9/10", 1)
    guessed = played(tmp_path, "half", "plain@1/recent", lang)  # right by luck where nothing stood in view
    assert (guessed["absent: credited"], guessed["guessed"]) == ("0/8", 7)


def test_other_profiles_play_the_whole_history(tmp_path):
    assert played(tmp_path, "pass", "core@1", "en")["answer present"] == "10/10"
