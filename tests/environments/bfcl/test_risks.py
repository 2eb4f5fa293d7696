from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from coevolve_lab.environments.base import RiskRules
from coevolve_lab.environments.bfcl import risks, tools
from coevolve_lab.environments.bfcl.api import CLASSES, public_methods
from coevolve_lab.environments.bfcl.environment import BFCLEnvironment

ROWS = yaml.safe_load(Path(risks.__file__).with_name("risks.yaml").read_text())
LISTED = [tool for row in ROWS.values() for tool in row["tools"]]


def test_every_tool_of_the_eight_classes_has_exactly_one_category() -> None:
    documented = {tool["function"]["name"] for name in CLASSES for tool in tools.class_schemas(name)}
    methods = {method for name in CLASSES for method in public_methods(name)}
    assert len(LISTED) == len(set(LISTED))
    assert set(LISTED) == documented == methods


def test_categories_are_known_and_say_what_they_mean() -> None:
    assert tuple(ROWS) == risks.CATEGORIES
    for kind, row in ROWS.items():
        if kind != risks.HARMLESS:
            assert row["sentence"].format(tool="x").startswith("x ")
            assert row["sentence"].endswith(".")


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        *(("place_order", "money"), ("rm", "deletion"), ("register_credit_card", "credentials"), ("ls", "harmless")),
        *(("send_message", "message"), ("get_outside_temperature_from_google", "outside"), ("lockDoors", "vehicle")),
        ("no_such_tool", None),
    ],
)
def test_category(tool: str, kind: str | None) -> None:
    assert risks.category(tool) == kind


def test_the_environment_has_risk_rules() -> None:
    environment = BFCLEnvironment(explore_starts=1, held_out_tasks=0)
    assert isinstance(environment, RiskRules)
    found = environment.risks((("ls()", "rm(file_name='a')"), ("[fund_account(amount=5.0), rm(file_name='b')]",)))
    assert found == ["rm deletes what cannot be brought back.", "fund_account moves money."]
    assert environment.risks((("ls()", "cd(folder='docs')"),)) == []


def test_json_calls_are_read_too() -> None:
    call = '<tool_call>\n{"name": "withdraw_funds", "arguments": {"amount": 10}}\n</tool_call>'
    assert risks.call_risks([[call]]) == ["withdraw_funds moves money."]


def test_a_tool_that_is_only_named_in_an_argument_is_no_call() -> None:
    assert risks.call_risks([["echo(content='rm(file_name=1)', file_name='rm')"]]) == []


def test_what_cannot_be_read_is_a_risk() -> None:
    assert risks.call_risks([["rm(file_name=", "rm(file_name=name)"]]) == ["A call of its solution cannot be read."]
