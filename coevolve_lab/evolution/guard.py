"""What may not enter D_t although it executes: text that steers its judge, too short tasks, duplicates, disguised
evaluation tasks (rule 5), and, if a band is asked for, tasks that are less or more like evaluation tasks (table 13)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.errors import ConfigError
from coevolve_lab.evolution.calls import solution_key, start_key
from coevolve_lab.evolution.injection import injection
from coevolve_lab.evolution.similarity import BANDS, Similarity, in_band, make_similarity
from coevolve_lab.records import Task, TaskDraft


class Finding(NamedTuple):
    """What the guard says of one draft. reason: "" if it may pass, else "injection", "too_short", "duplicate",
    "leak" or "band"."""

    reason: str
    detail: str
    similarity: float


class Guard:
    """Screens drafts against a task set and against evaluation tasks, which it reads once.

    A draft is an injection if it gives instructions to whoever judges or trains (``injection``); too short below
    ``min_calls`` calls; a duplicate if it starts where a task of D_t or an earlier draft starts and has the same calls
    or the same query; a leak if its query is as similar as ``max_similarity`` to that of an evaluation task, or if it
    makes an evaluation task's calls from the same start. Equal calls from another start alone are no leak: calls
    without arguments would always be one. It is out of the band if its query's similarity to the nearest evaluation
    task's is not in ``band`` (``similarity.BANDS``; None: any similarity below a leak). The first of these counts.

    Raises ConfigError for an unknown band, and for a band when there are no evaluation tasks to be similar to.
    """

    def __init__(
        self,
        evaluation_tasks: Sequence[Task],
        similarity: Similarity,
        max_similarity: float = 0.95,
        min_calls: int = 3,
        band: str | None = None,
    ) -> None:
        if band is not None and band not in BANDS:
            raise ConfigError(f"no similarity band '{band}'; the bands are {', '.join(BANDS)}")
        if band is not None and not evaluation_tasks:
            raise ConfigError(f"similarity band '{band}' needs evaluation tasks to compare drafts with; there are none")
        self._evaluation = list(evaluation_tasks)
        self._solutions = {solution_key(t.start, t.solution): t.id for t in self._evaluation if t.solution}
        self._similarity = similarity
        self._max_similarity = max_similarity
        self._min_calls = min_calls
        self._band = band

    @classmethod
    def from_config(cls, config: EvolutionConfig, evaluation_tasks: Sequence[Task]) -> Guard:
        """A guard with the configured similarity, threshold, band and minimum length.

        Raises ConfigError for a band with similarity "words", for which the bands have no meaning.
        """
        if config.similarity_band is not None and config.similarity == "words":
            raise ConfigError(
                f"evolution.similarity_band '{config.similarity_band}' is measured on sentence embeddings: set "
                "evolution.similarity to 'minilm' too"
            )
        similarity = make_similarity(config.similarity, [_query(task) for task in evaluation_tasks])
        return cls(evaluation_tasks, similarity, config.max_similarity, config.min_calls, config.similarity_band)

    def screen(self, drafts: Sequence[TaskDraft], known: Iterable[Task]) -> list[Finding]:
        """One finding per draft, in order; a draft that passes becomes known to those after it."""
        seen: dict[str, str] = {}
        for task in known:
            seen.update(dict.fromkeys(_keys(task), f"task {task.id}"))
        nearest = self._similarity.nearest([_query(draft) for draft in drafts])
        findings = []
        for draft, (similarity, index) in zip(drafts, nearest, strict=True):
            reason, detail = self._judge(draft, similarity, index, seen)
            if not reason:
                seen.update(dict.fromkeys(_keys(draft), f"draft {draft.id}"))
            findings.append(Finding(reason, detail, similarity))
        return findings

    def _judge(self, draft: TaskDraft, similarity: float, index: int, seen: dict[str, str]) -> tuple[str, str]:
        if steering := injection(draft):
            return "injection", steering
        calls = sum(len(turn) for turn in draft.solution)
        if calls < self._min_calls:
            return "too_short", f"The solution has {calls} calls; at least {self._min_calls} are asked for."
        twin = next((seen[key] for key in _keys(draft) if key in seen), None)
        if twin:
            return "duplicate", f"It has the start and the calls or the query of {twin}."
        copied = self._solutions.get(solution_key(draft.start, draft.solution))
        if copied:
            return "leak", f"It makes the calls of evaluation task {copied} from the same start."
        if similarity >= self._max_similarity:
            like = self._evaluation[index].id
            return "leak", f"Its query is {similarity:.3f} similar to evaluation task {like}'s."
        if self._band and not in_band(similarity, self._band):
            return "band", f"Its query is {similarity:.3f} similar to an evaluation task's, which is not {self._band}."
        return "", ""


def _query(task: Task | TaskDraft) -> str:
    return "\n".join(task.turns)


def _keys(task: Task | TaskDraft) -> tuple[str, str]:
    words = " ".join(_query(task).lower().split())
    return solution_key(task.start, task.solution), f"{start_key(task.start)} {words}"
