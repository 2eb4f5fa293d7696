"""GorillaFileSystem: one root with files, filled and empty directories."""

from __future__ import annotations

import random
from typing import Any

from coevolve_lab.environments.bfcl.bindings.common import (
    Arguments,
    Binder,
    chance,
    distinct,
    no_arguments,
    pick,
    some,
)
from coevolve_lab.environments.bfcl.names import Names


def start(names: Names, rng: random.Random) -> dict[str, Any]:
    root, filled, nested, empty = distinct(lambda: names.noun(rng), 4)
    contents = _files(names, rng, 2, 4)
    inside = _files(names, rng, 1, 2)
    if chance(rng, 0.4):
        inside[nested] = _directory(_files(names, rng, 0, 1))
    contents[filled] = _directory(inside)
    if chance(rng, 0.7):
        contents[empty] = _directory({})
    order = list(contents)
    rng.shuffle(order)
    return {"root": {root: _directory({name: contents[name] for name in order})}}


def _directory(contents: dict[str, Any]) -> dict[str, Any]:
    return {"type": "directory", "contents": contents}


def _files(names: Names, rng: random.Random, least: int, most: int) -> dict[str, Any]:
    chosen = distinct(lambda: names.file(rng), rng.randint(least, most))
    return {name: {"type": "file", "content": names.lines(rng)} for name in chosen}


def _is_directory(item: Any) -> bool:
    return hasattr(item, "contents")


def _files_here(api: Any) -> list[str]:
    return [name for name, item in api._current_dir.contents.items() if not _is_directory(item)]


def _directories_here(api: Any) -> list[str]:
    return [name for name, item in api._current_dir.contents.items() if _is_directory(item)]


def _cd(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    options = _directories_here(api)
    if api._current_dir.parent is not None:
        options.append("..")
    folder = pick(rng, options)
    return None if folder is None else {"folder": folder}


def _ls(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"a": True} if chance(rng, 0.3) else {}


def _du(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"human_readable": True} if chance(rng, 0.5) else {}


def _mkdir(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    name = names.fresh(names.noun, rng, api._current_dir.contents)
    return None if name is None else {"dir_name": name}


def _touch(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    name = names.fresh(names.file, rng, api._current_dir.contents)
    return None if name is None else {"file_name": name}


def _echo(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    content = names.text(rng, 1, 3)
    if chance(rng, 0.15):
        return {"content": content}
    name = pick(rng, _files_here(api))
    return None if name is None else {"content": content, "file_name": name}


def _one_file(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    name = pick(rng, _files_here(api))
    return None if name is None else {"file_name": name}


def _wc(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    found = _one_file(api, names, rng)
    if found is not None and chance(rng, 0.7):
        found["mode"] = rng.choice("lwc")
    return found


def _tail(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    found = _one_file(api, names, rng)
    if found is not None and chance(rng, 0.7):
        found["lines"] = rng.randint(1, 3)
    return found


def _grep(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    found = _one_file(api, names, rng)
    if found is not None:
        words = api._current_dir.contents[found["file_name"]].content.split()
        found["pattern"] = pick(rng, words) or names.word(rng)
    return found


def _diff(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    two = some(rng, _files_here(api), 2, 2)
    return {"file_name1": two[0], "file_name2": two[1]} if len(two) == 2 else None


def _find(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    found: Arguments = {}
    target = api._current_dir
    folder = pick(rng, _directories_here(api)) if chance(rng, 0.4) else None
    if folder is not None:
        found["path"] = folder
        target = target.contents[folder]
    if chance(rng, 0.8):
        found["name"] = (pick(rng, _names_below(target)) or names.noun(rng)).split(".")[0]
    return found


def _names_below(directory: Any) -> list[str]:
    below = list(directory.contents)
    for item in directory.contents.values():
        if _is_directory(item):
            below.extend(item.contents)
    return below


def _transfer(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    """Source and destination of mv and cp: into a directory most of the time, else under a fresh name."""
    here = api._current_dir.contents
    files, directories = _files_here(api), _directories_here(api)
    source = pick(rng, files) if files and chance(rng, 0.85) else pick(rng, directories)
    if source is None:
        return None
    room = [name for name in directories if name != source and source not in here[name].contents]
    if room and chance(rng, 0.65):
        return {"source": source, "destination": rng.choice(room)}
    fresh = names.fresh(names.noun if _is_directory(here[source]) else names.file, rng, here)
    return None if fresh is None else {"source": source, "destination": fresh}


def _rm(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    name = pick(rng, api._current_dir.contents)
    return None if name is None else {"file_name": name}


def _rmdir(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    here = api._current_dir.contents
    name = pick(rng, [name for name in _directories_here(api) if not here[name].contents])
    return None if name is None else {"dir_name": name}


BINDERS: dict[str, Binder] = {
    "cat": _one_file, "cd": _cd, "cp": _transfer, "diff": _diff, "du": _du, "echo": _echo, "find": _find, "grep": _grep,
    "ls": _ls, "mkdir": _mkdir, "mv": _transfer, "pwd": no_arguments, "rm": _rm, "rmdir": _rmdir, "sort": _one_file,
    "tail": _tail, "touch": _touch, "wc": _wc,
}  # fmt: skip
