"""Fills the marked blocks of RESULTS.md from what the stages left: ``python -m scripts.results_page write configs/results/page.yaml``.

A block stands between ``<!-- NAME:start -->`` and ``<!-- NAME:end -->``. ``stages`` are the wall times, ``tries`` what was tried on
validation, ``courses`` how RL runs moved on it, ``aims`` what was aimed at, ``failing`` the failing episodes that were read,
``suites.SUITE`` a seed suite's table, ``RUN.SECTION`` a section of that evaluation's report (``held_out.main``, say) with its figure.
Text outside the blocks is written by hand and stays.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import Field

from envs.config import ConfigError, Strict, UserError, load_config, nearest
from envs.runs import cli_errors, provenance, read_json, write_json_atomic, write_text_atomic
from eval.config import EvalConfig
from eval.report import TEMPLATES, sections
from scripts.results import Plan, read_records, table
from scripts.results_aims import Aim, aims_table
from scripts.results_courses import courses_figure, courses_table, keep_course
from scripts.results_failing import SCORES, cut_table, draw, failing_block
from scripts.results_suites import suite_block

BLOCK = re.compile(r"<!-- (?P<name>[\w.-]+):start -->.*?<!-- (?P=name):end -->", re.DOTALL)
MEASURES = (
    "pair_success", "task_correct", "right_present", "read_present", "right_missing", "right_superseded", "detection_recall",
    "detection_false_alarm", "tokens",
    "session_task_correct", "session_turn_accuracy", "session_tokens",
)  # fmt: skip
"""Validation figures of a try."""


class Page(Strict):
    """Where the page's numbers come from."""

    page: str = "RESULTS.md"
    figures: str = "docs/results"
    """Folder of the figures, beside the page's own."""
    stages: str
    tries: str
    courses: str = "docs/results/courses.json"
    suites: str = "docs/results/suites.md"
    """Page that ``python -m eval suites --write`` keeps of the trained arms."""
    failing: str = "docs/results/failing.yaml"
    """Failing episodes by cause, as a reader sorted them."""
    runs: dict[str, str]
    """Evaluations by the name that blocks use -> their config."""
    aims: list[Aim] = []
    data: str | None = None
    """Folder of the training set: its card and plots are kept beside the figures."""


class Try(Strict):
    """One attempt, with its figures on validation."""

    changed: str
    minutes: float | None = None
    steps: int | None = None
    tokens: int | None = Field(default=None, description="of the rows trained on")
    loss: float | None = Field(default=None, description="teacher-forced, a token, on held-out rows")
    val: dict[str, Any]
    probes: int
    note: str = ""
    at: str
    commit: str | None


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback(no_args_is_help=True)
def main() -> None:
    """The page of results: keep what was tried, fill the page's blocks."""


@app.command(name="try")
@cli_errors()
def keep(
    name: Annotated[str, typer.Argument(help="Name of the try; the same name replaces it.")],
    changed: Annotated[str, typer.Option(help="What differs, in a few words.")],
    scores: Annotated[Path, typer.Option(help="Folder of the evaluation on validation.")],
    arm: Annotated[str, typer.Option(help="Its arm.")] = "sft",
    run: Annotated[Path | None, typer.Option(help="Folder of the training run.")] = None,
    note: Annotated[str, typer.Option(help="What it says.")] = "",
    tries: Annotated[Path, typer.Option(help="File that keeps them.")] = Path("docs/results/tries.json"),
) -> None:
    """Keep a try with its validation figures.

    \b
        python -m scripts.results_page try lora32 --changed "LoRA r=32, 1e-3" --run runs/t/lora32 --scores runs/t/eval-lora32
    """  # noqa: D301
    results = read_json(scores / "results.json")
    if results["split"] != "val":
        raise UserError(f"{scores}: scored on split {results['split']!r}: only validation may decide what is tried next")
    if arm not in results["arms"]:
        raise UserError(f"--arm {arm}: {nearest(arm, results['arms'])}")
    found = results["arms"][arm]
    trained: Mapping[str, Any] = read_json(run / "done.json") if run else {}
    made = Try(
        changed=changed,
        minutes=trained.get("minutes") or (trained["seconds"] / 60 if "seconds" in trained else None),
        steps=trained.get("steps"),
        tokens=trained.get("tokens"),
        loss=(trained.get("held_out") or {}).get("loss"),
        val={m: found[m] for m in MEASURES if m in found},
        probes=found.get("task_correct", {"n": 0})["n"],
        note=note,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=provenance().get("git_commit"),
    )
    known = read_json(tries) if tries.is_file() else {}
    write_json_atomic(tries, {**known, name: made.model_dump()})
    typer.echo(tries_table({name: made.model_dump()}))


