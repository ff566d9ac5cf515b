"""Which files decide what is played and what it scores: found by following imports, so that none is forgotten."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import envs
from envs.hashes import SOURCES
from envs.runs import hash_obj, sha256_file

ROOT = Path(envs.__file__).parent.parent
PACKAGES = ("envs", "eval")
PLUMBING = frozenset({"envs.config", "envs.runs", "eval.config", "eval.freeze", "eval.store", "eval.sources"})
"""Carry files and settings, and decide no view and no score: whatever they bring in is hashed as data."""
PLAY = ("envs.episode", "eval.policies", *(f"envs.{name}" for name in SOURCES))
"""Where a view and a policy's input come from, and whatever the protocol's hash is made of; the policies belong to the arms."""
SCORE = ("envs.scoring", "eval.metrics", "eval.score")
MANAGERS = ("envs.managers",)
SESSIONS = ("envs.session_run", "envs.sessions_cli")
"""What plays a session file beside."""
SESSIONS_SCORE = ("envs.session_score", "envs.sessions", "envs.session_checks", "eval.session_table")


def files_hash(files: Iterable[Path]) -> str:
    """One hash of several files, by name and content."""
    return hash_obj([[p.name, sha256_file(p)] for p in sorted(files, key=lambda p: p.name)])


def closure(roots: Iterable[str], root: Path | None = None) -> list[str]:
    """Paths below the checkout of the modules ``roots`` and of all that they import of ours, :data:`PLUMBING` left out; sorted."""
    return list(_closure(tuple(roots), root or ROOT))


@lru_cache(maxsize=64)
def _closure(roots: tuple[str, ...], root: Path) -> tuple[str, ...]:
    """Held: which files import which can't change in a running process; what is in them is hashed anew every time."""
    found: dict[str, Path] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name in found or name in PLUMBING or name.split(".")[0] not in PACKAGES:
            continue
        base = root.joinpath(*name.split("."))
        path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if not path.is_file():
            continue  # a name that a module holds, not a module
        found[name] = path
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                todo += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                todo += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    # A package is run on the way to its modules, but what it imports itself matters only to those who import the package.
    packages = {parent / "__init__.py" for path in found.values() for parent in path.relative_to(root).parents if parent.parts}
    files = {*packages, *(path.relative_to(root) for path in found.values())}
    return tuple(sorted(str(p) for p in files if (root / p).is_file()))


def play_sources(extra: Iterable[str] = (), root: Path | None = None) -> dict[str, str]:
    """``source.play.<file>`` of everything that renders views and carries out calls, policies and task families left out."""
    root = root or ROOT
    apart = ("envs/policies/", "envs/tasks/")
    files = [f for f in closure([*PLAY, *extra], root) if not f.startswith(apart)]
    return {f"source.play.{f}": sha256_file(root / f) for f in files}


def task_sources(root: Path | None = None) -> dict[str, str]:
    """``source.tasks.<file>`` of every family, its words and its probes."""
    root = root or ROOT
    files = sorted(p for p in (root / "envs" / "tasks").rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {f"source.tasks.{p.relative_to(root)}": sha256_file(p) for p in files}


def score_sources(roots: Iterable[str] = SCORE, root: Path | None = None) -> dict[str, str]:
    """``source.score.<file>`` of everything that judges and counts; where models come from has no part in it."""
    root = root or ROOT
    return {f"source.score.{f}": sha256_file(root / f) for f in closure(roots, root) if not f.startswith("envs/policies/")}


def prompt_files(names: Iterable[str], root: Path | None = None) -> dict[str, str]:
    """``prompt.file.<name>`` of the files of these prompts, named or given by their path, to the byte."""
    root = root or ROOT
    wanted = {*names, "maintenance"}
    files = sorted(p for p in (root / "envs" / "prompts").glob("*.txt") if p.name.split(".")[0] in wanted)
    given = sorted(name for name in wanted if name.endswith(".txt"))
    return {f"prompt.file.{p.name}": sha256_file(p) for p in files} | {f"prompt.file.{n}": sha256_file(Path(n)) for n in given}


def policy_files(roots: Iterable[str], root: Path | None = None) -> list[Path]:
    """The files of policies, by the modules that hold them."""
    root = root or ROOT
    return [root / f for f in closure(roots, root) if f.startswith("envs/policies/")]
