"""The rows that flow round the ring: one frozen dataclass per kind, and nothing but (de)serialisation.

Every stage takes lists of these and returns lists of these; the store writes one table per class. Ids are strings
that stay unique within a run, and every record names the one it came from, so that a task can be followed back to the
trajectory whose weakness caused it: Task -> TaskDraft -> Triplet -> ExplorationContext -> Signal -> Trajectory ->
policy version (design rule 6).
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeVar

R = TypeVar("R")

Status = Literal[
    "completed",  # the episode ended by itself; the score says how well
    "truncated_steps",  # ran out of interaction steps
    "truncated_tokens",  # ran out of response tokens
    "parse_error",  # too many replies that could not be read as an action
    "env_error",  # the environment failed (not: the agent made a mistake)
    "timeout",  # its calls took the environment longer than they may
    "engine_error",  # the policy engine failed while sampling
]
NOT_THE_AGENT: frozenset[Status] = frozenset({"env_error", "engine_error"})  # these say nothing about the agent
Outcome = Literal["accepted", "retained", "discarded", "held"]
Decision = Literal["accept", "reject", "edit"]
Origin = Literal["benchmark", "seed", "feedback", "random", "uniform", "import"]


@dataclass(frozen=True)
class Task:
    """One entry of a task set: where the environment starts, what the user says, and a solution that was executed.

    turns: the user's messages in order (one or more). solution: for each turn, the calls that solve it, as text.
    start: JSON-like description that the environment can open (``Environment.open``). explorer: who made it
    ("scripted", "llm:<model>", "" for benchmark cases). Scored by executing (design rule 4).
    """

    id: str
    environment: str
    turns: tuple[str, ...]
    start: Mapping[str, Any]
    solution: tuple[tuple[str, ...], ...] = ()
    split: str = "train"
    origin: Origin = "benchmark"
    draft_id: str | None = None
    round: int = 0
    explorer: str = ""


@dataclass(frozen=True)
class Step:
    """One action of the agent and what the environment answered.

    token_ids: the sampled ids, exactly as sampled, the end-of-turn token included; logprobs: of each of them, at the
    sampling temperature. reply_ids: the ids appended after the action (the environment's reply and the next
    generation prompt); never trained. tools: names of the calls parsed from the action, in order; failed: one of
    them returned an error, or the action could not be parsed. turn: index of the user turn that it answers.
    """

    turn: int
    action: str
    observation: str
    tools: tuple[str, ...] = ()
    failed: bool = False
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    reply_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Trajectory:
    """One episode of one policy version on one task.

    group_id: the K trajectories of one task in one step share it (GRPO's group). score: in [0, 1]. step: training
    step at which it was sampled. purpose: "train" or "evaluate". prompt_ids: ids before the first action.
    """

    id: str
    task_id: str
    group_id: str
    policy_version: int
    round: int
    step: int
    score: float
    status: Status
    steps: tuple[Step, ...]
    prompt_ids: tuple[int, ...] = ()
    temperature: float = 1.0
    seconds: float = 0.0
    purpose: str = "train"
    detail: str = ""

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of all calls in order."""
        return tuple(name for step in self.steps for name in step.tools)


@dataclass(frozen=True)
class Signal:
    """A weakness mark on one trajectory (section 3.1). pattern: the action pattern the mark is about, if it has one."""

    id: str
    kind: str
    trajectory_id: str
    task_id: str
    group_id: str
    round: int
    step: int
    score: float
    pattern: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class ExplorationContext:
    """What reflection makes of a signal (section 3.2): where to explore, why, and what to avoid.

    signal_id and task_id are None for unguided contexts (D_0 and the random and uniform controls); kind then says
    which control. focus_pattern: tool names (or free text, from an LLM) to explore more.
    """

    id: str
    kind: str
    round: int
    start: Mapping[str, Any]
    signal_id: str | None = None
    task_id: str | None = None
    summary: str = ""
    failure_cause: str = ""
    instability_pattern: str = ""
    focus_pattern: tuple[str, ...] = ()
    exploration_objectives: tuple[str, ...] = ()
    do_not_repeat: tuple[str, ...] = ()
    explorer: str = ""


@dataclass(frozen=True)
class Triplet:
    """One step of exploration (section 3.2): action a_t, observation o_t and the exploration rollout it belongs to."""

    id: str
    context_id: str
    rollout_id: str
    index: int
    action: str
    observation: str
    failed: bool
    round: int
    tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskDraft:
    """A task as abstracted from triplets (section 3.3), before validation. Fields as in Task."""

    id: str
    context_id: str
    rollout_id: str
    environment: str
    turns: tuple[str, ...]
    start: Mapping[str, Any]
    solution: tuple[tuple[str, ...], ...]
    round: int
    origin: Origin
    explorer: str = ""


@dataclass(frozen=True)
class Verdict:
    """What validation said of a draft (section 3.3), with the task that enters D_t if it was accepted.

    outcome: accepted (enters), retained (partial reward: kept in the store, does not enter), discarded, held (passed,
    and waits for a person: ``Review``). reason: one word for counting; detail: a sentence for people. similarity:
    largest cosine similarity to an evaluation task.
    """

    id: str
    draft_id: str
    outcome: Outcome
    reason: str
    round: int
    detail: str = ""
    score: float = 0.0
    similarity: float | None = None
    task: Task | None = None


@dataclass(frozen=True)
class Review:
    """What a person decided about a draft that was held (``evolution.review``).

    An edit's turns and solution replace the draft's, and are validated again before they enter; otherwise both are
    empty. round: whose training set the decision came into force for; decided_at: seconds since the epoch.
    """

    id: str
    draft_id: str
    decision: Decision
    round: int
    reason: str = ""
    reviewer: str = ""
    turns: tuple[str, ...] = ()
    solution: tuple[tuple[str, ...], ...] = ()
    decided_at: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """What an LLM judge said of a draft (section 3.3), beside or in place of the check by execution.

    success: None when it gave no usable answer. played: score in [0, 1] of the agent that the judge watched.
    """

    id: str
    draft_id: str
    round: int
    success: bool | None
    reason: str = ""
    played: float | None = None
    model: str = ""


@dataclass(frozen=True)
class ModelCall:
    """One request to a model endpoint, and what it cost.

    role: what it was for ("reflect", "explore", "abstract", "judge", "evaluate"); subject: the id of what it was about.
    status: "ok", or why nothing could be used ("refused", "empty", "malformed", "cut", "ungrounded", "deadline",
    "budget", "error"). cost: money, in the unit that the configured prices are in; attempts: requests made, retries
    included; replayed: the reply came from a recording, so that cost and seconds are of the time when it was made (0
    where another record has them: sums are what was paid).
    """

    id: str
    round: int
    role: str
    subject: str
    model: str
    status: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    attempts: int = 1
    replayed: bool = False
    detail: str = ""


@dataclass(frozen=True)
class Update:
    """One GRPO step (section 3.1, equation 1): what went in, what it did, what it cost. Shares are in [0, 1].

    logprob_gap, gap_largest: mean and largest |trainer's - sampler's log-probability| of a trained token, in nats;
    capped_fraction: of the trained tokens, those whose importance weight was cut (``training.importance``).
    staleness_largest: most versions that a trained trajectory was behind the policy before this update; where it is not
    0, the gap holds the updates between as well as the sampler. stale: trajectories refused as older than
    ``rollout.max_staleness`` allows; they are among ``trajectories``, and in no other number here.
    """

    step: int
    round: int
    policy_version: int
    reward: float
    loss: float
    kl: float
    clip_fraction: float
    entropy: float
    logprob_gap: float
    gradient_norm: float
    learning_rate: float
    groups: int
    groups_all_failed: int
    groups_all_solved: int
    groups_dropped: int
    trajectories: int
    action_tokens: int
    trained_tokens: int
    seconds: float
    gap_largest: float = 0.0
    capped_fraction: float = 0.0
    staleness_largest: int = 0
    stale: int = 0


@dataclass(frozen=True)
class Evaluation:
    """One policy version on one split, greedily. outcomes: score by task id; score: their mean."""

    id: str
    split: str
    policy_version: int
    round: int
    step: int
    score: float
    stderr: float
    tasks: int
    outcomes: Mapping[str, float]
    seconds: float
    detail: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class StageCost:
    """Wall-clock, tokens and model calls of one call of one stage (design rule 11, table 7).

    seconds: what the run itself waited for the stage; of rollouts that were sampled ahead while a step trained, only
    what was left of them then, so that the seconds of all stages never add up to more than the clock's. Of the server
    that samples, since the call before: restarts; missed: requests given up at ``engine.request_seconds``; swaps:
    policy versions that arrived; swap_seconds: what the last of them took.
    """

    round: int
    stage: str
    seconds: float
    items: int = 0
    tokens: int = 0
    calls: int = 0
    restarts: int = 0
    missed: int = 0
    swaps: int = 0
    swap_seconds: float = 0.0


RECORDS: tuple[type, ...] = (
    Task, Trajectory, Signal, ExplorationContext, Triplet, TaskDraft, Verdict, Review, Judgement, ModelCall,
    Update, Evaluation, StageCost,
)  # fmt: skip


def to_dict(record: Any) -> dict[str, Any]:
    """Plain dicts, lists and scalars, ready for JSON. Inverse of ``from_dict``."""
    return typing.cast(dict[str, Any], _plain(record))


def from_dict(kind: type[R], row: Mapping[str, Any]) -> R:
    """A record of ``kind`` from ``to_dict``'s output. Raises TypeError when a field is missing or unknown."""
    hints = _hints(typing.cast(type, kind))
    unknown = set(row) - set(hints)
    if unknown:
        raise TypeError(f"{kind.__name__} has no field {sorted(unknown)}")
    return kind(**{name: _typed(hints[name], value) for name, value in row.items()})


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _typed(hint: Any, value: Any) -> Any:
    """Rebuild tuples and nested records from plain values; every other type passes through."""
    origin = typing.get_origin(hint)
    if origin is types.UnionType or origin is typing.Union:
        inner = [a for a in typing.get_args(hint) if a is not type(None)]
        return None if value is None else _typed(inner[0], value)
    if origin is tuple:
        item = typing.get_args(hint)[0]
        return tuple(_typed(item, v) for v in value)
    if dataclasses.is_dataclass(hint):
        return from_dict(typing.cast(type, hint), value)
    return value