@app.command()
@cli_errors()
def course(
    name: Annotated[str, typer.Argument(help="Name of the run; the same name replaces it.")],
    about: Annotated[str, typer.Option(help="What sets it apart, in a few words.")],
    run: Annotated[Path, typer.Option(help="Folder of the RL run.")],
    courses: Annotated[Path, typer.Option(help="File that keeps them.")] = Path("docs/results/courses.json"),
) -> None:
    """Keep the validations of an RL run, step by step.

    \b
        python -m scripts.results_page course rl-s0 --about "cost share 1, seed 0" --run runs/results/rl-s0
    """  # noqa: D301
    typer.echo(courses_table({name: keep_course(name, about, run, courses)}))


@app.command(name="draw")
@cli_errors()
def drawn(
    config: Annotated[Path, typer.Argument(help="Config of a scored evaluation.")],
    arm: Annotated[str, typer.Option(help="Its arm.")],
    count: Annotated[int, typer.Option(min=1, help="How many.")] = 40,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
) -> None:
    """Draw failing probes to read, with their place in the viewer's page.

    \b
        python -m scripts.results_page draw configs/results/eval_held_out.yaml --arm rl_s0 --count 40
    """  # noqa: D301
    for sample in draw(load_config(EvalConfig, config).folder / SCORES, arm, count, seed):
        typer.echo(f"{sample}\tepisodes.html#{quote(f'{arm}/{sample}', safe='')}")


@app.command()
@cli_errors()
def cut(config: Annotated[Path, typer.Argument(help="Config of a scored evaluation.")]) -> None:
    """What probes that ended at a limit cost, by arm."""
    typer.echo(cut_table(load_config(EvalConfig, config).folder / SCORES))


@app.command()
@cli_errors()
def write(config: Annotated[Path, typer.Argument(help="YAML file.")] = Path("configs/results/page.yaml")) -> None:
    """Fill the page's blocks from stages, tries and scored evaluations; what isn't there yet says so in its block."""
    page = load_config(Page, config)
    told = fill(page)
    typer.echo(f"{page.page}: {len(told)} blocks, {sum(v == OWED for v in told.values())} owed")


CARD = ("card.md", "plots", ".png")
"""Of a data folder, what belongs to its card."""
OWED = "*Not there yet.*"


def fill(page: Page) -> dict[str, str]:
    """Write the page; returns its blocks by name. Raises ConfigError for a block that nothing can fill."""
    path = Path(page.page)
    text = path.read_text(encoding="utf-8")
    told: dict[str, str] = {}

    def block(found: re.Match[str]) -> str:
        name = found["name"]
        told[name] = _block(page, name)
        return f"<!-- {name}:start -->\n{told[name].strip()}\n<!-- {name}:end -->"

    text = BLOCK.sub(block, text)
    if not told:
        raise ConfigError(
            f"{path}: no block: write <!-- stages:start --> and <!-- stages:end --> where the wall times shall stand"
        )
    write_text_atomic(path, text)
    if page.data and (Path(page.data) / "card.md").is_file():
        kept = Path(page.figures) / "data"
        shutil.copytree(page.data, kept, dirs_exist_ok=True, ignore=lambda _, names: [n for n in names if not n.endswith(CARD)])
    return told


