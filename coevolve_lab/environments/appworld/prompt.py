"""What an AppWorld agent is told first: who it works for, what to do, and how its programs reach the apps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coevolve_lab.environments.programs import TOOL

# In our own words; what each app and API does is for the agent to look up, as in the benchmark.
GUIDE = """\
You are the assistant of {name} ({email}, telephone {phone_number}) and act in this person's apps by writing Python.

Each of your replies holds one program in a ```python block. It is run, and you see what it printed; variables stay for
the next one. The object `apis` reaches everything: `apis.app_name.api_name(argument=value, ...)`.
- What there is: `print(apis.api_docs.show_app_descriptions())`, then
  `print(apis.api_docs.show_api_descriptions(app_name='spotify'))`, then before you use an API
  `print(apis.api_docs.show_api_doc(app_name='spotify', api_name='login'))`.
- Who you act for: `apis.supervisor` knows this person's profile, addresses, payment cards and the passwords of the
  accounts (`show_account_passwords`). Most APIs want the `access_token` that the app's `login` returns.
- Lists come a page at a time: ask for the next `page_index` until a page is empty.
- "My friends" or "my roommates" are found in the telephone's contacts; "today" is what the clock of your program says.
- Change nothing that was not asked for. Never guess an id, a name or a password: look it up.
- When all is done, call `apis.supervisor.complete_task()`, with `answer=...` if something was asked: only the value, as
  short as possible. That ends your work.

The request:
{instruction}"""

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": TOOL,
            # all that an explorer or a judge is told of this world, which cuts descriptions at 400 characters
            "description": (
                "Run a Python program against `apis` and see what it printed; variables stay. What there is: "
                "apis.api_docs.show_app_descriptions(), .show_api_descriptions(app_name=), .show_api_doc(app_name=, "
                "api_name=). Who to log in as: apis.supervisor.show_profile(), .show_account_passwords(). At the end: "
                "apis.supervisor.complete_task(), with answer= if something was asked."
            ),
            "parameters": {
                "type": "object",
                "properties": {"code": {"type": "string", "description": "The program."}},
                "required": ["code"],
            },
        },
    }
]


def opening(instruction: str, supervisor: Mapping[str, str], guide: bool = True) -> str:
    """The first observation. guide: False gives the request alone, for models too small to read the rest."""
    if not guide:
        return instruction
    name = f"{supervisor['first_name']} {supervisor['last_name']}"
    return GUIDE.format(
        name=name, email=supervisor["email"], phone_number=supervisor["phone_number"], instruction=instruction
    )
