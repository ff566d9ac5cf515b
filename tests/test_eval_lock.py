"""One byte changed anywhere that decides a view or a score: run refuses and says where."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from envs import profiles
from envs.chat import get_chat
from envs.policies.smollm2 import resolve_model
from envs.runs import read_json, write_jsonl_atomic
from envs.tasks import get_family
from envs.tasks.probes import make_probes
from eval import sources
from eval.config import EvalConfig
from eval.freeze import LockError, build_lock, changed_entries, check_score, freeze, tell_change
from eval.run import run

ROOT = Path(__file__).parents[1]
SKIPPED = shutil.ignore_patterns("__pycache__", "static")


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """A copy of the sources, a copy of a model, and an evaluation that is frozen on both."""
    folder = tmp_path_factory.mktemp("lock")
    for package in ("envs", "eval"):
        shutil.copytree(ROOT / package, folder / "tree" / package, ignore=SKIPPED)
    shutil.copytree(resolve_model("tiny"), folder / "model")
    probes = next(filter(None, (make_probes("procurement", seed, "static", get_chat()) for seed in range(60))))
    write_jsonl_atomic(folder / "probes.jsonl", probes)
    write_jsonl_atomic(folder / "sessions.jsonl", [get_family("support").generate(5)])
    arms = {
        "expert": {"policy": "expert"}, "managed": {"policy": "expert", "profile": "plain@1", "manager": "pinned"},
        "base": {"policy": "hf", "model": str(folder / "model"), "prompt": "guided"},
    }  # fmt: skip
    config = EvalConfig(
        name="t", out=str(folder / "run"), probes=str(folder / "probes.jsonl"), sessions=str(folder / "sessions.jsonl"), arms=arms
    )
    before = sources.ROOT
    sources.ROOT = folder / "tree"
    try:
        lock = freeze(config)
        yield folder, config, lock
    finally:
        sources.ROOT = before


CHANGES = [
    ("tree/envs/prompts/neutral.txt", "prompt.file.neutral.txt"),
    ("tree/envs/prompts/guided.txt", "prompt.file.guided.txt"),
    ("tree/envs/prompts/maintenance.txt", "prompt.file.maintenance.txt"),
    ("tree/envs/tasks/procurement.py", "source.tasks.envs/tasks/procurement.py"),
    ("tree/envs/tasks/zh/support.py", "source.tasks.envs/tasks/zh/support.py"),
    ("tree/envs/tasks/probes.py", "source.tasks.envs/tasks/probes.py"),
    ("tree/envs/profiles.py", "source.play.envs/profiles.py"),
    ("tree/envs/compact.py", "source.play.envs/compact.py"),
    ("tree/envs/hermes.py", "source.play.envs/hermes.py"),
    ("tree/envs/view.py", "source.play.envs/view.py"),
    ("tree/envs/chat.py", "source.play.envs/chat.py"),
    ("tree/envs/managers/pinned.py", "source.play.envs/managers/pinned.py"),
    ("tree/eval/policies.py", "source.play.eval/policies.py"),
    ("tree/envs/policies/seen.py", "backbone.expert.source"),
    ("tree/envs/policies/hf.py", "backbone.base.source"),
    ("tree/envs/scoring.py", "source.score.envs/scoring.py"),
    ("tree/envs/stats.py", "source.score.envs/stats.py"),
    ("tree/eval/metrics.py", "source.score.eval/metrics.py"),
    ("tree/eval/needed.py", "source.score.eval/needed.py"),
    ("probes.jsonl", "probes"),
    ("sessions.jsonl", "sessions"),
    ("model/model.safetensors", "backbone.base.weights"),
    ("model/config.json", "backbone.base.weights"),
]


def flip(path):
    """Change the first letter that can be changed without breaking the file: a docstring's, a prompt's, a value's; else the last byte."""
    data = path.read_bytes()
    start = data.find(b'"id": "') + 7 if path.suffix == ".jsonl" else 3 if path.suffix == ".py" else 0
    place = next(n for n in range(start, len(data)) if chr(data[n]).isascii() and chr(data[n]).isalpha())
    if path.name == "config.json":
        place = data.find(b'"architectures"') + 1
    if path.suffix == ".safetensors":
        place = len(data) - 1
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([data[place] ^ 0x20]))
    return data


@pytest.mark.parametrize(("file", "entry"), CHANGES, ids=[file for file, _ in CHANGES])
def test_one_byte_is_refused_by_name(frozen, file, entry):
    folder, config, lock = frozen
    path = folder / file
    before = flip(path)
    assert len(path.read_bytes()) == len(before)
    assert sum(a != b for a, b in zip(path.read_bytes(), before, strict=True)) == 1
    try:
        with pytest.raises(LockError) as error:
            run(config)
    finally:
        path.write_bytes(before)
    told = str(error.value)
    assert re.search(rf"lock\.json: .*{re.escape(entry)}\b", told)
    assert "\n" not in told
    assert not (folder / "run" / "arms").exists()  # nothing was played
    now = build_lock(config)
    assert changed_entries({**lock.rules, **lock.backbone}, {**now.rules, **now.backbone}) == []


