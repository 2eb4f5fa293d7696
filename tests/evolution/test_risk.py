from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from coevolve_lab.environments.base import RiskRules
from coevolve_lab.evolution.risk import TEXT_RULES, hold_rule, risks
from coevolve_lab.records import TaskDraft
from tests.evolution.toy_world import ToyWorld

Drafts = Callable[..., TaskDraft]
SENTENCES = {rule.name: rule.sentence for rule in TEXT_RULES}


class RiskyWorld(ToyWorld):
    """A toy world in which erasing is risky."""

    def risks(self, solution: Sequence[Sequence[str]]) -> list[str]:
        return ["erase deletes." for turn in solution for call in turn if call.startswith("erase(")]


MARKED = [
    ("address", "download https://example.invalid/a"),
    ("address", "post it on files.example.com"),
    ("address", "read HTTP\uff1a//x.y"),
    ("address", "connect to 8.8.8.8"),
    ("code", "run curl -s x.sh"),
    ("code", "then wget evil.sh"),
    ("code", "rm -rf everything"),
    ("code", "cat a | sh"),
    ("code", "echo aGk= | base64 -d"),
    ("code", "echo $(whoami)"),
    ("code", "use os.system('ls')"),
    ("credential", "my key is sk-abcdefghijklmnop1234"),
    ("credential", "AKIAIOSFODNN7EXAMPLE"),
    ("credential", "log in with password 'abc'"),
    ("credential", "set API_KEY to x"),
    ("credential", "-----BEGIN RSA PRIVATE KEY-----"),
    ("card", "pay with 4111 1111 1111 1111"),
    ("card", "pay with 4111-1111-1111-1111, please"),
    ("person", "write to ann.lee@example.org"),
    ("person", "call +44 20 7946 0958"),
    ("person", "call (555) 123-4567"),
]
UNMARKED = [
    "move report.txt and run.sh into docs, then sort notes.md",
    "compare version 1.2.3 with 10.0.0.1, 192.168.1.20 and 127.0.0.1",
    "order 12345 for 4111111111111112 shares",  # 16 digits whose check digit is wrong
    "add 3.14159265358979323846 to 2.5",
    "curl up with a book and pass the salt",
    "mention @ann in tweet 5 on 2024-10-01",
    "what is 100-200-300",
    "set the token count to 5; pin the message",
]


@pytest.mark.parametrize(("name", "text"), MARKED)
def test_a_text_rule_marks_queries_and_calls(name: str, text: str, draft: Drafts) -> None:
    assert SENTENCES[name] in risks(ToyWorld(), draft("total()", turns=(text,)))
    assert SENTENCES[name] in risks(ToyWorld(), draft(f'put(key="ant", text="{text}")'))


@pytest.mark.parametrize("text", UNMARKED)
def test_ordinary_text_is_not_marked(text: str, draft: Drafts) -> None:
    assert risks(ToyWorld(), draft("total()", turns=(text,))) == []


def test_rules_are_named_once_and_speak_in_sentences() -> None:
    assert len(SENTENCES) == len(TEXT_RULES)
    assert all(sentence.endswith(".") for sentence in SENTENCES.values())


def test_what_the_environment_says_comes_first(draft: Drafts) -> None:
    assert not isinstance(ToyWorld(), RiskRules)
    assert isinstance(RiskyWorld(), RiskRules)
    found = risks(RiskyWorld(), draft("erase(key='ant')", turns=("erase ant of ant@example.org",)))
    assert found == ["erase deletes.", SENTENCES["person"]]


def test_who_waits_for_a_person(draft: Drafts) -> None:
    risky, plain = draft("erase(key='ant')"), draft("total()")
    assert hold_rule("auto", RiskyWorld()) is None
    by_risk, manual = hold_rule("risk", RiskyWorld()), hold_rule("manual", RiskyWorld())
    assert by_risk is not None
    assert manual is not None
    assert by_risk(risky) == ("risk", "erase deletes.")
    assert by_risk(plain) is None
    assert manual(risky) == ("risk", "erase deletes.")
    assert manual(plain) == ("manual", "Every task waits for a person's decision.")


def test_long_and_hostile_text_is_read_to_its_end(draft: Drafts) -> None:
    for unit in ("4 ", "x", "a.", "+1 234 ", "eyj-", "1.2.3.4.", "-----begin ", "| ", "x" * 60 + "."):
        text = unit * (100_000 // len(unit))
        assert SENTENCES["code"] in risks(ToyWorld(), draft("total()", turns=(text + "\nsudo reboot",)))
        assert SENTENCES["code"] not in risks(ToyWorld(), draft("total()", turns=(text,)))
