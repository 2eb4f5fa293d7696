"""How often the check by execution and an LLM judge disagree, on drafts of which it is known what they are.

    python -m benchmarks.judge_agreement [--drafts 20] [--model NAME --base-url URL] [--show 3] [--recording FOLDER]

Scripted exploration of BFCL gives drafts that pass the check: "gold". From each of them one draft is made of every
other label, with the same start and the same words of the user:

- no-op: the solution is a text that says it is done;
- echo: the solution is the user's message;
- look: the solution is a read-only call that has nothing to do with what the user asks;
- random: the solution is another task's;
- parameter: one argument of the solution has another plausible value, with which all calls still work;
- cut: the last call is missing.

The two ways to decide do not see the same. Execution (design rule 4) scores a draft against the replay of its own
solution: it finds what does not run, what is not repeatable and what is solved by doing nothing, and it is sure of
that. But whether the solution is what the words ask for cannot be executed: a wrong parameter scores 1 on itself, and
so do a look and a cut solution. Only a reader can refuse those. A reader, on the other hand, can be wrong, can be
unlike itself the second time, can be silent, and can be talked into things by what it reads. Hence neither column is
the truth; the label is. The guard runs as well, with a minimum of one call, so that no draft is refused for its length.

Without ``--model`` a stand-in answers that is no LLM. Its column says nothing about judges; it shows the machinery.
The key comes from the environment variable ``--api-key-env``; with ``--recording`` nothing is asked twice.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coevolve_lab.config import EvolutionConfig
from coevolve_lab.environments.bfcl.calls import parse_call, render_call
from coevolve_lab.environments.bfcl.environment import BFCLEnvironment
from coevolve_lab.errors import ExplorerError
from coevolve_lab.evolution import (
    Guard,
    LlmExplorer,
    Occasion,
    ScriptedExplorer,
    StartPool,
    unguided_contexts,
    validate_drafts,
)
from coevolve_lab.evolution.start_states import open_start, replayed
from coevolve_lab.records import Judgement, TaskDraft, Verdict
from tests.evolution.llm.fake_llm import FakeLlm
from tests.fake_endpoint import MODEL, FakeEndpoint

LABELS = ("gold", "no-op", "echo", "look", "random", "parameter", "cut")
STAND_IN = "STAND-IN JUDGE: it compares transcript and solution, it is no LLM. Its column says nothing about judges."
LOOKS = ("pwd()", "ls()", "message_get_login_status()", "ticket_get_login_status()", "get_user_tickets()")
BINDS = 40  # draws for another value of an argument
BATCHES = 10  # of exploration
MOST_STEPS = 30  # of the agent that executes a draft before it is judged: table 9
SCRIPTED: dict[str, Any] = {"min_calls": 2, "max_calls": 3}  # so that there is a call to cut


class Row(NamedTuple):
    """What both said of the drafts of one label. agree, disagree and silent add up to n."""

    label: str
    n: int
    check: int  # accepted by execution
    judge: int  # accepted by the judge
    agree: int
    disagree: int
    silent: int  # no usable answer from the judge
    reasons: str  # of execution, by how often


def labelled_drafts(world: BFCLEnvironment, count: int, seed: int = 0) -> dict[str, list[TaskDraft]]:
    """``count`` drafts of each label, the i-th of every label about the same start and words.

    Raises ExplorerError when exploration does not find so many that pass and can be changed in all these ways.
    """
    found: dict[str, list[TaskDraft]] = {label: [] for label in LABELS}
    gold = _validated(world, count, seed)
    for i, draft in enumerate(gold):
        rng = random.Random(f"{seed}/{draft.id}")
        look = next(call for call in _shuffled(LOOKS, rng) if replayed(world, draft.start, [call]))
        solutions: dict[str, Sequence[str]] = {
            "gold": draft.solution[0],
            "no-op": ["All of this is done."],
            "echo": draft.turns,
            "look": [look],
            "random": gold[(i + 1) % len(gold)].solution[0],
            "parameter": _wrong_parameter(world, draft, rng) or (),
            "cut": draft.solution[0][:-1],
        }
        for label, calls in solutions.items():
            changed = dataclasses.replace(draft, id=f"{label}-{i}", solution=(tuple(calls),))
            found[label].append(changed)
    return found


def check(world: BFCLEnvironment, drafts: Sequence[TaskDraft]) -> list[Verdict]:
    """What the check by execution says, of each draft by itself."""
    return validate_drafts(drafts, world, Guard.from_config(EvolutionConfig(min_calls=1), []), (), Occasion(1))


def compared(label: str, verdicts: Sequence[Verdict], judgements: Sequence[Judgement]) -> Row:
    """Both sides of one label counted; the i-th of each is about the same draft."""
    pairs = [(v.outcome == "accepted", j.success) for v, j in zip(verdicts, judgements, strict=True)]
    return Row(
        label=label,
        n=len(pairs),
        check=sum(accepted for accepted, _ in pairs),
        judge=sum(success is True for _, success in pairs),
        agree=sum(accepted == success for accepted, success in pairs if success is not None),
        disagree=sum(accepted != success for accepted, success in pairs if success is not None),
        silent=sum(success is None for _, success in pairs),
        reasons=", ".join(f"{reason} {n}" for reason, n in Counter(v.reason for v in verdicts).most_common()),
    )


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text."""
    head = ("label", "n", "check accepts", "judge accepts", "agree", "disagree", "silent", "the check's reasons")
    lines = [head, *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)) for line in lines)


