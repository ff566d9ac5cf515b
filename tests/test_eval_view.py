"""The page of a scored run: what it says of each episode is what was stored and scored, and nothing of another lock gets onto it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner
from viewer_run import ARMS, make_run

from envs.chat import get_chat
from envs.config import UserError
from envs.rewards import reference_cost, saving
from envs.runs import read_json, read_jsonl, write_json_atomic
from envs.scoring import Score
from envs.tasks.base import Probe, Session
from envs.trajectory import Trajectory, unpack_inputs
from envs.viewer import read_page, views_of
from eval.__main__ import app
from eval.freeze import LockError, freeze
from eval.needed import needed_in_input
from eval.report import report
from eval.store import read_arm, stored_key
from eval.view import Only, length_of, link_to, name_of, view

PROBES, SESSIONS = 30, 2


@pytest.fixture(scope="session")
def config(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"), PROBES, SESSIONS, families=("procurement", "support"), bases=18, worst=3)


@pytest.fixture(scope="session")
def made(config):
    """The page of everything, the report made before it, and the one after."""
    before = report(config).read_text()
    viewed = view(config)
    return viewed, before, report(config).read_text()


@pytest.fixture(scope="session")
def stored(made):
    return read_page(made[0].path.read_text())


@pytest.fixture(scope="session")
def scores(config):
    return {name_of(row["arm"], row["sample"], row["repeat"]): row for row in read_jsonl(config.folder / "scores.jsonl")}


@pytest.fixture(scope="session")
def episodes(config):
    """Name on the page -> trajectory."""
    arms = {arm: read_arm(config.arm_folder(arm), Trajectory, stored_key) for arm in ARMS}
    return {name_of(arm, key[1], key[2]): t for arm, found in arms.items() for key, t in found.items()}


def labels(stored, number):
    return {f["name"]: [f["values"][c] for c in f["rows"][number]] for f in stored.listing["fields"] if f["rows"][number]}


def numbers(stored, number):
    return {n["name"]: n["rows"][number] for n in stored.listing["numbers"]}


def test_every_scored_episode_is_there_with_its_views(made, stored, scores, episodes):
    ids = [row["id"] for row in stored.listing["rows"]]
    assert len(ids) == made[0].shown == made[0].scored == len(ARMS) * (PROBES + SESSIONS)
    assert set(ids) == set(scores) == set(episodes)
    for name, held in zip(ids, stored.blocks, strict=True):
        assert views_of(held) == [[(m.role, m.content) for m in view] for view in episodes[name].views()]


def test_labels_and_numbers_are_those_of_the_scores(config, stored, scores):
    probes = {p.id: p for p in read_jsonl(config.probes, model=Probe)}
    causes = set()
    for number, row in enumerate(stored.listing["rows"]):
        said, score, held = scores[row["id"]], scores[row["id"]]["score"], labels(stored, number)
        causes.add(said["cause"])
        assert held["arm"] == [said["arm"]]
        assert held["family"] == [said["family"]]
        assert held["language"] == [said["lang"]]
        assert held["variant"] == [said["variant"] or "whole session"]
        assert held.get("cause", [None]) == [said["cause"]]
        assert held["task"] == ["right" if score["task_correct"] else "failed"]
        assert held.get("needed in input") == {True: ["yes"], False: ["no"], None: None}[said["needed_in_input"]]
        assert held.get("hint") == ([probes[said["sample"]].hint] if said["source"] == "probe" else None)
        found = numbers(stored, number)
        assert (found["tokens"], found["inferences"], found["reward q"], found["reads"], found["peak input"], found["rewrites"]) == (
            score["tokens"], score["inferences"], round(score["q"], 4), len(score["reads"]), score["peak"], score["rewrites"],
        )  # fmt: skip
        assert held["reads"] == [["0 read-backs", "1 read-back", "2 read-backs", "3+ read-backs"][min(len(score["reads"]), 3)]]
    assert len(causes) > 3
    assert {"length", "signal", "ended"} <= {f["name"] for f in stored.listing["fields"]}


def test_what_was_spent_is_told_to_the_token(stored, episodes):
    shared = 0
    for row, held in zip(stored.listing["rows"], stored.blocks, strict=True):
        t = episodes[row["id"]]
        before: list[int] = []
        for step, inference, ids in zip(held["steps"], t.inferences, unpack_inputs(t.inputs), strict=True):
            assert (step["in"], step["sampled"]) == (len(ids), len(inference.ids))
            assert ids[: step["shared"]] == before[: step["shared"]]
            assert ids[step["shared"] : step["shared"] + 1] != before[step["shared"] : step["shared"] + 1]
            before = [*ids, *inference.ids]
            shared += step["shared"]
        assert sum(s["in"] + s["sampled"] for s in held["steps"]) == t.tokens == row["tokens"]
    assert shared > 0


def test_what_was_rewarded_adds_up(config, stored, scores, episodes):
    tasks = {p.id: p for p in read_jsonl(config.probes, model=Probe)} | {
        s.id: s for s in read_jsonl(config.sessions, model=Session)
    }
    costs = {name: reference_cost(task, get_chat(config.tokenizer)) for name, task in tasks.items()}
    answers = {True: 0, False: 0, None: 0}
    for number, (row, held) in enumerate(zip(stored.listing["rows"], stored.blocks, strict=True)):
        said = scores[row["id"]]
        slots = [(i, s) for i, turn in enumerate(held["turns"]) for s in turn["slots"] if s["credit"] is not None]
        checks = [(c["turn"], c["slot"], c["credit"], c["weight"]) for c in said["score"]["checks"]]
        assert [(i, s["name"], s["credit"], s["weight"]) for i, s in slots] == checks
        assert sum(s["earned"] for _, s in slots) == pytest.approx(said["score"]["q"], abs=1e-3)
        assert held["reference"] == costs[said["sample"]]
        assert held["s"] == numbers(stored, number)["saving s"] == round(saving(costs[said["sample"]], row["tokens"]), 4)
        wanted = {(n.turn, n.slot): n.in_input for n in needed_in_input(episodes[row["id"]], Score.model_validate(said["score"]))}
        for i, s in slots:
            assert s["needed"] == wanted.get((i, s["name"]))
            answers[s["needed"]] += 1
    assert all(answers.values())


def test_the_damage_is_told_and_the_same_sample_of_the_arms_belongs_together(config, stored, scores):
    probes = {p.id: p for p in read_jsonl(config.probes, model=Probe)}
    groups: dict[int, set[str]] = {}
    for row, held in zip(stored.listing["rows"], stored.blocks, strict=True):
        said = scores[row["id"]]
        groups.setdefault(row["group"], set()).add(said["sample"])
        probe = probes.get(said["sample"])
        assert (held["injected"] is None) == (probe is None)
        if probe:
            assert held["injected"]["briefs"] == list(probe.injection.brief.values())
    assert all(len(names) == 1 for names in groups.values())
    assert len(groups) == PROBES + SESSIONS
    arms = [labels(stored, n)["arm"][0] for n in range(len(stored.blocks))]
    assert arms == list(ARMS) * (PROBES + SESSIONS)  # the arms of a sample are neighbours


def test_a_part_can_be_asked_for(config, scores, tmp_path):
    def shown(**more):
        made = view(config, out=tmp_path / "part.html", **more)
        rows = read_page(made.path.read_text()).listing["rows"]
        assert len(rows) == made.shown
        return [row["id"] for row in rows]

    failed = {name for name, row in scores.items() if not row["score"]["task_correct"]}
    assert set(shown(only=Only.failed)) == failed
    assert set(shown(only=Only.right)) == set(scores) - failed
    assert set(shown(arms=["abstainer"], only=Only.failed)) == {n for n in failed if n.startswith("abstainer/")}
    worst = sorted(scores, key=lambda n: (scores[n]["score"]["q"], -scores[n]["score"]["tokens"]))
    assert {scores[n]["score"]["q"] for n in shown(limit=5)} == {scores[n]["score"]["q"] for n in worst[:5]}
    assert sum(scores[n]["score"]["tokens"] for n in shown(limit=5)) == sum(scores[n]["score"]["tokens"] for n in worst[:5])
    with pytest.raises(UserError, match="no failed episode of expert: nothing to show"):
        view(config, arms=["expert"], only=Only.failed, out=tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()


def test_the_report_links_to_its_worst_episodes_once_the_page_is_there(config, made, scores, stored):
    _, before, after = made
    assert not re.findall(r'href="episodes', before)
    links = re.findall(r'href="(episodes\.html#[^"]+)"', after)
    assert len(links) == 3
    ids = {row["id"]: row["steps"] for row in stored.listing["rows"]}
    for link in links:
        name, step = map(unquote, link.split("#")[1].split("/"))
        assert ids[name] == int(step)
        assert not scores[name]["score"]["task_correct"]
    assert link_to(config.folder, "a", "b/c d", 2, 0) == "episodes.html#a%2Fb%2Fc%20d%2Frepeat-2/1"


def test_the_command_makes_the_page_of_a_run_folder(config, made, tmp_path):
    out = tmp_path / "few.html"
    arguments = ["view", str(config.folder), "--arm", "expert", "--arm", "fabricator", "--limit", "4", "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert f"{out}: 4 of {2 * (PROBES + SESSIONS)} scored episodes" in result.output
    intro = read_page(out.read_text()).listing["intro"]
    assert f"4 of {2 * (PROBES + SESSIONS)} scored episodes, the worst" in intro
    text = CliRunner().invoke(app, ["view", "--help"], env={"COLUMNS": "160"}).output
    assert "Example: python -m eval view" in text


def refused(config, *more):
    result = CliRunner().invoke(app, ["view", str(config.folder), *more])
    assert result.exit_code == 2, result.output
    assert len(result.output.strip().splitlines()) == 1
    return result.output


def test_what_can_not_be_shown_is_refused_in_one_line(config, tmp_path):
    assert "no eval.yaml" in refused(config.model_copy(update={"out": str(tmp_path)}))
    assert "arm 'sft': not in the config: use one of expert" in refused(config, "--arm", "sft")
    fresh = config.model_copy(update={"out": str(tmp_path / "fresh")})
    freeze(fresh)
    assert "nothing is scored: run the score command first" in refused(fresh)


def test_nothing_of_another_lock_is_shown(config, tmp_path):
    results = config.folder / "results.json"
    held = read_json(results)
    write_json_atomic(results, held | {"lock": "0" * 64})
    try:
        with pytest.raises(LockError, match="made under lock 000000000000"):
            view(config, out=tmp_path / "x.html")
    finally:
        write_json_atomic(results, held)
    probes = [json.loads(line) for line in Path(config.probes).read_text().splitlines()]
    other = tmp_path / "probes.jsonl"
    other.write_text("".join(json.dumps(p) + "\n" for p in probes[:-1]))
    with pytest.raises(LockError, match="probes changed since the freeze"):
        view(config.model_copy(update={"probes": str(other)}), out=tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


def test_without_its_tokenizer_an_arm_has_no_saving(config, tmp_path, monkeypatch):
    def gone(config, arm):
        raise UserError("no such folder")

    monkeypatch.setattr("eval.view.chat_of", gone)
    made = view(config, arms=["expert"], out=tmp_path / "x.html")
    assert made.notes == ("arm expert: its tokenizer can't be read, so no saving s is shown (no such folder)",)
    page = read_page(made.path.read_text())
    assert "saving s" not in {n["name"] for n in page.listing["numbers"]}
    assert {b["s"] for b in page.blocks} == {None}


def test_damaged_inputs_are_told(config, tmp_path, monkeypatch):
    monkeypatch.setattr("envs.viewer.blocks.unpack_inputs", lambda packed: [[1, 2]] * 99)
    with pytest.raises(UserError, match=r"arms: expert/\S+: 99 inputs are stored for 1 inferences: python -m eval replay"):
        view(config, arms=["expert"], out=tmp_path / "x.html")


def test_length_classes():
    assert [length_of(n) for n in (1, 4, 5, 64, 65)] == ["1-4 turns", "1-4 turns", "5-8 turns", "33-64 turns", "65+ turns"]
