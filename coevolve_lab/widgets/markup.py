"""Records as HTML: everything that a model, an environment or a user wrote is escaped and bounded here.

The style sheet takes its colours from JupyterLab's own variables, so that views follow the light and the dark theme;
elsewhere from VS Code's, else light ones. plotly writes colours into the elements themselves, hence ``!important``; its
hover labels keep theirs, because they have a ground of their own.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

MOST_CHARACTERS = 4000  # of one text; an observation can be a whole file

STYLE = """<style>
.coevolve-view {color: var(--jp-ui-font-color1, inherit); font-size: 13px; max-width: 1180px;
  --coevolve-ink: var(--jp-ui-font-color1, var(--vscode-editor-foreground, #222));
  --coevolve-grid: var(--jp-border-color2, var(--vscode-editorWidget-border, #E6E6E6));
  --coevolve-paper: var(--jp-layout-color0, var(--vscode-editor-background, #FFF))}
.coevolve-view .js-plotly-plot .main-svg, .coevolve-view .js-plotly-plot .modebar-group {
  background: transparent !important}
.coevolve-view .js-plotly-plot :is(.bglayer, .infolayer) .bg {fill: none !important}
.coevolve-view .js-plotly-plot :is(.infolayer, [class$="tick"]) text {fill: var(--coevolve-ink) !important}
.coevolve-view .js-plotly-plot .gridlayer path {stroke: var(--coevolve-grid) !important}
.coevolve-view .js-plotly-plot path:is([class*="lines-above"], [class*="lines-below"], .ticks) {
  stroke: var(--coevolve-ink) !important}
.coevolve-view .js-plotly-plot :is(.barlayer .point, pattern) path,
.coevolve-view .js-plotly-plot .legendpoints path:not(.scatterpts) {stroke: var(--coevolve-paper) !important}
.coevolve-view .js-plotly-plot pattern circle {fill: var(--coevolve-paper) !important}
.coevolve-view .js-plotly-plot .modebar-btn:not(.modebar-btn--logo) path {
  fill: var(--coevolve-ink) !important; fill-opacity: .4}
.coevolve-view .js-plotly-plot .modebar-btn:is(:hover, .active) path {fill-opacity: 1}
.coevolve-html {line-height: 1.45}
.coevolve-html table {border-collapse: collapse; width: 100%; margin: 4px 0 8px; font-size: 13px; table-layout: auto}
.coevolve-html th {text-align: left; font-weight: 600; border-bottom: 2px solid var(--jp-border-color1, #bbb);
  white-space: nowrap}
.coevolve-html th, .coevolve-html td {padding: 3px 10px 3px 4px; vertical-align: top; text-align: left;
  overflow-wrap: anywhere}
.coevolve-html td {border-bottom: 1px solid var(--jp-border-color2, #ddd); background: transparent}
.coevolve-html td.number, .coevolve-html th.number {text-align: right; white-space: nowrap; overflow-wrap: normal}
.coevolve-html td.short {white-space: nowrap; overflow-wrap: normal}
.coevolve-html code, .coevolve-html pre {font-family: var(--jp-code-font-family, monospace); font-size: 12px;
  background: var(--jp-layout-color2, rgba(128,128,128,.12)); color: inherit; border-radius: 3px; padding: 1px 4px;
  white-space: pre-wrap; overflow-wrap: anywhere; margin: 2px 0}
.coevolve-html pre {max-height: 220px; overflow: auto; padding: 4px 6px}
.coevolve-html .muted {color: var(--jp-ui-font-color2, #777)}
.coevolve-html h4 {margin: 12px 0 4px; font-size: 14px}
.coevolve-html .card {border-left: 4px solid var(--jp-border-color2, #ccc); padding: 2px 0 2px 10px; margin: 8px 0}
.coevolve-html .card.failed {border-left-color: #D55E00}
.coevolve-html .card.good {border-left-color: #009E73}
.coevolve-html .side {display: flex; gap: 14px; align-items: flex-start; overflow-x: auto; padding: 6px}
.coevolve-html .side > div {flex: 1 1 0; min-width: 230px}
.coevolve-html .tag {border-radius: 9px; padding: 0 8px; font-size: 12px; font-weight: 600; white-space: nowrap;
  border: 1.5px solid #8C8C8C}
.coevolve-html .tag.good {border-color: #009E73} .coevolve-html .tag.bad {border-color: #D55E00}
.coevolve-html .part {outline: 2px dashed #E69F00; outline-offset: 3px}
.coevolve-html .meter {display: inline-block; width: 90px; height: 9px; border: 1px solid var(--jp-border-color1, #aaa);
  vertical-align: middle; margin-right: 6px}
.coevolve-html .meter > span {display: block; height: 100%; background: #0072B2}
.coevolve-html .token {border-radius: 2px; padding: 0 1px; margin: 0 1px; white-space: pre-wrap}
.coevolve-error {border-left: 4px solid #D55E00; padding: 4px 10px}
</style>"""


def text(value: Any, most: int = MOST_CHARACTERS) -> str:
    """``value`` as escaped text, at most ``most`` characters of it, saying how many are left out."""
    whole = "" if value is None else str(value)
    shown = html.escape(whole[:most])
    more = len(whole) - most
    return shown + (f'<span class="muted"> … {more:,} more characters</span>' if more > 0 else "")


def code(value: Any, most: int = MOST_CHARACTERS) -> str:
    return f"<code>{text(value, most)}</code>"


def block(value: Any, most: int = MOST_CHARACTERS) -> str:
    """Text with its own line breaks, in a box that scrolls when it is long."""
    return f"<pre>{text(value, most)}</pre>"


def tag(label: Any, good: bool | None = None) -> str:
    """A word in a rounded frame; never told apart by its colour alone."""
    kind = "" if good is None else " good" if good else " bad"
    return f'<span class="tag{kind}">{text(label, 80)}</span>'


def meter(share: float) -> str:
    """A share in [0, 1] as a bar with its number."""
    width = 100 * min(1.0, max(0.0, share))
    return f'<span class="meter"><span style="width:{width:.0f}%"></span></span>{share:.2f}'


def muted(value: Any) -> str:
    return f'<span class="muted">{text(value)}</span>'


def table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table of rows. Numbers are right-aligned; cells that are ``Markup`` are taken as HTML, all others escaped."""
    body, numbers = [], set()
    for row in rows:
        numbers |= {i for i, value in enumerate(row) if _kind(value) == "number"}
        cells = []
        for value in row:
            kind = _kind(value)
            cells.append(f'<td class="{kind}">{_cell(value)}</td>' if kind else f"<td>{_cell(value)}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(
        f"<th{' class=number' if i in numbers else ''}>{html.escape(name)}</th>" for i, name in enumerate(names)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


class Markup(str):
    """HTML that was made here, not text to be escaped."""


def wrap(body: str) -> str:
    """A piece of HTML with the style sheet's scope around it."""
    return f'<div class="coevolve-html">{body}</div>'


def error(failure: BaseException) -> str:
    """The text of an exception, for people."""
    return (
        f'<div class="coevolve-error"><b>{html.escape(type(failure).__name__)}</b>: '
        f"{text(failure).replace(chr(10), '<br>')}</div>"
    )


def _cell(value: Any) -> str:
    if isinstance(value, Markup):
        return str(value)
    if value is None:
        return '<span class="muted">-</span>'
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return text(" > ".join(map(str, value)), 300)
    return text(value, 300)


def _kind(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return "short" if isinstance(value, str) and not isinstance(value, Markup) and len(value) <= 24 else ""
