"""Plays many episodes at once: the policy acts, the environment answers, every token id is kept.

A bad episode is data (design rule 1): whatever goes wrong ends that episode with a status and never reaches its
neighbours. Greedy evaluation and sampled training rollouts are the same code at different temperatures, and a single
conversation (conversation.py) takes its steps with the same functions.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coevolve_lab.config import RolloutConfig
from coevolve_lab.environments.base import Environment, Session, most_sessions, one_wave
from coevolve_lab.errors import EnvironmentFailure, PolicyError
from coevolve_lab.policy.chat import ChatFormat
from coevolve_lab.policy.engine import Completion, Engine, Request
from coevolve_lab.records import Status, Step, Task, Trajectory


def stable_seed(*parts: object) -> int:
    """A 63-bit seed from any parts: every random draw of a run is named by run seed, purpose and counters, so that a
    resumed run draws what the uninterrupted one would have drawn."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@dataclass
class Episode:
    """One session being played."""

    key: str
    group: str
    task: Task
    started: float = 0.0
    session: Session | None = None
    prompt_ids: tuple[int, ...] = ()
    ids: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    response_tokens: int = 0
    parse_errors: int = 0
    status: Status | None = None  # None while it is being played
    detail: str = ""
    seconds: float = 0.0
    acting: float = 0.0  # of these, what its own calls took: others of its wave, and the engine, are not its doing

    def end(self, status: Status, detail: str = "") -> None:
        self.status, self.detail = status, detail[:500]
        self.seconds = time.monotonic() - self.started


def play(
    environment: Environment,
    tasks: Sequence[Task],
    engine: Engine,
    chat: ChatFormat,
    config: RolloutConfig,
    *,
    group_size: int,
    temperature: float,
    max_steps: int,
    seed: int,
    label: str,
    round: int = 0,
    step: int = 0,
    purpose: str = "train",
    progress: Callable[[int], None] | None = None,
) -> list[Trajectory]:
    """``group_size`` trajectories of each task, in task order. label: prefix of their ids, unique within the run.

    At most ``config.concurrency`` episodes are in flight, and no more than the environment can hold open. Always
    returns len(tasks) x group_size trajectories.
    """
    episodes = [
        Episode(f"{label}-{i}-{k}", f"{label}-{i}", task) for i, task in enumerate(tasks) for k in range(group_size)
    ]
    width = min(config.concurrency, most_sessions(environment) or config.concurrency)
    scores: list[float] = []
    for first in range(0, len(episodes), width):
        wave = episodes[first : first + width]
        with one_wave(environment):
            try:
                _play_wave(wave, environment, engine, chat, config, temperature, max_steps, seed + first, progress)
                scores += map(settle, wave)  # which lets go of their sessions, for the next wave
            except BaseException:
                for episode in wave:  # nobody else could, and the next batch would wait for their places
                    if episode.session is not None:
                        episode.session.close()
                raise
    return [
        Trajectory(
            id=e.key,
            task_id=e.task.id,
            group_id=e.group,
            policy_version=engine.policy_version,
            round=round,
            step=step,
            score=score,
            status=e.status or "engine_error",
            steps=tuple(e.steps),
            prompt_ids=e.prompt_ids,
            temperature=temperature,
            seconds=e.seconds,
            purpose=purpose,
            detail=e.detail,
        )
        for e, score in zip(episodes, scores, strict=True)
    ]


def _play_wave(
    wave: list[Episode],
    environment: Environment,
    engine: Engine,
    chat: ChatFormat,
    config: RolloutConfig,
    temperature: float,
    max_steps: int,
    seed: int,
    progress: Callable[[int], None] | None,
) -> None:
    for episode in wave:
        open_session(episode, environment, chat)
    turn = 0
    try:
        while live := [e for e in wave if e.status is None]:
            requests = [Request(e.key, e.ids, room(e, config)) for e in live]
            try:
                completions = engine.generate(requests, temperature, stable_seed(seed, turn))
            except PolicyError as error:
                for episode in live:
                    episode.end("engine_error", str(error))
                break
            for episode, completion in zip(live, completions, strict=True):
                advance(episode, completion, chat, config, max_steps)
                if episode.status is not None and progress is not None:
                    progress(1)
            turn += 1
    finally:
        engine.release([e.key for e in wave])


def open_session(episode: Episode, environment: Environment, chat: ChatFormat) -> None:
    """Open the episode's session and write its prompt; a session that cannot be opened ends the episode."""
    episode.started = time.monotonic()
    try:
        episode.session = environment.open(episode.task)
        episode.prompt_ids = tuple(chat.prompt(episode.session.observation, episode.session.tools))
    except Exception as error:  # whatever a benchmark raises is this episode's end, not the step's
        episode.end("env_error", f"{type(error).__name__}: {error}")
    episode.ids = list(episode.prompt_ids)


def room(episode: Episode, config: RolloutConfig) -> int:
    """Most tokens that the next action may have."""
    return min(config.max_action_tokens, config.max_response_tokens - episode.response_tokens)


def advance(episode: Episode, completion: Completion, chat: ChatFormat, config: RolloutConfig, max_steps: int) -> None:
    """Take one sampled action to the environment; append what came back."""
    session = episode.session
    assert session is not None
    if completion.failure:
        episode.end("engine_error", completion.failure)
        return
    action, turn = chat.text(completion.ids), session.turn
    episode.response_tokens += len(completion.ids)
    episode.ids += completion.ids
    observation, done = "", False
    if completion.finished:  # a cut action is not played: the agent did not finish saying it
        began = time.monotonic()
        try:
            said, done = session.step(action)
            observation = whole_characters(said)
        except Exception as error:
            episode.steps.append(Step(turn, action, "", (), True, completion.ids, completion.logprobs))
            episode.end("env_error", f"{type(error).__name__}: {error}")
            return
        episode.acting += time.monotonic() - began
    tools, failed = (session.last_tools, session.last_failed) if completion.finished else ((), True)
    goes_on = completion.finished and not done
    reply = chat.reply(observation, from_user=session.turn != turn) if goes_on else []
    episode.steps.append(
        Step(turn, action, observation, tools, failed, completion.ids, completion.logprobs, tuple(reply))
    )
    episode.ids += reply
    episode.parse_errors += failed and not tools
    if done:
        episode.end("completed")
    elif not completion.finished:
        episode.end("truncated_tokens", f"an action of {len(completion.ids)} tokens did not end")
    elif episode.parse_errors >= config.max_parse_errors:
        episode.end("parse_error", f"{episode.parse_errors} replies could not be read as an action")
    elif len(episode.steps) >= max_steps:
        episode.end("truncated_steps", f"not done after {max_steps} steps")
    elif episode.response_tokens >= config.max_response_tokens:
        episode.end("truncated_tokens", f"not done after {episode.response_tokens} sampled tokens")
    elif episode.acting > config.episode_seconds:
        episode.end("timeout", f"not done after calls of {config.episode_seconds} seconds")


def whole_characters(text: str) -> str:
    """``text`` without halves of characters, which would stop the tokenizer."""
    return text.encode(errors="replace").decode()


def settle(episode: Episode) -> float:
    """Score an episode and close its session. Only a completed one can score: running out is failure (section 3.1)."""
    session = episode.session
    if session is None:
        return 0.0
    score = 0.0
    if episode.status == "completed":
        try:
            given = session.score()
            if not 0 <= given <= 1:  # nan too
                raise EnvironmentFailure(f"a score must be in [0, 1], not {given}")
            score = given
        except Exception as error:
            episode.end("env_error", f"scoring failed: {type(error).__name__}: {error}")
    session.close()
    return score