def _block(page: Page, name: str) -> str:
    if name == "stages":
        plan = load_config(Plan, page.stages)
        records = read_records(plan)
        return table(plan, records) if records else OWED
    if name == "tries":
        return tries_table(read_json(page.tries)) if Path(page.tries).is_file() else OWED
    if name == "courses":
        return _courses(page)
    if name == "failing":
        return failing_block(Path(page.failing)) or OWED
    if name == "aims":
        return aims_table(page.aims, {n: scored for n in page.runs if (scored := _scored(page, n))})
    run, dot, part = name.partition(".")
    if run == "suites":
        return suite_block(Path(page.suites), part) or OWED
    if not dot or run not in page.runs:
        raise ConfigError(
            f"{page.page}: block {name}: {nearest(run, ['stages', 'tries', 'courses', 'aims', 'failing', 'suites', *page.runs])}"
        )
    numbers = _scored(page, run)
    if numbers is None:
        return OWED
    told = sections(load_config(EvalConfig, page.runs[run]), *numbers)
    if part not in told:
        raise ConfigError(f"{page.page}: block {name}: {nearest(part, told)}")
    return _markdown(page, name, told[part])


def _courses(page: Page) -> str:
    if not Path(page.courses).is_file():
        return OWED
    kept = read_json(page.courses)
    figure = Path(page.figures) / "courses.svg"
    write_text_atomic(figure, _standing(courses_figure(kept)))
    return f"![Recall against false alarms, step by step]({figure})\n\n{courses_table(kept)}"


def _standing(svg: str) -> str:
    """SVG text as a file of its own."""
    return svg if "xmlns=" in svg else svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)


KEPT = ("results.json", "details.json", "lock.json")
"""Of an evaluation, what the repository keeps: enough to fill the page again, and to know what was frozen."""


def _scored(page: Page, name: str) -> tuple[Any, Any] | None:
    """Results and details of an evaluation: of its run folder, which are kept beside the figures, or those that were kept there."""
    folder, kept = load_config(EvalConfig, page.runs[name]).folder, Path(page.figures) / name
    if all((folder / file).is_file() for file in KEPT):
        for file in KEPT:
            write_json_atomic(kept / file, read_json(folder / file))
    elif not all((kept / file).is_file() for file in KEPT):
        return None
    return read_json(kept / "results.json"), read_json(kept / "details.json")


def _markdown(page: Page, name: str, section: Mapping[str, Any]) -> str:
    """A section's tables, its figure as a file; its heading is the page's own."""
    engine = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=False, undefined=StrictUndefined)  # noqa: S701 (Markdown)
    body = engine.get_template("sections.md.j2").render(sections=[section])
    body = re.sub(r"^\s*## .*\n", "", body)
    if section["figure"]:
        figure = Path(page.figures) / f"{name}.svg"
        write_text_atomic(figure, _standing(section["figure"]))
        body = f"![{section['title']}]({figure})\n\n{body}"
    return re.sub(r"\n{3,}", "\n\n", body)


def tries_table(tries: Mapping[str, Mapping[str, Any]]) -> str:
    """What was tried, one row a try."""
    names = [m for m in MEASURES if any(m in t["val"] for t in tries.values())]
    head = ["try", "changed", "minutes", "steps", "loss", *(n.replace("_", " ") for n in names), "probes", "what it says"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name, t in tries.items():
        cells = []
        for n in names:
            value = t["val"].get(n)
            cells.append("–" if value is None else f"{value['mean']:,.0f}" if n.endswith("tokens") else f"{value['mean']:.2f}")
        minutes, loss = (f"{t[k]:.{d}f}" if t[k] is not None else "–" for k, d in (("minutes", 1), ("loss", 3)))
        row = [name, t["changed"], minutes, str(t["steps"] or "–"), loss, *cells, str(t["probes"]), t["note"]]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    app()
