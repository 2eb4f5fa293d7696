"""A conversation as HTML and as text: what was asked, what the agent did, how it ended."""

from __future__ import annotations

from typing import Any

from coevolve_lab.policy.conversation import Conversation
from coevolve_lab.records import Task
from coevolve_lab.widgets import markup, replay

NO_SCORE = "no score: a free query has no solution"


def status_html(conversation: Conversation | None, note: str = "") -> str:
    """One line: what goes on (``note``), or how the conversation ended, with its score."""
    if note:
        return markup.tag(note)
    if conversation is None:
        return markup.muted("nothing was asked yet; play lets the agent act")
    if not conversation.done:
        return f"{markup.tag('waiting')} {len(conversation.steps)} actions so far"
    score = conversation.score()
    shown = markup.muted(NO_SCORE) if score is None else markup.tag(f"score {score:.2f}", score >= 1)
    status = str(conversation.status)
    parts = [markup.tag(status, None if status == "completed" else False), shown, markup.text(conversation.detail)]
    if score is not None and len(conversation.task.turns) > len(conversation.asked.turns):
        parts.append(markup.muted("of the task; what was said after it is not scored"))
    return " ".join(part for part in parts if part)


def conversation_html(conversation: Conversation, tokenizer: Any = None) -> str:
    """The conversation turn by turn. With a tokenizer, the sampled tokens and their log-probabilities too."""
    how = "greedy" if conversation.temperature == 0 else f"temperature {conversation.temperature:g}"
    if conversation.temperature > 0:
        how += f", draw {conversation.seed}"
    head = f"<h4>Policy version {conversation.policy_version}</h4>{markup.muted(f'{how}; {_name(conversation.asked)}')}"
    shown = conversation.steps[-replay.MOST_STEPS :]
    left_out = len(conversation.steps) - len(shown)
    body = [markup.muted(f"{left_out} earlier actions are not shown")] if left_out else []
    turn = shown[0].turn - 1 if left_out else -1
    for index, step in enumerate(shown, left_out):
        while turn < step.turn:
            turn += 1
            body.append(_user(conversation.task, turn))
        ends_turn = index + 1 < len(conversation.steps) and conversation.steps[index + 1].turn > step.turn
        heard = "" if ends_turn or conversation.turn > step.turn else step.observation  # the user's words come below
        row = {"index": index, "action": step.action, "tools": step.tools, "failed": step.failed, "observation": heard}
        body.append(replay.step_html(row))
        if tokenizer is not None:
            row = {"token_ids": step.token_ids, "logprobs": step.logprobs}
            body.append(replay.tokens_html(row, lambda one: str(tokenizer.decode([one], skip_special_tokens=False))))
    while turn < conversation.turn:
        turn += 1
        body.append(_user(conversation.task, turn))
    return head + "".join(body)


def task_html(task: Task) -> str:
    """What will be asked."""
    return f"<h4>To be asked</h4>{markup.muted(_name(task))}{_user(task, 0)}"


def conversation_text(conversation: Conversation) -> str:
    """The conversation for a terminal."""
    lines, turn = [f"policy version {conversation.policy_version}, {_name(conversation.asked)}"], -1
    for step in conversation.steps:
        while turn < step.turn:
            turn += 1
            lines.append(f"user: {_said(conversation.task, turn)}")
        lines.append(f"agent: {step.action}{' (failed)' if step.failed else ''}")
        if step.observation and step.tools:
            lines.append(f"  -> {step.observation}")
    while turn < conversation.turn:
        turn += 1
        lines.append(f"user: {_said(conversation.task, turn)}")
    if conversation.done:
        score = conversation.score()
        lines.append(f"{conversation.status}, {NO_SCORE if score is None else f'score {score:.2f}'}")
    return "\n".join(line[: markup.MOST_CHARACTERS] for line in lines)


def _name(task: Task) -> str:
    return task.id if task.split == "free" else f"task {task.id}"


def _user(task: Task, turn: int) -> str:
    return f'<div class="card"><b>User</b> {markup.block(_said(task, turn))}</div>'


def _said(task: Task, turn: int) -> str:
    return task.turns[turn] if turn < len(task.turns) else ""
