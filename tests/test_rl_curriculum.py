"""Curriculum over length and variants, full sessions as tasks, and where the time of a step goes."""

from __future__ import annotations

import dataclasses
import shutil
import time
from itertools import islice

import pytest
from rl_moving import config, equal, patch, write_probes
from test_rl_trainer import judge, make

from envs.chat import get_chat
from envs.config import ConfigError, load_config
from envs.policies.base import Sampled
from envs.profiles import get_profile
from envs.runs import read_jsonl, write_jsonl_atomic
from envs.segments import Segment
from envs.tasks import FAMILIES
from envs.tasks.base import Probe
from envs.tasks.probes import make_probes
from rl.clock import Clock
from rl.config import RLConfig
from rl.curriculum import Stage, draw, make_plan, script_tokens
from rl.probes import ProbeGame
from rl.rollout import Played
from rl.rows import naive_positions
from rl.run import run

pytestmark = pytest.mark.usefixtures("one_thread")


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture(scope="module")
def tasks():
    chat = get_chat("tiny")
    found = []
    for family in ("support", "release"):
        for kind in ("static", "changed"):
            groups = filter(None, (make_probes(family, seed, kind, chat) for seed in range(60)))
            found += [p for group in islice(groups, 3) for p in group]
    return found + [FAMILIES["support"].generate(seed) for seed in range(2)]


def plan_of(tasks, stages, steps=6, seed=0):
    return make_plan(tasks, [Stage(**s) for s in stages], steps=steps, groups=2, seed=seed, count=words)


def test_without_stages_the_order_is_that_of_older_runs(tasks):
    plan = plan_of(tasks, [])
    assert plan.tasks == draw(tasks, 12, 0)
    assert plan.pool(1) == plan.pool(6) == range(12)


