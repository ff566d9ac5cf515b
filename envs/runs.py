"""What a run folder is made of: files that are whole or absent, JSONL that survives a kill, provenance.

Every stage writes through these functions, so a run killed at any moment resumes from what its folder holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from pydantic import BaseModel, ValidationError

from envs.config import UserError

Record = TypeVar("Record", bound=BaseModel)
Torn = Literal["error", "drop_last"]
_LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "vllm", "deepspeed", "pydantic", "numpy", "wandb")


class DataError(UserError):
    """A data file can't be read or written; the message names the file, the line where there is one, and the remedy."""


# -- writing ---------------------------------------------------------------------------------------------------------


def write_text_atomic(path: str | Path, text: str) -> None:
    """Write ``text`` so that ``path`` holds either its old or its new content, also after a kill. Raises DataError."""
    path = Path(path)
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            if temporary:
                os.unlink(temporary)  # gone already when the rename happened


def write_json_atomic(path: str | Path, obj: Any) -> None:
    """Like :func:`write_text_atomic`, with ``obj`` as indented JSON. NaN and infinity are refused: write None."""
    write_text_atomic(path, _to_json(obj, path, indent=2) + "\n")


def write_jsonl_atomic(path: str | Path, objects: Iterable[Any]) -> int:
    """Write a whole JSONL file at once, one object a line; returns the number of lines. Raises DataError."""
    lines = [_to_json(obj, path) for obj in objects]
    write_text_atomic(path, "".join(line + "\n" for line in lines))
    return len(lines)


def append_jsonl(path: str | Path, obj: Any) -> None:
    """Append one line and wait until the disk has it. A write that fails part-way is taken back. Raises DataError."""
    path = Path(path)
    line = (_to_json(obj, path) + "\n").encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    raise DataError(f"{path}: its last line is torn: resume the run (which drops that line) or delete the line")
            try:
                if file.write(line) != len(line):
                    raise OSError("only part of the line was written")
                os.fsync(file.fileno())
            except OSError:
                with contextlib.suppress(OSError):  # where even that fails, the next start drops the torn line
                    file.truncate(size)
                raise
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(
        f"{path}: can't be written ({error.strerror or error}): free disk space or choose another folder, then resume"
    )


def _to_json(obj: Any, path: str | Path, indent: int | None = None) -> str:
    try:
        return json.dumps(obj, default=_plain, ensure_ascii=False, allow_nan=False, indent=indent)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{path}: value can't be stored as JSON ({error}): use plain types, and None for a missing number"
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if hasattr(value, "tolist"):  # numpy and torch
        return value.tolist()
    raise TypeError(f"{type(value).__name__} isn't JSON")


# -- reading ---------------------------------------------------------------------------------------------------------


def read_json(path: str | Path) -> Any:
    """The content of one JSON file. Raises DataError."""
    try:
        return json.loads(_read_bytes(Path(path)))
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error}): make the file again") from None


@overload
def read_jsonl(path: str | Path, *, model: None = None, torn: Torn = "error") -> list[Any]: ...
@overload
def read_jsonl(path: str | Path, *, model: type[Record], torn: Torn = "error") -> list[Record]: ...
def read_jsonl(path: str | Path, *, model: type[BaseModel] | None = None, torn: Torn = "error") -> list[Any]:
    """The objects of a JSONL file, parsed as ``model`` if one is given; blank lines are skipped.

    ``torn="drop_last"`` mends a file whose writer was killed: a last line that isn't JSON is cut off the file, and one that
    only lacks its newline gets it. Raises DataError naming file and line for anything else that isn't right.
    """
    path = Path(path)
    data = _read_bytes(path)
    if torn == "drop_last" and data:
        data = _mend(path, data)
    records = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError:
            torn_here = not data[sum(len(part) + 1 for part in data.split(b"\n")[:number]) :].strip()
            remedy = "resume the run that wrote it, or delete the line" if torn_here else "mend the line or make the file again"
            raise DataError(f"{path}:{number}: not valid JSON: {remedy}") from None
        if model is None:
            records.append(value)
            continue
        try:
            # From the text, as JSON: a tuple or an enum then comes back from its JSON form under strict schemas too.
            records.append(model.model_validate_json(line))
        except ValidationError as error:
            raise DataError(f"{path}:{number}: {_first_problem(error, model)}") from None
    return records


def _mend(path: Path, data: bytes) -> bytes:
    start = data.rstrip(b"\n").rfind(b"\n") + 1
    try:
        json.loads(data[start:])
        whole = data if data.endswith(b"\n") else data + b"\n"
    except ValueError:
        whole = data[:start]
        print(f"{path}: dropped a torn last line of {len(data) - start} bytes", file=sys.stderr)
    if whole != data:
        try:
            with path.open("r+b") as file:
                file.seek(start)
                file.truncate()
                file.write(whole[start:])
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _unwritable(path, error) from error
    return whole


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise _unreadable(path, error) from None


def _missing(path: Path) -> DataError:
    return DataError(f"{path}: no such file: check the path, or run the stage that writes it")


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: can't be read ({error.strerror or error}): check the path and its permissions")


def _first_problem(error: ValidationError, model: type[BaseModel]) -> str:
    problem = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in problem["loc"]) or "(the object)"
    if problem["type"] == "missing":
        return f"{field}: not given, but {model.__name__} needs it: make the file again with this version"
    shown = repr(problem["input"])
    return f"{field}: {shown if len(shown) <= 80 else shown[:77] + '...'}: {problem['msg']}: correct it or make the file again"


# -- provenance ------------------------------------------------------------------------------------------------------


def sha256_text(text: str) -> str:
    """Hex SHA-256 of the text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_file(path: str | Path) -> str:
    """Hex SHA-256 of a file, read in a stream. Raises DataError."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise _missing(Path(path)) from None
    except OSError as error:
        raise _unreadable(Path(path), error) from None


def hash_obj(obj: Any) -> str:
    """Hex SHA-256 of the object's canonical JSON (sorted keys, no spaces): equal content gives equal hashes. Raises DataError."""
    try:
        text = json.dumps(obj, default=_plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"object can't be hashed ({error}): use plain types and finite numbers") from error
    return sha256_text(text)


def provenance() -> dict[str, Any]:
    """What a result depends on besides its config: commit, uncommitted changes, versions, machine.

    ``git_commit``, ``git_dirty`` and ``git_changed`` (files that differ from the commit) are None outside a git checkout.
    """
    status = _git("status", "--porcelain")
    versions = {}
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "git_commit": _git("rev-parse", "HEAD"),
        "git_dirty": None if status is None else bool(status),
        "git_changed": None if status is None else len(status.splitlines()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "versions": versions,
    }


def _git(*arguments: str) -> str | None:
    try:
        command = ["git", "-C", str(Path(__file__).resolve().parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


# -- command line ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def cli_errors() -> Iterator[None]:
    """Turn a mistake of the user into one stderr line and exit code 2, and Ctrl-C into exit code 130.

    A context manager that also decorates a command: ``@app.command()`` above ``@cli_errors()``.
    """
    try:
        yield
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("stopped; the same command resumes", file=sys.stderr)
        raise SystemExit(130) from None
