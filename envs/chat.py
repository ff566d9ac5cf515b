"""Messages <-> token ids, additively: ``render(a + b) == render(a) + render(b)``.

ChatML is written here explicitly instead of through a model's Jinja template, because templates are not additive:
SmolLM2's adds its default system prompt before every separately rendered message, Qwen's merges tool messages. The result
is tested against the whole-conversation template of the model.

Hybrid models (Qwen3's first release) think unless they are told not to. For those every assistant turn opens with an empty
think block, which is how their template turns thinking off; and it stays in past turns, as in TRL's training variant of that
template. The stock template takes it out of past turns, so that a view would no longer begin with the ids that were sampled from.

A sampled assistant message keeps the exact ids the model produced; nothing is ever re-tokenised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

ChatRole = Literal["system", "user", "assistant"]
START, END = "<|im_start|>", "<|im_end|>"
NO_THOUGHT = "<think>\n\n</think>\n\n"
"""What opens a turn of a hybrid model that shall not think."""
_PIECES = re.compile(r"(?<=\S)(?= \S)|(?<=\S\n)(?=\S)")
"""Before a lone space and after a lone line feed, between visible characters: byte-level BPE never merges across these places."""
_LONGEST_PIECE, _MOST_PIECES = 64, 300_000
_PROBE = (
    "a.\n[e1 user] b",
    "x y\n! z",
    "7\n7",
    "é)\n漢",
    "a \n\n - b\n\tc\nd",
    "«»\r\n\nok",
    "a  b c\td",
    "x. Y, 7 8 (z)",
    "é 漢 — a",
    " a ",
    "<|im_end|> b\n<|im_start|>",
)


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. ``ids`` are the sampled token ids of an assistant turn, end-of-turn included when it was sampled."""

    role: ChatRole
    content: str
    ids: tuple[int, ...] | None = None

    def as_dict(self) -> dict[str, str]:
        """The plain form that any chat endpoint takes."""
        return {"role": self.role, "content": self.content}


class ChatML:
    """The ChatML writer and the one token counter of the project.

    Args:
        tokenizer: a Hugging Face tokenizer (or compatible) that has ``<|im_start|>`` and ``<|im_end|>`` as single tokens.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        start, end = (tokenizer.convert_tokens_to_ids(t) for t in (START, END))
        if start is None or end is None or start == tokenizer.unk_token_id != None or start == end:  # noqa: E711
            raise ValueError("the tokenizer has no <|im_start|>/<|im_end|> tokens: ChatML cannot be written with it")
        self.start_id, self.end_id = int(start), int(end)
        self._fast = _own_backend(tokenizer)
        self._encode = lru_cache(maxsize=200_000)(self._encode_uncached)
        self._pieces: dict[str, tuple[int, ...]] = {}
        self._host = lru_cache(maxsize=200_000)(self._host_uncached)
        self._pages = lru_cache(maxsize=512)(self._pages_uncached)
        self._by_piece = all(self._engine([t])[0] == self._joined(t) for t in _PROBE)
        self.newline = self.encode("\n")
        # A template with a switch for thinking belongs to a hybrid model.
        self.hybrid = "enable_thinking" in str(getattr(tokenizer, "chat_template", None) or "")
        self.generation = (self.start_id, *self.encode("assistant\n" + NO_THOUGHT * self.hybrid))

    def _engine(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        if self._fast is not None:
            return [tuple(e.ids) for e in self._fast.encode_batch_fast(texts, add_special_tokens=False)]
        return [tuple(self.tokenizer.encode(t, add_special_tokens=False, split_special_tokens=True)) for t in texts]

    def _encode_uncached(self, text: str) -> tuple[int, ...]:
        return self._joined(text) if self._by_piece else self._engine([text])[0]

    def _joined(self, text: str) -> tuple[int, ...]:
        """The ids of a text's pieces, each encoded once: texts are new all the time, words hardly ever."""
        pieces = _PIECES.split(text)
        if new := [p for p in dict.fromkeys(pieces) if p not in self._pieces]:
            if len(self._pieces) > _MOST_PIECES:
                self._pieces.clear()
                new = list(dict.fromkeys(pieces))
            self._pieces.update(zip(new, self._engine(new), strict=True))
        out: list[int] = []
        for piece in pieces:
            out += self._pieces[piece]
        for piece in new:
            if len(piece) > _LONGEST_PIECE:
                del self._pieces[piece]
        return tuple(out)

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of plain text. Text that spells a special token is encoded as ordinary text, so nobody can forge a turn."""
        return self._encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of sampled ids, up to the end-of-turn token, special tokens left out."""
        held = list(ids)
        if self.end_id in held:
            held = held[: held.index(self.end_id)]
        return str(self.tokenizer.decode(held, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def count(self, text: str) -> int:
        """Tokens of plain text."""
        return len(self.encode(text))

    def turn_ids(self, text: str) -> tuple[int, ...]:
        """The ids a model would have sampled for ``text``: the text and the end-of-turn token."""
        return (*self.encode(text), self.end_id)

    def _host_uncached(self, role: str, content: str) -> tuple[int, ...]:
        opening = NO_THOUGHT if role == "assistant" and self.hybrid else ""
        return (self.start_id, *self.encode(f"{role}\n{opening}{content}"), self.end_id, *self.newline)

    def message_ids(self, message: Message) -> tuple[int, ...]:
        """Ids of one message, the line feed after its end-of-turn token included."""
        if message.ids is None:
            return self._host(message.role, message.content)
        # A turn cut by the token cap is closed by the host; the line feed after a turn is an environment token.
        end = () if message.ids[-1:] == (self.end_id,) else (self.end_id,)
        return (*self.generation, *message.ids, *end, *self.newline)

    def render(self, messages: Sequence[Message], generation: bool = True) -> list[int]:
        """Ids of a conversation, with the opening of an assistant turn at the end if ``generation``."""
        out: list[int] = []
        for message in messages:
            out += self.message_ids(message)
        return out + list(self.generation) if generation else out

    def pages(self, text: str, size: int) -> list[str]:
        """Split text into pages of at most ``size`` tokens whose concatenation is exactly the text (at least one page)."""
        return [text] if len(self.encode(text)) <= size else list(self._pages(text, size))

    def _pages_uncached(self, text: str, size: int) -> tuple[str, ...]:
        encoded = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
        starts = [a for a, _ in encoded["offset_mapping"]]
        cuts, begin = [0], 0
        while begin + size < len(starts):
            # The byte tokens of one character share its offset: never cut inside it. Cut apart, a text may take more tokens.
            end = begin + size
            while end > begin + 1 and (starts[end] == starts[end - 1] or self.count(text[cuts[-1] : starts[end]]) > size):
                end -= 1
            while end < len(starts) and starts[end] == cuts[-1]:  # a character longer than a page stays whole
                end += 1
            if end == len(starts):
                break
            cuts.append(starts[end])
            begin = end
        return tuple(text[a:b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True))

    def clip(self, text: str, size: int) -> str:
        """The first ``size`` tokens of text, as text."""
        return text if len(self.encode(text)) <= size else self._pages_uncached(text, size)[0]


def _own_backend(tokenizer: Any) -> Any:
    """A copy of a fast tokenizer's engine that takes special tokens for text: the same ids at half the time, or None without one."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    copy = type(backend).from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    copy.encode_special_tokens = True
    return copy


@lru_cache(maxsize=8)
def get_chat(name: str = "smollm2") -> ChatML:
    """The chat writer of a named model (see ``envs.policies.smollm2.load_tokenizer``)."""
    from envs.policies.smollm2 import load_tokenizer

    return ChatML(load_tokenizer(name))
