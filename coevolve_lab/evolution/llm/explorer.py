"""The explorer of the paper: a language model reflects, explores, abstracts and judges (sections 3.2 and 3.3).

Any endpoint that speaks the OpenAI protocol will do (``evolution.explorer: {kind: llm, model: ..., base_url: ...}``),
with other models for single roles. What differs from the paper: tasks refer to executed steps by number instead of
repeating them, statements are checked against the evidence, and the judge only decides if ``evolution.judge`` says so.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from coevolve_lab.config import EvolutionConfig, ExplorerConfig
from coevolve_lab.endpoint import Cassette, Endpoint, Limits, run_async
from coevolve_lab.environments.base import Environment, ScriptedWorld
from coevolve_lab.errors import ExplorerError
from coevolve_lab.evolution.contexts import Evidence, Start, StartPool
from coevolve_lab.evolution.explorer import Occasion, register_explorer
from coevolve_lab.evolution.llm.abstraction import abstract
from coevolve_lab.evolution.llm.exploration import explore
from coevolve_lab.evolution.llm.judge import judge_drafts
from coevolve_lab.evolution.llm.prompting import Prompts
from coevolve_lab.evolution.llm.reflection import reflect_on
from coevolve_lab.evolution.llm.transcripts import tool_names
from coevolve_lab.evolution.llm.voice import Voice
from coevolve_lab.evolution.start_states import offered_tools
from coevolve_lab.records import (
    ExplorationContext,
    Judgement,
    ModelCall,
    Signal,
    Task,
    TaskDraft,
    Trajectory,
    Triplet,
)

ROLES = ("reflect", "explore", "abstract", "judge")
RECORDING = "cassette.jsonl"  # in the explorer's folder
USED_PROMPTS = "prompts"  # a folder in it


class LlmExplorer:
    """Explorer and DraftJudge over a model endpoint.

    folder: keeps the recording of all traffic, from which a killed evolution resumes without asking again, and the
    prompts that were used; None keeps neither. When a budget or deadline of the evolution is used up, each stage
    returns what it has. Raises ConfigError for prompts that cannot be used; the stages raise ExplorerError when the
    endpoint cannot be used at all (no key, no such model) or a replayed recording does not hold what is asked.
    """

    def __init__(self, environment: Environment, config: EvolutionConfig, folder: Path | None = None) -> None:
        settings = config.explorer
        self.name = f"llm:{settings.model}"
        self.prompts = Prompts(settings.prompts, None if folder is None else folder / USED_PROMPTS)
        self._environment = environment
        self._config = config
        if folder is None and settings.cassette is None:
            folder = Path(tempfile.mkdtemp(prefix="coevolve-explorer-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._voice = Voice(make_endpoint(settings, folder), self.prompts)
        self._pool = StartPool(environment) if isinstance(environment, ScriptedWorld) else None

    def reflect(
        self, signals: Sequence[Signal], trajectories: Sequence[Trajectory], tasks: Sequence[Task], occasion: Occasion
    ) -> list[ExplorationContext]:
        """One context per signal whose reflection is grounded, in order.

        In a world that makes start states, every second one starts afresh with the same tools; the others start where
        the task does. Raises ExplorerError if a signal's trajectory or task is not among those given.
        """
        evidence = Evidence(trajectories, tasks)
        for signal in signals:
            if signal.trajectory_id not in evidence.trajectories or signal.task_id not in evidence.tasks:
                raise ExplorerError(
                    f"signal {signal.id} cannot be reflected on without trajectory {signal.trajectory_id} and task "
                    f"{signal.task_id}; pass both"
                )
        self._voice.endpoint.begin(occasion.round)
        return run_async(self._reflect(signals, evidence, occasion))

    def explore(self, contexts: Sequence[ExplorationContext], occasion: Occasion) -> list[Triplet]:
        """At most ``rollouts_per_context`` x ``steps_per_rollout`` triplets per context, all rollouts side by side."""
        self._voice.endpoint.begin(occasion.round)
        return run_async(explore(self._environment, self._config, self._voice, contexts, occasion))

    def abstract(
        self, triplets: Sequence[Triplet], contexts: Sequence[ExplorationContext], occasion: Occasion
    ) -> list[TaskDraft]:
        """Drafts that the model made of each context's rollouts; their solutions are steps of one rollout."""
        self._voice.endpoint.begin(occasion.round)
        return run_async(
            abstract(self._environment, self._config, self._voice, triplets, contexts, occasion, self.name)
        )

    def judge(self, drafts: Sequence[TaskDraft], occasion: Occasion, max_steps: int) -> list[Judgement]:
        """What the LLM judge says of each draft after an agent has executed it afresh."""
        self._voice.endpoint.begin(occasion.round)
        return run_async(judge_drafts(drafts, self._environment, self._voice, occasion, max_steps))

    def model_calls(self) -> list[ModelCall]:
        """The calls since this was asked last. A reflection that was refused has the status "ungrounded"."""
        return self._voice.calls()

    @property
    def exhausted(self) -> str:
        """Which budget ended the present evolution ("deadline", "tokens", "cost"), "" while none has."""
        return self._voice.endpoint.exhausted

    async def _reflect(
        self, signals: Sequence[Signal], evidence: Evidence, occasion: Occasion
    ) -> list[ExplorationContext]:
        made = []
        for i, signal in enumerate(signals):
            task = evidence.tasks[signal.task_id]
            tools = offered_tools(self._environment, task.start)
            made.append(
                reflect_on(
                    self._voice,
                    signal,
                    evidence,
                    evidence.trajectories[signal.trajectory_id],
                    task,
                    tools,
                    self._start(i, task, tool_names(tools), occasion),
                    occasion.ident("ctx", i),
                    occasion.round,
                    self.name,
                )
            )
        return [context for context in await asyncio.gather(*made) if context is not None]

    def _start(self, i: int, task: Task, tools: Sequence[str], occasion: Occasion) -> Start:
        return task.start if self._pool is None or not i % 2 else self._pool.sample(occasion.rng("start", i), tools)


def make_endpoint(settings: ExplorerConfig, folder: Path | None) -> Endpoint:
    """The explorer's models by role, within its budgets. folder: where the traffic is recorded, or replayed from
    ``explorer.cassette`` if that is set; one of the two there must be."""
    limits = Limits(
        connections=settings.connections,
        retries=settings.retries,
        call_seconds=settings.call_seconds,
        seconds=settings.evolution_seconds,
        tokens=settings.evolution_tokens,
        cost=settings.evolution_cost,
    )
    replay = settings.cassette is not None
    path = Path(str(settings.cassette)) if replay or folder is None else folder / RECORDING
    return Endpoint({role: settings.endpoint(role) for role in ROLES}, limits, Cassette(path, replay_only=replay))


register_explorer("llm", LlmExplorer)
