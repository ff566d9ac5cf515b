"""Freeze, play, score and report on real probes with scripted policies: locks, restarts, infrastructure errors."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from typer.testing import CliRunner

import eval.run as runner
from envs.chat import get_chat
from envs.config import ConfigError, UserError
from envs.runs import read_json, read_jsonl, write_jsonl_atomic
from envs.tasks import get_family
from envs.tasks.probes import make_probes
from eval.__main__ import app
from eval.config import EvalConfig
from eval.freeze import LockError, freeze
from eval.policies import make_policy
from eval.report import report
from eval.run import run
from eval.score import score


def draw(family, kind, bases=2):
    """The probes of the first seeds that make a base."""
    made = (make_probes(family, seed, kind, get_chat()) for seed in range(10, 100))
    return [p for found in itertools.islice(filter(None, made), bases) for p in found]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    probes = [p for family in ("procurement", "support") for p in draw(family, "static")]
    probes += [p for kind in ("changed", "never") for p in draw("procurement", kind)]
    assert {p.variant for p in probes} == {"present", "missing", "superseded", "never_stated"}
    write_jsonl_atomic(folder / "probes.jsonl", probes)
    write_jsonl_atomic(folder / "sessions.jsonl", [get_family("support").generate(5)])
    return folder


@pytest.fixture
def make(data, tmp_path):
    def build(**more):
        fields = {
            "name": "t", "out": str(tmp_path / "run"), "probes": str(data / "probes.jsonl"), "batch_size": 4,
            "bootstrap": {"resamples": 200}, "arms": {"expert": {"policy": "expert"}},
        }  # fmt: skip
        return EvalConfig(**{**fields, **more})

    return build


def episodes(config, arm="expert"):
    return config.arm_folder(arm) / "episodes.jsonl"


def stored(config, arm="expert"):
    return [json.loads(line)["id"] for line in episodes(config, arm).read_text().splitlines()]


def test_scripted_arms_are_told_apart_and_the_report_shows_it(make, data):
    arms = {n: {"policy": n} for n in ("expert", "never_read", "always_read", "fabricator", "closed_book")}
    arms["plain"] = {"policy": "expert", "profile": "plain@1"}
    arms["cut"] = {"policy": "expert", "profile": "plain@1", "manager": "truncate", "view_budget": 200}
    config = make(arms=arms, sessions=str(data / "sessions.jsonl"), references=("expert", "plain"))
    lock = freeze(config)
    run(config)
    results = score(config)
    pair = {arm: results["arms"][arm]["pair_success"]["mean"] for arm in arms}
    assert pair["expert"] == pair["plain"] == 1.0
    assert pair["never_read"] == pair["always_read"] == pair["fabricator"] == pair["closed_book"] == 0.0
    assert results["arms"]["closed_book"]["task_correct"]["mean"] < 0.2
    assert results["arms"]["always_read"]["detection_false_alarm"]["mean"] == 1.0
    assert results["arms"]["always_read"]["tokens"]["mean"] > results["arms"]["expert"]["tokens"]["mean"]
    assert results["arms"]["cut"]["peak"]["mean"] < results["arms"]["plain"]["peak"]["mean"]
    assert results["arms"]["plain"]["session_task_correct"]["n"] == 1
    assert results == read_json(config.folder / "results.json")

    page = report(config, command="python -m eval report x.yaml").read_text()
    assert lock.lock in page
    assert "python -m eval report x.yaml" in page
    for needed in ("<svg", "damage not suspected", "[0.", "never", "Paired differences", "Worst episodes", "split"):
        assert needed in page
    assert not re.search(r'(?:src|href)="(?!#)', page)  # nothing from outside the file
    twin = (config.folder / "report.md").read_text()
    assert lock.lock in twin
    tokens = f"{results['arms']['expert']['tokens']['mean']:,.0f}"
    assert tokens in page
    assert tokens in twin


def test_a_changed_rule_is_refused_in_one_line_that_names_it(make, data, tmp_path):
    config = make()
    freeze(config)
    run(config)
    for change, entry in (
        ({"decoding": {"temperature": 0.7}}, "decoding"),
        ({"arms": {"expert": {"policy": "never_read"}}}, "arm.expert"),
        ({"hypotheses": "whatever came out"}, "text.hypotheses"),
    ):
        with pytest.raises(LockError) as error:
            run(make(**change))
        message = str(error.value)
        assert re.search(rf"{re.escape(entry)} changed since the freeze, \w{{8}} -> \w{{8}}", message)
        assert "--new" in message
        assert "\n" not in message
    other = tmp_path / "other.jsonl"
    write_jsonl_atomic(other, read_jsonl(data / "probes.jsonl")[:-1])
    for step in (run, score, freeze):
        with pytest.raises(LockError, match="probes changed since the freeze"):
            step(make(probes=str(other)))
    assert freeze(make(batch_size=7)).lock == freeze(config).lock  # how fast it is played is not a rule


def test_a_changed_source_is_refused_by_the_steps_that_use_it(make, tmp_path, monkeypatch):
    import eval.freeze as module
    from eval import sources

    config = make()
    lock = freeze(config)
    real = sources.sha256_file
    monkeypatch.setattr(sources, "sha256_file", lambda path: "0" * 64 if path.name == "view.py" else real(path))
    with pytest.raises(LockError, match=r"source\.play\.envs/view\.py changed"):
        run(config)
    assert module.check_score(config).lock == lock.lock  # scoring renders nothing
    monkeypatch.setattr(sources, "sha256_file", lambda path: "0" * 64 if path.name == "scoring.py" else real(path))
    with pytest.raises(LockError, match=r"source\.score\.envs/scoring\.py changed"):
        score(config)


def test_a_new_freeze_keeps_earlier_results_apart(make):
    config = make()
    old = freeze(config)
    run(config)
    weights = config.folder / "sft" / "model.safetensors"  # a stage of the same run, none of ours
    weights.parent.mkdir()
    weights.write_bytes(b"weights")
    kept = episodes(config).read_bytes()
    changed = make(decoding={"seed": 9})
    with pytest.raises(LockError):
        freeze(changed)
    new = freeze(changed, new=True)
    assert new.lock != old.lock
    assert not episodes(config).exists()
    assert weights.read_bytes() == b"weights"
    assert (config.folder / "earlier" / old.short / "arms" / "expert" / "episodes.jsonl").read_bytes() == kept
    assert freeze(changed, new=True).lock == new.lock  # nothing left to replace
    assert len(list((config.folder / "earlier").iterdir())) == 1


def test_episodes_of_another_lock_are_never_scored_or_reported(make):
    config = make()
    freeze(config)
    run(config)
    score(config)
    meta = config.arm_folder("expert") / "meta.json"
    meta.write_text(meta.read_text().replace(read_json(meta)["lock"], "f" * 64))
    for step in (run, score):
        with pytest.raises(LockError, match="different locks are never compared"):
            step(config)
    results = config.folder / "results.json"
    results.write_text(results.read_text().replace(read_json(results)["lock"], "f" * 64))
    with pytest.raises(LockError, match="different locks are never compared"):
        report(config)


def test_nothing_is_played_before_it_is_frozen(make):
    with pytest.raises(LockError, match="nothing is frozen yet"):
        run(make())


def test_a_torn_last_line_is_owed_and_nothing_else_is_played_again(make):
    config = make()
    freeze(config)
    run(config)
    before = episodes(config).read_bytes().splitlines(keepends=True)
    episodes(config).write_bytes(b"".join(before[:-1]) + before[-1][:200])
    with pytest.raises(UserError, match="resume the run"):
        score(config)
    played = run(config)["expert"]
    assert (played.before, played.now, played.owed) == (len(before) - 1, 1, 0)
    assert episodes(config).read_bytes() == b"".join(before)
    assert run(config)["expert"].now == 0


def test_a_killed_run_goes_on_without_repeating_or_losing(make, monkeypatch):
    config = make()
    freeze(config)
    calls = []

    class Dies:
        def __init__(self, inner):
            self.inner = inner

        def act(self, views):
            calls.append(len(views))
            if len(calls) == 3:
                raise KeyboardInterrupt
            return self.inner.act(views)

    monkeypatch.setattr(runner, "make_policy", lambda *args: Dies(make_policy(*args)))
    with pytest.raises(KeyboardInterrupt):
        run(config)
    first = stored(config)
    assert first
    monkeypatch.undo()
    run(config)
    everything = stored(config)
    assert everything[: len(first)] == first
    assert sorted(everything) == sorted(p["id"] for p in read_jsonl(config.probes))


class Fails:
    """A backend that fails when ``when(number of the call, views)`` says so."""

    def __init__(self, inner, when):
        self.inner, self.when, self.calls = inner, when, 0

    def act(self, views):
        self.calls += 1
        if self.when(self.calls, views):
            raise RuntimeError("connection lost\nby the server")
        return self.inner.act(views)


def test_a_passing_backend_error_is_retried_counted_and_costs_no_episode(make, monkeypatch):
    config = make()
    freeze(config)
    monkeypatch.setattr(runner, "make_policy", lambda *args: Fails(make_policy(*args), lambda call, views: call in (2, 4)))
    played = run(config)["expert"]
    assert played.owed == 0
    errors = read_jsonl(config.arm_folder("expert") / "errors.jsonl")
    assert len(errors) == 2
    assert errors[0]["error"] == "RuntimeError: connection lost by the server"
    score(config)
    health = read_json(config.folder / "details.json")["health"]["expert"]
    assert health["infrastructure_errors"] == 2
    assert (health["scored"], health["excluded_infrastructure"]) == (health["expected"], 0)


def test_a_lasting_backend_error_owes_its_episode_and_is_shown(make, monkeypatch):
    config = make()
    freeze(config)
    bad = read_jsonl(config.probes)[1]["session"]["turns"][-1]["text"]
    fails = lambda call, views: any(bad in v.messages[-1].content and "ok" not in v.messages[-1].content for v in views)  # noqa: E731
    monkeypatch.setattr(runner, "make_policy", lambda *args: Fails(make_policy(*args), fails))
    played = run(config)["expert"]
    assert played.owed >= 1
    tries = [e for e in read_jsonl(config.arm_folder("expert") / "errors.jsonl") if len(e["samples"]) == 1]
    assert len(tries) == 2 * played.owed
    score(config)
    health = read_json(config.folder / "details.json")["health"]["expert"]
    assert health["excluded_infrastructure"] == played.owed
    assert "is incomplete" in report(config).read_text()
    monkeypatch.undo()
    assert run(config)["expert"].now == played.owed


def test_a_dead_backend_stops_the_arm_instead_of_failing_everything(make, monkeypatch):
    config = make()
    freeze(config)
    monkeypatch.setattr(runner, "make_policy", lambda *args: Fails(make_policy(*args), lambda call, views: True))
    with pytest.raises(UserError, match="failed on all of a batch: RuntimeError: connection lost"):
        run(config)
    assert len({tuple(s) for e in read_jsonl(config.arm_folder("expert") / "errors.jsonl") for s in e["samples"]}) == 4


def test_what_a_policy_says_is_never_infrastructure(make, monkeypatch):
    from envs.policies.base import Sampled

    class Babbles:
        def act(self, views):
            return [Sampled((1, 2), "{broken", cut=True) for _ in views]

    config = make()
    freeze(config)
    monkeypatch.setattr(runner, "make_policy", lambda *args: Babbles())
    assert run(config)["expert"].owed == 0
    results = score(config)["arms"]["expert"]
    assert results["malformed_rate"]["mean"] == 1.0
    assert results["within_budget"]["mean"] == 0.0
    assert results["task_correct"]["mean"] == 0.0


def test_held_out_families_need_the_split_to_say_so(make, tmp_path):
    path = tmp_path / "held.jsonl"
    write_jsonl_atomic(path, draw("travel", "static", 1))
    with pytest.raises(ConfigError, match="travel is held out: set split: held_out only for the final test"):
        freeze(make(probes=str(path)))
    assert freeze(make(probes=str(path), split="held_out")).stated["split"] == "held_out"


def test_weights_and_tokenizer_are_in_the_lock(make, tmp_path):
    import shutil

    from envs.policies.smollm2 import resolve_model

    model = tmp_path / "model"
    shutil.copytree(resolve_model("tiny"), model)
    config = make(arms={"sft": {"policy": "hf", "model": str(model)}})
    lock = freeze(config)
    assert {"backbone.sft.weights", "backbone.sft.tokenizer"} <= set(lock.backbone)
    weights = model / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    with pytest.raises(LockError, match=r"backbone\.sft\.weights changed since the freeze"):
        run(config)


def test_a_model_arm_plays_and_resumes(make, data, tmp_path):
    path = tmp_path / "few.jsonl"
    write_jsonl_atomic(path, read_jsonl(data / "probes.jsonl")[:3])
    config = make(
        probes=str(path), arms={"base": {"policy": "hf", "model": "tiny"}},
        decoding={"temperature": 1.0, "max_new_tokens": 8, "dtype": "float32"},
    )  # fmt: skip
    freeze(config)
    run(config)
    lines = episodes(config, "base").read_bytes().splitlines(keepends=True)
    assert len(lines) == 3
    episodes(config, "base").write_bytes(b"".join(lines[:1]))
    run(config)
    assert episodes(config, "base").read_bytes() == b"".join(lines)  # sampled as if it had never stopped
    assert score(config)["arms"]["base"]["pair_success"]["mean"] == 0.0


@pytest.mark.parametrize(
    ("arm", "needed"),
    [
        ({"policy": "hf"}, "needs a model"),
        ({"policy": "expert", "model": "smollm2"}, "takes no model"),
        ({"policy": "expert", "manager": "pinned"}, "needs profile: plain@1"),
        ({"policy": "expert", "profile": "plain@1", "view_budget": 512}, "needs a manager"),
    ],
)
def test_an_arm_that_makes_no_sense_is_refused(make, arm, needed):
    with pytest.raises(ValueError, match=needed):
        make(arms={"x": arm})


def test_the_command_line_teaches_and_fails_in_one_line(make, tmp_path):
    invoke = CliRunner().invoke
    shown = invoke(app, ["--help"]).output
    for word in ("freeze", "run", "score", "report", "configs/"):
        assert word in shown
    config = tmp_path / "c.yaml"
    config.write_text(f"name: t\nout: {tmp_path}/run\nprobes: {make().probes}\narms: {{expert: {{policy: expert}}}}\n")
    refused = invoke(app, ["run", str(config)])
    assert refused.exit_code == 2
    assert "nothing is frozen yet" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert invoke(app, ["freeze", str(config), "bootstrap.resamples=300"]).exit_code == 0
    assert "bootstrap changed since the freeze" in invoke(app, ["run", str(config)]).stderr
