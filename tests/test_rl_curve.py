"""Curves of runs and the paired difference against step 0, on made-up run folders."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from envs.config import UserError
from envs.runs import write_jsonl_atomic
from rl.__main__ import app
from rl.curve import difference, load_runs, smooth, tables, write


def line(step, base, variant, q, family="support", **more):
    damaged = variant == "missing"
    return {
        "step": step, "id": f"{base}/{variant}", "base": base, "family": family, "variant": variant, "q": q, "right": q == 1.0,
        "reads": int(damaged), "recovered": damaged and q == 1.0, "suspected": float(damaged) if damaged else None,
        "alarmed": None if damaged else 0.0, "pair_success": float(q == 1.0) if damaged else None,
        "tokens": 1000 - 10 * step, "inferences": 3, "reason": "answered", **more,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Twelve bases in two families: half of them wrong at step 0, all right at the end; step 10 is not among the last three."""
    out = tmp_path / "machine" / "run-a"
    found = []
    for step in (0, 10, 20, 30, 40):
        for number in range(12):
            family = "support" if number % 2 else "release"
            right = step >= 20 or (step == 0 and number < 6)
            for variant in ("present", "missing"):
                found.append(line(step, f"{family}-{number}", variant, 1.0 if right else -0.25, family))
    write_jsonl_atomic(out / "validation.jsonl", found)
    logged = [{"step": 0, "val/q": 0.375, "val/pair_success": 0.5, "val/tokens": 1000}]
    logged += [{"step": s, "reward/q": s / 40, "seconds/step": 2.0, "logp_gap/max": 1e-5} for s in range(1, 41)]
    logged += [{"step": s, "val/q": 1.0, "val/pair_success": 1.0, "val/tokens": 1000 - 10 * s} for s in (20, 30, 40)]
    write_jsonl_atomic(out / "metrics.jsonl", logged)
    return out


def test_the_difference_is_of_the_last_three_validations_by_probe(folder):
    (run,) = load_runs([folder])
    assert run.last == [20, 30, 40]
    q = difference(run, "q")
    assert q.mean == pytest.approx(0.625)
    assert q.n == 24
    assert q.bases == 12
    assert 0 < q.lo < q.mean < q.hi
    pairs = difference(run, "pair_success")
    assert pairs.mean == pytest.approx(0.5)
    assert pairs.n == 12
    assert difference(run, "tokens").mean == pytest.approx(-300)


def test_runs_are_compared_with_the_first(folder):
    (run,) = load_runs([folder])
    control = type(run)("control", run.metrics, {s: [{**x, "step": s} for x in run.validations[0]] for s in (0, 20, 30, 40)})
    assert difference(run, "q", control) == difference(run, "q")
    text = tables([run, control])
    assert "| first run minus | probes | bases | q, difference" in text
    assert "\n| control | 24 | 12 | +0.625 [" in text


def test_nothing_learnt_is_not_told_as_learnt(folder):
    (run,) = load_runs([folder])
    same = {step: [{**x, "step": step} for x in run.validations[0]] for step in (0, 10, 20, 30)}
    found = difference(type(run)(run.name, run.metrics, same), "q")
    assert found.mean == 0
    assert found.lo <= 0 <= found.hi


def test_the_page_gets_figure_and_tables_between_its_markers(folder, tmp_path):
    page = tmp_path / "docs" / "rl.md"
    page.parent.mkdir()
    page.write_text("# RL\n\n<!-- curve:start -->\nold\n<!-- curve:end -->\n\nafter\n")
    figure = write(load_runs([folder]), page)
    text = page.read_text()
    assert figure.name == "rl_curve.png"
    assert figure.read_bytes()[:4] == b"\x89PNG"
    assert "old" not in text
    assert text.endswith("after\n")
    assert "![curves by step](rl_curve.png)" in text
    assert "+0.625 [" in text
    assert str(tmp_path) not in text, "pages hold no paths of a machine"
    first = figure.read_bytes()
    write(load_runs([folder]), page)
    assert page.read_text() == text
    assert figure.read_bytes() == first


def test_command_line_of_the_curve(folder, tmp_path):
    runner = CliRunner()
    done = runner.invoke(app, ["curve", str(folder), "--write", str(tmp_path / "rl.md")])
    assert done.exit_code == 0, done.output
    assert "run-a | 40 | mean of 20, 30, 40 | 24 | 12 |" in done.output
    assert (tmp_path / "rl_curve.png").is_file()


def test_a_run_without_step_0_is_refused_with_the_remedy(folder, tmp_path):
    with pytest.raises(UserError, match="val_at_start"):
        load_runs([tmp_path])
    write_jsonl_atomic(folder / "validation.jsonl", [line(10, "b", "present", 1.0)])
    with pytest.raises(UserError, match="step 0"):
        load_runs([folder])


def test_runs_of_one_name_are_told_apart(folder):
    twice = load_runs([folder, folder])
    assert [r.name for r in twice] == ["machine/run-a"] * 2
    assert tables(twice).count("| machine/run-a |") == 5


def test_smoothing_looks_back_only():
    assert smooth([1.0, 3.0, 5.0], width=2) == [1.0, 2.0, 4.0]
