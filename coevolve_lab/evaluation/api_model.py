"""A model behind an interface on a split, by native function calls (the zero-shot API rows of table 1).

Every answer is in the endpoint's recording, so a split that was cut short goes on where it stopped, and costs nothing
twice.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from coevolve_lab.endpoint import Endpoint, Reply, ToolCall, run_async
from coevolve_lab.environments.base import Environment, Session, session_places
from coevolve_lab.errors import ExplorerError
from coevolve_lab.evaluation.benchmark import summary
from coevolve_lab.records import Evaluation, Status, Step, Task, Trajectory

ROLE = "evaluate"
SYSTEM = (
    "You act for a user by calling the functions that you are given. Call what the request needs, one step after the "
    "other, with values that the user gave or that earlier results hold; never make values up. When the request is "
    "done, or cannot be done, answer in words without a call: that ends your turn."
)
UNPLAYED = ("error", "deadline", "budget")  # no answer of the model: such an episode says nothing about it


@dataclass
class _Episode:
    """One session being played. unplayed: why the endpoint gave no answer, "" when the episode came to its end."""

    task: Task
    messages: list[dict[str, Any]] = field(default_factory=lambda: [{"role": "system", "content": SYSTEM}])
    steps: list[Step] = field(default_factory=list)
    status: Status = "completed"
    score: float = 0.0
    detail: str = ""
    unplayed: str = ""
    seconds: float = 0.0


def evaluate_model(
    environment: Environment,
    tasks: Sequence[Task],
    endpoint: Endpoint,
    *,
    split: str,
    name: str,
    max_steps: int,
    temperature: float = 0.0,
    defects: Collection[str] = (),
    progress: Callable[[int], None] | None = None,
) -> tuple[Evaluation, list[Trajectory]]:
    """One trajectory a task and their mean score; ``endpoint`` has an entry for the role "evaluate".

    max_steps: replies of the model per episode; running out counts as failure (table 9: 30). Raises ExplorerError when
    episodes could not be played to their end because the endpoint failed or a budget was used up: an evaluation of the
    others alone would be another number. What was answered is recorded; the same call goes on from there.
    """
    started = time.monotonic()
    episodes = run_async(_play_all(environment, tasks, endpoint, max_steps, temperature, progress))
    if unplayed := [episode for episode in episodes if episode.unplayed]:
        spent = any(episode.unplayed.startswith("budget") for episode in unplayed)
        raise ExplorerError(
            f"{len(unplayed)} of {len(tasks)} tasks could not be played to their end ({unplayed[0].unplayed}); what "
            "was answered is recorded, and counts as spent: the same command "
            + ("with a larger budget (--max-cost) goes on from there" if spent else "goes on from there")
        )
    trajectories = [
        Trajectory(
            id=f"{name}-{i}-0",
            task_id=episode.task.id,
            group_id=f"{name}-{i}",
            policy_version=0,
            round=0,
            step=0,
            score=episode.score,
            status=episode.status,
            steps=tuple(episode.steps),
            temperature=temperature,
            seconds=episode.seconds,
            purpose="evaluate",
            detail=episode.detail,
        )
        for i, episode in enumerate(episodes)
    ]
    seconds = time.monotonic() - started
    return summary(trajectories, name=name, split=split, defects=defects, seconds=seconds), trajectories


async def _play_all(
    environment: Environment,
    tasks: Sequence[Task],
    endpoint: Endpoint,
    max_steps: int,
    temperature: float,
    progress: Callable[[int], None] | None,
) -> list[_Episode]:
    places = session_places(environment)

    async def play(task: Task) -> _Episode:
        episode = _Episode(task)
        async with places:
            await _play(episode, environment, endpoint, max_steps, temperature)
        if progress is not None:
            progress(1)
        return episode

    return await asyncio.gather(*(play(task) for task in tasks))


async def _play(
    episode: _Episode, environment: Environment, endpoint: Endpoint, max_steps: int, temperature: float
) -> None:
    began = time.monotonic()
    session: Session | None = None
    try:
        session = environment.open(episode.task)
        episode.messages.append({"role": "user", "content": session.observation})
        done = False
        for number in range(max_steps):
            subject = f"{episode.task.id}/{number}"
            asked = list(episode.messages)
            reply = await endpoint.ask(ROLE, subject, asked, tools=session.tools, temperature=temperature)
            if reply.status in UNPLAYED:
                episode.unplayed = f"{reply.status}: {reply.call.detail}"
                return
            if reply.status == "cut":  # the model did not finish saying it, so it is not played
                episode.status, episode.detail = "truncated_tokens", reply.call.detail
                return
            done = _act(episode, session, reply)
            if done:
                break
        if done:
            episode.score = session.score()
        else:
            episode.status, episode.detail = "truncated_steps", f"not done after {max_steps} replies"
    except ExplorerError:  # asking is pointless, for this episode and for all others
        raise
    except Exception as error:  # whatever a benchmark raises is this episode's end, not the evaluation's
        episode.status, episode.detail = "env_error", f"{type(error).__name__}: {error}"[:500]
    finally:
        episode.seconds = time.monotonic() - began
        if session is not None:
            session.close()


def _act(episode: _Episode, session: Session, reply: Reply) -> bool:
    """Play a reply: its calls one by one, each answered by a message of its own, or the end of a turn."""
    said: dict[str, Any] = {"role": "assistant", "content": reply.text}
    episode.messages.append(said)
    if not reply.tool_calls:
        observation, done = _step(episode, session, reply.text)
        if not done:  # the next thing that the user says, or an error about what looked like a call
            episode.messages.append({"role": "user", "content": observation})
        return done
    said["tool_calls"] = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.tool_calls
    ]
    done = False
    for call in reply.tool_calls:
        observation, done = ("the conversation is over", True) if done else _step(episode, session, as_action(call))
        episode.messages.append({"role": "tool", "tool_call_id": call.id, "content": observation})
    return done


def as_action(call: ToolCall) -> str:
    """A function call as text that environments read. Broken arguments stay broken: the environment says so."""
    return f'<tool_call>{{"name": {json.dumps(call.name)}, "arguments": {call.arguments or "{}"}}}</tool_call>'


def _step(episode: _Episode, session: Session, action: str) -> tuple[str, bool]:
    turn = session.turn
    observation, done = session.step(action)
    episode.steps.append(Step(turn, action, observation, session.last_tools, session.last_failed))
    return observation, done
