"""Between messages and token ids, one way only: what was sampled is never tokenized again.

A conversation is prompt ids, then for each action the ids as sampled, then the ids of the environment's reply. Each
part is appended, so every prompt is a prefix of the final sequence whatever the template does (design rule 2). Text of
users and environments is encoded with special tokens switched off: it can never close a turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from coevolve_lab.errors import PolicyError

CONTENT = "\u2042content\u2042"  # stands for a message's text while the template's own text is read off
ACTION = "\u2042action\u2042"


class ChatFormat(Protocol):
    """How one model's conversations are written as ids."""

    end_ids: tuple[int, ...]
    pad_id: int

    def prompt(self, observation: str, tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Ids up to the first action."""
        ...

    def reply(self, observation: str, from_user: bool) -> list[int]:
        """Ids after an action (its end token sampled) up to the next action."""
        ...

    def action(self, text: str) -> list[int]:
        """Ids of a whole action with its end token, for demonstrations; sampled actions are never encoded."""
        ...

    def text(self, ids: Sequence[int]) -> str:
        """Sampled ids as text, without the end token."""
        ...


class TemplateChat:
    """Any model with a chat template. Raises PolicyError when the template cannot be appended to."""

    def __init__(self, tokenizer: Any, call_syntax: str) -> None:
        if not tokenizer.chat_template:
            raise PolicyError(f"{tokenizer.name_or_path} has no chat template; choose an instruct model")
        self.tokenizer = tokenizer
        self.call_syntax = call_syntax
        base = [{"role": "system", "content": "s"}, {"role": "user", "content": CONTENT}]
        told = [*base, {"role": "assistant", "content": ACTION}]
        opening = self._render(base, True)
        self._replies: dict[bool, tuple[list[int], list[int]]] = {}
        for from_user in (True, False):
            role = "user" if from_user else "tool"
            rest = self._render([*told, {"role": role, "content": CONTENT}], True).split(ACTION)[-1]
            if CONTENT not in rest:  # templates without a tool role drop the message or refuse it
                rest = self._render([*told, {"role": "user", "content": CONTENT}], True).split(ACTION)[-1]
            before, after = rest.rsplit(CONTENT, 1)
            self._replies[from_user] = (self._special(before), self._special(after))
        end = self._replies[True][0][0]
        if any(before[0] != end for before, _ in self._replies.values()) or end not in self._special_ids():
            raise PolicyError(
                f"the chat template of {tokenizer.name_or_path} does not close an assistant message with a special "
                "token, so a conversation cannot be continued from sampled ids; use another template"
            )
        if opening.split(CONTENT)[-1] != self._render(told, False).split(CONTENT)[-1].split(ACTION)[0]:
            raise PolicyError(
                f"the chat template of {tokenizer.name_or_path} rewrites assistant messages (its generation prompt is "
                "not what precedes them later); use another template"
            )
        self._replies = {k: (before[1:], after) for k, (before, after) in self._replies.items()}
        self.end_ids: tuple[int, ...] = tuple(sorted({end, int(tokenizer.eos_token_id)}))
        self.pad_id = int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else end)

    def prompt(self, observation: str, tools: Sequence[Mapping[str, Any]]) -> list[int]:
        messages = [
            {"role": "system", "content": system_prompt(tools, self.call_syntax)},
            {"role": "user", "content": CONTENT},
        ]
        before, after = self._render(messages, True).rsplit(CONTENT, 1)
        return self._special(before) + self._plain(observation) + self._special(after)

    def reply(self, observation: str, from_user: bool) -> list[int]:
        before, after = self._replies[from_user]
        return before + self._plain(observation) + after

    def action(self, text: str) -> list[int]:
        return [*self._plain(text), self.end_ids[0]]

    def text(self, ids: Sequence[int]) -> str:
        kept = ids[:-1] if ids and ids[-1] in self.end_ids else ids
        return str(self.tokenizer.decode(kept, skip_special_tokens=False))

    def _render(self, messages: list[dict[str, str]], generation_prompt: bool) -> str:
        return str(
            self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generation_prompt)
        )

    def _special(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _plain(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])

    def _special_ids(self) -> set[int]:
        return set(self.tokenizer.all_special_ids) | set(self.tokenizer.get_added_vocab().values())


def in_syntax(chat: ChatFormat, call_syntax: str) -> ChatFormat:
    """The same model's format where calls are written otherwise. A tiny policy has one format only."""
    return TemplateChat(chat.tokenizer, call_syntax) if isinstance(chat, TemplateChat) else chat


def system_prompt(tools: Sequence[Mapping[str, Any]], call_syntax: str) -> str:
    """What a pretrained model is told: its role, the tools, and how a call is written.

    Of programs it is told nothing more: what they may call, the environment's first observation says.
    """
    if call_syntax == "code":
        return (
            "You fulfil the user's request by writing Python programs, one at a time. Think first, in a few words; "
            "then write one program in a block that begins with ```python and ends with ```, and nothing after it. You "
            "then see what it printed, and write the next one."
        )
    if call_syntax == "json":
        how = '<tool_call>{"name": "tool_name", "arguments": {"argument": "value"}}</tool_call>'
        listing = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    else:
        how = "[tool_name(argument='value')]"
        listing = "\n".join(signature(tool["function"]) for tool in tools)
    return (
        "You solve the user's request by calling tools. Write one or more calls and nothing else, in this form:\n"
        f"{how}\n"
        "You then see their results and may call again. When the request is fulfilled, answer in plain words without a "
        f"call.\n\nTools:\n{listing}"
    )


def signature(function: Mapping[str, Any]) -> str:
    """A schema in one line: ``mv(source: string, destination?: string)  Move a file``; ? marks optional arguments."""
    parameters = function.get("parameters", {})
    required = set(parameters.get("required", ()))
    arguments = ", ".join(
        f"{name}{'' if name in required else '?'}: {spec.get('type', 'any')}"
        for name, spec in parameters.get("properties", {}).items()
    )
    purpose = str(function.get("description", "")).split("Tool description:")[-1].strip().split(". ")[0]
    return f"{function['name']}({arguments})  {purpose}"
