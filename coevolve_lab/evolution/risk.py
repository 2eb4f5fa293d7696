"""Which drafts a person should see before they train anybody: rules by environment, and rules on any text.

The rules on text hold for every environment: addresses outside, code that a shell would run, credentials, and how to
reach a person. They read the query and the calls, as ``injection.unveiled`` shows them. A rule marks, it does not
refuse: much of what it marks is harmless, and ``evolution.review`` decides what a mark means.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from coevolve_lab.environments.base import Environment, RiskRules
from coevolve_lab.evolution.injection import unveiled
from coevolve_lab.records import TaskDraft

# Endings that files have too (.sh, .ai, .py, .md) are left out; an address with a scheme is found whatever it ends in.
_ENDINGS = "com|net|org|io|info|biz|edu|gov|onion|xyz|top|ru|cn|uk"
_ADDRESS = re.compile(
    rf"\b(?:https?|ftps?|wss?|ssh|git|s3)://\S|(?<![\w@.-])(?:[a-z0-9-]{{1,63}}\.){{1,5}}(?:{_ENDINGS})(?![\w-])"
)
_IP = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
_SHELL = re.compile(
    r"\b(?:curl|wget) {1,3}(?:-|[\"']|\w{1,40}[.:/])|\brm {1,3}-{1,2}[a-z]|\| {0,3}(?:sudo )?(?:ba|z|k|da)?sh\b"
    r"|\| {0,3}(?:python3?|perl|node)\b|\bbase64 {1,3}-{1,2}d|\bsudo \w|\bchmod {1,3}(?:\+x|[0-7]{3})|/dev/tcp/"
    r"|\bmkfs\b|\bdd {1,3}if=|\$\(\w|:\(\) ?\{|\bpowershell\b|\binvoke-expression\b"
    r"|\b(?:eval|exec|__import__|os\.system|os\.popen|subprocess\.\w{1,20}) {0,3}\("
)
_KEY = re.compile(  # as unveiled: in lower case
    r"\b(?:sk-[\w-]{16}|(?:akia|asia)[0-9a-z]{16}\b|gh[oprsu]_[0-9a-z]{20}|github_pat_\w{20}|xox[abeoprs]-[\w-]{10}"
    r"|aiza[\w-]{30}|hf_[0-9a-z]{20}|glpat-[\w-]{16}|(?<!-)eyj[\w-]{10,200}\.eyj[\w-]{10})"
    r"|-----begin [a-z ]{0,30}private key"
)
_SECRET_WORD = re.compile(
    r"(?<![a-z])(?:pass ?words?|passwd|pass ?phrases?|api[_ -]?keys?|secret[_ -]keys?|client[_ -]secrets?"
    r"|(?:access|auth|bearer|refresh)[_ -]?tokens?|private[_ -]keys?|cvv|cvc|card[_ ]verification[_ ]number|pin code)"
    r"(?![a-z])"
)
_CARD = re.compile(r"(?<![\w.-])[2-6](?:[ -]?\d){12,18}(?![\w-]|\.\d)")
_PERSON = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.[a-z]"
    r"|(?<![\w+.-])\+\d{1,3}(?:[ .-]?\(?\d{2,4}\)?){2,4}(?![\w-])|(?<!\w)\(?\d{3}\)?[ .-]\d{3}[.-]\d{4}(?![\w-])"
)


class TextRule(NamedTuple):
    """A named test on unveiled text, and what it means when it fires."""

    name: str
    sentence: str
    found: Callable[[str], object]


def _global_ip(text: str) -> bool:
    numbers = (found[0] for found in _IP.finditer(text))
    return any(_is_global(number) for number in numbers)


def _is_global(number: str) -> bool:
    try:
        return ipaddress.ip_address(number).is_global
    except ValueError:
        return False


def _card(text: str) -> bool:
    return any(_luhn(re.sub(r"\D", "", found[0])) for found in _CARD.finditer(text))


def _luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of a payment card's number."""
    doubled = [int(d) * (2 - i % 2) for i, d in enumerate(reversed(digits), start=1)]
    return sum(sum(divmod(value, 10)) for value in doubled) % 10 == 0


TEXT_RULES = (
    TextRule("address", "It names an address outside.", lambda text: _ADDRESS.search(text) or _global_ip(text)),
    TextRule("code", "It holds code that a shell or an interpreter would run.", _SHELL.search),
    TextRule("credential", "It holds or asks for credentials.", lambda t: _KEY.search(t) or _SECRET_WORD.search(t)),
    TextRule("card", "It holds what looks like a payment card's number.", _card),
    TextRule("person", "It names an e-mail address or a telephone number.", _PERSON.search),
)


def risks(environment: Environment, draft: TaskDraft) -> list[str]:
    """What is risky about a draft, a sentence each; [] when no rule marks it.

    First what the environment says of the calls, if it has ``RiskRules``; then TEXT_RULES on query and calls.
    """
    found = environment.risks(draft.solution) if isinstance(environment, RiskRules) else []
    text = unveiled("\n".join([*draft.turns, *(call for turn in draft.solution for call in turn)]))
    return [*found, *(rule.sentence for rule in TEXT_RULES if rule.found(text))]


def hold_rule(
    review: Literal["auto", "risk", "manual"], environment: Environment
) -> Callable[[TaskDraft], tuple[str, str] | None] | None:
    """Which drafts wait for a person: none, those that a rule marks, or all; as ``validate_drafts`` takes it."""
    if review == "auto":
        return None

    def held(draft: TaskDraft) -> tuple[str, str] | None:
        found = risks(environment, draft)
        if found:
            return "risk", " ".join(found)
        return ("manual", "Every task waits for a person's decision.") if review == "manual" else None

    return held
