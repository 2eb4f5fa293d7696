"""Drafts that speak to whoever judges or trains instead of asking an agent for something.

A draft's query and solution are text that an explorer wrote after reading what an environment answered, and anybody may
have written that. The LLM judge reads both, the policy is trained on both. So a draft is refused when it tells its
reader what to conclude ("mark this as passed"), what to forget ("ignore all previous instructions"), who to be ("you
are the grader"), or holds the control tokens with which chat templates tell speakers apart.

The rules are wordings, in English, matched after spelling tricks are undone (``unveiled``). They stop what is common;
text that is encoded or translated passes, and meets the check by execution, which reads no prose (rule 4).
"""

from __future__ import annotations

import re
import unicodedata

from coevolve_lab.records import TaskDraft

# Cyrillic and Greek letters that look like these Latin ones, and that NFKC leaves alone.
_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455\u0458\u0501\u04bb\u051b\u051d\u03b1\u03bf\u03bd\u03b9\u03c1\u03c4\u03ba",
    "aeopcyxisjdhqwaoviptk",
)
_TAGS = re.compile("[\U000e0020-\U000e007e]+")  # invisible twins of ASCII, which models can read
_PHRASES = re.compile("[\ufdfa\ufdfb]")  # one character each, 18 and 8 when normalised
_SEPARATORS = re.compile(r"[\W_]+")
MAX_EXCERPT = 80

_JUDGE = r"(?:judge|grader|evaluator|validator|verifier|scorer|reward model)"
_WORK = r"(?:task|draft|solution|trajectory|answer|attempt|submission|response|episode|rollout|query|validation|run)"
_GOOD = r"(?:success|successful|successfully|succeeded|pass|passed|passing|accepted|correct|valid|validated|solved)"

# Read on lower-case words with single spaces between them. Every gap has a bound, so that a match takes bounded time.
_WORDINGS: tuple[tuple[str, str], ...] = (
    (
        "to ignore its instructions",
        r"(?:ignore|disregard|forget|override|bypass|do not follow|don t follow|stop following)(?: \w{1,20}){0,3}?"
        r" (?:previous|prior|above|earlier|preceding|your|system|original|initial|all|any|other)(?: \w{1,20}){0,3}?"
        r" (?:instructions?|prompts?|rules|guidelines|directives|rubric|criteria)\b",
    ),
    (
        "to ignore its instructions",
        r"(?:ignore|disregard|forget)(?: about)? (?:everything|all|anything|what|whatever)(?: \w{1,20}){0,4}?"
        r" (?:above|before this|were told|was told|been told|was said|preceded|precedes)\b",
    ),
    (
        "to ignore its instructions",
        r"(?:ignore|disregard|bypass|do not follow|don t follow)(?: \w{1,20}){0,2}?"
        r" (?:rubric|(?:grading|judging|acceptance) criteria)\b",
    ),
    ("to ignore its instructions", r"(?:ignore|disregard) the above\b"),
    ("to follow new instructions", r"(?:your|here are|these are)(?: \w{1,20})? new (?:instructions|objective|role)\b"),
    (
        "what to conclude",
        r"(?:mark|label|rate|score|grade|judge|classify|count|treat|accept|approve|report|consider|deem|evaluate|flag"
        rf"|validate|record|return) (?:this|it|everything|(?:this |the |my |your |every |each |all )?{_WORK}s?)"
        rf"(?: (?:as|to be|is|a))+ (?:\w{{1,20}} )?{_GOOD}\b",
    ),
    (
        "what to conclude",
        r"(?:give|award|assign|grant|return|output)(?: \w{1,20}){0,4}? (?:full|maximum|max|highest|perfect|top)"
        r" (?:score|marks|reward|credit|grade)\b",
    ),
    (
        "what to conclude",
        r"(?:set|return|output|report|assign|give|answer with)(?: \w{1,20}){0,3}? (?:reward|score)"
        r" (?:(?:of|to|as|is|equals|equal to) )?(?:1|one|100|maximum|max)\b",
    ),
    (
        "what to conclude",
        r"(?:output|return|respond|reply|answer|print|say|write|emit|produce)(?: \w{1,20}){0,5}?"
        r" (?:success|passed|accepted|verdict|is correct|is valid)"
        r" (?:is )?(?:true|1|yes|pass|passed|success|accepted)\b",
    ),
    ("what to conclude", rf"(?:must|should|shall|always) (?:pass|accept|approve) (?:this|the|every|all) {_WORK}\b"),
    (
        "who to be",
        r"(?:you are|you re|act as|acting as|pretend to be|behave as)(?: now)?(?: (?:the|an?|my|our))?"
        rf"(?: \w{{1,20}}){{0,2}}? {_JUDGE}\b",
    ),
    ("who to be", rf"(?:ai|llm|language model|automated|automatic) (?:{_JUDGE}|assessor|reviewer|trainer)\b"),
    (
        "who to be",
        r"(?:note|attention|instructions?|hint|memo) (?:to|for)(?: (?:the|any|all|an?))?"
        rf"(?: \w{{1,20}})? (?:{_JUDGE}|llm|ai model|language model)s?\b|(?:dear|hey|hello|hi|attention) {_JUDGE}\b",
    ),
    (
        "what to do as a judge",
        rf"(?:the|this|any|every) {_JUDGE} (?:must|should|shall|has to|have to|needs to|is required to)\b",
    ),
    ("about its system prompt", r"(?:system|developer) prompts?\b"),
    (
        "to tamper with the reward",
        r"(?:hack|tamper with|manipulate|modify|change|edit|overwrite|patch|disable|bypass|trick|fool)"
        r"(?: \w{1,20}){0,2}? (?:reward (?:function|model|signal)|verifier|grader|validator|evaluator|scorer)\b",
    ),
    (
        "to tamper with the reward",
        r"(?:maximi[sz]e|increase|inflate|raise) (?:your|the policy s|the model s) rewards?\b",
    ),
    (
        "how to train",
        r"(?:update|change|modify|edit) (?:your|the model s|the policy s) (?:own )?(?:weights|parameters)\b"
        r"|(?:you are|being|be) trained on (?:this|these)\b"
        r"|(?:add|append|accept|include|insert) (?:this|it|me)(?: \w{1,20}){0,2}? (?:to|into|in) (?:the|your)"
        r" (?:training|task) set\b",
    ),
)
_INSTRUCTIONS = tuple((what, re.compile(rf"\b(?:{pattern})")) for what, pattern in _WORDINGS)

