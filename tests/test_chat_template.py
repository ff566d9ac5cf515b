"""The chat template of exports against the chat writer, and turns that a server gives back as they were sampled."""

from __future__ import annotations

import pytest

from envs.chat import ChatML, Message, get_chat
from envs.chat_template import chat_template, response_template
from envs.episode import Episode, play
from envs.policies.expert import Expert
from envs.policies.qwen import ranks_file
from envs.policies.smollm2 import load_tokenizer
from envs.profiles import get_profile
from envs.tasks import get_family
from envs.trajectory import Trajectory
from rl.export import template_ids


@pytest.fixture(scope="module")
def trajectories() -> list[Trajectory]:
    chat = get_chat("tiny")
    episodes = [Episode(get_family(name).generate(5), get_profile("core@1"), chat) for name in ("support", "procurement")]
    play(episodes, Expert(chat))
    return [e.trajectory("expert") for e in episodes]


@pytest.mark.parametrize("name", ["smollm2", "qwen"])
def test_a_chat_endpoint_gets_the_ids_of_training(name, trajectories):
    if name == "qwen" and ranks_file() is None:
        pytest.skip("package dashscope, which carries Qwen's tokenizer, isn't installed")
    tokenizer = load_tokenizer(name)
    chat = ChatML(tokenizer)
    own = tokenizer.chat_template
    views = [
        [Message("user", "Hello")],
        [Message("system", ""), Message("user", " a\n\n"), Message("assistant", " b "), Message("user", "漢 7")],
    ]
    views += [
        [Message("user", "a"), Message("assistant", "<think>\nb\n</think>\n\nc"), Message("user", "d"), Message("user", "e")]
    ]
    views += [view for trajectory in trajectories for view in trajectory.views()]
    plain = [[Message(m.role, m.content, m.ids and chat.turn_ids(m.content)) for m in view] for view in views]
    tokenizer.chat_template = own
    assert any(template_ids(tokenizer, view) != chat.render(view) for view in plain), "the model's own template would do"
    tokenizer.chat_template = chat_template(chat)
    for view in plain:
        assert template_ids(tokenizer, view) == chat.render(view)
    assert ChatML(tokenizer).generation == chat.generation, "a writer of the exported tokenizer opens turns as before"
    with pytest.raises(Exception, match="system, user, assistant"):
        tokenizer.apply_chat_template([{"role": "tool", "content": "x"}])


def test_the_template_follows_the_writer():
    class Thoughtless(ChatML):
        """A writer that opens a turn with an empty thought, as for hybrid models."""

        def __init__(self, tokenizer):
            super().__init__(tokenizer)
            self.generation = (*self.generation, *self.encode("<think>\n\n</think>\n\n"))

    if ranks_file() is None:
        pytest.skip("package dashscope, which carries Qwen's tokenizer, isn't installed")
    tokenizer = load_tokenizer("qwen")
    chat = Thoughtless(tokenizer)
    tokenizer.chat_template = chat_template(chat)
    view = [Message("user", "a"), Message("assistant", "b", chat.turn_ids("b")), Message("user", "c")]
    assert template_ids(tokenizer, view) == chat.render(view)
    assert "<think>" in tokenizer.apply_chat_template([m.as_dict() for m in view], tokenize=False)


@pytest.mark.parametrize("text", ["  a b\n\n", "<think>\nx\n</think>\n\nfoo", '<tool_call>\n{"name": "a"}\n</tool_call>', ""])
def test_a_server_takes_no_thought_or_call_out_of_a_turn(text):
    if ranks_file() is None:
        pytest.skip("package dashscope, which carries Qwen's tokenizer, isn't installed")
    assert response_template(get_chat("smollm2")) is None
    chat = get_chat("qwen")
    template, prompt = response_template(chat), chat.render([Message("user", "x")])
    for ids in (chat.turn_ids(text), chat.encode(text) or (chat.end_id,)):
        assert chat.tokenizer.parse_response(list(ids), template, prefix=prompt).get("content", "") == text
