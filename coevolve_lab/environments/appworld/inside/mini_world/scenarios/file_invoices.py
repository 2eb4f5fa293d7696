"""Moves files into folders by the year of their creation."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from mini_world.check_parts import given_answer
from mini_world.files import add_files, home
from mini_world.oracle_parts import login
from mini_world.people import Person
from mini_world.scenario import Case, Scenario
from mini_world.world import NOW, World

SCENARIO = Scenario(
    id="mini06",
    split="train",
    difficulty=2,
    apps=("file_system",),
    instruction=(
        'File the {kind}s in my file system: move every file in ~/downloads/ whose name starts with "{kind}" to '
        "~/documents/{kind}s/<year>/, where <year> is the year in which the file was created. Keep the file names, and "
        "leave everything else where it is."
    ),
)


def prepare(world: World, me: Person) -> Case:
    rng = world.rng
    kind = world.pick(["invoice", "receipt", "ticket"])
    contents, dates = {}, {}
    for number in sorted(rng.sample(range(100, 999), 6)):
        path = f"downloads/{kind}_{number}.txt"
        contents[path] = f"{kind} no. {number}\ntotal: ${rng.randint(900, 30000) / 100:.2f}"
        dates[path] = NOW - timedelta(days=rng.randint(20, 1000))
    dates[sorted(contents)[0]] = datetime(2022, 12, 31, 23, 30)
    dates[sorted(contents)[1]] = datetime(2023, 1, 1, 0, 15)
    decoys = {f"downloads/my_{kind}_list.txt": "to do", f"downloads/old/{kind}_7.txt": f"{kind} no. 7"}
    add_files(world, me, {**contents, **decoys}, dates)
    name = {path: path.rsplit("/", 1)[1] for path in contents}
    moved = {f"documents/{kind}s/{dates[path].year}/{name[path]}": content for path, content in contents.items()}
    private = {
        "gone": sorted(home(me) + path for path in contents),
        "filed": {home(me) + path: content for path, content in moved.items()},
    }
    return Case(public={"kind": kind}, private=private)


def solution(apis: Any, public: dict[str, Any]) -> None:
    token, kind = login(apis, "file_system"), public["kind"]
    paths = apis.file_system.show_directory(
        directory_path="~/downloads/", entry_type="files", recursive=False, access_token=token
    )
    for path in paths:
        name = path.rsplit("/", 1)[1]
        if name.startswith(kind):
            year = apis.file_system.show_file(file_path=path, access_token=token)["created_at"][:4]
            folder = f"~/documents/{kind}s/{year}/"
            if not apis.file_system.directory_exists(directory_path=folder, access_token=token)["exists"]:
                apis.file_system.create_directory(directory_path=folder, recursive=True, access_token=token)
            apis.file_system.move_file(source_file_path=path, destination_file_path=folder + name, access_token=token)
    apis.supervisor.complete_task()


def evaluate(
    test: Any, public_data: Any, private_data: Any, main_user: Any, models: Any, ground_truth_answer: Any
) -> None:
    with test("the task is completed without an answer"):
        test.answer(given_answer(models), ground_truth_answer)
    with test("nothing but files and folders has changed"):
        test.case(models.changed_model_names(), "==", {"file_system.File", "file_system.Directory"})
    added, updated, removed = models.changed_records("file_system.File")
    owner = models.start.file_system.User.find_from(main_user)
    with test("exactly these files have left the downloads, and no other file was altered"):
        test.case(sorted(file.path for file in removed), "==", sorted(private_data.gone))
        test.case(len(updated), "==", 0)
    with test("they are in the folder of their year, with their content"):
        test.case({file.path: file.content for file in added}, "==", dict(private_data.filed))
        test.case({file.user_id for file in added}, "==", {owner.id})
    with test("no folder was removed"):
        test.case(len(models.changed_records("file_system.Directory")[2]), "==", 0)
