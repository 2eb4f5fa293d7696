"""The scripted walk through the mini world: calls that fit what its APIs show, each complete in itself."""

from __future__ import annotations

import random

import pytest

from coevolve_lab.environments.appworld.environment import AppWorldEnvironment
from coevolve_lab.environments.appworld.package import AppWorldPackage
from coevolve_lab.environments.appworld.scoring import Scorer
from coevolve_lab.environments.appworld.session import AppWorldSession
from coevolve_lab.environments.appworld.workers import WorkerPool
from coevolve_lab.evolution.calls import called_tools
from coevolve_lab.records import Task
from tests.environments.appworld.worlds import mini_world

pytestmark = pytest.mark.appworld


@pytest.fixture(scope="module")
def world(appworld: AppWorldPackage, pool: WorkerPool, scorer: Scorer) -> AppWorldEnvironment:
    return mini_world(appworld, pool, scorer, apps=["simple_note", "spotify"])


def explored(world: AppWorldEnvironment, index: int = 0) -> AppWorldSession:
    return world.open(Task("explore", "appworld", ("Explore.",), world.tasks("explore")[index].start))


def test_its_tools_are_those_of_the_apps_that_were_chosen(world: AppWorldEnvironment) -> None:
    tools = world.tool_names(world.tasks("explore")[0].start)
    assert {tool.split(".")[0] for tool in tools} == {"simple_note", "spotify", "supervisor"}
    assert {"simple_note.create_note", "spotify.like_song", "supervisor.complete_task"} <= set(tools)
    assert not [tool for tool in tools if "password" in tool or tool.endswith(("login", "logout", "signup"))]
    assert "spotify.unlike_song" in world.confusable("spotify.like_song")
    assert world.confusable("no.such") == []


def test_most_calls_work_alone_and_the_same_draw_gives_the_same_call(world: AppWorldEnvironment) -> None:
    tools = ["spotify.show_song", "spotify.like_album", "spotify.create_playlist", "spotify.review_song"]
    tools += ["simple_note.search_notes", "simple_note.create_note", "spotify.add_song_to_library"]
    calls, worked = [], 0
    for tool in tools:
        session = explored(world)  # a fresh world each: nothing of an earlier call is left
        try:
            call = world.bind(session, tool, random.Random(tool))
            assert call is not None, tool
            assert called_tools(call)[-1] == tool
            assert call == world.bind(session, tool, random.Random(tool))
            session.step(call)
            assert session.last_tools[-1:] == (tool,)
            worked += not session.last_failed
            calls.append(call)
        finally:
            session.close()
    assert worked >= len(tools) - 2
    assert len(set(calls)) == len(calls)


def test_a_question_is_answered_from_what_an_api_shows(world: AppWorldEnvironment) -> None:
    session = explored(world)
    try:
        rng = random.Random(3)
        call = next(c for _ in range(20) if (c := world.bind(session, "supervisor.complete_task", rng)) is not None)
        assert called_tools(call)[-1] == "supervisor.complete_task"
        said = world.phrase(call, rng)
        assert said.startswith("tell me the ")
        assert "that you find when you " in said
        assert session.step(call)[1]
        assert world.bind(session, "spotify.show_song", rng) is None  # the episode is over
    finally:
        session.close()


def test_a_call_is_phrased_with_its_arguments_and_without_secrets(world: AppWorldEnvironment) -> None:
    login = "apis.spotify.login(username='a@b.c', password='hush')['access_token']"
    said = {
        world.phrase(
            f"print(apis.spotify.review_song(song_id=12, rating=4, access_token={login}))", random.Random(seed)
        )
        for seed in range(8)
    }
    assert said == {
        "in spotify, rate or review a song (song id 12, rating 4)",
        "rate or review a song in spotify (song id 12, rating 4)",
    }
    assert world.phrase("print(1)", random.Random(0)) == "print(1)"
    assert (
        world.phrase("apis.supervisor.complete_task(answer=3)", random.Random(0)).count(
            "mark the currently active task"
        )
        == 1
    )


def test_what_needs_what_nothing_shows_is_not_called(world: AppWorldEnvironment) -> None:
    session = explored(world)
    try:
        assert world.bind(session, "spotify.download_premium_subscription_receipt", random.Random(0)) is None
    finally:
        session.close()