@contextlib.contextmanager
def endpoint_of(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Settings of the explorer that judges: the endpoint that was named, or the stand-in's."""
    if given.model:
        yield {"model": given.model, "base_url": given.base_url, "api_key_env": given.api_key_env}
        return
    with FakeEndpoint(FakeLlm()) as fake:
        yield {"model": MODEL, "base_url": fake.url}


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafts", type=int, default=20, help="of each label")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", help="of the judge; without it the stand-in answers")
    parser.add_argument("--base-url", help="of its endpoint, e.g. http://127.0.0.1:8000/v1")
    parser.add_argument("--api-key-env", default="OPENAI_API_KEY")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--recording", type=Path, help="folder that keeps all traffic, so that nothing is asked twice")
    parser.add_argument("--show", type=int, default=0, help="so many disagreements of each label are shown")
    given = parser.parse_args(arguments)
    if given.base_url and not given.model:
        parser.error("--base-url needs --model: which of the models there judges?")
    world = BFCLEnvironment(explore_starts=64, held_out_tasks=0)
    drafts = labelled_drafts(world, given.drafts, given.seed)
    rows, shown = [], []
    with endpoint_of(given) as settings:
        asked = EvolutionConfig(explorer={"kind": "llm", "connections": given.connections, **settings})
        explorer = LlmExplorer(world, asked, given.recording)
        for label in LABELS:
            verdicts, judgements = check(world, drafts[label]), explorer.judge(drafts[label], Occasion(1), MOST_STEPS)
            rows.append(compared(label, verdicts, judgements))
            shown += _disagreements(drafts[label], verdicts, judgements)[: given.show]
    calls = explorer.model_calls()
    print(f"judge: {given.model}" if given.model else STAND_IN)
    print(table(rows))
    tokens = sum(call.prompt_tokens + call.completion_tokens for call in calls)
    print(f"{len(calls)} calls, {tokens} tokens, {sum(call.status != 'ok' for call in calls)} without a usable reply")
    print("\n".join(shown), end="\n" if shown else "")
    if not given.model:
        print(STAND_IN)
    return rows


def _validated(world: BFCLEnvironment, count: int, seed: int) -> list[TaskDraft]:
    """Scripted drafts that pass the check and of which every label can be made."""
    explorer, good = ScriptedExplorer(world, EvolutionConfig(**SCRIPTED)), []
    pool = StartPool(world)
    for batch in range(BATCHES):
        occasion = Occasion(0, seed, batch)
        contexts = unguided_contexts("uniform", 2 * count, pool, occasion)
        drafts = explorer.abstract(explorer.explore(contexts, occasion), contexts, occasion)
        accepted = {verdict.draft_id for verdict in check(world, drafts) if verdict.outcome == "accepted"}
        for draft in drafts:
            if draft.id in accepted and _wrong_parameter(world, draft, random.Random(f"{seed}/{draft.id}")):
                good.append(draft)
                accepted -= {other.id for other in drafts if other.context_id == draft.context_id}  # one a context
            if len(good) == count:
                return good
    raise ExplorerError(f"{BATCHES} batches of scripted exploration gave {len(good)} of {count} drafts; ask for fewer")


def _wrong_parameter(world: BFCLEnvironment, draft: TaskDraft, rng: random.Random) -> list[str] | None:
    """The solution with one argument changed to what the world offers for it at that moment; every call still works.

    None if no draw gives such a solution.
    """
    calls = list(draft.solution[0])
    for _ in range(BINDS):
        place = rng.randrange(len(calls))
        call = parse_call(calls[place])
        session = open_start(world, draft.start)
        for before in calls[:place]:
            session.step(before)
        bound = world.bind(session, call.name, rng)
        session.close()
        other = parse_call(bound).kwargs if bound else {}
        different = [name for name in call.kwargs if name in other and other[name] != call.kwargs[name]]
        if not different:
            continue
        name = rng.choice(different)
        changed = dataclasses.replace(call, kwargs={**call.kwargs, name: other[name]})
        solution = [*calls[:place], render_call(changed), *calls[place + 1 :]]
        if replayed(world, draft.start, solution) == solution:
            return solution
    return None


def _disagreements(
    drafts: Sequence[TaskDraft], verdicts: Sequence[Verdict], judgements: Sequence[Judgement]
) -> list[str]:
    return [
        f"\n{draft.id}: the check says {verdict.outcome} ({verdict.reason}), the judge {judgement.success}\n"
        f"  user: {' / '.join(draft.turns)}\n  solution: {'; '.join(draft.solution[0])}\n  judge: {judgement.reason}"
        for draft, verdict, judgement in zip(drafts, verdicts, judgements, strict=True)
        if judgement.success is not None and judgement.success != (verdict.outcome == "accepted")
    ]


def _shuffled(items: Sequence[str], rng: random.Random) -> list[str]:
    return rng.sample(items, len(items))


if __name__ == "__main__":
    main()
