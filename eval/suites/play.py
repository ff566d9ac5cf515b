"""Items played by an arm: forced turns, laid records, a file that is only ever appended to, and the judging of what it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tqdm import tqdm

from envs.chat import ChatML, get_chat
from envs.config import Strict, UserError
from envs.episode import Episode
from envs.managers import Manager, get_manager
from envs.policies.base import Policy, Sampled
from envs.profiles import MODEL_WINDOW, Profile, get_profile, prompt_hash, variant
from envs.respell import respell
from envs.runs import append_jsonl, hash_obj, read_jsonl
from envs.tasks.base import content_hash
from envs.text import normalise
from envs.trajectory import Trajectory
from envs.view import freeze
from eval.config import Arm, Decoding
from eval.player import BackendError, Guarded
from eval.policies import make_policy
from eval.suites.base import Heard, Item, Lang, Line, Result, Suite, TurnResult

BEFORE = -1
"""Run of records that stand in the log before the session."""
FLOOR = 256
"""Smallest view budget, in tokens, that a squeeze gives a manager."""
_SQUEEZED: dict[tuple[str, str, int], int] = {}


class SuiteSettings(Strict):
    """How suites are played. Everything but ``out``, ``batch_size`` and ``reuse_tokens`` decides what is played."""

    out: str = "runs/suites"
    window: int = MODEL_WINDOW
    """Tokens of the model's own window: what plain history may use, and the most that a managed view gets."""
    tokenizer: str = "smollm2"
    """Counts for scripted arms; a model counts with its own."""
    decoding: Decoding = Decoding()
    batch_size: int = 8
    reuse_tokens: int = 30_000


class SuiteEpisode(Episode):
    """An item as an episode. Raises ValueError when the profile's fixed parts leave no room (see ``Episode``)."""

    def __init__(self, item: Item, profile: Profile, chat: ChatML, *, prompt: str = "", manager: Manager | None = None) -> None:
        self.item = item
        self._step = (-1, 0)  # turn, forced steps taken in it
        super().__init__(item.session, profile, chat, prompt=prompt, manager=manager)

    def _next_user(self) -> None:
        if self.turn < 0 and self.item.laid:
            for text in self.item.laid:
                self.log.append("user", text, window=self.state.current, run=BEFORE)
            self.prefix_events = len(self.log)
            self.state = freeze(self.log, self.state, self.rules)
        # Recorded history never overflows: only a turn that the arm plays itself ends the episode for the size of its view.
        self._replaying = self.turn + 1 in self.item.forced
        super()._next_user()

    @property
    def asks_model(self) -> bool:
        """The view is a question of the host to the model (a summary), whatever turn it is."""
        return self._managing or self._pending is not None

    def advance(self) -> None:
        """Play forced turns until the arm itself is to act, or the episode ends."""
        while not self.done and not self.asks_model:
            if text := self._forced():
                self.step(Sampled(self.chat.turn_ids(text), text, trained=False))
            elif self._replaying:  # from here on the arm acts, and its view must fit
                self._replaying = False
                self._prepare()
            else:
                return

    def _forced(self) -> str:
        """The next forced turn in the profile's syntax, ``""`` when there is none; steps that the profile lacks are passed over."""
        taken = self._step[1] if self._step[0] == self.turn else 0
        steps = self.item.forced.get(self.turn, ())
        text = ""
        while taken < len(steps) and not text:
            step = steps[taken]
            text = step(self) if callable(step) else respell(step, self.session.tools, self.rules, self.state.current)
            taken += 1
        self._step = (self.turn, taken)
        return text


def play_items(episodes: Sequence[SuiteEpisode], policy: Policy, on_end: Callable[[int], None] | None = None) -> None:
    """Play episodes in lock-step: forced turns as they are, everything else by the policy."""
    live = list(episodes)
    while live:
        for episode in live:
            episode.advance()
        left = [e for e in live if not e.done]
        if on_end:
            on_end(len(live) - len(left))
        live = left
        if live:
            for episode, turn in zip(live, policy.act([e.view() for e in live]), strict=True):
                episode.step(turn)


# ---- what an arm plays under --------------------------------------------------------------------------------------------------


