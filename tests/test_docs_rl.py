"""docs/rl.md says what the code does: the tests that it names exist, and it names every ablation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from rl.ablation import ABLATIONS

ROOT = Path(__file__).parents[1]
DOC = (ROOT / "docs" / "rl.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", DOC, re.MULTILINE | re.DOTALL)
    assert found, f"docs/rl.md has no section {title!r}"
    return found[1]


def names_in(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {n.name for n in nodes if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}


def test_every_test_that_the_page_names_exists():
    named = set(re.findall(r"(tests/[\w/]+\.py)::(\w+)", DOC))
    assert len(named) > 40
    lost = [f"{file}::{name}" for file, name in sorted(named) if not (ROOT / file).is_file() or name not in names_in(ROOT / file)]
    assert not lost, f"docs/rl.md names tests that do not exist: {', '.join(lost)}"


def test_every_rule_has_a_test_or_says_that_none_is():
    for title in ("Rules", "What is refused"):
        rows = [line for line in section(title).split("\n") if line.startswith("| ") and not line.startswith(("| ---", "| rule"))]
        assert len(rows) >= 10
        assert [row for row in rows if "::test_" not in row and "not shown" not in row] == []


def test_every_ablation_is_told_as_the_code_tells_it():
    told = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section("Ablations"), re.MULTILINE))
    assert {name: text.strip() for name, text in told.items()} == ABLATIONS
