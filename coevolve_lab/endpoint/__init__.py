"""Asking models behind OpenAI-compatible interfaces: in parallel, within budgets, recorded, whatever they answer.

Nothing here knows what is asked. Prompts, and what becomes of the replies, belong to whoever asks.
"""

from coevolve_lab.endpoint.asynchronous import run_async
from coevolve_lab.endpoint.budget import Limits
from coevolve_lab.endpoint.cassette import Cassette
from coevolve_lab.endpoint.client import Endpoint
from coevolve_lab.endpoint.replies import Reply, ToolCall
from coevolve_lab.endpoint.text import read_json, strip_reasoning

__all__ = ["Cassette", "Endpoint", "Limits", "Reply", "ToolCall", "read_json", "run_async", "strip_reasoning"]