def profile_for(item: Item, arm: Arm, settings: SuiteSettings, chat: ChatML) -> Profile:
    """The arm's profile with the item's flags; plain history gets the model's window, a manager what its budget or squeeze gives."""
    base = arm.rules
    flags = dict(item.flags)
    if not base.managed:
        flags.pop("run_scope", None)
        budget = arm.view_budget or (squeezed(item, chat) if arm.manager and item.squeeze is not None else settings.window)
        flags["view_budget"] = min(budget, settings.window)
    forced = sum(map(len, item.forced.values()))  # recorded turns take nothing from what the arm may do itself
    flags.setdefault("inferences_per_session", base.inferences_per_session + forced)
    if base.run_scope == "session":
        flags.setdefault("inferences_per_run", base.inferences_per_run + forced)
    if base.managed and base.view_budget > settings.window:
        flags["view_budget"] = settings.window
    changed = {k: v for k, v in flags.items() if getattr(base, k) != v}
    return variant(base.name, **changed)


def squeezed(item: Item, chat: ChatML) -> int:
    """The largest view budget, in tokens, that the whole history passes at the item's ``squeeze`` turn."""
    key = (item.id, content_hash(item.session), id(chat))
    if key not in _SQUEEZED:
        flags = {**{k: v for k, v in item.flags.items() if k != "run_scope"}, "view_budget": 10**9}
        episode = SuiteEpisode(item, variant("plain@1", **flags), chat)
        while episode.turn != item.squeeze:
            text = episode._forced() or "ok"
            episode.step(Sampled(chat.turn_ids(text), text))
        _SQUEEZED[key] = max(FLOOR, episode.view().tokens - 1)
    return _SQUEEZED[key]


def missing_tools(item: Item, arm: Arm) -> str:
    """The first tool that the item needs and the arm's profile lacks, or ``""``."""
    return next((t for t in item.needs if t not in get_profile(arm.profile).tools), "")


def play_key(item: Item, profile: Profile, arm: Arm, prompt: str, settings: SuiteSettings) -> str:
    """Hash of what decides how an item plays (not of the rules: stored episodes are judged anew)."""
    forced = {t: [s if isinstance(s, str) else "()" for s in steps] for t, steps in sorted(item.forced.items())}
    acts = settings.decoding.model_dump(mode="json") if arm.policy == "hf" else None
    parts = [content_hash(item.session), forced, item.laid, profile.hash, arm.model_dump(mode="json"), acts]
    return hash_obj([*parts, prompt, prompt_hash(prompt, profile.managed, profile.syntax)])[:16]


# ---- running ------------------------------------------------------------------------------------------------------------------


def suite_file(suite: str, lang: Lang, arm: str, settings: SuiteSettings) -> Path:
    """Where an arm's episodes of a suite lie."""
    return Path(settings.out) / suite / lang / f"{arm.replace('/', '_')}.jsonl"


def run_suite(
    suite: Suite,
    lang: Lang,
    name: str,
    arm: Arm,
    settings: SuiteSettings,
    *,
    repeats: int | None = None,
    only: Sequence[str] = (),
) -> list[Result]:
    """Play what an arm still owes of a suite, and judge all of it.

    Args:
        suite: what is played.
        lang: the language of its sessions.
        name: the arm's name in tables; it also names the arm's file.
        arm: who acts, under which profile and manager.
        settings: window, decoding, folder.
        repeats: instead of the suite's own number.
        only: ids of items; empty for all.

    Raises:
        UserError: the suite's material is broken, an item or script is unknown, or the backend failed (the same command goes on).
    """
    suite.check(lang)
    items = {i.id: i for i in suite.items(lang)}
    if unknown := [i for i in only if i not in items]:
        raise UserError(f"suite {suite.name}: no item {unknown[0]!r}: choose from {', '.join(items)}")
    items = {k: i for k, i in items.items() if not only or k in only}
    if arm.policy == "script" and arm.script not in suite.scripts:
        raise UserError(f"suite {suite.name}: no script {arm.script!r}: choose from {', '.join(suite.scripts)}")
    file = suite_file(suite.name, lang, name, settings)
    stored = {}
    if file.is_file():
        stored = {(x.item, x.repeat, x.key): x for x in read_jsonl(file, model=Line, torn="drop_last")}
    chat = get_chat(arm.model or settings.tokenizer)
    prompt = arm.prompt if "prompt" in arm.model_fields_set else get_profile(arm.profile).prompt
    wanted: list[tuple[Item, int, Profile, str]] = []
    for repeat in range(repeats or suite.repeats):
        for item in items.values():
            if not missing_tools(item, arm):
                profile = profile_for(item, arm, settings, chat)
                wanted.append((item, repeat, profile, play_key(item, profile, arm, prompt, settings)))
    owed = [w for w in wanted if (w[0].id, w[1], w[3]) not in stored]
    if owed:
        _play_owed(suite, lang, name, arm, settings, file, chat, prompt, len(wanted), owed, stored)
    return [judge(suite, items[i.id], stored[i.id, repeat, key]) for i, repeat, _, key in wanted]


