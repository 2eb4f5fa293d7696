"""Is what a model says of a trajectory in the trajectory? (section 3.2: every statement is grounded in the evidence)

Names of tools, calls, quoted strings, file names and numbers of two digits or more can be looked up; prose cannot. A
statement is grounded if everything in it that can be looked up occurs in the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# A quote begins after a blank or a bracket and ends before one, so that an apostrophe within a word is none.
_QUOTED = re.compile(r"(?<![\w])(['\"`\u201c\u2018])([^\n]+?)(['\"`\u201d\u2019])(?!\w)")
_CLOSING = {"'": "'", '"': '"', "`": "`", "\u201c": "\u201d", "\u2018": "\u2019"}
_CHAIN = re.compile(r"\s*(?:->|\u2192|[>,+&|])\s*")  # "mv > cp" as a statement
_WORD = re.compile(r"[A-Za-z_][\w.]*")
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(")
_PATH = re.compile(r"(?<![\w.])[\w.-]*(?:/[\w.-]+)+|(?<![\w.])[\w-]+\.[A-Za-z]\w{0,4}(?![\w.])")
_NAME = re.compile(r"\b(?:[A-Za-z]\w*_\w+|[A-Za-z]+[a-z][A-Z]\w*|[A-Za-z]+\d\w*)\b")
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?!\w)")
_WRITTEN = (re.compile(r"\d+(?:\.\d+)?"), re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?"))  # numbers of the evidence
_NOISE = re.compile(r"[\s'\"`\\\u201c\u201d\u2018\u2019]+")
_ABBREVIATIONS = frozenset({"e.g", "i.e", "etc"})


class Grounding:
    """Looks statements up in one body of evidence."""

    def __init__(self, evidence: Iterable[str]) -> None:
        text = "\n".join(evidence)
        self._text = _plain(text)
        self._squeezed = self._text.replace(" ", "")
        self._numbers = {_number(found) for pattern in _WRITTEN for found in pattern.findall(text)}

    def missing(self, statements: Iterable[str]) -> list[str]:
        """What the statements name that the evidence does not hold, each once, in order."""
        return list(dict.fromkeys(claim for text in statements for claim in self._missing(text.strip())))

    def _missing(self, statement: str) -> list[str]:
        words = _CHAIN.split(statement)
        if all(_WORD.fullmatch(word) for word in words):  # bare words as a whole statement are meant as names
            return [word for word in words if not self._holds(word)]
        rest, lost = statement, []
        for found in _QUOTED.finditer(statement):
            opening, quoted, closing = found.groups()
            if _CLOSING[opening] != closing or self._squeeze(quoted) in self._squeezed:
                continue
            # a call may be spelled another way, if its parts are all there
            if not _CALL.match(quoted):
                lost.append(quoted)
                rest = rest.replace(quoted, " ")
        for pattern in (_CALL, _PATH, _NAME):
            names = [name if isinstance(name, str) else name[0] for name in pattern.findall(rest)]
            lost += [name for name in names if name.lower() not in _ABBREVIATIONS and not self._holds(name)]
            rest = pattern.sub(" ( ", rest) if pattern is not _CALL else rest
        numbers = [number.strip(",") for number in _NUMBER.findall(rest)]
        lost += [n for n in numbers if sum(map(str.isdigit, n)) > 1 and _number(n) not in self._numbers]
        return lost

    def _holds(self, name: str) -> bool:
        return re.search(rf"(?<!\w){re.escape(_plain(name).strip('.'))}(?!\w)", self._text) is not None

    def _squeeze(self, text: str) -> str:
        return _plain(text).replace(" ", "").rstrip(".,;:")


def _plain(text: str) -> str:
    """Lower case, without quotes and backslashes, blanks as one blank each."""
    return _NOISE.sub(" ", text).strip().lower()


def _number(text: str) -> float:
    return abs(float(text.replace(",", "") or 0))
