"""A server that fails: what is tried again, what is told, what is owed; the log ends as that of an undisturbed run."""

from __future__ import annotations

import functools
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from conftest import heeds_ctrl_c

from envs.chat import Message, get_chat
from envs.config import UserError
from envs.episode import Episode, play
from envs.policies.base import Sampled, View
from envs.policies.endpoint import EndpointDownError, EndpointError
from envs.policies.expert import Expert
from envs.policies.openai import OpenAIPolicy
from envs.policies.vllm import VLLMServerPolicy
from envs.profiles import get_profile
from envs.runs import read_json, read_jsonl, write_jsonl_atomic
from envs.tasks.probes import make_probes
from eval.config import EvalConfig
from eval.freeze import freeze
from eval.run import run
from eval.score import score
from tests import fault_server as faults
from tests.fault_server import Server, drawn, key_of, said, serving

pytest.importorskip("openai", reason="the client of served models needs the extra serve: pip install -e '.[serve]'")

PATIENT = {"timeout": 60.0, "retries": 4, "backoff": 0.01}


class Remembered:
    """The expert, and what a server has to answer to be one."""

    def __init__(self, chat) -> None:
        self.expert, self.answers = Expert(chat), {}

    def act(self, views):
        turns = self.expert.act(views)
        for view, turn in zip(views, turns, strict=True):
            self.answers[key_of([m.as_dict() for m in view.messages])] = said(turn.text, view.tokens)
        return turns


@pytest.fixture(scope="module")
def chat():
    return get_chat("tiny")


@pytest.fixture(scope="module")
def base(chat, tmp_path_factory):
    """A frozen run folder, the answers of a server that plays it, and what an undisturbed run leaves."""
    folder = tmp_path_factory.mktemp("base")
    kinds = (("procurement", "changed"), ("support", "static"))
    probes = [p for f, k in kinds for p in next(filter(None, (make_probes(f, seed, k, chat) for seed in range(40))))]
    assert len(probes) == 4
    write_jsonl_atomic(folder / "probes.jsonl", probes)
    episodes = [Episode.from_probe(p, get_profile("core@1"), chat) for p in probes]
    remembered = Remembered(chat)
    play(episodes, remembered)
    assert len(remembered.answers) > len(probes), "some episodes take several turns"
    settings = config(folder, folder / "frozen")
    freeze(settings)
    shutil.copytree(folder / "frozen", folder / "calm")
    with serving(Server(remembered.answers)) as server:
        calm = config(folder, folder / "calm", server.address)
        run(calm)
    return folder, remembered.answers, stored(calm), score(calm)


def config(folder: Path, out: Path, address: str = "http://nowhere/v1", **requests) -> EvalConfig:
    arm = {"policy": "openai", "model": "tiny", "served_model": "m", "base_url": address, "requests": {**PATIENT, **requests}}
    return EvalConfig(
        name="faults", out=str(out), probes=str(folder / "probes.jsonl"), arms={"a": arm}, batch_size=3, bootstrap={"resamples": 200}
    )  # fmt: skip


def stored(settings: EvalConfig) -> list[str]:
    """The lines of the log, by sample."""
    file = settings.arm_folder("a") / "episodes.jsonl"
    return sorted(file.read_text().splitlines()) if file.is_file() else []


def errors(settings: EvalConfig) -> list[dict]:
    file = settings.arm_folder("a") / "errors.jsonl"
    return read_jsonl(file) if file.is_file() else []


@pytest.fixture
def again(base, tmp_path):
    """A function that makes the settings of one and the same frozen run folder."""
    shutil.copytree(base[0] / "frozen", tmp_path / "run")
    return lambda address, **requests: config(base[0], tmp_path / "run", address, **requests)


# -- eval run --------------------------------------------------------------------------------------------------------

PASSING = {
    "500, then 503": [faults.status(500), faults.status(503), faults.status(500)],
    "429": [faults.status(429, Retry_After="0.1")] * 2,
    "408": [faults.status(408)],
    "cut body": [faults.cut, None, faults.cut],
    "cut body, length untold": [faults.cut_unannounced] * 2,
    "connection reset": [faults.reset],
    "cut stream": [faults.cut_stream],
    "a proxy's page": [faults.page, faults.page],
    "another content type": [faults.as_text],
    "no choices": [faults.changed(choices=[])],
    "an error with status 200": [faults.changed(choices=None, error={"message": "worker died"})],
}


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_tried_again_and_leaves_no_trace(base, again, name):
    _, answers, calm, _ = base
    with serving(Server(answers, PASSING[name])) as server:
        settings = again(server.address)
        assert run(settings)["a"].owed == 0
    assert stored(settings) == calm
    assert errors(settings) == []
    broken = [fault for fault in PASSING[name] if fault not in (None, faults.as_text)]
    assert len(server.at) == len(answers) + len(broken)


@pytest.mark.parametrize("fault", [faults.hang(20), faults.drip], ids=["silence", "a byte now and then"])
def test_an_answer_that_takes_too_long_is_given_up(base, again, fault):
    _, answers, calm, _ = base
    with serving(Server(answers, [fault])) as server:
        settings = again(server.address, timeout=1.5)
        assert run(settings)["a"].owed == 0
    assert stored(settings) == calm
    assert len(server.at) > len(answers)