def _play_owed(
    suite: Suite, lang: Lang, name: str, arm: Arm, settings: SuiteSettings, file: Path, chat: ChatML, prompt: str, total: int,
    owed: Sequence[tuple[Item, int, Profile, str]], stored: dict[tuple[str, int, str], Line],
) -> None:  # fmt: skip
    """Play in batches (scripts one by one: each has a policy of its own) and append every batch to the arm's file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    shared = None if arm.policy == "script" else Guarded(make_policy(arm, settings, chat, owed[0][2]))
    size = 1 if shared is None else settings.batch_size
    with tqdm(total=total, initial=total - len(owed), desc=f"{suite.name} {lang} {name}", unit="episode") as bar:
        for start in range(0, len(owed), size):
            batch = owed[start : start + size]
            episodes = [_episode(suite, w[0], w[2], arm, chat, prompt) for w in batch]
            policy = shared or suite.scripts[arm.script or ""](batch[0][0], batch[0][2], chat, batch[0][1])
            try:
                play_items(episodes, policy, bar.update)
            except BackendError as error:
                raise UserError(
                    f"suite {suite.name}, arm {name}: the backend failed ({error}): mend it, the same command goes on"
                ) from error
            for (item, repeat, profile, key), episode in zip(batch, episodes, strict=True):
                line = Line(
                    suite=suite.name, lang=lang, arm=name, item=item.id, repeat=repeat, key=key, limit=profile.tokens_per_session,
                    trajectory=episode.trajectory(name),
                )  # fmt: skip
                append_jsonl(file, line)
                stored[item.id, repeat, key] = line


def _episode(suite: Suite, item: Item, profile: Profile, arm: Arm, chat: ChatML, prompt: str) -> SuiteEpisode:
    manager = suite.manager(get_manager(arm.manager)) if arm.manager else None
    try:
        return SuiteEpisode(item, profile, chat, prompt=prompt, manager=manager)
    except ValueError as error:
        raise UserError(f"suite {suite.name}: item {item.id} can't be played under {profile.name}: {error}") from error


# ---- judging ------------------------------------------------------------------------------------------------------------------


def judge(suite: Suite, item: Item, line: Line) -> Result:
    """A stored episode against the rules of its item, as they are now."""
    trajectory = line.trajectory
    turns = [_turn(item, trajectory, n) for n in range(len(trajectory.session.turns))]
    views = list(trajectory.views())
    for turn in turns:
        if forms := item.evidence.get(turn.turn):
            pairs = zip(trajectory.inferences, views, strict=True)
            mine = [v for i, v in pairs if i.turn == turn.turn and i.trained and i.kind != "maintenance"]
            text = normalise("\n".join(m.content for m in mine[0])) if mine else ""
            # The question itself is no evidence, but by design it never holds the value.
            turn.in_view = any(normalise(f) in text for f in forms)
    failed = next((t.turn for t in turns if t.judged and not t.core), None)
    for turn in turns:
        turn.diagnostic = failed is not None and turn.turn > failed
    return Result(
        suite=line.suite, lang=line.lang, arm=line.arm, item=item.id, repeat=line.repeat, turns=turns, core=failed is None,
        complete=all(t.complete for t in turns if t.judged), failed_at=failed, reason=trajectory.reason, limit=line.limit,
        extra=suite.measure(item, trajectory),
    )  # fmt: skip


def heard_of(trajectory: Trajectory, turn: int) -> Heard:
    """Reply and calls of a turn; the calls of forced turns are history, not the arm's doing."""
    mine = [i for i in trajectory.inferences if i.turn == turn and i.trained]
    return Heard(trajectory.replies.get(turn, ""), tuple(o for i in mine for o in i.outcomes))


def _turn(item: Item, trajectory: Trajectory, turn: int) -> TurnResult:
    mine = [i for i in trajectory.inferences if i.turn == turn]
    rules = item.gates.get(turn, ())
    heard = heard_of(trajectory, turn)
    played = turn in trajectory.replies
    missed = [r for r in rules if not (played and r.holds(heard))]
    return TurnResult(
        turn=turn, judged=bool(rules), played=played, core=not any(r.core for r in missed), complete=not missed,
        missed=[r.name for r in missed], tokens=sum(i.tokens_in + len(i.ids) for i in mine),
        forced_tokens=sum(i.tokens_in + len(i.ids) for i in mine if not i.trained), inferences=len(mine),
    )  # fmt: skip
