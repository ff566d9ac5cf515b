"""The protocol hash changes with whatever decides what a policy sees, and with nothing else."""

from __future__ import annotations

import pytest

from envs import hashes
from envs.hashes import SOURCES, protocol_hash, source_hash
from envs.profiles import get_profile, prompt_hash, variant


def test_it_is_stable_and_apart_from_the_prompt(chat):
    core = get_profile("core@1")
    assert protocol_hash(core, chat) == protocol_hash(get_profile("core@1"), chat)
    assert prompt_hash("neutral") != prompt_hash("guided")


def test_every_flag_and_limit_is_in_it(chat):
    seen = {protocol_hash(get_profile("core@1"), chat)}
    for flags in ({"index": False}, {"view_budget": 2048}, {"min_gain": 33}, {"mapping": "A"}, {"overrun": "cut"}):
        seen.add(protocol_hash(variant("core@1", **flags), chat))
    assert len(seen) == 6


@pytest.mark.parametrize("module", SOURCES)
def test_every_source_is_in_it(chat, monkeypatch, module):
    core = get_profile("core@1")
    before = protocol_hash(core, chat)
    monkeypatch.setattr(hashes, "source_hash", lambda name: source_hash(name) + "x" * (name == module))
    assert protocol_hash(core, chat) != before


def test_so_is_the_tokenizer(chat, monkeypatch):
    core = get_profile("core@1")
    before = protocol_hash(core, chat)
    monkeypatch.setattr(hashes, "tokenizer_hash", lambda chat: "another")
    assert protocol_hash(core, chat) != before