def test_stages_narrow_by_variant_kind_family_and_length(tasks):
    lengths = sorted(script_tokens(t.session if isinstance(t, Probe) else t, words) for t in tasks)
    middle = lengths[len(lengths) // 2]
    stages = [
        {"until_step": 1, "variants": ["present"], "families": ["support"]},
        {"until_step": 2, "kinds": ["changed"], "max_turns": 4},
        {"until_step": 4, "max_tokens": middle},
        {"variants": ["session"]},
    ]
    plan = plan_of(tasks, stages)
    assert len(plan.tasks) == 12
    assert [plan.stage_of(step) for step in range(1, 7)] == [1, 2, 3, 3, 4, 4]
    by_step = [plan.tasks[2 * i : 2 * i + 2] for i in range(6)]
    assert all(t.variant == "present" and t.family == "support" for t in by_step[0])
    assert all(t.session.knobs["probe"] == "changed" and len(t.session.turns) <= 4 for t in by_step[1])
    assert all(script_tokens(t.session if isinstance(t, Probe) else t, words) <= middle for s in by_step[2:4] for t in s)
    assert all(not isinstance(t, Probe) for s in by_step[4:] for t in s)
    for step in range(1, 7):
        assert set(range(2 * step - 2, 2 * step)) <= set(plan.pool(step)), "a redraw stays in the stage"


def test_the_order_hangs_on_the_seed_and_on_nothing_else(tasks):
    stages = [{"until_step": 3, "variants": ["present", "missing"]}, {}]
    assert plan_of(tasks, stages).tasks == plan_of(tasks, stages).tasks != plan_of(tasks, stages, seed=1).tasks
    assert plan_of(tasks, stages).tasks[:6] == plan_of(tasks, stages, steps=3).tasks


def test_a_stage_without_tasks_and_stages_out_of_order_are_refused(tasks, tmp_path):
    with pytest.raises(ConfigError, match="stage 2 takes none"):
        plan_of(tasks, [{"until_step": 1}, {"families": ["incident"]}])
    path = tmp_path / "rl.yaml"
    path.write_text("probes: p.jsonl\nout: o\nsteps: 9\n")
    for override, message in (
        ("curriculum=[{until_step: 5}, {until_step: 4}]", "each must end after"),
        ("curriculum=[{until_step: 5}]", "leave its until_step out"),
        ("curriculum=[{variants: [mising]}]", "did you mean 'missing'"),
        ("curriculum=[{variant: [missing]}]", "did you mean 'variants'"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_config(RLConfig, path, [override])
    (tmp_path / "empty.yaml").write_text("out: o\n")
    with pytest.raises(ConfigError, match="give probes, sessions or both"):
        load_config(RLConfig, tmp_path / "empty.yaml", [])


def test_a_redraw_takes_tasks_of_the_stage_only(tmp_path):
    chat = get_chat("tiny")

    def flat_on_0(task, played):
        found = judge(task, played)
        return dataclasses.replace(found, q=-0.25) if task == 0 else found

    judged: list[int] = []
    trainer = make(
        chat, tmp_path, judge=lambda t, p: judged.append(t) or flat_on_0(t, p), redraw=2, tasks=6, pool=lambda step: range(3, 5)
    )
    trainer.model.train()
    trainer._generate_and_score_completions([{"prompt": [], "task": t} for t in (0, 0, 0, 0, 1, 1, 1, 1)])
    assert set(judged[8:])
    assert set(judged[8:]) <= {3, 4}


def test_a_full_session_is_a_task_with_its_own_reference(tasks):
    chat = get_chat("tiny")
    game = ProbeGame(get_profile("core@1"), chat, "neutral")
    session = tasks[-1]
    episode = game.start(session)
    assert episode.turn == 0
    episode.step(Sampled(tuple(chat.turn_ids("no idea")), "no idea"))
    outcome = game.judge(session, Played(episode, stopped="turns"))
    assert outcome.overlong
    assert outcome.q < 0, "a session that a limit ended is a failure"
    assert outcome.metrics["variant/session"] == outcome.q
    assert not any(name.startswith("detect/") for name in outcome.metrics)


def test_a_run_over_stages_and_sessions_resumes_exactly(tasks, tmp_path, monkeypatch):
    patch(monkeypatch)
    probes = write_probes(tmp_path / "probes.jsonl")
    write_jsonl_atomic(tmp_path / "sessions.jsonl", tasks[-2:])
    stages = [{"until_step": 1, "variants": ["present"]}, {"variants": ["session", "missing"]}]
    more = {"sessions": str(tmp_path / "sessions.jsonl"), "curriculum": stages, "steps": 2}
    run(config(probes, tmp_path / "a", **more), progress=False)
    lines = read_jsonl(tmp_path / "a" / "metrics.jsonl")
    assert [x["curriculum/stage"] for x in lines] == [1.0, 2.0]
    assert "variant/present" in lines[0]
    assert {"variant/session", "variant/missing"} & set(lines[1])
    # Resumed after the first step by copying what a killed run would have left.
    shutil.copytree(tmp_path / "a" / "checkpoint-1", tmp_path / "b" / "checkpoint-1")
    run(config(probes, tmp_path / "b", **more), progress=False)
    assert equal(tmp_path / "a" / "model", tmp_path / "b" / "model")


# ---- measures -----------------------------------------------------------------------------------------------------------


def test_the_clock_counts_each_second_once():
    clock = Clock()
    with clock("host"):
        time.sleep(0.02)
        with clock("sample"):
            time.sleep(0.05)
        time.sleep(0.02)
    host, sample = clock.take("host"), clock.take("sample")
    assert 0.03 < host < 0.2
    assert 0.045 < sample < 0.2
    assert host + sample < 0.25
    assert clock.take("host") == 0.0


def test_one_row_an_inference_reads_the_view_again_for_each():
    segment = Segment([1, 2, 3])
    for _ in range(2):
        segment.append([4, 5], True)
        segment.append([6], False)
    assert naive_positions(segment) == (3 + 2) + (3 + 2 + 1 + 2)


def test_steps_log_host_share_padding_and_the_ratio_to_one_row_an_inference(tmp_path, monkeypatch):
    patch(monkeypatch)
    probes = write_probes(tmp_path / "probes.jsonl")
    run(config(probes, tmp_path / "a", steps=2, max_turns=3), progress=False)
    for line in read_jsonl(tmp_path / "a" / "metrics.jsonl"):
        assert 0 < line["seconds/host"] < line["seconds/step"]
        assert line["seconds/host_share"] == pytest.approx(line["seconds/host"] / line["seconds/step"])
        assert line["seconds/sample"] < line["seconds/rollout"] < line["seconds/step"]
        assert line["rows/naive_ratio"] > 1.5, "a group reads its view once, not once an inference"
        assert 0 < line["rows/trained_forwarded"] < 1
        assert 0 <= line["rows/padding"] < 0.15
