"""The recording on disk: whole after a kill, found again, and never silently something else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from coevolve_lab.endpoint import Cassette, ToolCall
from coevolve_lab.endpoint.cassette import prompt_key
from coevolve_lab.endpoint.exchange import Exchange, Prompt
from coevolve_lab.errors import StoreError

PROMPT = Prompt("explore", "s1", "fake-1", [{"role": "user", "content": "go"}], None, None, 0.7, 100)
WHOLE = Exchange("ok", "h\u00e9llo \ufffd", (ToolCall("c", "cd", '{"a'),), 3, 4, 0.5, 1.25, 2, "slow")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "cassette.jsonl"


def test_what_is_added_is_found_in_this_process_and_the_next(path: Path) -> None:
    cassette = Cassette(path)
    assert cassette.find("k") is None
    cassette.add("k", PROMPT, WHOLE)
    cassette.add("l", PROMPT, replace(WHOLE, text="other"))
    for reader in (cassette, Cassette(path), Cassette(path, replay_only=True)):
        assert len(reader) == 2
        assert reader.find("k") == WHOLE
        assert reader.find("l") == replace(WHOLE, text="other")


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_torn_last_line_is_dropped(path: Path, cut: int) -> None:
    cassette = Cassette(path)
    cassette.add("k", PROMPT, WHOLE)
    cassette.add("l", PROMPT, WHOLE)
    path.write_bytes(path.read_bytes()[:-cut])
    opened = Cassette(path)
    assert (opened.find("k"), opened.find("l")) == (WHOLE, None)
    opened.add("m", PROMPT, WHOLE)
    again = Cassette(path)
    assert [again.find(key) for key in "klm"] == [WHOLE, None, WHOLE]
    assert all(json.loads(line)["key"] for line in path.read_text().splitlines())


def test_what_others_add_is_kept(path: Path) -> None:
    ours, theirs = Cassette(path), Cassette(path)
    for key, cassette in (("k", ours), ("l", theirs), ("m", ours), ("n", theirs)):
        cassette.add(key, PROMPT, replace(WHOLE, text=key))
    for cassette in (theirs, Cassette(path)):
        found = [cassette.find(key) for key in "klmn"]
        assert [exchange.text for exchange in found if exchange] == ["k", "l", "m", "n"]


def test_a_torn_recording_can_be_replayed_without_being_touched(path: Path) -> None:
    Cassette(path).add("k", PROMPT, WHOLE)
    torn = path.read_bytes() + b'{"key": "l"'
    path.write_bytes(torn)
    assert Cassette(path, replay_only=True).find("k") == WHOLE
    assert path.read_bytes() == torn


def test_a_damaged_line_is_named(path: Path) -> None:
    Cassette(path).add("k", PROMPT, WHOLE)
    whole = json.loads(path.read_text())
    unknown = {**whole, "reply": {**whole["reply"], "mood": "good"}}
    missing = {**whole, "reply": {"status": "ok", "text": "hi"}}
    shapes = [json.dumps(line).encode() + b"\n" for line in (unknown, missing, {**whole, "reply": ["ok"]})]
    for line in (b"not json\n", b"[1]\n", b'{"key": "x"}\n', *shapes):
        path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n" + line)
        with pytest.raises(StoreError, match=r"line 2 of .*cassette\.jsonl is not a recorded exchange"):
            Cassette(path)


def test_replaying_needs_a_recording(path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        Cassette(path, replay_only=True)


def test_a_failure_is_replayed_but_does_not_stand_for_an_answer(path: Path) -> None:
    cassette = Cassette(path)
    cassette.add("k", PROMPT, Exchange("error", detail="bad day"))
    assert cassette.find("k") is None
    replayed = Cassette(path, replay_only=True).find("k")
    assert replayed is not None
    assert replayed.status == "error"
    cassette.add("k", PROMPT, WHOLE)
    cassette.add("k", PROMPT, Exchange("deadline"))
    for reader in (cassette, Cassette(path, replay_only=True)):
        assert reader.find("k") == WHOLE


def test_secrets_are_blotted_out_and_old_messages_left_out(path: Path) -> None:
    messages = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "reply"},
        {"role": "tool", "content": "result, by the way sek\u00e9ret"},
    ]
    Cassette(path).add("k", replace(PROMPT, messages=messages), replace(WHOLE, text="sek\u00e9ret"), ["sek\u00e9ret"])
    line = json.loads(path.read_text())
    assert line["messages"] == [{"role": "tool", "content": "result, by the way [key]"}]
    assert line["reply"]["text"] == "[key]"


def test_the_key_is_of_everything_that_is_asked() -> None:
    changes = {
        "role": "judge", "subject": "s2", "model": "m", "messages": [], "schema": {}, "tools": [], "temperature": 0.0,
        "max_tokens": 1,
    }  # fmt: skip
    keys = {prompt_key(replace(PROMPT, **{name: value})) for name, value in changes.items()}
    assert len(keys | {prompt_key(PROMPT)}) == len(changes) + 1
    assert prompt_key(PROMPT) == prompt_key(replace(PROMPT, messages=[{"content": "go", "role": "user"}]))
