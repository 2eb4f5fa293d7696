"""What the agent is told first."""

from __future__ import annotations

from coevolve_lab.environments.appworld.prompt import TOOLS, opening
from coevolve_lab.environments.programs import TOOL
from coevolve_lab.evolution.llm.transcripts import MAX_TOOL_CHARS, tool_listing

ADA = {"first_name": "Ada", "last_name": "Byron", "email": "ada@example.com", "phone_number": "5550100"}


def test_it_names_the_person_and_ends_with_the_request() -> None:
    request = "Rename {all} notes, {0} and %s."
    told = opening(request, ADA)
    assert told.endswith(f"The request:\n{request}")
    assert "Ada Byron (ada@example.com, telephone 5550100)" in told
    assert "apis.api_docs.show_api_doc" in told
    assert opening(request, ADA, guide=False) == request


def test_an_explorer_is_shown_the_whole_of_the_one_tool() -> None:
    (tool,) = TOOLS
    assert tool["function"]["name"] == TOOL
    assert len(tool["function"]["description"]) <= MAX_TOOL_CHARS
    assert tool["function"]["description"] in tool_listing(TOOLS)
