"""Scripted policies for one case of a session file: they know its answer and show what its conditions allow."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envs.chat import ChatML
from envs.policies.base import Sampled, View

PAGE = re.compile(r"^\[e(\d+) [^\n]*\] p(\d+)/(\d+)$", re.MULTILINE)


class Says:
    """Answers every view with one text."""

    def __init__(self, text: str, chat: ChatML) -> None:
        self._said, self.chat = text, chat

    def text(self, view: View) -> str:
        return self._said

    def act(self, views: Sequence[View]) -> list[Sampled]:
        texts = [self.text(v) for v in views]
        return [Sampled(self.chat.turn_ids(t), t) for t in texts]


class Echo(Says):
    """Answers with the last line of the view, the question: nothing may be right for having been repeated."""

    def __init__(self, chat: ChatML) -> None:
        super().__init__("", chat)

    def text(self, view: View) -> str:
        return view.messages[-1].content.rsplit("\n", 1)[-1]


class EvidenceReader(Says):
    """Reads the evidence that is not in view, event by event and page by page, then gives the right reply; else says ``unknown``.

    For one episode at a time. ``everything`` reads evidence in view again too.
    """

    def __init__(self, evidence: Sequence[int], reply: str, chat: ChatML, everything: bool = False) -> None:
        super().__init__(reply, chat)
        self.evidence, self.everything = tuple(dict.fromkeys(evidence)), everything
        self._begun = False

    def text(self, view: View) -> str:
        wanted = [e for e in self.evidence if self.everything or e not in view.visible]
        if "read e3" not in view.messages[0].content:
            return "unknown" if any(e not in view.visible for e in self.evidence) else self._said
        if not self._begun:
            self._begun = True
            if wanted:
                return "\n".join(f"read e{e}" for e in wanted)
            return self._said
        pages = [tuple(map(int, m)) for m in PAGE.findall(view.messages[-1].content)]
        more = [f"read e{e} p{n}" for e, page, last in pages if page == 1 for n in range(2, last + 1)]
        return "\n".join(more) or self._said
