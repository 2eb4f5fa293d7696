"""One session with one policy, an action at a time, for people who watch it act and talk to it.

The same functions as in rollouts take the steps, so a conversation about a task, at the same temperature and seed, is
the trajectory that ``rollout.play`` samples: same ids, same observations. Nothing of it is recorded anywhere.
"""

from __future__ import annotations

import dataclasses
import itertools
import time

from coevolve_lab.config import RolloutConfig
from coevolve_lab.environments.base import Environment, Session
from coevolve_lab.errors import EnvironmentFailure, PolicyError
from coevolve_lab.policy.engine import Request
from coevolve_lab.policy.policy import Policy
from coevolve_lab.policy.rollout import Episode, advance, open_session, room, settle, stable_seed, whole_characters
from coevolve_lab.records import Status, Step, Task, Trajectory

_numbers = itertools.count()  # of this process's conversations: an engine knows each by a key of its own


def free_task(query: str, start: Task) -> Task:
    """A task that asks ``query`` in the start state of another task. It has no solution, so nothing scores it."""
    return Task(f"free query from {start.id}", start.environment, (query,), start.start, split="free", origin="import")


class Conversation:
    """A session of ``task`` that waits after every action.

    limits and max_steps bound what the agent may do until it has answered, as in rollouts, and anew after each
    ``say``. temperature 0 is greedy. Raises PolicyError or EnvironmentFailure only where said: a session that breaks
    ends with a status.

    >>> talk = Conversation(environment, policy, task, limits=config.rollout, max_steps=config.environment.max_steps)
    >>> while (step := talk.step()) is not None:
    ...     print(step.action, step.observation)
    >>> talk.say("and now undo it")
    """

    def __init__(
        self,
        environment: Environment,
        policy: Policy,
        task: Task,
        *,
        limits: RolloutConfig,
        max_steps: int,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.asked = task  # as it was given; ``task`` grows by what is said
        self.policy_version = policy.version
        self.temperature = temperature
        self.seed = seed
        self._environment, self._engine, self._chat = environment, policy.engine, policy.chat
        self._limits, self._max_steps = limits, max_steps
        self._score: float | None = None
        self._draws = 0
        self._begin(task)

    @property
    def task(self) -> Task:
        """What the agent was given; ``turns`` grows by what was said."""
        return self._episode.task

    @property
    def steps(self) -> tuple[Step, ...]:
        """The agent's actions so far."""
        return tuple(self._episode.steps)

    @property
    def turn(self) -> int:
        """Index of the user's message that is being answered, or was answered last."""
        session = self._episode.session
        return 0 if session is None else min(session.turn, max(len(self.task.turns) - 1, 0))

    @property
    def status(self) -> Status | None:
        """How it ended; None while the agent may act."""
        return self._episode.status

    @property
    def detail(self) -> str:
        """Why it ended, when it did not end by itself."""
        return self._episode.detail

    @property
    def done(self) -> bool:
        """Whether the agent has nothing more to do, unless something more is said."""
        return self.status is not None

    def step(self) -> Step | None:
        """Sample one action and play it. None when the conversation is over, or the engine fails now (``status``)."""
        episode = self._episode
        if self.done:
            return None
        episode.started = time.monotonic() - episode.seconds
        request = Request(episode.key, episode.ids, room(episode, self._limits))
        try:
            (completion,) = self._engine.generate([request], self.temperature, stable_seed(self.seed, self._draws))
        except PolicyError as error:
            episode.end("engine_error", str(error))
            self._settle()
            return None
        self._draws += 1
        advance(episode, completion, self._chat, self._limits, self._last_step)
        episode.seconds = time.monotonic() - episode.started
        if self.done:
            self._settle()
        return None if completion.failure else episode.steps[-1]

    def say(self, text: str) -> None:
        """Go on with a further message of the user, once the agent has answered all earlier ones.

        A session knows its user's messages from the start, so a fresh one is opened that has one more, and the same
        actions are played again; the ids go on from those that were sampled. The score of the task stays as it was.

        Raises PolicyError when the agent is not done, or was cut short, and EnvironmentFailure when the actions do not
        have the same results again or the environment takes no further message. The conversation then is as before.
        """
        episode = self._episode
        if episode.status != "completed":
            why = f"ended with {episode.status}" if self.done else "is not over: let the agent end its turn first"
            raise PolicyError(f"nothing more can be said: the conversation {why}")
        text = whole_characters(text)
        task = dataclasses.replace(episode.task, turns=(*episode.task.turns, text), solution=())
        session = None
        try:
            session = self._environment.open(task)
            heard, from_user = self._replay(session)
        except Exception as error:  # whatever a benchmark raises
            if session is not None:
                session.close()
            if isinstance(error, EnvironmentFailure):
                raise
            raise EnvironmentFailure(f"the conversation cannot be played again: {error!r}") from error
        reply = self._chat.reply(heard, from_user=from_user)
        episode.steps[-1] = dataclasses.replace(episode.steps[-1], observation=heard, reply_ids=tuple(reply))
        episode.ids += reply
        episode.task, episode.session = task, session
        episode.status, episode.response_tokens, episode.parse_errors = None, 0, 0
        episode.seconds = episode.acting = 0.0
        self._last_step = len(episode.steps) + self._max_steps

    def score(self) -> float | None:
        """Score of the task in [0, 1], once the agent has answered it; None before, and when it has no solution."""
        return self._score

    def trajectory(self, name: str = "conversation") -> Trajectory:
        """The conversation so far as a record; without a score it counts as 0, and unfinished as out of steps."""
        episode = self._episode
        return Trajectory(
            id=name,
            task_id=episode.task.id,
            group_id=name,
            policy_version=self.policy_version,
            round=0,
            step=0,
            score=self._score or 0.0,
            status=episode.status or "truncated_steps",
            steps=self.steps,
            prompt_ids=episode.prompt_ids,
            temperature=self.temperature,
            seconds=episode.seconds,
            purpose="conversation",
            detail=episode.detail,
        )

    def close(self) -> None:
        """Let go of the session and of what the engine keeps for it."""
        if self._episode.session is not None:
            self._episode.session.close()
        self._engine.release([self._episode.key])

    def _begin(self, task: Task) -> None:
        key = f"conversation-{next(_numbers)}"
        self._episode = Episode(key, key, task)
        self._last_step = self._max_steps
        open_session(self._episode, self._environment, self._chat)
        if self.done:
            self._settle()

    def _settle(self) -> None:
        """The agent is done: score the task, and close the session. What was said later has nothing to score it."""
        if any(self.task.solution):
            self._score = settle(self._episode)
        elif self._episode.session is not None:
            self._episode.session.close()

    def _replay(self, session: Session) -> tuple[str, bool]:
        """What a fresh session answers the last action with, and whether that is the user."""
        heard, from_user = "", False
        for index, step in enumerate(self._episode.steps):
            turn = session.turn
            said, done = session.step(step.action)
            heard, from_user = whole_characters(said), session.turn != turn
            last = index == len(self._episode.steps) - 1
            if last and done:
                raise EnvironmentFailure(
                    f"a session of {self._environment.name} ends when the agent ends its turn, whatever the user would "
                    "say next: begin a new conversation"
                )
            if not last and (done or heard != step.observation):
                raise EnvironmentFailure(
                    f"action {index + 1} was answered differently when it was played again ({heard[:200]!r}, not "
                    f"{step.observation[:200]!r}), so the conversation cannot go on: begin a new one"
                )
        return heard, from_user
