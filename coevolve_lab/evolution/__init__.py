"""Stages 2 and 3 (sections 3.2 and 3.3): from weakness signals to validated new tasks.

``plan_contexts`` decides where to explore, an ``Explorer`` (scripted, or an LLM) reflects, explores and abstracts,
``validate_drafts`` executes what came out behind a ``Guard``, and a ``TaskSet`` holds what was accepted. Every stage is
a function of its inputs and an ``Occasion``; none keeps state between rounds.
"""

from coevolve_lab.evolution.contexts import StartPool, plan_contexts, unguided_contexts
from coevolve_lab.evolution.explorer import DraftJudge, Explorer, Occasion, judge_of, make_explorer, register_explorer
from coevolve_lab.evolution.guard import Guard
from coevolve_lab.evolution.llm.explorer import LlmExplorer
from coevolve_lab.evolution.scripted_explorer import ScriptedExplorer
from coevolve_lab.evolution.similarity import Similarity, make_similarity
from coevolve_lab.evolution.task_set import TaskSet
from coevolve_lab.evolution.validation import REASONS, UNEXECUTED, validate_drafts

__all__ = [
    "REASONS",
    "UNEXECUTED",
    "DraftJudge",
    "Explorer",
    "Guard",
    "LlmExplorer",
    "Occasion",
    "ScriptedExplorer",
    "Similarity",
    "StartPool",
    "TaskSet",
    "judge_of",
    "make_explorer",
    "make_similarity",
    "plan_contexts",
    "register_explorer",
    "unguided_contexts",
    "validate_drafts",
]
