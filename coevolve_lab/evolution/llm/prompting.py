"""Prompts are files: ``prompts/*.md``, our own wording of what section 3 says each prompt holds.

``{name}`` in a file is filled with a value, once: what is filled in is never read as a template, so that observations
may hold braces. What many prompts share, the tools, comes first, so that endpoints can reuse it. A folder of the user's
own (``evolution.explorer.prompts``) replaces files of the same name, and a run keeps a copy of each wording it used.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from coevolve_lab.errors import ConfigError

SHIPPED = Path(__file__).parent / "prompts"
MAX_PROMPT_CHARS = 50_000  # of a user's own file
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


class Prompts:
    """The prompts of a run.

    own: a folder with files that replace shipped ones. copies: a folder in which each wording is kept on first use, as
    "<name>-<8 hex digits>.md"; None keeps none. Raises ConfigError for a folder that is missing, a file that replaces
    nothing, or a placeholder that the shipped file does not have.
    """

    def __init__(self, own: str | Path | None = None, copies: Path | None = None) -> None:
        self._texts = {**shipped(), **(_own(Path(own)) if own is not None else {})}
        self._copies = copies
        self._kept: set[str] = set()

    def fill(self, name: str, **values: object) -> str:
        """Prompt ``name`` with its placeholders filled. Raises KeyError for a prompt or a value that does not exist."""
        self._keep(name)
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), self._texts[name])

    def _keep(self, name: str) -> None:
        if self._copies is None or name in self._kept:
            return
        text = self._texts[name]
        path = self._copies / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.md"
        if not path.exists():
            self._copies.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self._kept.add(name)


@cache
def shipped() -> dict[str, str]:
    """The prompts that come with the library, by file name without ".md"."""
    return {path.stem: path.read_text(encoding="utf-8").strip() for path in sorted(SHIPPED.glob("*.md"))}


def _own(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise ConfigError(f"evolution.explorer.prompts: there is no folder {folder}")
    known, texts = shipped(), {}
    for path in sorted(folder.glob("*.md")):
        if path.stem not in known:
            raise ConfigError(
                f"evolution.explorer.prompts: {path.name} replaces no prompt; those are "
                f"{', '.join(f'{name}.md' for name in known)}"
            )
        text = path.read_text(encoding="utf-8").strip()
        if len(text) > MAX_PROMPT_CHARS:
            raise ConfigError(f"evolution.explorer.prompts: {path.name} is longer than {MAX_PROMPT_CHARS} characters")
        valid = set(_PLACEHOLDER.findall(known[path.stem]))
        if unknown := sorted(set(_PLACEHOLDER.findall(text)) - valid):
            raise ConfigError(
                f"evolution.explorer.prompts: {path.name} has the placeholder {{{unknown[0]}}}; its placeholders are "
                f"{', '.join(f'{{{name}}}' for name in sorted(valid)) or 'none'}"
            )
        texts[path.stem] = text
    return texts