STAYING = {
    "key": (faults.status(401, "no such key"), 1, r"the server answers 401 .*no such key.*api_key_env"),
    "model": (faults.status(404, "no model m"), 1, r"model 'm': the server answers 404 .*no model m.*mend served_model"),
    "quota": (faults.status(429, "quota", Retry_After="3600"), 1, r"answers 429 .*quota.*it asks to wait 3600 s"),
    "broken": (faults.status(500, "out of memory"), 3, r"the server answers 500 .*out of memory"),
    "page": (faults.page, 3, r"answers no JSON but '<html><title>502 Bad Gateway"),
    "cut": (faults.cut_unannounced, 3, r"an answer that breaks off"),
    "count": (faults.changed(read=1), 1, r"the server read (\d+) prompt tokens, the view has (\d+): another tokenizer"),
    "no count": (faults.changed(usage=None), 1, "doesn't tell how many prompt tokens"),
    "no message": (faults.changed(choices=[{"index": 0, "finish_reason": "stop"}]), 1, "a choice without a message"),
}  # fmt: skip
"""Name -> what every request meets, how often it is asked, and what is told."""


@pytest.mark.parametrize("name", STAYING)
def test_what_stays_is_infrastructure_and_the_same_command_resumes(base, again, name):
    _, answers, calm, results = base
    fault, tries, told = STAYING[name]
    with serving(Server(answers, always=fault)) as server:
        settings = again(server.address, retries=2, concurrency=1)
        with pytest.raises(
            UserError, match=rf"the backend failed on all of a batch: (Endpoint|Garbled).*{told}.*the same command resumes"
        ):
            run(settings)
        # Once for the batch, where no other would be spared; else twice more for each of its samples.
        assert len(server.at) == (tries if name in ("key", "model", "quota") else tries * (1 + 2 * 3))
    assert stored(settings) == []
    failed = errors(settings)
    assert len(failed[0]["samples"]) == 3
    with serving(Server(answers)) as server:
        settings = again(server.address)
        assert run(settings)["a"].owed == 0
    assert stored(settings) == calm
    assert score(settings) == results
    assert read_json(settings.folder / "details.json")["health"]["a"]["infrastructure_errors"] == len(failed)


def test_nobody_listens(base, again):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    settings = again(address, retries=1)
    with pytest.raises(UserError, match="no server answers there .*, 2 times: start it, or mend base_url"):
        run(settings)
    assert stored(settings) == []
    assert len(errors(settings)) == 1


def test_one_sample_that_fails_costs_no_other_and_no_score(base, again):
    _, answers, calm, _ = base
    bad = read_jsonl(base[0] / "probes.jsonl")[0]
    first = json.loads(next(line for line in calm if json.loads(line)["probe"] == bad["id"]))["inferences"][0]["new"]
    key = key_of([{"role": m["role"], "content": m["content"]} for m in first])
    wrong = {**answers, key: json.loads(json.dumps(answers[key]).replace('"prompt_tokens": ', '"prompt_tokens": 1'))}
    with serving(Server(wrong)) as server:
        settings = again(server.address)
        assert run(settings)["a"].owed == 1
    assert len(stored(settings)) == len(calm) - 1
    results = score(settings)
    assert results["arms"]["a"]["task_correct"]["n"] == len(calm) - 1
    health = read_json(settings.folder / "details.json")["health"]["a"]
    assert (health["excluded_infrastructure"], health["infrastructure_errors"]) == (1, 3)
    with serving(Server(answers)) as server:
        assert run(again(server.address))["a"].owed == 0
    assert stored(settings) == calm


def test_ctrl_c_ends_a_run_whose_server_says_nothing(base, again, tmp_path):
    _, answers, calm, _ = base
    with serving(Server(answers, always=faults.hang(60))) as server:
        settings = again(server.address)
        file = tmp_path / "e.yaml"
        file.write_text(json.dumps(settings.model_dump(mode="json", exclude_unset=True)))
        process = subprocess.Popen(
            [sys.executable, "-m", "eval", "run", str(file)], stderr=subprocess.PIPE, text=True, preexec_fn=heeds_ctrl_c
        )
        while len(server.at) < 3:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopped; the same command resumes" in told
    assert stored(settings) == []
    with serving(Server(answers)) as server:
        run(again(server.address))
    assert stored(settings) == calm


# -- one policy ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def views(chat) -> list[View]:
    said_to = [[Message("user", f"Which cap has order {n}?")] for n in range(8)]
    return [View(messages, chat.render(messages)) for messages in said_to]


@pytest.fixture(scope="module")
def replies(views):
    return {key_of([m.as_dict() for m in v.messages]): said(f"cap={n}", v.tokens) for n, v in enumerate(views)}


def policy(chat, server: Server, **settings) -> OpenAIPolicy:
    return OpenAIPolicy(chat, base_url=server.address, model="m", **{**PATIENT, **settings})


