"""docs/protocol.md says what the code does: the tests it names exist, its tables are those of the code, and nothing is left out."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from envs.contracts import contract_table
from envs.profiles import ALL_TOOLS, CORE_TOOLS, LEAN_TOOLS, PROFILES, WINDOW_TOOLS, Profile
from envs.seeds import seed_table

ROOT = Path(__file__).parents[1]
DOC = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
TABLES = {"contracts": contract_table, "seeds": seed_table}
GROUPS = {"-": (), "core": CORE_TOOLS, "windows": WINDOW_TOOLS, "lean": LEAN_TOOLS}


def section(title: str) -> str:
    """The text under a heading of the second level, the tables made by commands left out."""
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", DOC, re.MULTILINE | re.DOTALL)
    assert found, f"docs/protocol.md has no section {title!r}"
    return re.sub(r"<!-- (\w+):start -->.*?<!-- \1:end -->", "", found[1], flags=re.DOTALL)


def names_in(path: Path) -> set[str]:
    """Names of the test functions in a file, those in classes included."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {n.name for n in nodes if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}


def rejection_codes() -> set[str]:
    """Every code that the host or a parser can give: the literals in ``Rejected(code, …)`` and ``Call(…, code=…)``."""
    codes = set()
    for path in sorted((ROOT / "envs").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            given = node.args[:1] if node.func.id == "Rejected" else []
            if node.func.id in ("Rejected", "Call"):
                given = given + [k.value for k in node.keywords if k.arg == "code"]
            codes |= {c.value for c in given if isinstance(c, ast.Constant) and isinstance(c.value, str) and c.value}
    return codes


def test_every_test_that_the_page_names_exists():
    named = set(re.findall(r"(tests/[\w/]+\.py)::(\w+)", DOC))
    assert len(named) > 100
    lost = [f"{file}::{name}" for file, name in sorted(named) if not (ROOT / file).is_file() or name not in names_in(ROOT / file)]
    assert not lost, f"docs/protocol.md names tests that do not exist: {', '.join(lost)}"


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_made_by_commands_are_what_the_commands_print(chat, name):
    found = re.search(rf"<!-- {name}:start -->\n(.*?)\n<!-- {name}:end -->", DOC, re.DOTALL)
    assert found, f"docs/protocol.md has no markers for {name}"
    assert f"`python -m envs {name}`" in DOC
    assert found[1] == TABLES[name](chat).strip(), f"put the output of `python -m envs {name}` between its markers"


def test_the_table_of_rejections_has_every_code_and_no_other():
    told = re.findall(r"^\| `(\w+)` \|", section("Rejections"), re.MULTILINE)
    assert len(told) == len(set(told))
    assert set(told) == rejection_codes()


def test_every_profile_and_tool_is_told():
    profiles, tools = section("Profiles"), section("Two syntaxes and the tools")
    assert [n for n in PROFILES if f"`{n}`" not in profiles] == []
    assert [t for t in ALL_TOOLS if not re.search(rf"`{t}[` ]", tools)] == []


def test_the_tables_of_flags_are_the_profiles():
    text = section("Profiles")
    head, *rows = ([c.strip() for c in line.strip("|").split("|")] for line in text.split("\n") if line.startswith("|"))
    shown = [PROFILES[name.strip("`")] for name in head[1:]]
    told = {row[0].strip("`"): row[1:] for row in rows[1:]}
    for flag, cells in told.items():
        assert [spelled(flag, cell) for cell in cells] == [value_of(p, flag) for p in shown], flag
    same = dict(re.findall(r"`(\w+)` = ([^,]+?)(?=,|\.\n)", text))
    for flag, cell in same.items():
        assert {value_of(p, flag) for p in PROFILES.values()} == {cell}, flag
    assert {*told, *same} == {f.name for f in fields(Profile)} - {"name"}
    assert not set(told) & set(same)


def spelled(flag: str, cell: str) -> str:
    """A cell with groups of tools written out."""
    if flag != "tools":
        return cell
    return " ".join(tool for part in cell.split(" + ") for tool in GROUPS.get(part, (part,)))


def value_of(profile: Profile, flag: str) -> str:
    """A flag's value as the tables word it."""
    value = getattr(profile, flag)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, tuple) else "none" if value is None else str(value)
