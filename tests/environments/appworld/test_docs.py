"""The APIs' documentation, read from files in the package's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coevolve_lab.environments.appworld.docs import read_apis
from coevolve_lab.environments.appworld.tasks import read_specification, read_split
from coevolve_lab.errors import EnvironmentFailure


def parameter(name: str, kind: str, *constraints: str, required: bool = True) -> dict[str, Any]:
    return {"name": name, "type": kind, "required": required, "constraints": list(constraints), "default": None}


RATE = {
    "app_name": "shop",
    "api_name": "rate",
    "method": "POST",
    "description": "Rate a thing.",
    "parameters": [
        parameter("rating", "integer", "value >= 1.0, <= 5.0"),
        parameter("card", "integer", "value >= 1000.0, < 1e+04"),
        parameter("size", "string", "value in ['small', 'large']"),
        parameter("title", "string", "length >= 1", required=False),
        parameter("access_token", "string"),
    ],
    "response_schemas": {"success": {"message": "string"}},
}


@pytest.mark.parametrize("written", [[RATE], {"rate": RATE}])
def test_arguments_have_their_bounds_and_choices(written: Any, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "api_docs" / "standard"
    folder.mkdir(parents=True)
    (folder / "shop.json").write_text(json.dumps(written))
    (api,) = read_apis(tmp_path).values()
    assert (api.tool, api.reads, api.returns) == ("shop.rate", False, {"message": "string"})
    assert [p.name for p in api.required()] == ["rating", "card", "size"]
    rating, card, size, title, _ = api.parameters
    assert (rating.least, rating.most) == (1, 5)
    assert (card.least, card.most) == (1000, 9999)
    assert size.choices == ("small", "large")
    assert (title.least, title.most, title.choices, title.required) == (None, None, (), False)


@pytest.mark.parametrize("content", ["[", '[{"app_name": "shop"}]', "[3]", '"text"'])
def test_documentation_that_cannot_be_read_is_named(content: str, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="no API documentation"):
        read_apis(tmp_path)
    folder = tmp_path / "data" / "api_docs" / "standard"
    folder.mkdir(parents=True)
    (folder / "shop.json").write_text(content)
    with pytest.raises(EnvironmentFailure, match=r"shop\.json cannot be read"):
        read_apis(tmp_path)


@pytest.mark.parametrize(
    "written", [None, "{", '{"instruction": "Buy milk."}', '{"instruction": "x", "supervisor": 3}']
)
def test_specifications_that_cannot_be_read_are_named(written: str | None, tmp_path: Path) -> None:
    if written is not None:
        folder = tmp_path / "data" / "tasks" / "abc_1"
        folder.mkdir(parents=True)
        (folder / "specs.json").write_text(written)
    with pytest.raises(EnvironmentFailure, match="task abc_1 cannot be read"):
        read_specification(tmp_path, "abc_1")


@pytest.mark.parametrize("name", ["../abc_1", "abc/1", "", "_", "abc_1\n"])
def test_an_id_is_no_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="no id of an AppWorld task"):
        read_specification(tmp_path, name)


def test_a_split_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match=r"no split .*dev\.txt"):
        read_split(tmp_path, "mini", "dev")
