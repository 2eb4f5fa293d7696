from __future__ import annotations

import decimal
import json
from typing import Any

import mpmath
import pytest

from coevolve_lab.environments.bfcl import api, limits
from coevolve_lab.environments.bfcl.api import Apis, Result, load_apis
from coevolve_lab.environments.bfcl.calls import Call, parse_call

TREE = {"root": {"home": {"type": "directory", "contents": {"a": {"type": "directory", "contents": {}}}}}}


def apis_of(*classes: str, **config: Any) -> Apis:
    return load_apis({"involved_classes": list(classes), "initial_config": config})


def run(apis: Apis, *calls: str) -> Result:
    """The result of the last call."""
    return [apis.execute(parse_call(call)) for call in calls][-1]


@pytest.mark.parametrize(
    ("call", "text", "failed"),
    [
        ("ls()", '{"current_directory_content": ["a"]}', False),
        ("ls(True)", '{"current_directory_content": ["a"]}', False),
        ("mkdir(dir_name='b')", "None", False),
        ("cat('x')", '{"error": "cat: \'x\': No such file or directory"}', True),
        ("ls(b=1)", "Error during execution: GorillaFileSystem.ls() got an unexpected keyword argument 'b'", True),
        (
            "cd()",
            "Error during execution: GorillaFileSystem.cd() missing 1 required positional argument: 'folder'",
            True,
        ),
        ("logarithm(value=8, base=2, precision=5)", "{'result': mpf('3.0')}", False),
        ("square_root(number=2, precision=5)", "{'result': Decimal('1.4142')}", False),
        ("get_user_tickets()", "[{'error': 'User not authenticated. Please log in to view tickets.'}]", True),
    ],
)
def test_results_read_as_the_official_executor_renders_them(call: str, text: str, failed: bool) -> None:
    apis = apis_of("GorillaFileSystem", "MathAPI", "TicketAPI", GorillaFileSystem=TREE)
    assert run(apis, call) == Result(text, failed)


def test_only_the_public_methods_of_the_case_can_be_called() -> None:
    start = {"involved_classes": ["GorillaFileSystem"], "initial_config": {}, "excluded_function": ["cp"]}
    apis = load_apis(start)
    before = api.state(apis)
    for name in ("cp", "_load_scenario", "__init__", "__class__", "post_tweet", "open", "eval", "Directory"):
        result = apis.execute(Call(name, ("x",)))
        assert result.refused
        assert result.failed
        assert "no tool is named" in result.text
    assert api.same_state(apis, before)
    assert "mv" in apis.methods


def test_instances_share_nothing_with_the_start_or_each_other() -> None:
    start = {
        "involved_classes": ["TwitterAPI"],
        "initial_config": {"TwitterAPI": {"authenticated": True, "tweets": {}}},
    }
    first, second = load_apis(start), load_apis(start)
    tweet = "post_tweet(content='hi')"
    run(first, tweet, "mention(tweet_id=0, mentioned_usernames=['@a'])")
    assert run(second, tweet) == Result(
        '{"id": 0, "username": "john", "content": "hi", "tags": [], "mentions": []}', failed=False
    )
    assert start["initial_config"] == {"TwitterAPI": {"authenticated": True, "tweets": {}}}


def test_arguments_are_not_changed_by_later_calls() -> None:
    apis = apis_of("TwitterAPI", TwitterAPI={"authenticated": True})
    call = parse_call("post_tweet(content='hi', mentions=['@a'])")
    apis.execute(call)
    run(apis, "mention(tweet_id=0, mentioned_usernames=['@b'])")
    assert call.kwargs["mentions"] == ["@a"]
    assert apis["TwitterAPI"].tweets[0]["mentions"] == ["@a", "@b"]


def test_the_precision_of_the_process_is_left_alone() -> None:
    before = mpmath.mp.dps, decimal.getcontext().prec
    apis = apis_of("MathAPI")
    run(apis, "logarithm(value=5, base=3, precision=90)", "square_root(number=5, precision=90)")
    run(apis, "square_root(number=5, precision=0)")
    assert (mpmath.mp.dps, decimal.getcontext().prec) == before


@pytest.mark.parametrize(
    "call",
    [
        "power(base=2, exponent=1000000000)",
        "power(base=999999999999, exponent=-1000000)",
        "logarithm(value=5, base=3, precision=1000000000)",
        "logarithm(value='1e999999999', base=3, precision=5)",
        "square_root(number=5, precision=1000000000)",
        "round_number(number=1, decimal_places=-1000000000)",
        f"mkdir(dir_name='{'x' * 300}')",
        "cp(source='a', destination='a')",
        "mv(source='a', destination='a')",
        "send_message(receiver_id='USR002', message='hi')",
    ],
)
def test_calls_of_unbounded_cost_are_refused(call: str) -> None:
    every_id = {"generated_ids": list(range(10_000, 100_000)), "current_user": "USR001"}
    apis = apis_of("GorillaFileSystem", "MathAPI", "MessageAPI", GorillaFileSystem=TREE, MessageAPI=every_id)
    before = api.state(apis)
    result = run(apis, call)
    assert result.refused
    assert result.failed
    assert api.same_state(apis, before)


def test_file_trees_stay_small() -> None:
    apis = apis_of("GorillaFileSystem", GorillaFileSystem=TREE)
    refused = 0
    for round in range(40):  # every round doubles what is below "a"
        for call in (f"cp(source='a', destination='b{round}')", f"mv(source='b{round}', destination='a')"):
            refused += apis.execute(parse_call(call)).refused
    for _ in range(60):
        refused += run(apis, "mkdir(dir_name='d')").refused
        run(apis, "cd(folder='d')")
    assert refused > 30
    matches = json.loads(run(apis, "cd(folder='/')", "find(path='.')").text)["matches"]
    assert 500 < len(matches) < limits.MAX_TREE_NODES
    assert max(match.count("/") for match in matches) <= limits.MAX_TREE_DEPTH
    assert api.same_state(apis, api.state(apis))


def test_huge_results_are_cut_off() -> None:
    apis = apis_of("VehicleControlAPI")
    result = apis.execute(Call("display_log", (["x" * 15_000] * 8,)))
    assert result.failed
    assert len(result.text) < 200


def test_unknown_fields_of_a_ticket_come_in_a_stable_order() -> None:
    apis = apis_of("TicketAPI", TicketAPI={"ticket_queue": [{"id": 1, "status": "Open"}]})
    result = run(apis, "edit_ticket(ticket_id=1, updates={'z': 1, 'b': 2, 'y': 3, 'a': 4})")
    assert result.text == '{"error": "Invalid fields for update: a, b, y, z"}'


def test_states_differ_by_what_the_official_checker_compares() -> None:
    apis = apis_of("GorillaFileSystem", GorillaFileSystem=TREE)
    before = api.state(apis)
    run(apis, "cd(folder='a')")
    assert api.same_state(apis, before)  # where you are is private
    run(apis, "touch(file_name='x')")
    assert not api.same_state(apis, before)
