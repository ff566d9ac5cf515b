"""A person plays a session in the terminal, turn by turn, in the place of the policy.

The loop knows neither a terminal nor a command line: what it reads and writes comes in from outside. A game is the turns that were
typed; taking one back plays the others again.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

from envs.chat import Message
from envs.episode import PARSE, Episode
from envs.play_text import (
    MARKS,
    Line,
    Style,
    damage_lines,
    end_lines,
    hidden_lines,
    log_lines,
    news,
    outcome_lines,
    reasons,
    state_lines,
    tool_lines,
    turn_lines,
    view_lines,
)
from envs.policies.base import Sampled
from envs.policies.expert import Expert
from envs.profiles import prompt_text
from envs.scoring import score
from envs.tasks.base import Injection, Probe
from envs.trajectory import Trajectory

Paint = Callable[[Style, str], str]
Start = Callable[[Probe | None], Episode]
"""A fresh episode of the game; of the given probe instead, where one is given (the undamaged twin of the one played)."""

HELP = """\
Type calls, one a line, or your answer. An empty line sends the turn; a single . sends an empty one; //x sends the line /x.
/view     the whole view            /state    notes, folds, boundary, windows, version
/log      the log: what is in view  /tools    the contract, with an example of each call
/reveal   show or hide what the log holds beyond the view
/example  what the scripted expert would do now (core@1, or plain@1 without manager)
/undo     take the last turn back   /help     this text       /quit   save and leave (so do end of file and Ctrl-C)"""
COMMANDS = ("/help", "/view", "/state", "/log", "/tools", "/reveal", "/example", "/undo", "/quit")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def unpainted(style: Style, text: str) -> str:
    """Text without colour."""
    return text


class Game:
    """One session at the keyboard.

    Args:
        start: makes the episode, anew for every replay.
        ask: reads a line (its argument is the prompt); raises EOFError at the end of the input.
        tell: writes a line.
        paint: puts a style on a text.
        reveal: show from the start what the log holds beyond the view.
        whole: print every view whole instead of only what is new.
        echo: repeat what was typed, for a transcript whose input comes from a pipe.
        width: columns of the ruling between turns.
    """

    def __init__(
        self, start: Start, *, ask: Callable[[str], str], tell: Callable[[str], None], paint: Paint = unpainted, reveal: bool = False,
        whole: bool = False, echo: bool = False, width: int = 100,
    ) -> None:  # fmt: skip
        self._start, self._ask, self._tell, self._paint = start, ask, tell, paint
        self.reveal, self._whole, self._echo, self._width = reveal, whole, echo, max(1, width)
        self.turns: list[str] = []
        self.episode: Episode = start(None)
        self._seen: list[Line] = []
        """Lines of the view before the one that stands."""
        self._shown: list[Message] = []
        """Messages of the newest view of the task."""
        self._typed: list[Line] = []
        self._told = 0
        self._hidden: list[Line] = []
        self._helps: set[str] = {"reveal"} if reveal else set()

    # ---- the loop -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Play until the player leaves. A KeyboardInterrupt passes through; the game is whole then too."""
        if self.reveal:
            self._say(*self._damage())
        self._next(self.episode.turn)
        draft: list[str] = []
        while True:
            over = self.episode.done
            try:
                line = self._ask("over> " if over else "| " if draft else "> ")
            except EOFError:
                if not draft:
                    return
                line = ""  # what was typed is sent, and the next end of file leaves
            # Bytes that were no text in the terminal's encoding would not be stored.
            line = line.rstrip("\r\n").encode("utf-8", "replace").decode("utf-8")
            if line.startswith("/") and not line.startswith("//"):
                if self._command(line.split()[0].lower(), draft):
                    return
            elif over:
                self._say(("dim", "the game is over: /undo takes the last turn back, /log and /state show it, /quit leaves"))
            elif line.strip() not in ("", "."):
                draft.append(line[1:] if line.startswith("//") else line)
            elif draft or line.strip():
                text, draft = "\n".join(draft), []
                self._send(text)

    def trajectory(self) -> Trajectory:
        """The record of the game so far. The policy's name tells what the player made use of: ``human``, ``human+reveal+undo``."""
        return self.episode.trajectory("+".join(["human", *sorted(self._helps)]))

    def _say(self, *lines: Line) -> None:
        for style, text in lines:
            # Control characters, of a stored text too, must not reach the terminal.
            self._tell(self._paint(style, CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", text)))

    # ---- a turn ---------------------------------------------------------------------------------------------------------

    def _asks_summary(self) -> bool:
        """Whether the host asks for a summary now, not for a turn."""
        return not self.episode.done and self.episode.view().messages[0].content == prompt_text("maintenance", True)

    def _send(self, text: str) -> None:
        episode, rules, turn, summary = self.episode, self.episode.rules, self.episode.turn, self._asks_summary()
        ids = episode.chat.turn_ids(text)
        if self._echo:
            self._say(*(("own", f"▶ {line}") for line in (text or "(empty)").split("\n")))
        try:
            episode.step(Sampled(ids, text))
        except BaseException:  # stopped in mid-turn: the game is what was played before it
            self.episode = self._again(self.turns)
            raise
        self.turns.append(text)
        if len(ids) > rules.reply_tokens + 1:
            self._say(("dim", f"{len(ids) - 1} tokens: a model that writes {rules.reply_tokens} at most would have been cut"))
        done = episode.inferences[-1]
        if summary:
            caller = episode.inferences[-2].outcomes if len(episode.inferences) > 1 else []
            self._say(("good", "← the summary is taken"), *outcome_lines(caller[self._told :]))
        else:
            self._say(*outcome_lines(done.outcomes))
            if done.kind == "calls":
                left = PARSE[rules.syntax](text, False, rules, episode.session.tools).remarks
                self._say(*(("dim", f"← no call, nothing is done with it: {line}") for line in left))
        self._told = len(done.outcomes)
        self._typed = [] if summary else [(MARKS["assistant"][0], f"{MARKS['assistant'][1]} {x}") for x in text.split("\n")]
        self._next(turn)

    def _next(self, before: int) -> None:
        """The verdict on a finished user turn, and the next view or the end."""
        episode = self.episode
        if self.turns and (episode.turn != before or episode.done):
            record = self.trajectory()
            result = score(record)
            told = f"user turn {before + 1}" if before in episode.replies else f"user turn {before + 1}, not answered"
            self._rule(f"{told}: {result.tokens:,} tokens in all")
            self._say(*turn_lines(result, before, episode.session, record.stated, self.reveal))
            if episode.done:
                self._say(*end_lines(result, episode.turn + 1 - episode.start))
        if episode.done:
            if not self.turns:
                self._say(("bad", f"the game is over before its first turn: {episode.reason}"))
            self._say(("dim", "over: /undo, /log, /state or /reveal, and /quit to leave"))
        else:
            self._show()

    def _show(self, whole: bool = False) -> None:
        """The view that stands: what is new in it, or all of it."""
        episode, view = self.episode, self.episode.view()
        lines, used = view_lines(view.messages), sum(i.tokens_in + len(i.ids) for i in episode.inferences)
        of = f" of {len(episode.session.turns)}" if self.reveal else ""
        fill = view.tokens / episode.profile.view_budget
        self._rule(
            f"user turn {episode.turn + 1}{of}, view {len(episode.inferences) + 1}: {view.tokens:,} tokens, fill {fill:.0%}; "
            f"{used:,} tokens in all so far"
        )
        if self._asks_summary():
            self._say(
                *lines, ("head", "You are the sub-agent now: what you type next is the summary that is asked, on one line.")
            )
            return
        self._say(*(lines if whole or self._whole or not self._seen else news(self._seen, lines, self._typed)))
        self._seen, self._shown = lines, view.messages
        if self.reveal:
            hidden = hidden_lines(reasons(episode, self._shown))
            same = hidden == self._hidden and len(hidden) > 1 and not whole
            self._say(*([("hidden", f"{hidden[0][1]}, as before")] if same else hidden))
            self._hidden = hidden

    def _rule(self, text: str) -> None:
        self._say(("dim", "─" * self._width), ("head", text))

    # ---- commands -------------------------------------------------------------------------------------------------------

    def _command(self, word: str, draft: list[str]) -> bool:
        """Carry out a command; returns whether the player leaves."""
        episode = self.episode
        if word == "/quit":
            return True
        if word == "/undo":
            self._undo(draft)
        elif word == "/view" and not episode.done:
            self._show(whole=True)
        elif word == "/view":
            self._say(("dim", "the game is over: there is no view"))
        elif word == "/state":
            self._say(*state_lines(episode, self.reveal))
        elif word == "/log":
            self._say(*log_lines(reasons(episode, self._shown), self.reveal))
        elif word == "/tools":
            self._say(*tool_lines(episode.rules, episode.session.tools))
        elif word == "/example":
            self._say(*self._example())
        elif word == "/reveal":
            self.reveal = not self.reveal
            self._say(("dim", f"what is out of view is {'shown' if self.reveal else 'hidden'} from now on"))
            if self.reveal:
                self._helps.add("reveal")
                self._say(*self._damage(), *hidden_lines(reasons(episode, self._shown)))
        elif word == "/help":
            self._say(*(("plain", line) for line in HELP.split("\n")))
        else:
            near = difflib.get_close_matches(word, COMMANDS, n=1)
            self._say(("bad", f"no command {word}: {f'did you mean {near[0]}?' if near else '/help lists them'}"))
        if draft and word != "/undo":
            self._say(("dim", f"the turn has {len(draft)} line{'s' * (len(draft) > 1)} so far; an empty line sends it"))
        return False

    def _undo(self, draft: list[str]) -> None:
        if draft:
            draft.clear()
            self._say(("dim", "the lines that were not sent are dropped"))
        elif not self.turns:
            self._say(("dim", "there is no turn to take back"))
        else:
            # The turns are cut before the replay is told: a stop in between leaves the game whole.
            self.episode, self.turns = self._again(self.turns[:-1]), self.turns[:-1]
            self._helps.add("undo")
            self._say(("dim", f"taken back; {len(self.turns)} turn{'s' * (len(self.turns) != 1)} played"))
            self._next(self.episode.turn)

    def _again(self, turns: Sequence[str]) -> Episode:
        """The episode after these turns, played from the start."""
        episode = self._start(None)
        self._seen, self._typed, self._told, self._hidden = [], [], 0, []
        for text in turns:
            view = episode.view()
            if view.messages[0].content != prompt_text("maintenance", True):
                self._seen, self._shown = view_lines(view.messages), view.messages
            episode.step(Sampled(episode.chat.turn_ids(text), text))
            self._told = len(episode.inferences[-1].outcomes)
        return episode

    def _damage(self) -> list[Line]:
        probe, episode = self.episode.probe, self.episode
        if probe is None:
            return []
        if "fold" not in episode.profile.tools:
            return [("hidden", f"probe {probe.id}: {episode.profile.name} has no folds, so nothing is damaged under it")]
        # The states right after the injection, whatever was played since.
        before, after = self._start(probe.model_copy(update={"injection": Injection()})), self._start(None)
        return damage_lines(probe, before.state, after.state)

    def _example(self) -> list[Line]:
        episode = self.episode
        if episode.done:
            return [("dim", "the game is over")]
        if episode.profile.name not in ("core@1", "plain@1") or episode.manager or self._asks_summary():
            what = "a summary" if self._asks_summary() else "a manager" if episode.manager else episode.profile.name
            return [("dim", f"the expert plays core@1, and plain@1 without manager; it has no turn for {what}")]
        try:
            text = Expert(episode.chat, episode.profile.view_budget).text(episode.view())
        except ValueError as error:
            return [("dim", f"the expert cannot read this view ({error})")]
        self._helps.add("example")
        return [("own", f"  {line}") for line in text.split("\n")]


__all__ = ["COMMANDS", "HELP", "Game", "Paint", "Start", "unpainted"]
