"""A scored run as Inspect logs: one ``.eval`` file an arm, through Inspect's own models, so that its reader and viewer open it.

One sample an episode: its log as messages, every inference as a model event with its whole input, a score for each metric that the
episode has a value of. What is owed after an infrastructure error is a sample with that error and without a score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.config import UserError
from envs.spending import spender
from envs.trajectory import Inference, Trajectory
from eval.compare import Run
from eval.export import Episode, episode_values, make_units, metric_names, whole_file
from eval.freeze import load_samples
from eval.store import Key, parts, read_errors, read_meta, told

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample

REMEDY = "pip install -c constraints.txt -e '.[inspect]'"
LIMITS = {"limit_tokens": "token", "context_overflow": "context"}
"""Inspect's words for how an episode was cut short; any other limit of ours is ``turn``."""


def write_logs(run: Run, episodes: Mapping[str, Sequence[Episode]], folder: Path) -> list[Path]:
    """``<folder>/<arm>.eval`` for every arm. Raises UserError where Inspect isn't installed, DataError where it can't be written."""
    try:
        from inspect_ai.log import write_eval_log
    except ImportError as error:
        raise UserError(f"--to inspect: package inspect-ai can't be imported ({error}): {REMEDY}") from None
    units = list(make_units(run))
    found = []
    for arm, played in episodes.items():
        path = folder / f"{arm}.eval"
        log = make_log(run, arm, played, [u for u in units if u["arm"] == arm])
        with whole_file(path) as temporary:
            write_eval_log(log, str(temporary), format="eval")
        found.append(path)
    return found


