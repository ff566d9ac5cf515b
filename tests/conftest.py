"""What the tests share: the chat writer, and sessions and probes played once."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest

from envs.chat import ChatML

pytest.register_assert_rewrite("game", "grammar_json")  # a check that fails there shows its values, as in a test file

SMALL = Path(__file__).parent / "sessions_small.jsonl"


@pytest.fixture(scope="session")
def chat() -> ChatML:
    """The chat writer with SmolLM2's real tokenizer."""
    from envs.policies.smollm2 import load_tokenizer

    return ChatML(load_tokenizer("smollm2"))


@pytest.fixture(scope="module")
def one_thread():
    """Torch on one thread: sums come in the same order every time, and two test processes don't fight over two cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def expert_episodes(chat):
    """The expert on 28 sessions of every family, played once."""
    from envs.episode import Episode, play
    from envs.policies.expert import Expert
    from envs.profiles import get_profile
    from envs.tasks import FAMILIES

    core = get_profile("core@1")
    episodes = [Episode(m.generate(seed), core, chat) for m in FAMILIES.values() for seed in range(28)]
    play(episodes, Expert(chat))
    return episodes


@pytest.fixture(scope="session")
def expert_sessions(expert_episodes):
    """Their stored trajectories."""
    return [e.trajectory("expert") for e in expert_episodes]


@pytest.fixture(scope="session")
def probes(chat):
    """Probes of every kind and family, by base: ``(kind, [probe, …])``."""
    from envs.tasks import FAMILIES
    from envs.tasks.probes import KINDS, make_probes

    made = []
    for family in FAMILIES:
        for kind in KINDS:
            groups = (make_probes(family, seed, kind, chat) for seed in range(40))
            made += [(kind, group) for group in itertools.islice(filter(None, groups), 4)]
    return made


@pytest.fixture(scope="session")
def play_probes(chat, probes):
    """A function that plays all probes with a policy: probe id -> (probe, trajectory, score)."""
    from envs.episode import Episode, play
    from envs.profiles import get_profile
    from envs.scoring import score

    done = {}

    def run(policy):
        if policy.name not in done:
            flat = [p for _, group in probes for p in group]
            episodes = [Episode.from_probe(p, get_profile("core@1"), chat) for p in flat]
            play(episodes, policy)
            trajectories = [e.trajectory(policy.name) for e in episodes]
            done[policy.name] = {p.id: (p, t, score(t)) for p, t in zip(flat, trajectories, strict=True)}
        return done[policy.name]

    return run


def heeds_ctrl_c() -> None:
    """For ``preexec_fn``: a child of tests that run in the background would inherit that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
