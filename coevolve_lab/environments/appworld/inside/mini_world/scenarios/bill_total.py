"""Adds up bills that only their contents tell apart: a question."""

from __future__ import annotations

from typing import Any

from mini_world.check_parts import given_answer
from mini_world.files import add_files
from mini_world.oracle_parts import login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.world import World

SCENARIO = Scenario(
    id="mini13",
    split="test_normal",
    difficulty=1,
    apps=("file_system",),
    instruction=(
        "The bills in ~/bills/ of my file system tell what they are for, when they were issued and what is due. How "
        "many dollars were my {kind} bills of {year} in total?"
    ),
)


def prepare(world: World, me: Person) -> Case:
    rng = world.rng
    kinds = ("electricity", "water", "internet", "heating")
    kind, year = world.pick(kinds), world.pick([2020, 2021, 2022])
    total = 0
    contents = {}
    stack = [(of, issued) for of in kinds for issued in (2020, 2021, 2022) for _ in range(rng.randint(2, 4))]
    for number, (of, issued) in zip(rng.sample(range(1000, 9999), len(stack)), stack, strict=True):
        cents = rng.randint(1900, 21000)
        total += cents if (of, issued) == (kind, year) else 0
        # Neither the folder nor the name tells what is asked for.
        date = f"{issued}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        paid = issued if date[5:7] != "12" else issued + 1
        contents[f"bills/{rng.choice('abc')}/bill_{number}.txt"] = (
            f"Bill no. {number}\nService: {of}\nIssued: {date}\nAmount due: ${cents / 100:.2f}\nPaid in: {paid}"
        )
    add_files(world, me, contents)
    return Case(public={"kind": kind, "year": year}, answer=round(total / 100, 2))


def solution(apis: Any, public: dict[str, Any]) -> None:
    token, cents = login(apis, "file_system"), 0
    paths = apis.file_system.show_directory(directory_path="~/bills/", entry_type="files", access_token=token)
    for path in paths:
        content = apis.file_system.show_file(file_path=path, access_token=token)["content"]
        bill = dict(line.split(": ") for line in content.splitlines()[1:])
        if bill["Service"] == public["kind"] and bill["Issued"].startswith(str(public["year"])):
            cents += round(float(bill["Amount due"].removeprefix("$")) * 100)
    apis.supervisor.complete_task(answer=cents / 100)


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the answer is the sum of these bills"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing has changed"):
        test.case(models.changed_model_names(), "==", set())
