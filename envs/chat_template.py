"""The chat template of exported weights: a Jinja text that renders what :class:`envs.chat.ChatML` writes, and nothing else.

A server gets messages, training got ids. With the model's own template they part: SmolLM2's puts a default system prompt before a
conversation that has none, Qwen's merges tool messages and cuts thoughts out of earlier turns. So exported weights carry this one. It is
read off the writer (the text around a message's content), so it follows whatever the writer does. What a template can't do is to keep
ids: the server encodes the text again. Its ids are others where content spells a special token, and where a sampled turn was not spelt
with the ids that its text encodes to (or begins with a line feed, which Qwen's tokenizer merges with the one before): its count tells.
"""

from __future__ import annotations

import json
from typing import Any

from envs.chat import END, ChatML, ChatRole, Message

ROLES: tuple[ChatRole, ...] = ("system", "user", "assistant")
_MARK = "content"


def chat_template(chat: ChatML) -> str:
    """The template; one line, so that no setting of the reader trims a space."""
    around = {role: _around(chat, role) for role in ROLES}
    opening = _literal({role: before for role, (before, _) in around.items()})
    (closing,) = {after for _, after in around.values()}
    refusal = f"this model was trained on messages of {', '.join(ROLES)} alone"
    # The writer knows a hybrid model by the switch in its template, so it must find it in this one too.
    switch = "enable_thinking"
    hybrid = switch in str(getattr(chat.tokenizer, "chat_template", None) or "")
    note = f"{{# {switch} is off: every turn opens with an empty thought #}}" if hybrid else ""
    return (
        f"{note}"
        "{% for message in messages %}"
        f"{{% if message['role'] not in {_literal(ROLES)} %}}{{{{ raise_exception({_literal(refusal)}) }}}}{{% endif %}}"
        f"{{{{ {opening}[message['role']] + message['content'] + {_literal(closing)} }}}}"
        "{% endfor %}"
        f"{{% if add_generation_prompt %}}{{{{ {_literal(_text(chat, chat.render([])))} }}}}{{% endif %}}"
    )


def _around(chat: ChatML, role: ChatRole) -> tuple[str, str]:
    """What the writer puts before and after a message's content; an assistant's turn counts as sampled."""
    ids = chat.encode(_MARK) if role == "assistant" else None
    before, _, after = _text(chat, chat.render([Message(role, _MARK, ids)], generation=False)).rpartition(_MARK)
    return before, after


def _text(chat: ChatML, ids: list[int]) -> str:
    return str(chat.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _literal(value: object) -> str:
    """A Jinja literal: its strings, lists and mappings are written as JSON's."""
    return json.dumps(value, ensure_ascii=False)


def response_template(chat: ChatML) -> dict[str, Any] | None:
    """For ``tokenizer.response_template``: a turn's text is its content, whole and as it was sampled.

    Without it ``transformers serve`` takes thoughts and JSON calls out of the turns of a Qwen model. None where the tokenizer has
    no marks of either, and a turn is not taken apart anyway.
    """
    known = chat.tokenizer.get_vocab()
    if not {"<think>", "<tool_call>"} & known.keys():
        return None
    ends = [t for t in (END, "<|endoftext|>") if t in known]
    field = {"close": ends, "content": "text", "content_args": {"strip": False}}
    return {"defaults": {"role": "assistant"}, "start_anchor": _text(chat, chat.render([])), "fields": {"content": field}}