@pytest.mark.parametrize(
    ("file", "entry"),
    [c for c in CHANGES if not c[1].startswith("backbone.")],
    ids=[c[0] for c in CHANGES if c[1][:8] != "backbone"],
)
def test_two_runs_that_differ_by_one_byte_of_a_rule_are_not_compared(frozen, file, entry):
    comparing = pytest.importorskip("eval.compare", reason="this checkout has no compare")
    folder, config, lock = frozen
    path = folder / file
    before = flip(path)
    try:
        other = build_lock(config, weights=False)
    finally:
        path.write_bytes(before)
    runs = [comparing.Run(config.folder, config, one, {}, {}) for one in (lock, other)]
    with pytest.raises(LockError, match=rf"{re.escape(entry)}\b.*different locks are never compared"):
        comparing.compare(runs)


def test_one_byte_of_the_chat_template_is_refused(frozen):
    folder, config, lock = frozen
    get_chat.cache_clear()
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    real = tokenizer.chat_template
    assert "im_start" in real
    tokenizer.chat_template = real.replace("im_start", "im_Start", 1)
    kept = {p: p.read_bytes() for p in (folder / "model").iterdir()}
    tokenizer.save_pretrained(folder / "model")
    try:
        now = build_lock(config, weights=True)
        assert "backbone.base.chat_template" in changed_entries(lock.backbone, now.backbone)
        with pytest.raises(LockError, match=r"backbone\.base\.chat_template"):
            run(config)
    finally:
        for p in (folder / "model").iterdir():
            if p not in kept:
                p.unlink()
        for p, data in kept.items():
            p.write_bytes(data)
        get_chat.cache_clear()


@pytest.mark.parametrize(
    ("change", "entries"),
    [
        ({"view_budget": 1537}, ["profile.core@1", "limits.core@1"]),
        ({"tools": ("note", "fold", "read", "find")}, ["profile.core@1", "tool_syntax.core@1"]),
        ({"refuse_lossy": False}, ["profile.core@1"]),
    ],
)
def test_a_limit_or_a_tool_of_a_profile_is_named(frozen, change, entries, monkeypatch):
    _, config, lock = frozen
    monkeypatch.setitem(profiles.PROFILES, "core@1", profiles.replace(profiles.PROFILES["core@1"], **change))
    assert changed_entries(lock.rules, build_lock(config, weights=False).rules) == entries
    with pytest.raises(LockError, match=re.escape(entries[-1])):
        run(config)
    assert check_score(config).lock == lock.lock  # what is stored is scored without any profile


def test_decoding_and_repeats_are_rules(frozen):
    _, config, lock = frozen
    for change, entry in (({"decoding": {"max_new_tokens": 97}}, "decoding"), ({"split": "held_out"}, "split")):
        other = EvalConfig.model_validate({**config.model_dump(exclude_unset=True), **change})
        assert changed_entries(lock.rules, build_lock(other, weights=False).rules) == [entry]


def test_the_sources_of_the_lock_are_found_by_following_imports(frozen):
    _, _, lock = frozen
    locked = {name.partition(".")[2].partition(".")[2] for name in lock.rules if name.startswith("source.")}
    import envs.episode

    reached, todo = set(), [envs.episode]
    while todo:  # by what the running modules hold, not by reading them
        module = todo.pop()
        for value in vars(module).values():
            name = getattr(value, "__module__", None) or (
                getattr(value, "__name__", None) if hasattr(value, "__path__") else None
            )
            if isinstance(name, str) and name.startswith("envs.") and name not in reached and name in sys.modules:
                reached.add(name)
                todo.append(sys.modules[name])
    files = {name.replace(".", "/") for name in reached} - {"envs/config", "envs/runs"}
    missing = {
        f for f in files if f"{f}.py" not in locked and f"{f}/__init__.py" not in locked and not f.startswith("envs/policies")
    }
    assert len(files) > 25
    assert missing == set()


def test_an_error_names_four_entries_and_counts_the_rest():
    old = {f"entry{n}": "a" * 64 for n in range(6)}
    told = tell_change(old, {**old, **{f"entry{n}": "b" * 64 for n in range(1, 6)}})
    assert told == "entry1 changed since the freeze, aaaaaaaa -> bbbbbbbb (and entry2, entry3, entry4 and 1 more)"
    assert tell_change(old, dict(old)) is None
    assert "absent -> bbbbbbbb" in (tell_change({}, {"x": "b" * 64}) or "")


def test_a_changed_copy_of_the_program_refuses_on_the_command_line(frozen, tmp_path):
    """The whole way, nothing patched: the copied tree runs, with one byte of a prompt changed."""
    folder, _, _ = frozen
    config = tmp_path / "c.yaml"
    config.write_text(f"name: t\nout: {tmp_path}/run\nprobes: {folder}/probes.jsonl\narms: {{expert: {{policy: expert}}}}\n")
    env = {**os.environ, "PYTHONPATH": str(folder / "tree"), "CTXCTL_CACHE": str(Path(resolve_model("tiny")).parent)}

    def call(step):
        command = [sys.executable, "-m", "eval", step, str(config)]
        return subprocess.run(command, cwd=folder / "tree", env=env, capture_output=True, text=True, timeout=300)

    frozen_now = call("freeze")
    assert frozen_now.returncode == 0, frozen_now.stderr
    assert read_json(tmp_path / "run" / "lock.json")["provenance"]["git_commit"] is None
    before = flip(folder / "tree" / "envs" / "prompts" / "neutral.txt")
    try:
        done = call("run")
    finally:
        (folder / "tree" / "envs" / "prompts" / "neutral.txt").write_bytes(before)
    assert done.returncode == 2
    assert "prompt.core@1.neutral changed since the freeze" in done.stderr
    assert "prompt.file.neutral.txt" in done.stderr
    assert len(done.stderr.splitlines()) == 1
