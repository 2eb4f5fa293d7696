"""Generates the mini world into a root folder: ``generate.py ROOT``. Runs with the Python of the installed package.

The same code and package version give the same world, byte for byte; its seed is fixed.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import pkgutil
import random
import shutil
import sys
from pathlib import Path
from typing import Any

SEED = 20260407
SPLITS = ("train", "dev", "test_normal", "test_challenge")
TASKS = 3  # of each scenario, as in the benchmark
BASE = ":memory:base"  # the package's own name for the base databases in memory


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("root", type=Path)
    arguments.add_argument("--only", help="id of the one scenario to generate, to try it out")
    chosen = arguments.parse_args()
    generate(chosen.root.absolute(), chosen.only)
    sys.stdout.flush()
    os._exit(0)  # not through the exit handlers: each world's shell would collect all garbage once more


def generate(root: Path, only: str | None = None) -> None:
    gc.set_threshold(500_000)  # as the package does: its models make very many objects that stay
    root.mkdir(parents=True, exist_ok=True)
    os.environ["APPWORLD_ROOT"] = str(root)
    from appworld import update_root
    from appworld.apps.api_lib import set_local_date_and_time, unset_local_date_and_time
    from mini_world.people import everybody
    from mini_world.proving import prove
    from mini_world.world import NOW
    from mini_world.writing import write_dataset

    update_root(str(root))
    random.seed(SEED)
    freezer = set_local_date_and_time(NOW)
    people = everybody(random.Random(SEED))
    _write_base(root, people, _write_docs(root))
    splits: dict[str, list[str]] = {split: [] for split in SPLITS}
    for loaded in _scenarios():
        if only in (None, loaded.scenario.id):
            splits[loaded.scenario.split] += _write_scenario(root, loaded, people)
    for split, task_ids in splits.items():
        write_dataset(root, split, task_ids)
    unset_local_date_and_time(freezer)
    gc.collect()
    gc.freeze()  # what is there now stays
    sys.dont_write_bytecode = True  # of the tasks' checks: it would make each world a little different
    for task_ids in splits.values():
        for task_id in task_ids:
            prove(task_id, root)
    shutil.rmtree(root / "experiments")


def _scenarios() -> list[Any]:
    import mini_world.scenarios
    from mini_world.scenario import Loaded

    names = [found.name for found in pkgutil.iter_modules(mini_world.scenarios.__path__)]
    modules = [importlib.import_module(f"mini_world.scenarios.{name}") for name in names]
    return sorted((Loaded(module.SCENARIO, module) for module in modules), key=lambda one: one.scenario.id)


def _write_docs(root: Path) -> list[dict[str, Any]]:
    """The documentation of all APIs, in the format that the package reads; it goes into the base databases too."""
    from appworld.apps import get_all_apps
    from appworld.collections.api_docs import ApiDocCollection
    from appworld.common.constants import CANARY_STRING

    folder = root / "data" / "api_docs" / "standard"
    folder.mkdir(parents=True)
    collection = ApiDocCollection.build(tuple(get_all_apps(skip_admin=True)))
    for app, docs in collection.items():
        marked = {name: {**doc, "canary_string": CANARY_STRING} for name, doc in docs.items()}
        (folder / f"{app}.json").write_text(json.dumps(marked))
    return [dict(doc) for docs in collection.values() for doc in docs.values()]


def _write_base(root: Path, people: list[Any], docs: list[dict[str, Any]]) -> None:
    from appworld.apps import get_all_apps
    from appworld.collections.models import ModelCollection
    from mini_world.base import fill_base
    from mini_world.world import World

    models = ModelCollection.load(to_db_home_path=BASE, load_apps=get_all_apps(), create_db=True)
    fill_base(World(models, people, random.Random(f"{SEED} base")), docs)
    models.save(db_home_path=str(root / "data" / "base_dbs"))
    models.close()


def _write_scenario(root: Path, loaded: Any, people: list[Any]) -> list[str]:
    """Its tasks, each given by someone else of the circle that its split belongs to."""
    rng = random.Random(f"{SEED} {loaded.scenario.id}")
    circle = int(loaded.scenario.split.startswith("test"))
    givers = rng.sample([person for person in people if person.circle == circle], TASKS)
    cases = {}
    for variant, me in enumerate(givers):
        task_id = f"{loaded.scenario.id}_{variant + 1}"
        cases[task_id] = _write_task(root, task_id, loaded, me, people, variant)
    outcomes = [json.dumps([case.private, case.answer]) for case in cases.values()]
    if len(set(outcomes)) < TASKS:
        raise SystemExit(
            f"two tasks of {loaded.scenario.id} have the same outcome, so one could be copied to the other"
        )
    return list(cases)


def _write_task(root: Path, task_id: str, loaded: Any, me: Any, people: list[Any], variant: int) -> Any:
    from appworld.apps import get_all_apps
    from appworld.collections.models import ModelCollection
    from mini_world.world import World
    from mini_world.writing import write_task

    home = f":memory:making-{task_id}"
    models = ModelCollection.load(
        to_db_home_path=home, from_db_home_path=str(root / "data" / "base_dbs"), load_apps=get_all_apps()
    )
    world = World(models, people, random.Random(f"{SEED} {task_id}"), loaded.scenario.id, variant)
    case = loaded.prepare(world, me)
    write_task(world, task_id, loaded, me, case, root)
    models.close()
    return case


if __name__ == "__main__":
    main()