def test_waits_grow(chat, views, replies):
    with serving(Server(replies, [faults.status(500)] * 3)) as server:
        assert policy(chat, server, backoff=0.15).act(views[:1])[0].text == "cap=0"
    for wait, least in zip(server.waits, (0.15, 0.3, 0.6), strict=True):
        assert wait >= least


def test_retry_after_is_kept_to_as_seconds_and_as_a_date(chat, views, replies):
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=3), usegmt=True)
    plan = [faults.status(429, Retry_After="0.7"), faults.status(503, Retry_After=later)]
    with serving(Server(replies, plan)) as server:
        started = time.time()
        policy(chat, server).act(views[:1])
    assert server.waits[0] >= 0.7
    assert time.time() >= started + 1.9, "a date has no fractions of a second"


def test_no_more_than_asked_for_are_under_way(chat, views, replies):
    with serving(Server(replies, delay=lambda number: 0.1)) as server:
        turns = policy(chat, server, concurrency=3).act(views)
    assert server.most == 3
    assert [t.text for t in turns] == [f"cap={n}" for n in range(8)]


def test_turns_come_in_the_order_of_their_views(chat, views, replies):
    with serving(Server(replies, delay=lambda number: 0.8 - 0.1 * number)) as server:
        turns = policy(chat, server, concurrency=8).act(views)
    assert server.ended != sorted(server.ended), "later requests were answered first"
    assert [t.text for t in turns] == [f"cap={n}" for n in range(8)]


def test_a_refusal_ends_the_other_requests(chat, views, replies):
    with serving(Server(replies, [faults.status(403)], always=faults.hang(30))) as server:
        started = time.monotonic()
        with pytest.raises(EndpointDownError, match="answers 403"):
            policy(chat, server).act(views)
    assert time.monotonic() - started < 15


def test_vllms_server_is_asked_with_the_same_patience(chat, views):
    eos = chat.turn_ids("")[-1]
    answers = {key_of(v.ids): drawn([7, 8, eos], v.ids) for v in views}
    make = functools.partial(VLLMServerPolicy, tokenizer=chat.tokenizer, **PATIENT)
    plan = [faults.status(429, Retry_After="0.2"), faults.cut_unannounced]
    with serving(Server(answers, plan)) as server:
        asked = make(server.address)
        assert [t.ids for t in asked.generate([v.ids for v in views])] == [[7, 8, eos]] * len(views)
        asked.close()
    assert len(server.at) == len(views) + 2
    with serving(Server({key: {**a, "choices": [{"index": 0, "text": "cap"}]} for key, a in answers.items()})) as server:
        asked = make(server.address)
        with pytest.raises(EndpointError, match=rf"read 0 ids of {len(views[0].ids)}: no vLLM server"):
            asked.generate([views[0].ids])
        asked.close()


# -- vLLM in this process --------------------------------------------------------------------------------------------


def test_an_arm_of_vllm_without_vllm_says_what_to_do(base, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    fields = {"name": "v", "out": str(tmp_path / "run"), "probes": str(base[0] / "probes.jsonl")}
    settings = EvalConfig(**fields, arms={"a": {"policy": "vllm", "model": "tiny"}})
    lock = freeze(settings)
    assert {"backbone.a.weights", "backbone.a.source", "backbone.a.tokenizer"} <= set(lock.backbone)
    with pytest.raises(UserError, match=r"model 'tiny': vLLM can't be imported .*pip install -e .*\[vllm\].*make test-vllm"):
        run(settings)
    assert errors(settings) == []
    with pytest.raises(ValueError, match="policy 'vllm' needs a model"):
        EvalConfig(**fields, arms={"a": {"policy": "vllm"}})
    with pytest.raises(ValueError, match="policy 'vllm' takes no requests"):
        EvalConfig(**fields, arms={"a": {"policy": "vllm", "model": "tiny", "requests": {}}})


def test_an_arm_of_vllm_plays_on_an_engine_that_is_stopped_at_the_end(base, tmp_path, monkeypatch):
    made = []

    class Engine:
        def __init__(self, model, tokenizer, **settings) -> None:
            made.append(self)
            self.tokenizer, self.settings, self.closed = tokenizer, settings, 0

        def generate(self, contexts, *, seeds):
            return [Sampled((5, 6), "", cut=True) for _ in contexts]

        def close(self) -> None:
            self.closed += 1

    monkeypatch.setattr("envs.policies.vllm.VLLMPolicy", Engine)
    settings = EvalConfig(
        name="v", out=str(tmp_path / "run"), probes=str(base[0] / "probes.jsonl"), batch_size=3,
        arms={"a": {"policy": "vllm", "model": "tiny"}}, decoding={"max_new_tokens": 7, "dtype": "float32", "seed": 4},
    )  # fmt: skip
    freeze(settings)
    assert run(settings)["a"].now == 4
    assert [(e.settings, e.closed) for e in made] == [
        ({"max_new_tokens": 7, "temperature": 0.0, "seed": 4, "dtype": "float32"}, 1)
    ]
    assert len(stored(settings)) == 4
