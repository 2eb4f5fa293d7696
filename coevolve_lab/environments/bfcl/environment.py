"""BFCL multi-turn as an environment: the 200 official cases, and a world of start states to explore."""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve_lab.environments.base import Session
from coevolve_lab.environments.bfcl import binding, cases, held_out, package, phrases, risks, tools, worlds
from coevolve_lab.environments.bfcl.api import CLASSES, load_apis
from coevolve_lab.environments.bfcl.names import Pool
from coevolve_lab.environments.bfcl.scoring import Judge, Reference, replay
from coevolve_lab.environments.bfcl.session import BFCLSession
from coevolve_lab.errors import ConfigError, EnvironmentFailure
from coevolve_lab.records import Task

SPLITS = ("test", "explore", "held_out", "validation")
CACHED_REFERENCES = 4096


class BFCLEnvironment:
    """Environment, ScriptedWorld and RiskRules (``environments.base``) over the eight multi-turn API classes.

    Splits: "test", the 200 official cases; "explore", start states without tasks; "held_out", synthesized tasks whose
    start states and names share nothing with "explore"; "validation", as many more of that kind and none of the same,
    to choose by. All are the same for the same options.

    classes: API classes of the synthesized worlds. classes_per_start: how many of them one start state holds (None:
    all). held_out_tasks, max_calls: how many held-out tasks, and the most calls in one. partial_credit: see
    ``BFCLSession.score``. Raises ConfigError for options that cannot be used and PrerequisiteError when the benchmark
    is not installed.
    """

    name = "bfcl"

    def __init__(
        self,
        classes: Sequence[str] = ("GorillaFileSystem", "TicketAPI", "MessageAPI"),
        classes_per_start: int | None = None,
        explore_starts: int = 256,
        held_out_tasks: int = 200,
        max_calls: int = 2,
        max_observation_chars: int = 4000,
        partial_credit: float = 0.0,
        seed: int = 0,
    ) -> None:
        unknown = [name for name in classes if name not in CLASSES]
        if unknown or not classes:
            raise ConfigError(f"classes must be some of {', '.join(CLASSES)}; got {', '.join(unknown) or 'none'}")
        if not 1 <= (classes_per_start or len(classes)) <= len(classes):
            raise ConfigError(f"classes_per_start must be between 1 and {len(classes)}, not {classes_per_start}")
        if not 0 <= partial_credit < 0.5:
            raise ConfigError(f"partial_credit must be at least 0 and below 0.5, not {partial_credit}")
        package.activate()
        self.classes = tuple(classes)
        self._classes_per_start = classes_per_start or len(classes)
        self._explore_starts = explore_starts
        self._held_out_tasks = held_out_tasks
        self._max_calls = max_calls
        self._max_observation_chars = max_observation_chars
        self._partial_credit = partial_credit
        self._seed = seed
        self._splits: dict[str, tuple[Task, ...]] = {}
        self._references: OrderedDict[tuple[Any, ...], tuple[Task, Reference]] = OrderedDict()
        self._lock = threading.RLock()  # making a split opens sessions

    def splits(self) -> list[str]:
        return list(SPLITS)

    def tasks(self, split: str) -> list[Task]:
        """Tasks of a split, always the same ones. Raises ConfigError for an unknown split."""
        if split not in SPLITS:
            raise ConfigError(f"BFCL has no split '{split}'; it has {', '.join(SPLITS)}")
        with self._lock:
            if split not in self._splits:
                self._splits[split] = self._make(split)
        return list(self._splits[split])

    def open(self, task: Task) -> BFCLSession:
        """A fresh session. Raises EnvironmentFailure when the task's start state cannot be loaded."""
        try:
            apis = load_apis(task.start)
            schemas = tools.schemas(task.start)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise EnvironmentFailure(f"the start state of task {task.id} is not a BFCL scenario: {error!r}") from None
        judge = Judge(self._reference(task))
        return BFCLSession(task, apis, schemas, judge, self._max_observation_chars, self._partial_credit)

    def known_defects(self) -> frozenset[str]:
        """Ids of test tasks that cannot be passed honestly; ``cases.known_defects`` has the reasons."""
        return frozenset(cases.known_defects())

    def start(self, pool: str, rng: random.Random) -> Mapping[str, Any]:
        """A random start state whose names come from ``pool`` ("train" or "held_out")."""
        chosen = rng.sample(self.classes, self._classes_per_start)
        return worlds.random_start(_pool(pool), sorted(chosen, key=self.classes.index), rng)

    def tool_names(self, start: Mapping[str, Any]) -> Sequence[str]:
        """Tools that ``bind`` can call from this start."""
        return worlds.tool_names(start)

    def bind(self, session: Session, tool: str, rng: random.Random) -> str | None:
        """A call of ``tool`` bound to what the session's state offers now, as text; None if nothing fits."""
        if not isinstance(session, BFCLSession):
            raise TypeError(f"bind needs a session of this environment, not {type(session).__name__}")
        pool = _pool(session.task.start.get("pool", "train"))
        try:
            return binding.bind(session.apis, tool, rng, pool)
        except (LookupError, TypeError, AttributeError, ValueError):
            return None  # binders know the start states of worlds.py; official and imported ones may be of other shapes

    def phrase(self, call: str, rng: random.Random) -> str:
        """What a user would say to ask for this call."""
        return phrases.phrase(call, rng)

    def confusable(self, tool: str) -> Sequence[str]:
        """Tools that a careless agent takes for this one."""
        return binding.confusable(tool)

    def risks(self, solution: Sequence[Sequence[str]]) -> list[str]:
        """A sentence for each tool of a solution that would be risky in a real world; ``risks.yaml`` sorts them."""
        return risks.call_risks(solution)

    def _make(self, split: str) -> tuple[Task, ...]:
        if split == "test":
            return cases.benchmark_tasks()
        rng = random.Random(f"bfcl {split} {self._seed}")
        if split == "explore":
            return tuple(
                Task(f"bfcl_explore_{index}", self.name, (), self.start("train", rng), split=split, origin="seed")
                for index in range(self._explore_starts)
            )
        apart = self.tasks("held_out") if split == "validation" else ()
        return held_out.make_tasks(self, self._held_out_tasks, self._max_calls, rng, split, apart)

    def _reference(self, task: Task) -> Reference:
        """The replay of a task's solution, kept for the K sessions of each of its visits."""
        key = (task.id, task.solution)
        with self._lock:
            if key in self._references and self._references[key][0].start == task.start:
                self._references.move_to_end(key)
                return self._references[key][1]
        reference = replay(task.start, task.solution)
        with self._lock:
            self._references[key] = (task, reference)
            while len(self._references) > CACHED_REFERENCES:
                self._references.popitem(last=False)
        return reference


def _pool(name: str) -> Pool:
    if name == "train":
        return "train"
    if name == "held_out":
        return "held_out"
    raise ConfigError(f"there is no pool of names '{name}'; the pools are train and held_out")
