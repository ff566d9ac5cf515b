"""Arms of the shipped configs: complete, playable, with their safeguards and prompts in the lock; the tuned prompt; the demo."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from envs.chat import get_chat
from envs.config import ConfigError, UserError, load_config
from envs.managers import MANAGERS
from envs.policies.smollm2 import load_tokenizer, resolve_model
from envs.runs import read_jsonl, write_jsonl_atomic
from envs.tasks.probes import make_probes
from eval.__main__ import app
from eval.config import Arm, EvalConfig
from eval.demo import demo_config, demo_run, draw_suite
from eval.freeze import LockError, build_lock, freeze
from eval.run import run
from eval.score import score
from eval.suites import SUITES, SuiteSettings
from eval.suites.play import profile_for
from eval.tune import Candidate, read_candidates, tune

ROOT = Path(__file__).parents[1]
FAST = ["decoding.max_new_tokens=4", "decoding.dtype=float32", "bootstrap.resamples=100"]


@pytest.fixture(scope="module")
def probes(tmp_path_factory):
    """Three probes: a damaged one, its twin, and one of another base."""
    found = (make_probes("procurement", seed, "static", get_chat()) for seed in range(500, 600))
    one, two = (made for made in (next(f for f in found if f), next(f for f in found if f)))
    path = tmp_path_factory.mktemp("probes") / "probes.jsonl"
    write_jsonl_atomic(path, [*one, two[0]])
    return path


def with_tiny(path, folder, probes, *more):
    """A shipped config with every model replaced by a random one."""
    names = yaml.safe_load((ROOT / path).read_text())["arms"]
    swaps = [f"arms.{name}.model=tiny" for name, arm in names.items() if "model" in arm]
    return load_config(EvalConfig, ROOT / path, [f"out={folder}", f"probes={probes}", *FAST, *swaps, *more])


def test_the_main_config_has_every_manager_every_kind_of_weights_and_every_safeguard():
    arms = {name: Arm(**arm) for name, arm in yaml.safe_load((ROOT / "configs/eval_main.yaml").read_text())["arms"].items()}
    assert {a.manager for a in arms.values() if a.manager} == set(MANAGERS)
    assert {"plain", "plain_truncated", "base", "prompt", "sft", "rl", "expert"} <= set(arms)
    plain = {a.model for a in arms.values() if a.profile == "plain@1" and not a.manager}
    assert plain == {"smollm2", "runs/demo/sft/model", "runs/demo/rl/model", "runs/sft-plain/model"}
    assert {s for a in arms.values() for s in (*a.ablate, *a.enable)} == {"index", "gate", "conflicts"}
    assert arms["prompt"].prompt != arms["sft"].prompt == arms["rl"].prompt == "neutral"


@pytest.mark.usefixtures("one_thread")
def test_every_arm_of_the_main_config_plays(tmp_path, probes, monkeypatch):
    monkeypatch.setattr("envs.policies.hf.load_tokenizer", cache(load_tokenizer))  # one model in 25 arms
    config = with_tiny("configs/eval_main.yaml", tmp_path, probes, "references=[plain]")
    lock = freeze(config)
    assert {p.removeprefix("profile.") for p in lock.rules if p.startswith("profile.")} == {
        "plain@1", "core@1", "core@1[index=False]", "core@1[evidence_gate=True]", "unified@4-compact", "unified@4-compact[index=False]",
        "unified@4-compact[evidence_gate=False]", "unified@4-compact[conflict_flags=False]",
    }  # fmt: skip
    assert len({h for name, h in lock.rules.items() if name.startswith("profile.")}) == 8
    played = run(config)
    assert {p.now for p in played.values()} == {3}
    results = score(config)
    assert set(results["arms"]) == set(config.arms)
    for arm in ("expert", "expert_noindex", "expert_gate"):
        assert results["arms"][arm]["pair_success"]["mean"] == 1.0, arm
    triggers = json.loads((tmp_path / "details.json").read_text())["counts"]
    assert triggers["expert"]["probe"]["triggers"] == {"index": 1}
    assert triggers["expert_noindex"]["probe"]["triggers"] == {"self": 1}
    shown = json.loads((config.arm_folder("expert_noindex") / "episodes.jsonl").read_text().splitlines()[0])
    assert shown["profile"] == "core@1[index=False]"
    assert "\nout: " not in shown["inferences"][0]["new"][0]["content"]


@pytest.mark.parametrize(
    ("arm", "needed"),
    [
        ({"policy": "expert", "ablate": ["gate"]}, "core@1 plays without 'gate' anyway: drop it, or enable: [gate]"),
        ({"policy": "expert", "enable": ["index"]}, "core@1 plays with 'index' anyway: drop it, or ablate: [index]"),
        ({"policy": "hf", "model": "tiny", "profile": "plain@1", "ablate": ["index"]}, "plain@1 has none"),
        ({"policy": "expert", "prompt": "giuded"}, "unknown prompt 'giuded'"),
        (
            {"policy": "expert", "prompt": "not/there.txt"},
            "no prompt file 'not/there.txt': python -m eval tune-prompt writes one",
        ),
    ],
)
def test_a_safeguard_or_prompt_that_cannot_be_is_refused(arm, needed):
    with pytest.raises(ValueError, match="(?s)" + needed.replace("[", r"\[").replace("]", r"\]")):
        Arm(**arm)


def test_the_text_of_a_prompt_file_is_in_the_lock_and_in_the_view(tmp_path, probes):
    prompt = tmp_path / "p.txt"
    prompt.write_text("Look before you answer.\n")
    config = with_tiny(
        "configs/eval_main.yaml",
        tmp_path / "run",
        probes,
        f"arms={{a: {{policy: expert, prompt: {prompt}}}}}",
        "references=[]",
        "inference.judged=[]",
    )
    freeze(config)
    run(config)
    first = json.loads((config.arm_folder("a") / "episodes.jsonl").read_text().splitlines()[0])
    assert first["inferences"][0]["new"][0]["content"].startswith("Look before you answer.\nnote key=value")
    prompt.write_text("Look twice.\n")
    with pytest.raises(LockError, match=r"prompt\.core@1\..*p\.txt changed"):
        run(config)


# ---- tune-prompt -------------------------------------------------------------------------------------------------------------


def test_candidates_come_from_a_folder_a_list_or_a_mapping(tmp_path):
    for name, text in (("b", "Two.\n"), ("a", "One."), ("c", "One.")):
        (tmp_path / f"{name}.txt").write_text(text)
    assert read_candidates(tmp_path) == [Candidate("a", "One."), Candidate("b", "Two.")]  # the same text counts once
    made = tmp_path / "list.yaml"
    made.write_text("- One.\n- |\n  Two\n  lines.\n")
    assert [c.text for c in read_candidates(made)] == ["One.", "Two\nlines."]
    made.write_text("short: One.\nlong: Two.\n")
    assert [c.name for c in read_candidates(made)] == ["short", "long"]
    for text, needed in (("- [1]\n", "not a list of texts"), ("- ''\n", "is empty"), ("a: [", "not YAML")):
        made.write_text(text)
        with pytest.raises(UserError, match=needed):
            read_candidates(made)
    with pytest.raises(UserError, match="no such file or folder"):
        read_candidates(tmp_path / "none")


class Obeys:
    """Stands in for a model: the expert where the prompt says so, else a policy that never reads; ``long``: with idle searches."""

    def __init__(self, chat):
        from envs.policies.flawed import ProtocolChatterer
        from envs.policies.scripted import Expert, NeverRead

        self.by = {"expert": Expert(chat), "long": ProtocolChatterer(chat), "never": NeverRead(chat)}
        self.calls = 0

    def act(self, views):
        self.calls += 1
        word = views[0].messages[0].content.split("\n", 1)[0].split()[-1].strip(".")
        return self.by[word].act(views)


@pytest.fixture
def tuning(tmp_path, probes, monkeypatch):
    model = Obeys(get_chat())
    monkeypatch.setattr("eval.run.make_policy", lambda *_: model)
    config = EvalConfig(
        name="t", out=str(tmp_path / "run"), probes=str(probes), arms={"prompt": {"policy": "hf", "model": "tiny"}, "other": {"policy": "expert"}},
        tokenizer="tiny", bootstrap={"resamples": 100}, references=("other",),
    )  # fmt: skip
    return config, model


def test_the_best_prompt_by_metric_then_tokens_wins_and_all_are_logged(tuning):
    config, model = tuning
    candidates = [Candidate("a", "Act as never."), Candidate("b", "Act as long."), Candidate("c", "Act as expert.")]
    lines = tune(config, candidates, "prompt")
    assert [line["name"] for line in lines] == ["c", "b", "a"]
    assert [line["metrics"]["pair_success"]["mean"] for line in lines] == [1.0, 1.0, 0.0]
    assert lines[0]["metrics"]["tokens"]["mean"] < lines[1]["metrics"]["tokens"]["mean"]
    folder = config.folder / "tuning"
    assert (folder / "prompt.txt").read_text() == "Act as expert.\n"
    log = read_jsonl(folder / "tuning.jsonl")
    assert [(line["order"], line["name"], line["text"]) for line in log] == [
        (1, "a", "Act as never."),
        (2, "b", "Act as long."),
        (3, "c", "Act as expert."),
    ]
    assert all({"hash", "lock", "at", "seconds"} <= set(line) and line["metrics"]["pair_success"]["n"] == 1 for line in log)
    assert not (config.folder / "arms").exists(), "the evaluation itself is left alone"

    before, calls = (folder / "tuning.jsonl").read_bytes(), model.calls
    assert tune(config, candidates[:2], "prompt")[0]["name"] == "b"
    assert (folder / "tuning.jsonl").read_bytes() == before
    assert model.calls == calls, "what the log has is not played again"
    tune(config, [*candidates, Candidate("d", "Act, act as never.")], "prompt")
    assert (folder / "tuning.jsonl").read_bytes().startswith(before)
    assert len(read_jsonl(folder / "tuning.jsonl")) == 4
    assert Arm(policy="hf", model="tiny", prompt=str(folder / "prompt.txt")).prompt.endswith("prompt.txt")


def test_a_changed_rule_is_played_anew_and_the_log_keeps_both(tuning):
    config, _ = tuning
    tune(config, [Candidate("a", "Act as never.")], "prompt")
    tune(
        config.model_copy(update={"decoding": config.decoding.model_copy(update={"seed": 5})}),
        [Candidate("a", "Act as never.")],
        "prompt",
    )
    log = read_jsonl(config.folder / "tuning" / "tuning.jsonl")
    assert [line["order"] for line in log] == [1, 2]
    assert log[0]["lock"] != log[1]["lock"]


def test_prompts_are_tuned_on_validation_probes_alone(tuning, tmp_path):
    config, _ = tuning
    one = [Candidate("a", "Act as never.")]
    with pytest.raises(ConfigError, match="tuned on validation probes only"):
        tune(config.model_copy(update={"split": "held_out"}), one, "prompt")
    held = tmp_path / "held.jsonl"
    write_jsonl_atomic(held, next(p for seed in range(90) if (p := make_probes("travel", seed, "static", get_chat()))))
    with pytest.raises(ConfigError, match="family travel is held out: no prompt is tuned on it"):
        tune(config.model_copy(update={"probes": str(held)}), one, "prompt")
    with pytest.raises(UserError, match="reads no prompt"):
        tune(config, one, "other")
    with pytest.raises(UserError, match="not in the config"):
        tune(config, one, "promt")
    assert not (config.folder / "tuning").exists()


def test_the_command_tunes_and_says_where_the_prompt_is(tuning, tmp_path):
    config, _ = tuning
    written = tmp_path / "c.yaml"
    written.write_text(yaml.safe_dump(config.model_dump(mode="json", exclude={"plain"})))
    (tmp_path / "list.yaml").write_text("- Act as never.\n- Act as expert.\n")
    done = CliRunner().invoke(app, ["tune-prompt", str(written), "--candidates", str(tmp_path / "list.yaml"), "--arm", "prompt"])
    assert done.exit_code == 0, done.stderr
    assert "pair_success 1.000" in done.stdout.splitlines()[0]
    assert f"arms.prompt.prompt={config.folder}/tuning/prompt.txt" in done.stdout.replace("\n", "")


# ---- make eval-demo ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def finished_demo(tmp_path, probes):
    """What a finished run of the pipeline leaves behind, as far as it is needed."""
    folder = tmp_path / "demo-tiny"
    for stage in ("sft", "rl"):
        (folder / stage).mkdir(parents=True)
        (folder / stage / "model").symlink_to(resolve_model("tiny"))
    (folder / "data").mkdir()
    write_jsonl_atomic(folder / "data" / "probes.val.jsonl", read_jsonl(probes))
    (folder / "config.yaml").write_text("model: tiny\n")
    return folder


def test_the_demo_says_which_command_makes_what_it_needs(tmp_path, finished_demo):
    path = ROOT / "configs/eval_demo.yaml"
    with pytest.raises(UserError, match="make demo makes the data and weights"):
        demo_config(path, tmp_path / "demo", [])
    (finished_demo / "rl" / "model").unlink()
    with pytest.raises(UserError, match="no weights there, arm rl needs them: make demo MODEL=tiny makes them"):
        demo_config(path, finished_demo, [])


def test_the_suite_of_the_demo_is_drawn_from_validation_and_the_same_every_time(tmp_path, finished_demo):
    config = demo_config(ROOT / "configs/eval_demo.yaml", finished_demo, [f"out={tmp_path / 'out'}"])
    draw_suite(config, finished_demo, 1, 2)
    made = [Path(p).read_bytes() for p in (config.probes, config.sessions)]
    draw_suite(config, finished_demo, 1, 2)
    assert made == [Path(p).read_bytes() for p in (config.probes, config.sessions)]
    lines = [json.loads(line) for line in made[0].decode().splitlines()]
    assert {"present", "missing", "dropped", "contradicted", "corrupted", "verify"} <= {p["variant"] for p in lines}
    assert {p["hint"] for p in lines} == {"none", "vague", "explicit"}
    assert {p["family"] for p in lines} == {"procurement", "support"}
    assert len(made[1].splitlines()) == 2
    assert build_lock(config).stated["split"] == "val"


@pytest.mark.usefixtures("one_thread")
def test_the_demo_plays_and_reports_every_stratum(tmp_path, finished_demo):
    arms = "{expert: {policy: expert}, fabricator: {policy: fabricator}, plain: {policy: expert, profile: plain@1}, sft: {policy: hf, model: runs/demo/sft/model}}"
    config = demo_config(
        ROOT / "configs/eval_demo.yaml",
        finished_demo,
        [f"out={tmp_path / 'out'}", *FAST, f"arms={arms}", "references=[plain]", "inference.judged=[]"],
    )
    page = demo_run(config, finished_demo, 1, 2, "python -m eval demo")
    strata = json.loads((config.folder / "details.json").read_text())["strata"]["expert"]
    assert {"hint", "signal", "variant", "family"} <= set(strata)
    assert list(strata["hint"]) == ["none", "explicit", "vague"]
    assert strata["hint"]["vague"]["recovered"]["mean"] == strata["hint"]["none"]["recovered"]["mean"] == 1.0
    assert strata["signal"]["index"]["pair_success"]["mean"] == 1.0
    assert "pair_success" not in strata["hint"]["vague"], "whoever finds a fact after a hint did not find it alone"
    results = json.loads((config.folder / "results.json").read_text())["arms"]
    assert results["expert"]["session_task_correct"]["mean"] == 1.0
    assert results["fabricator"]["pair_success"]["mean"] == 0.0
    text = page.with_suffix(".md").read_text()
    for needed in (
        "by hint",
        "by signal",
        "expert: vague",
        "what prompted the reads",
        "tokens by spender",
        "| tester |",
        "tool success",
        "information",
    ):
        assert needed in text


def test_the_seed_suites_play_an_arm_without_its_safeguard_too():
    arm = Arm(policy="hf", model="tiny", profile="unified@4", ablate=("index",))
    item = SUITES["seed_three_turn"].items("en")[0]
    profile = profile_for(item, arm, SuiteSettings(), get_chat())
    assert profile.index is False
    assert profile.name.count("[") <= 1
    assert "index=False" in profile.name
