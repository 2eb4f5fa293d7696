"""The benchmark's own judge, ``multi_turn_checker``, kept safe.

It evaluates text, caches instances in module globals under the model's name, and lets MathAPI change the process-wide
precision and ``post_tweet`` fill its default lists. So it gets only calls that our parser read and our executor ran,
rendered again as literals, a model name that is used once, and everything it leaves behind is removed.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

from coevolve_lab.environments.bfcl import limits, package
from coevolve_lab.environments.bfcl.api import api_class
from coevolve_lab.environments.bfcl.calls import Call, render_call
from coevolve_lab.environments.bfcl.cases import official_id
from coevolve_lab.records import Task

_numbers = itertools.count()
_lock = threading.Lock()


def passes(task: Task, turns: Sequence[Sequence[Sequence[Call]]]) -> bool:
    """Whether the official checker accepts a conversation. turns[i][j]: the calls of the j-th action in user turn i.

    Every call must be one that ``Apis.execute`` ran (not refused) in this task. Raises PrerequisiteError when the
    package is missing.
    """
    if len(turns) != len(task.turns):
        return False  # cut short: the official runner fails such a case without looking
    package.activate()
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

    decoded = [[[render_call(call) for call in step] for step in turn if step] for turn in turns]
    entry = {
        "id": official_id(task),
        "initial_config": task.start["initial_config"],
        "involved_classes": list(task.start["involved_classes"]),
    }
    with _lock, limits.own_precision():
        model = f"coevolve_{next(_numbers)}"
        post = api_class("TwitterAPI").post_tweet
        defaults, post.__defaults__ = post.__defaults__, tuple([] for _ in post.__defaults__)
        try:
            solution = [list(turn) for turn in task.solution]
            return bool(multi_turn_checker(decoded, solution, entry, "multi_turn_base", model)["valid"])
        except (RecursionError, AttributeError):  # a directory that contains itself; an attribute only the solution set
            return False
        finally:
            post.__defaults__ = defaults
            leftovers = vars(multi_turn_utils)
            for name in [name for name in leftovers if name.startswith(f"{model}_")]:
                del leftovers[name]
