"""Makes what notebook 05 replays: notebooks/llm_example/ with one weakness, a recording of all LLM calls, a prompt.

    python docs/record_llm_example.py [--out notebooks/llm_example]

The replies are written here, by hand, for this one example: a stand-in answers at a real endpoint of this machine, with
a few mistakes of the kind that models make. The sessions in which it explores are real ones of BFCL. Run it again when
a prompt, a schema or the example has changed; the notebook's replay then fails and says so.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from coevolve_lab import environments  # noqa: E402
from coevolve_lab.config import EvolutionConfig  # noqa: E402
from coevolve_lab.environments.base import Environment  # noqa: E402
from coevolve_lab.evolution import LlmExplorer, Occasion  # noqa: E402
from coevolve_lab.evolution.llm.explorer import RECORDING  # noqa: E402
from coevolve_lab.evolution.llm.prompting import shipped  # noqa: E402
from coevolve_lab.records import Signal, Step, Task, Trajectory, to_dict  # noqa: E402
from tests.evolution.llm.fake_llm import STAGES, context, proposal, user_of  # noqa: E402
from tests.fake_endpoint import Answer, FakeEndpoint, completion, of  # noqa: E402

MODEL = "stand-in"
ENVIRONMENT: dict[str, Any] = {"classes": ["GorillaFileSystem"], "explore_starts": 8, "held_out_tasks": 0}
EVOLUTION: dict[str, Any] = {"rollouts_per_context": 2, "steps_per_rollout": 6, "min_calls": 2, "max_calls": 4}
PRICES = {"price_prompt": 0.4, "price_completion": 1.2}
OWN = "abstract_system"  # the prompt that the notebook edits, and what is added to it
ADDED = "Write the messages to the agent in German. Names, texts and numbers stay exactly as the steps use them."
OCCASION = Occasion(1)
AGAIN = Occasion(1, call=1)


def _file(content: str) -> dict[str, str]:
    return {"type": "file", "content": content}


DESK = {
    "todo.txt": _file("call the plumber\nbuy a lamp\nwater the plants"),
    "budget.csv": _file("rent 900\nlamp 35"),
    "notes": {"type": "directory", "contents": {"ideas.md": _file("a shelf for the hall")}},
}
START = {
    "involved_classes": ["GorillaFileSystem"],
    "initial_config": {"GorillaFileSystem": {"root": {"desk": {"type": "directory", "contents": DESK}}}},
    "excluded_function": [],
    "pool": "train",
}
TASK = Task(
    id="task-r0-17",
    environment="bfcl",
    turns=("write 'pay the rent on friday' into a new file rent.txt",),
    start=START,
    solution=(("touch(file_name='rent.txt')", "echo(content='pay the rent on friday', file_name='rent.txt')"),),
    origin="seed",
    explorer="scripted",
)
ATTEMPTS = (TASK.solution[0][1:], TASK.solution[0])  # without the call that makes the file, and with it

INVENTED = context(
    summary="Asked to write into a new file rent.txt, the agent called echo on it, and tee when that failed.",
    focus=["echo", "tee"],
    failure_cause="rent.txt did not exist.",
)
REFLECTED = context(
    summary="Asked to write 'pay the rent on friday' into a new file rent.txt, the agent called echo on it at once, "
    "got an error and said that it was done.",
    focus=["touch > echo", "echo"],
    failure_cause="echo cannot write to a file that does not exist (No such file), and touch was never called.",
    instability_pattern="Another attempt at the same message called touch first and succeeded: the agent knows the way "
    "and does not always take it.",
    exploration_objectives=[
        "Write into a file that exists already, and look at what became of its content.",
        "Make a file, write into it and use it in the next step: count it, move it, show it.",
        "Call echo without file_name and compare.",
    ],
    do_not_repeat=["saying Done. after an error"],
)
ROLLOUTS = (
    (
        ("First I look at what is there.", "ls()"),
        ("todo.txt exists. Does writing replace or add?", "echo(content='buy a lamp', file_name='todo.txt')"),
        ("Nothing was said, so I look.", "cat(file_name='todo.txt')"),
        ("It replaces. Now a file that does not exist yet: make it first.", "touch(file_name='bills.txt')"),
        ("And write.", "echo(content='pay the rent', file_name='bills.txt')"),
        ("Counting proves that it was written.", "wc(file_name='bills.txt', mode='w')"),
    ),
    (
        ("The edge itself: the same call without a file.", "echo(content='ask about the lease')"),
        (
            "Displayed only. With a file that is not there?",
            "echo(content='ask about the lease', file_name='lease.txt')",
        ),
        ("That is the error of the attempt. Make the file,", "touch(file_name='lease.txt')"),
        ("and write again.", "echo(content='ask about the lease', file_name='lease.txt')"),
        ("A written file can be put away.", "mv(source='lease.txt', destination='notes')"),
        ("Tidying up belongs to it.", "rm(file_name='budget.csv')"),
    ),
)
TASKS = (
    proposal(1, [2, 3], "Replace what todo.txt says by 'buy a lamp' and show me the file afterwards."),
    proposal(
        1, [4, 5, 6], "Write 'pay the rent' into a new file bills.txt and tell me how many lines it has."
    ),  # words!
    proposal(2, [3, 4, 5], "Note 'ask about the lease' in a new file lease.txt and put it into the notes folder."),
    proposal(2, [2, 3], "Write 'ask about the lease' into lease.txt."),  # with a step that answered an error
    proposal(2, [3, 6], "I need an empty file lease.txt, and budget.csv can go."),
)
GERMAN = (
    proposal(1, [2, 3], "Ersetze den Inhalt von todo.txt durch 'buy a lamp' und zeig mir danach die Datei."),
    proposal(
        2, [3, 4, 5], "Notiere 'ask about the lease' in einer neuen Datei lease.txt und leg sie in den Ordner notes."
    ),
)
ODD = {"reason": "The user asks how many lines the file has; the solution counts words. It answers something else."}
FINE = {"reason": "Each call is what the user asks for, with the values that were given, and none of them failed."}


def stand_in(request: dict[str, Any], number: int) -> Answer:
    """The reply that was written for this request."""
    messages = request["messages"]
    system, asked = messages[0]["content"], user_of(request)
    stage = next(stage for beginning, stage in STAGES.items() if system.startswith(beginning))
    made = sum(message["role"] == "assistant" for message in messages)
    if stage == "reflect":
        return _says(request, json.dumps(REFLECTED if made else INVENTED, indent=1))
    if stage == "explore":
        rollout = ROLLOUTS[0 if "exploration 1 of" in asked else 1]
        return _says(request, "{}\n```\n{}\n```".format(*rollout[made]))
    if stage == "abstract":
        return _says(request, json.dumps({"tasks": GERMAN if "in German" in system else TASKS}, indent=1))
    if stage == "execute":
        calls = _between("solution", asked).split("\n")
        return _says(request, f"```\n{calls[made] if made < len(calls) else 'STOP'}\n```")
    wrong = "how many lines" in _between("task", asked)
    return _says(request, json.dumps({**(ODD if wrong else FINE), "success": not wrong}))


def weakness(environment: Environment) -> tuple[Signal, list[Trajectory]]:
    """Two attempts of one group, played in real sessions: the one with the signal fails, the other one does not."""
    group = [_played(environment, i, calls) for i, calls in enumerate(ATTEMPTS)]
    if [run.score for run in group] != [0.0, 1.0]:
        raise SystemExit(f"the attempts score {[run.score for run in group]}, not 0 and 1: the example needs others")
    marked = group[0]
    signal = Signal(
        id=f"boundary-{marked.id}",
        kind="boundary",
        trajectory_id=marked.id,
        task_id=TASK.id,
        group_id=marked.group_id,
        round=1,
        step=marked.step,
        score=marked.score,
        detail="the group's scores are 0.0, 1.0",
    )
    return signal, group


def record(out: Path) -> None:
    """Write records.json, cassette.jsonl and prompts/ into ``out``."""
    environment = environments.make("bfcl", **ENVIRONMENT)
    signal, group = weakness(environment)
    own = out / "prompts"
    own.mkdir(parents=True, exist_ok=True)
    (own / f"{OWN}.md").write_text(f"{shipped()[OWN]}\n\n{ADDED}\n", encoding="utf-8")
    with tempfile.TemporaryDirectory() as name, FakeEndpoint(stand_in) as fake:
        explorer, edited = (_explorer(environment, fake.url, Path(name), prompts) for prompts in (None, str(own)))
        contexts = explorer.reflect([signal], group, [TASK], OCCASION)
        triplets = explorer.explore(contexts, OCCASION)
        drafts = explorer.abstract(triplets, contexts, OCCASION)
        explorer.judge(drafts, OCCASION, max_steps=6)
        edited.abstract(triplets, contexts, AGAIN)
        if (len(contexts), len(triplets), len(drafts)) != (1, 12, 4):
            raise SystemExit(f"made {len(contexts)} contexts, {len(triplets)} triplets, {len(drafts)} drafts")
        shutil.copyfile(Path(name, RECORDING), out / RECORDING)
    records = {"signal": to_dict(signal), "trajectories": [to_dict(run) for run in group], "task": to_dict(TASK)}
    (out / "records.json").write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "notebooks" / "llm_example")
    given = parser.parse_args()
    record(given.out)
    size = sum(path.stat().st_size for path in given.out.rglob("*") if path.is_file())
    print(f"{given.out}: {size / 1000:.0f} kB")


def _explorer(environment: Environment, url: str, folder: Path, prompts: str | None) -> LlmExplorer:
    settings = {"kind": "llm", "model": MODEL, "base_url": url, "connections": 1, "prompts": prompts, **PRICES}
    return LlmExplorer(environment, EvolutionConfig(explorer=settings, **EVOLUTION), folder)


def _played(environment: Environment, number: int, calls: Sequence[str]) -> Trajectory:
    session = environment.open(TASK)
    steps = []
    for action in (*calls, "Done."):
        observation, _ = session.step(action)
        steps.append(Step(0, action, observation, session.last_tools, session.last_failed))
    score = session.score()
    session.close()
    name = "s10-task-r0-17"
    return Trajectory(f"{name}-{number}", TASK.id, name, 9, 1, 10, score, "completed", tuple(steps))


def _says(request: dict[str, Any], text: str) -> Answer:
    """With a count of tokens like a real endpoint's: some four characters each."""
    sent = sum(len(message["content"]) for message in request["messages"]) // 4
    usage = {"prompt_tokens": sent, "completion_tokens": len(text) // 4, "total_tokens": sent + len(text) // 4}
    return of(completion({"content": text}, model=MODEL, usage=usage))


def _between(kind: str, text: str) -> str:
    found = re.search(rf'<data kind="{kind}">\n(.*?)\n</data>', text, re.DOTALL)
    if found is None:
        raise ValueError(f"no {kind} in the prompt")
    return found[1]


if __name__ == "__main__":
    main()