def make_log(run: Run, arm: str, episodes: Sequence[Episode], units: Sequence[Mapping[str, Any]]) -> EvalLog:
    """An arm's log. ``units``: what its metrics are made of."""
    from inspect_ai import log as logs
    from inspect_ai.model import GenerateConfig

    config, settings, results = run.config, run.config.arms[arm], run.results["arms"].get(arm, {})
    model = f"{settings.policy}/{settings.served_model or settings.model or arm}"
    decoding = GenerateConfig(
        temperature=config.decoding.temperature, max_tokens=config.decoding.max_new_tokens, seed=config.decoding.seed
    )
    values = episode_values(units)
    samples = [_sample(e, model, {n: values.get((arm, *e.row.key[1:], n)) for n in metric_names(units)}) for e in episodes]
    played = {e.row.key for e in episodes}
    owed = [key for key in _expected(run) if key not in played]
    failed = _failed(run, arm)
    samples += [_owed(key, failed[key]) for key in owed if key in failed]
    ids = sorted({str(s.id) for s in samples})
    starts = [start for _, meta in read_meta(config.arm_folder(arm)) for start in meta["starts"]]
    at = [start["at"] for start in starts]
    scores = [
        logs.EvalScore(
            name=name, scorer=name, scored_samples=value["n"],
            metrics={k: logs.EvalMetric(name=k, value=value[k]) for k in ("mean", "lo", "hi") if value[k] is not None},
        )
        for name, value in results.items()
    ]  # fmt: skip
    primary = next((n for n in (config.primary_metric, f"session_{config.primary_metric}") if n in results), None)
    headline = logs.HeadlineMetric(score=primary, metric="mean") if primary else None
    total = _usage([i for e in episodes for i in e.record.inferences])
    return logs.EvalLog(
        status="error" if owed else "success",
        eval=logs.EvalSpec(
            created=min(at, default=_stamp(run.folder / "lock.json")), task=config.name, task_id=run.lock.short,
            run_id=run.lock.lock, task_args=settings.model_dump(mode="json"), solver=settings.profile,
            dataset=logs.EvalDataset(name=config.name, samples=len(_expected(run)) // config.repeats, sample_ids=ids),
            model=model, model_generate_config=decoding, config=logs.EvalConfig(epochs=config.repeats), revision=_revision(starts),
            packages=starts[-1].get("versions", {}) if starts else {},
            headline_metric=headline,
            metadata={
                "lock": run.lock.lock, "split": run.results["split"], "arm": arm, "primary_metric": config.primary_metric,
                "hypotheses": config.hypotheses, "profile": settings.profile, "prompt": settings.prompt, "manager": settings.manager,
            },
        ),
        plan=logs.EvalPlan(name=settings.profile, steps=[logs.EvalPlanStep(solver=settings.profile)], config=decoding),
        results=logs.EvalResults(total_samples=len(_expected(run)), completed_samples=len(episodes), scores=scores, headline=headline),
        stats=logs.EvalStats(
            started_at=min(at, default=""), completed_at=_ended(run, arm), model_usage={model: total}, role_usage=_roles(episodes)
        ),
        error=_error(f"{len(owed)} episodes are owed ({told(owed[0])} first): eval run plays them") if owed else None,
        samples=samples,
    )  # fmt: skip


def _sample(episode: Episode, model: str, values: Mapping[str, float | None]) -> EvalSample:
    from inspect_ai.log import EvalSample, EvalSampleLimit
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import Score

    row, record = episode.row, episode.record
    reply = record.replies[max(record.replies)] if record.replies else ""
    turns = record.session.turns[record.start :]
    target = "; ".join(f"{slot.name}={slot.accept[0]}" for turn in turns for slot in turn.slots if slot.accept)
    cut = None
    if row.score.reason != "answered":
        kind = LIMITS.get(row.score.reason, "turn")
        spent = row.score.peak if kind == "context" else row.score.tokens if kind == "token" else row.score.inferences
        cut = EvalSampleLimit(type=kind, limit=spent, reason=row.score.reason)  # type: ignore[arg-type]
    labels = {
        "family": row.family, "base": row.base, "variant": row.variant, "signal": row.signal, "lang": row.lang, "source": row.source,
        "profile": record.profile, "prompt": record.prompt, "manager": record.manager, "reason": row.score.reason,
        "cause": episode.cause, "needed_in_input": episode.needed_in_input,
    }  # fmt: skip
    return EvalSample(
        id=row.sample, epoch=row.repeat + 1, input=turns[0].text if turns else "", target=target, messages=_messages(record, model),
        output=ModelOutput.from_content(model, reply),
        scores={
            name: Score(value=value, answer=reply, explanation=episode.cause) for name, value in values.items() if value is not None
        },
        metadata=labels, store={"score": row.score.model_dump(mode="json")}, events=_events(record, model),
        model_usage={model: _usage(record.inferences)}, role_usage=_roles([episode]), turn_count=len(record.inferences), limit=cut,
    )  # fmt: skip


def _owed(key: Key, errors: Sequence[str]) -> EvalSample:
    from inspect_ai.log import EvalRetryError, EvalSample

    source, sample, repeat = key
    retried = [EvalRetryError(message=text, traceback="", traceback_ansi="") for text in errors[:-1]]
    return EvalSample(
        id=sample, epoch=repeat + 1, input="", target="", error=_error(errors[-1]), error_retries=retried or None,
        metadata={"source": source, "infrastructure": True},
    )  # fmt: skip


def _messages(record: Trajectory, model: str) -> list[Any]:
    """The whole log, whatever a view left out: system message, users, turns, results, and what the host said to a turn."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageTool, ChatMessageUser

    first = next(record.views(), [])
    found: list[Any] = [ChatMessageSystem(content=m.content) for m in first[:1] if m.role == "system"]
    for event in record.events:
        ref = f"e{event['seq']}" + (f".{event['sub']}" if event["sub"] else "")
        about = {"event": ref, "name": event["name"], "prefix": event["seq"] <= record.prefix_events}
        if event["role"] == "user":
            found.append(ChatMessageUser(content=event["text"], metadata=about))
        elif event["role"] == "assistant":
            found.append(ChatMessageAssistant(content=event["text"], model=model, metadata=about))
        elif event["role"] == "tool":
            found.append(ChatMessageTool(content=event["text"], function=event["name"], metadata=about))
        else:
            found.append(ChatMessageUser(content=f"[{event['role']} {ref} {event['name']}] {event['text']}", metadata=about))
    return found


def _events(record: Trajectory, model: str) -> list[Any]:
    """Every inference with its exact input, as messages."""
    from inspect_ai.event import ModelEvent
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, GenerateConfig, ModelOutput

    kinds = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
    found = []
    for number, (inference, view) in enumerate(zip(record.inferences, record.views(), strict=True)):
        output = ModelOutput.from_content(model, inference.text, "max_tokens" if inference.cut else "stop")
        output.usage = _usage([inference])
        found.append(
            ModelEvent(
                model=model, role=spender(inference), input=[kinds[m.role](content=m.content) for m in view], tools=[],
                tool_choice="none", config=GenerateConfig(), output=output,
                metadata={"number": number, "turn": inference.turn, "event": inference.event, "hash": inference.hash, "out": inference.out},
            )
        )  # fmt: skip
    return found


def _usage(inferences: Sequence[Inference]) -> Any:
    from inspect_ai.model import ModelUsage

    read, said = sum(i.tokens_in for i in inferences), sum(len(i.ids) for i in inferences)
    return ModelUsage(input_tokens=read, output_tokens=said, total_tokens=read + said)


def _roles(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Usage by what it was for."""
    by: dict[str, list[Inference]] = {}
    for inference in (i for e in episodes for i in e.record.inferences):
        by.setdefault(spender(inference), []).append(inference)
    return {name: _usage(found) for name, found in sorted(by.items())}


def _expected(run: Run) -> list[Key]:
    probes, sessions = load_samples(run.config)
    keys = [("probe", p.id) for p in probes] + [("session", s.id) for s in sessions]
    return [(*key, repeat) for repeat in range(run.config.repeats) for key in keys]


def _failed(run: Run, arm: str) -> dict[Key, list[str]]:
    """Infrastructure errors by sample, in order."""
    found: dict[Key, list[str]] = {}
    for line in read_errors(run.config.arm_folder(arm)):
        for source, sample, repeat in line["samples"]:
            found.setdefault((source, sample, repeat), []).append(line["error"])
    return found


def _error(text: str) -> Any:
    from inspect_ai.log import EvalError

    return EvalError(message=text, traceback="", traceback_ansi="")


def _revision(starts: Sequence[Mapping[str, Any]]) -> Any:
    from inspect_ai.log import EvalRevision

    last = starts[-1] if starts else {}
    commit = last.get("git_commit")
    return EvalRevision(type="git", origin="", commit=commit, dirty=last.get("git_dirty")) if commit else None


def _ended(run: Run, arm: str) -> str:
    files = [p / "episodes.jsonl" for p in parts(run.config.arm_folder(arm))]
    return max((_stamp(f) for f in files if f.is_file()), default="")


def _stamp(file: Path) -> str:
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
