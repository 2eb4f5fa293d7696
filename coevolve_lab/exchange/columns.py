"""What the columns of an export are called, hold and mean; the same for every format.

In Parquet, ``tools`` and ``start`` are JSON text, because every schema and start state has keys of its own; in JSONL
they are JSON.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

JSON_COLUMNS = ("tools", "start")

_TEXT, _INT, _FLOAT = pa.string(), pa.int64(), pa.float64()
_FUNCTION = pa.struct([("name", _TEXT), ("arguments", _TEXT)])
_TOOL_CALL = pa.struct([("id", _TEXT), ("type", _TEXT), ("function", _FUNCTION)])
_MESSAGE = pa.struct(
    [
        ("role", _TEXT),
        ("content", _TEXT),
        ("name", _TEXT),
        ("tool_calls", pa.list_(_TOOL_CALL)),
        ("tool_call_id", _TEXT),
    ]
)
_STEP = [
    ("turn", _INT),
    ("action", _TEXT),
    ("observation", _TEXT),
    ("tools", pa.list_(_TEXT)),
    ("failed", pa.bool_()),
]
_STEP_IDS = [
    ("token_ids", pa.list_(pa.int32())),
    ("logprobs", pa.list_(_FLOAT)),
    ("reply_ids", pa.list_(pa.int32())),
]


class Column(NamedTuple):
    type: pa.DataType
    meaning: str


Columns = dict[str, Column]

TASKS: Columns = {
    "id": Column(_TEXT, "unique within the run"),
    "environment": Column(_TEXT, "where it is played"),
    "split": Column(_TEXT, "train for D_t"),
    "origin": Column(_TEXT, "seed, feedback, random, uniform, import or benchmark"),
    "round": Column(_INT, "in which it entered D_t"),
    "explorer": Column(_TEXT, "who made it: scripted, llm:MODEL"),
    "query": Column(_TEXT, "the first user turn"),
    "turns": Column(pa.list_(_TEXT), "all user turns"),
    "messages": Column(
        pa.list_(_MESSAGE),
        "turns, the solution's calls and, if they were replayed, their results, as OpenAI messages",
    ),
    "tools": Column(_TEXT, "OpenAI-style schemas of the callable tools; [] if exported without the environment"),
    "start": Column(_TEXT, "the state that the environment opens"),
    "solution": Column(pa.list_(pa.list_(_TEXT)), "the calls of each turn, exactly as executed"),
    "draft_id": Column(_TEXT, "the draft that it was validated as"),
    "context_id": Column(_TEXT, "the exploration context that the draft came from"),
    "context_kind": Column(_TEXT, "why was explored there: a signal's kind, coverage, seed, ..."),
    "signal_id": Column(_TEXT, "the weakness signal behind the context; null for unguided ones"),
    "signal_kind": Column(_TEXT, "its kind: forgetting, boundary, rare, ..."),
    "trajectory_id": Column(_TEXT, "the trajectory that the signal marked"),
    "policy_version": Column(_INT, "the policy that played it"),
    "similarity": Column(_FLOAT, "largest cosine similarity to an evaluation task"),
    "tries": Column(_INT, "training trajectories on this task so far"),
    "solve_rate": Column(_FLOAT, "share of them that scored 1"),
    "replay_score": Column(_FLOAT, "what the solution scored when it was replayed for this export"),
}
_TRAJECTORIES: Columns = {
    "id": Column(_TEXT, "unique within the run"),
    "task_id": Column(_TEXT, "what was played"),
    "group_id": Column(_TEXT, "shared by the trajectories of one task in one step (GRPO's group)"),
    "environment": Column(_TEXT, "where it was played"),
    "origin": Column(_TEXT, "of the task: seed, feedback, random, uniform, import or benchmark"),
    "draft_id": Column(_TEXT, "of the task"),
    "purpose": Column(_TEXT, "train or evaluate"),
    "policy_version": Column(_INT, "who played"),
    "round": Column(_INT, "when"),
    "step": Column(_INT, "training step at which it was sampled"),
    "score": Column(_FLOAT, "reward in [0, 1], by execution"),
    "status": Column(_TEXT, "completed, or what ended it"),
    "temperature": Column(_FLOAT, "of sampling"),
    "signals": Column(pa.list_(_TEXT), "kinds of the weakness signals that mark it"),
    "messages": Column(pa.list_(_MESSAGE), "the episode as OpenAI messages"),
    "tools": Column(_TEXT, "OpenAI-style schemas of the callable tools; [] if exported without the environment"),
    "steps": Column(
        pa.list_(pa.struct(_STEP)),
        "exactly what was sampled and answered: user turn, action, observation, names of the calls read, failed",
    ),
}
_TOKENS = Column(
    pa.list_(pa.struct([*_STEP, *_STEP_IDS])),
    "as sampled, with the ids of each action and their log-probabilities, and the ids of the reply, never trained",
)


def trajectories(with_tokens: bool) -> Columns:
    """Columns of trajectories, with or without token ids and log-probabilities."""
    if not with_tokens:
        return _TRAJECTORIES
    return {
        **_TRAJECTORIES,
        "steps": _TOKENS,
        "prompt_ids": Column(pa.list_(pa.int32()), "ids before the first action"),
    }


def arrow_schema(columns: Columns) -> pa.Schema:
    return pa.schema([(name, column.type) for name, column in columns.items()])
