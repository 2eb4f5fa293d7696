"""Stage 3's gate: a draft becomes a task only if execution proves its verifier right and strict (rule 4)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from coevolve_lab.environments.base import Environment, ScriptedWorld, Session
from coevolve_lab.evolution.calls import canonical_call
from coevolve_lab.evolution.explorer import Occasion
from coevolve_lab.evolution.guard import Finding, Guard
from coevolve_lab.records import Judgement, Outcome, Task, TaskDraft, Verdict

REASONS: dict[str, str] = {
    "solved": "the solution scores 1 twice, and the controls do not",
    "judged": "the LLM judge accepts it, and decides because evolution.judge is gate",
    "judge_refused": "the LLM judge refuses it",
    "judge_silent": "the LLM judge gave no usable answer",
    "unvalidated": "accepted without execution, because validation is switched off (table 11)",
    "partial": "the solution scores above 0 but not 1",
    "failed_call": "a call of the solution answers an error, or is never made",
    "unsolved": "the solution scores 0",
    "unstable": "the solution scores differently the second time",
    "accepts_nothing": "the verifier also accepts doing nothing",
    "accepts_echo": "the verifier also accepts repeating the prompt",
    "accepts_walk": "the verifier also accepts a random walk of the same length",
    "malformed": "turns or solution cannot be read, or are empty or too large",
    "too_short": "fewer calls than the configured minimum",
    "duplicate": "the same start with the same calls or the same query is already known",
    "leak": "too close to an evaluation task (rule 5)",
    "injection": "its query or solution gives instructions to whoever judges or trains",
    "band": "its similarity to the nearest evaluation task is outside the configured band (table 13)",
    "timeout": "executing it took longer than the deadline",
    "environment_error": "the environment failed while executing it",
    "manual": "passed, and every task waits for a person's decision",
    "risk": "passed, and waits for a person's decision because a risk rule marks it",
    "surplus": "enough tasks were accepted before its turn came; it was not executed",
}
UNEXECUTED = frozenset({"malformed", "injection", "too_short", "duplicate", "leak", "band", "surplus"})
END_OF_TURN = "Done."  # text without a call ends a user turn, or the episode
MAX_DRAFT_CHARS = 100_000
SOLVED = 1 - 1e-9

WALK_DRAWS = 4  # walks that are drawn to find one that is not the solution

Action = str | Callable[[Session], str | None]  # text, or what to play given the session; None: nothing fits
Plan = Sequence[Sequence[Action]]  # actions per user turn


class _Played(NamedTuple):
    score: float
    failed: str  # the first action that answered an error, "" if none did
    actions: list[str]  # without END_OF_TURN


class _Judgement(NamedTuple):
    outcome: Outcome
    reason: str
    detail: str
    score: float


def validate_drafts(
    drafts: Sequence[TaskDraft],
    environment: Environment,
    guard: Guard,
    known: Iterable[Task],
    occasion: Occasion,
    *,
    execute: bool = True,
    limit: int | None = None,
    seconds: float = 20.0,
    judge: Callable[[Sequence[TaskDraft]], Sequence[Judgement]] | None = None,
    hold: Callable[[TaskDraft], tuple[str, str] | None] | None = None,
) -> list[Verdict]:
    """One verdict per draft, in the drafts' order; accepted ones carry the task that enters D_t.

    known: the tasks of D_t. execute: False accepts every readable draft that the guard lets through (table 11). limit:
    at most this many pass, dealt out one per context at a time, so that no context takes all places. seconds: deadline
    per draft, looked at between actions. judge: decides in place of execution about what the guard lets through (the
    paper's way; the default is to execute); it is asked in turn about as many drafts as may still pass, so about none
    that is surplus. hold: reason and detail for a draft that passed but has to wait for a person. A draft that breaks
    the environment is discarded, never raised.
    """
    readable = [i for i in _dealt(drafts) if not _malformed(drafts[i])]
    findings = dict(zip(readable, guard.screen([drafts[i] for i in readable], known), strict=True))
    check = _Check(environment, drafts, occasion, seconds)
    if judge is not None:
        check.opinions = _Opinions(judge, [drafts[i] for i in readable if not findings[i].reason])
    verdicts: dict[int, Verdict] = {}
    accepted = 0
    for i in _dealt(drafts):
        finding = findings.get(i)
        if limit is not None and accepted >= limit and finding is not None and not finding.reason:
            judged = _Judgement("discarded", "surplus", f"{limit} tasks were accepted before this draft's turn.", 0.0)
        else:
            judged = check(drafts[i], finding, execute, None if limit is None else limit - accepted)
        passed = judged.outcome == "accepted"
        accepted += passed
        if passed and hold is not None and (why := hold(drafts[i])) is not None:
            judged = _Judgement("held", *why, judged.score)
        verdicts[i] = Verdict(
            id=occasion.ident("verdict", i),
            draft_id=drafts[i].id,
            outcome=judged.outcome,
            reason=judged.reason,
            round=occasion.round,
            detail=judged.detail,
            score=judged.score,
            similarity=finding.similarity if finding else None,
            task=_task(drafts[i], occasion.ident("task", i)) if passed else None,
        )
    return [verdicts[i] for i in range(len(drafts))]


class _Opinions:
    """What a judge says of drafts that are looked at in this order."""

    def __init__(self, judge: Callable[[Sequence[TaskDraft]], Sequence[Judgement]], drafts: list[TaskDraft]) -> None:
        self._judge = judge
        self._unasked = drafts
        self._known: dict[str, Judgement] = {}

    def of(self, draft: TaskDraft, places: int | None) -> Judgement | None:
        """None: the judge said nothing. places: how many drafts may still pass, so be asked about with this one."""
        if self._unasked and self._unasked[0] is draft:
            asked = self._unasked[:places]
            self._unasked = self._unasked[len(asked) :]
            self._known.update({opinion.draft_id: opinion for opinion in self._judge(asked)})
        return self._known.get(draft.id)


class _Check:
    """Executes one draft after the other, each try in a fresh session."""

    def __init__(
        self, environment: Environment, drafts: Sequence[TaskDraft], occasion: Occasion, seconds: float
    ) -> None:
        self._environment = environment
        self._pool = sorted({call for draft in drafts for call in _calls(draft)})
        self._occasion = occasion
        self._seconds = seconds
        self.opinions: _Opinions | None = None  # of a judge that decides

    def __call__(self, draft: TaskDraft, finding: Finding | None, execute: bool, places: int | None) -> _Judgement:
        if finding is None:
            return _Judgement("discarded", "malformed", _malformed(draft), 0.0)
        if finding.reason:
            return _Judgement("discarded", finding.reason, finding.detail, 0.0)
        if not execute:
            return _Judgement("accepted", "unvalidated", "Validation is switched off.", 0.0)
        if self.opinions is not None:
            return _as_judged(self.opinions.of(draft, places))
        try:
            return self._executed(_task(draft, draft.id), time.monotonic() + self._seconds)
        except TimeoutError:
            return _Judgement("discarded", "timeout", f"It was not validated within {self._seconds:g} seconds.", 0.0)
        except Exception as error:
            # one draft must not sink the others, whatever a benchmark's own code raises on it
            return _Judgement("discarded", "environment_error", f"{type(error).__name__}: {error}"[:500], 0.0)

    def _executed(self, task: Task, deadline: float) -> _Judgement:
        first, second = (self._play(task, task.solution, deadline) for _ in range(2))
        if first.score != second.score:
            detail = f"The solution scored {first.score:.3f}, then {second.score:.3f}."
            return _Judgement("discarded", "unstable", detail, min(first.score, second.score))
        if first.failed or first.score < SOLVED:
            outcome: Outcome = "retained" if first.score > 0 else "discarded"
            if first.failed:
                return _Judgement(outcome, "failed_call", f"{first.failed} answers an error.", first.score)
            reason = "partial" if first.score > 0 else "unsolved"
            return _Judgement(outcome, reason, f"The solution scores {first.score:.3f}.", first.score)
        if len(first.actions) < sum(map(len, task.solution)):
            detail = "The episode ends before all calls of the solution are made."
            return _Judgement("discarded", "failed_call", detail, first.score)
        nothing: Plan = [() for _ in task.turns]
        echo: Plan = [(turn,) for turn in task.turns]
        if self._play(task, nothing, deadline).score >= SOLVED:
            return _Judgement("discarded", "accepts_nothing", "Doing nothing scores 1.", first.score)
        if self._play(task, echo, deadline).score >= SOLVED:
            return _Judgement("discarded", "accepts_echo", "Repeating the prompt scores 1.", first.score)
        walked = self._walk(task, deadline)
        if walked is not None and walked.score >= SOLVED:
            return _Judgement("discarded", "accepts_walk", f"The walk {walked.actions} scores 1."[:500], first.score)
        return _Judgement("accepted", "solved", "The solution scores 1 twice, the controls do not.", first.score)

    def _play(self, task: Task, plan: Plan, deadline: float) -> _Played:
        session = self._environment.open(task)
        played: list[str] = []
        failed = ""
        try:
            for turn, actions in enumerate(plan):
                done = False
                for action in actions:
                    if time.monotonic() > deadline:
                        raise TimeoutError
                    text = action if isinstance(action, str) else action(session)
                    if text is None:
                        continue
                    _, done = session.step(text)
                    played.append(text)
                    failed = failed or (text[:200] if session.last_failed else "")
                    if done:
                        break
                if not done and session.turn == turn:  # else the last action has ended the turn by itself
                    _, done = session.step(END_OF_TURN)
                if done:
                    break
            return _Played(session.score(), failed, played)
        finally:
            session.close()

    def _walk(self, task: Task, deadline: float) -> _Played | None:
        """A random walk in the shape of the solution, other than the solution; None if none was drawn."""
        gold = sorted(canonical_call(call) for turn in task.solution for call in turn)
        for attempt in range(WALK_DRAWS):
            draw = self._random_call(task, self._occasion.rng("walk", task.id, attempt))
            walked = self._play(task, [[draw] * len(turn) for turn in task.solution], deadline)
            if walked.actions and sorted(map(canonical_call, walked.actions)) != gold:
                return walked
        return None

    def _random_call(self, task: Task, rng: random.Random) -> Callable[[Session], str | None]:
        world = self._environment
        if not isinstance(world, ScriptedWorld):
            return lambda session: rng.choice(self._pool)
        tools = list(world.tool_names(task.start))

        def draw(session: Session) -> str | None:
            bound = (world.bind(session, rng.choice(tools), rng) for _ in range(8))
            return next((call for call in bound if call is not None), None)

        return draw


def _as_judged(opinion: Judgement | None) -> _Judgement:
    """Section 3.3: success is accepted, failure with some reward is retained, the rest discarded."""
    if opinion is None or opinion.success is None:
        said = "The judge gave no answer." if opinion is None else f"The judge gave no answer: {opinion.reason}"
        return _Judgement("discarded", "judge_silent", said[:500], 0.0)
    played = opinion.played or 0.0
    if opinion.success:
        return _Judgement("accepted", "judged", opinion.reason[:500], played)
    return _Judgement("retained" if played > 0 else "discarded", "judge_refused", opinion.reason[:500], played)


def _dealt(drafts: Sequence[TaskDraft]) -> list[int]:
    """Indices in the order in which drafts are looked at: the first of every context, then the second, ..."""
    rank: dict[str, int] = {}
    keys = []
    for i, draft in enumerate(drafts):
        rank[draft.context_id] = rank.get(draft.context_id, -1) + 1
        keys.append((rank[draft.context_id], i))
    return [i for _, i in sorted(keys)]


def _malformed(draft: TaskDraft) -> str:
    """Why a draft cannot be read, "" if it can."""
    texts = [*draft.turns, *_calls(draft)]
    if not draft.turns or len(draft.turns) != len(draft.solution):
        return f"It has {len(draft.turns)} user turns and solutions for {len(draft.solution)}."
    if not all(isinstance(text, str) and text.strip() for text in texts) or not all(draft.solution):
        return "A user turn or a call is empty."
    if sum(map(len, texts)) > MAX_DRAFT_CHARS:
        return f"It is longer than {MAX_DRAFT_CHARS} characters."
    return ""


def _calls(draft: TaskDraft) -> list[str]:
    return [call for turn in draft.solution for call in turn]


def _task(draft: TaskDraft, name: str) -> Task:
    return Task(
        id=name,
        environment=draft.environment,
        turns=draft.turns,
        start=draft.start,
        solution=draft.solution,
        origin=draft.origin,
        draft_id=draft.id,
        round=draft.round,
        explorer=draft.explorer,
    )
