import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.config import ConfigError, Strict
from envs.runs import (
    DataError,
    append_jsonl,
    cli_errors,
    hash_obj,
    provenance,
    read_json,
    read_jsonl,
    sha256_text,
    write_json_atomic,
    write_jsonl_atomic,
    write_text_atomic,
)


class Row(Strict):
    n: int
    pair: tuple[int, int] = (0, 0)


def test_json_round_trip_of_plain_and_rich_values(tmp_path):
    path = tmp_path / "deep" / "m.json"
    write_json_atomic(path, {"a": np.float64(0.5), "b": np.arange(3), "c": Path("x"), "d": Row(n=1), "e": {3, 1}, "f": "é"})
    assert read_json(path) == {"a": 0.5, "b": [0, 1, 2], "c": "x", "d": {"n": 1, "pair": [0, 0]}, "e": [1, 3], "f": "é"}
    assert [p.name for p in path.parent.iterdir()] == ["m.json"]


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_unstorable_value_leaves_the_old_file(tmp_path, value):
    path = tmp_path / "m.json"
    write_json_atomic(path, 1)
    with pytest.raises(DataError, match="m.json: value can't be stored as JSON"):
        write_json_atomic(path, {"x": value})
    assert read_json(path) == 1


def test_full_disk_leaves_the_old_files_and_says_what_to_do(tmp_path, monkeypatch):
    text, lines = tmp_path / "a.txt", tmp_path / "a.jsonl"
    write_text_atomic(text, "old")
    append_jsonl(lines, {"n": 1})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"a.txt: can't be written \(No space left on device\): free disk space"):
        write_text_atomic(text, "new")
    with pytest.raises(DataError, match=r"a.jsonl: can't be written \(No space left on device\)"):
        append_jsonl(lines, {"n": 2})
    monkeypatch.undo()
    assert text.read_text() == "old"
    assert read_jsonl(lines) == [{"n": 1}]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "a.txt"]


def test_jsonl_round_trip_with_and_without_a_model(tmp_path):
    path = tmp_path / "r.jsonl"
    rows = [Row(n=i, pair=(i, 2)) for i in range(3)]
    assert write_jsonl_atomic(path, rows) == 3
    append_jsonl(path, Row(n=3))
    assert read_jsonl(path, model=Row) == [*rows, Row(n=3)]
    assert read_jsonl(path)[0] == {"n": 0, "pair": [0, 2]}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=3), min_size=1, max_size=4), st.data())
def test_a_file_cut_anywhere_resumes_with_its_whole_lines(tmp_path_factory, objects, data):
    path = tmp_path_factory.mktemp("cut") / "r.jsonl"
    write_jsonl_atomic(path, objects)
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = read_jsonl(path, torn="drop_last")
    # A cut just before a line feed loses nothing.
    assert kept == objects[: len(kept)]
    assert len(kept) in (whole[:cut].count(b"\n"), whole[: cut + 1].count(b"\n"))
    append_jsonl(path, {"after": 1})
    assert read_jsonl(path) == [*kept, {"after": 1}]


def test_torn_lines_are_named(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"n": 1}\n{"n": 2}\n{"n"')
    with pytest.raises(DataError, match=r"r.jsonl:3: not valid JSON: resume the run"):
        read_jsonl(path)
    with pytest.raises(DataError, match=r"r.jsonl: its last line is torn: resume the run"):
        append_jsonl(path, {})
    path.write_text('{"n": 1}\n{"n"\n{"n": 3}\n')
    for torn in ("error", "drop_last"):
        with pytest.raises(DataError, match=r"r.jsonl:2: not valid JSON: mend the line"):
            read_jsonl(path, torn=torn)


def test_wrong_records_are_named(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"n": 1}\n\n{"n": "x"}\n')
    with pytest.raises(DataError, match=r"r.jsonl:3: n: 'x': Input should be a valid integer"):
        read_jsonl(path, model=Row)
    path.write_text('{"pair": [1, 2]}\n')
    with pytest.raises(DataError, match=r"r.jsonl:1: n: not given, but Row needs it"):
        read_jsonl(path, model=Row)
    with pytest.raises(DataError, match=r"none.jsonl: no such file"):
        read_jsonl(tmp_path / "none.jsonl")
    path.write_text("{")
    with pytest.raises(DataError, match="not valid JSON"):
        read_json(path)


def test_hashes_depend_on_content_only():
    assert hash_obj({"a": 1, "b": [1, 2]}) == hash_obj({"b": (1, 2), "a": 1})
    assert hash_obj({"a": 1}) != hash_obj({"a": 2})
    assert sha256_text("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    with pytest.raises(DataError, match="can't be hashed"):
        hash_obj(float("inf"))


def test_provenance_is_json():
    told = json.loads(json.dumps(provenance()))
    assert told["versions"]["torch"].startswith("2.13.0")
    assert told["git_commit"] is None or len(told["git_commit"]) == 40


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("a.yaml: x: bad"), 2, "error: a.yaml: x: bad\n"),
        (DataError("b.jsonl:1: bad"), 2, "error: b.jsonl:1: bad\n"),
        (KeyboardInterrupt(), 130, "stopped; the same command resumes\n"),
    ],
)
def test_cli_errors(error, code, line, capsys):
    @cli_errors()
    def command() -> None:
        raise error

    with pytest.raises(SystemExit) as caught:
        command()
    assert caught.value.code == code
    assert capsys.readouterr().err == line


def test_cli_errors_lets_bugs_through():
    with pytest.raises(ZeroDivisionError), cli_errors():
        1 / 0  # noqa: B018