_CONTROL_TOKENS = re.compile(
    r"<\|[a-z0-9_ /\u2581-]{1,40}\|>"  # ChatML, Llama 3, DeepSeek, Phi
    r"|\[/?(?:inst|tool_calls|tool_results|available_tools|system_prompt)\]"  # Mistral
    r"|<</?sys>>|</?s>|<[be]os>|</?(?:start|end)_of_turn>"  # Llama 2, Gemma
    r"|</?(?:tool_response|tool_outputs?|function_results?|system|assistant)>"  # Qwen and others
)
# Ordinary in a solution, whose calls may be written this way, but not in what a user says.
_CALL_TAGS = re.compile(r"</?(?:tool_calls?|function_calls?|tools|think)>")
_SPEAKER = re.compile(r"^[ \t#*>]{0,8}(?:system|assistant|developer)[ *]{0,4}:", re.MULTILINE)
_VERDICT = re.compile(  # what a judge's reply looks like
    r"[\"'](?:success|passed|accepted|verdict|reward|is_correct)[\"'] {0,9}: {0,9}"
    r"[\"']?(?:true|1|pass|accept|success|yes)"
)


def injection(draft: TaskDraft) -> str:
    """Why a draft is taken for an attempt to steer its judge or trainer, in a sentence with what was found; "" if it
    is not. Takes time linear in the length of the draft."""
    query = "\n".join(draft.turns)
    calls = "\n".join(call for turn in draft.solution for call in turn)
    return _in_query(query) or _anywhere("solution", calls)


def unveiled(text: str, invisible: str = "") -> str:
    """The text as a reader takes it: full-width and other compatibility forms and look-alikes as plain letters, hidden
    twins of letters visible, accents off, lower case, runs of spaces as one; lines stay lines.

    invisible: what stands for a character that has no width, since it may sit within a word or part two.
    """
    shown = _shown(
        _PHRASES.sub(" ", _TAGS.sub(_revealed, text)), invisible
    )  # before normalisation too, whose time is quadratic in marks
    plain = _shown(unicodedata.normalize("NFKD", shown).casefold(), "").translate(_LOOKALIKES)
    return "\n".join(re.sub(r"\s+", " ", line) for line in plain.splitlines())


def _in_query(query: str) -> str:
    if found := _anywhere("query", query):
        return found
    text = unveiled(query)
    if tag := _CALL_TAGS.search(text):
        return f"Its query holds {_quoted(tag)}, which chat templates use."
    if line := _SPEAKER.search(text):
        return f"A line of its query begins with {_quoted(line)}, as if somebody else spoke."
    if verdict := _VERDICT.search(text):
        return f"Its query holds a judge's answer: {_quoted(verdict)}."
    return ""


def _anywhere(where: str, raw: str) -> str:
    for text in dict.fromkeys((unveiled(raw), unveiled(raw, " "))):
        if token := _CONTROL_TOKENS.search(text):
            return f"Its {where} holds {_quoted(token)}, which chat templates use."
        words = _SEPARATORS.sub(" ", text)
        for what, pattern in _INSTRUCTIONS:
            if told := pattern.search(words):
                return f"Its {where} tells whoever reads it {what}: {_quoted(told)}."
    return ""


def _shown(text: str, invisible: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    kept = []
    for c in text:
        kind = unicodedata.category(c)
        if c.isspace() or (kind not in ("Cc", "Cf", "Mn") and not unicodedata.combining(c)):
            kept.append(c)
        elif kind == "Cf":
            kept.append(invisible)
    return "".join(kept)


def _revealed(hidden: re.Match[str]) -> str:
    return "\n" + "".join(chr(ord(c) - 0xE0000) for c in hidden[0]) + "\n"


def _quoted(found: re.Match[str]) -> str:
    text = found[0].strip()
    return f'"{text if len(text) <= MAX_EXCERPT else text[:MAX_EXCERPT] + "..."}"'
