"""Managers as arms of whole sessions, their bench and its documented table."""

from __future__ import annotations

from dataclasses import replace

from envs.episode import Episode, play
from envs.managers import MANAGERS, get_manager
from envs.policies.base import Sampled
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.scoring import score
from envs.tasks import FAMILIES

# ---- as arms ---------------------------------------------------------------------------------------------------------------------------


def test_whole_sessions_end_under_every_manager(chat):
    """What stands in the view, not what the scripted expert makes of it: it cannot read the heads."""
    plain, in_view = replace(get_profile("plain@1"), view_budget=900), {}
    for name in MANAGERS:
        episodes = [
            Episode(m.generate(seed), plain, chat, manager=get_manager(name))
            for m in FAMILIES.values()
            for seed in range(200, 206)
        ]
        play(episodes, Summariser(chat))
        results = [score(e.trajectory("expert")) for e in episodes]
        assert {r.reason for r in results} == {"answered"}, name
        assert all(i.tokens_in <= 900 for e in episodes for i in e.inferences)
        assert episodes[0].trajectory("expert").manager == name
        in_view[name] = sum(c.in_view for r in results for c in r.checks)
    assert in_view["pinned"] > in_view["truncate"] > in_view["recent"] - 1


class Summariser(Expert):
    """The expert, which answers a request for a summary with the first words of what it is shown."""

    def act(self, views):
        turns = []
        for view in views:
            if view.messages[0].content.startswith("Summarise"):
                text = " ".join(view.messages[1].content.split()[:40])
                turns.append(Sampled(self.chat.turn_ids(text), text))
            else:
                turns += super().act([view])
        return turns


# ---- the bench -------------------------------------------------------------------------------------------------------------------------


def test_the_bench_finds_every_answer_in_the_whole_history_and_less_in_each_manager(chat):
    """The positive control: with everything in view, everything that is asked stands there."""
    from envs.manager_bench import bench

    rows = {r.name: r for r in bench(16, 600)}
    assert set(rows) == {"whole", *MANAGERS} - {"llm_summary"}
    whole = rows.pop("whole")
    assert whole.present == whole.asked
    assert sum(whole.asked.values()) > 40
    for row in rows.values():
        assert row.asked == whole.asked
        assert 0 < row.tokens < whole.tokens == row.plain
        assert sum(row.present.values()) <= sum(whole.present.values())
    assert sum(rows["recent"].present.values()) < sum(rows["pinned"].present.values())


def test_the_bench_counts_what_a_model_reads_and_writes_for_its_summaries(chat):
    from envs.manager_bench import ManagerRow, bench_sessions, measure

    asked = []

    def summarise(messages):
        asked.append(messages)
        return "one two three four five"

    bare, told = ManagerRow("truncate"), ManagerRow("llm_summary")
    for session in bench_sessions(4):
        measure(get_manager("truncate"), session, 600, chat, bare, None)
        measure(get_manager("llm_summary"), session, 600, chat, told, summarise)
    assert asked
    assert told.tokens > sum(len(chat.render(m)) for m in asked)


def test_the_command_prints_and_writes_the_table(tmp_path):
    from typer.testing import CliRunner

    from envs.__main__ import app

    file = tmp_path / "managers.md"
    result = CliRunner().invoke(app, ["managers", "--sessions", "2", "--write", str(file)])
    assert result.exit_code == 0, result.output
    text = file.read_text()
    assert "Made with `python -m envs managers --sessions 2 --budget 768 --summarise 0 --lang en`" in text
    for name in MANAGERS:
        assert f"`{name}`" in text
    for name in set(MANAGERS) - {"llm_summary"}:
        assert f"| {name} | 2 |" in text


def test_the_documented_table_has_every_manager_on_five_hundred_sessions():
    from pathlib import Path

    text = (Path(__file__).parents[1] / "docs" / "managers.md").read_text()
    for name in set(MANAGERS) - {"llm_summary"}:
        assert f"| {name} | 500 |" in text
    assert "| llm_summary |" in text
