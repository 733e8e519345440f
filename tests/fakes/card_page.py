"""A card as a web page: an illustration of the JSON we send, not Feishu's own drawing.

Only the elements our cards use are known; any other tag fails, so that the picture in
the README cannot silently leave something out.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

STYLE = """
body { margin: 0; background: #f0f1f3; color: #1f2329;
  font: 15px/1.6 -apple-system, "PingFang SC", "Noto Sans CJK SC", sans-serif; }
main { padding: 16px; background: #f0f1f3; }
main > p { margin-bottom: 0; }
.card { background: #fff; border-radius: 10px; overflow: hidden; max-width: 520px;
  border: 1px solid #dee0e3; }
header { padding: 12px 14px; }
header b { display: block; font-size: 16px; }
header small { color: #646a73; font-size: 13px; }
.orange { background: #feead2; color: #a44904; } .yellow { background: #faf1d1; }
.blue { background: #e1eaff; color: #1c4cba; } .indigo { background: #e0e2fa; }
header.green { background: #d9f5d6; color: #186010; }
header.red { background: #fde2e2; color: #9a1f19; }
header.grey { background: #e9eaec; color: #3b4048; font-size: inherit; }
.body { padding: 12px 14px 16px; display: grid; gap: 9px; }
.columns { display: flex; gap: 9px; }
.column { display: grid; gap: 4px; align-content: start; min-width: 0; flex-basis: 0; }
.grey { color: #8f959e; font-size: 13px; }
.body .red { color: #d83931; }
form { display: grid; gap: 9px; }
label { display: block; font-size: 14px; }
.input { padding: 6px 10px; border: 1px solid #d0d3d6; border-radius: 6px; }
.lines { min-height: 3.2em; }
.input.grey { font-size: 14px; }
.select { display: flex; justify-content: space-between; }
details { border: 1px solid #dee0e3; border-radius: 6px; padding: 6px 10px; }
hr { width: 100%; border: 0; border-top: 1px solid #dee0e3; }
.text { overflow-wrap: anywhere; white-space: pre-wrap; }
pre { margin: 0; padding: 9px 11px; border-radius: 6px; background: #f5f6f7;
  font: 13px/1.55 Menlo, "Noto Sans Mono CJK SC", monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; }
button { font: inherit; padding: 6px 10px; border-radius: 6px; width: 100%;
  border: 1px solid #d0d3d6; background: #fff; }
.primary { color: #245bdb; border-color: #245bdb; }
.primary_filled { background: #245bdb; border-color: #245bdb; color: #fff; }
.danger { color: #d83931; border-color: #d83931; }
.danger_filled { background: #d83931; border-color: #d83931; color: #fff; }
"""


def card_page(card: dict[str, Any]) -> str:
    """The page. Raises KeyError for an element it does not know."""
    header = card["header"]
    subtitle = header.get("subtitle", {}).get("content", "")
    return (
        '<!doctype html><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{STYLE}</style>"
        f'<main><div class="card"><header class="{header["template"]}">'
        f"<b>{escape(header['title']['content'])}</b>"
        f"<small>{escape(subtitle)}</small></header>"
        f'<div class="body">{_all(card["body"]["elements"])}</div></div>'
        '<p class="grey">示意图，不是飞书的截图 · an illustration, not a screenshot</p>'
        "</main>"
    )


def _all(elements: list[dict[str, Any]]) -> str:
    return "".join(ELEMENTS[element["tag"]](element) for element in elements)


def _div(element: dict[str, Any]) -> str:
    look = element["text"].get("text_color", "")
    words = escape(element["text"]["content"])
    large = element["text"].get("text_size") == "heading"
    return f'<div class="text {look}">{f"<b>{words}</b>" if large else words}</div>'


def _markdown(element: dict[str, Any]) -> str:
    lines = element["content"].split("\n")
    if lines[0].startswith("```") and lines[-1].startswith("```"):
        return f"<pre>{escape(chr(10).join(lines[1:-1]))}</pre>"
    return f'<div class="text">{escape(element["content"])}</div>'


def _columns(element: dict[str, Any]) -> str:
    columns = "".join(
        f'<div class="column" style="flex-grow:{column["weight"]}">'
        f"{_all(column['elements'])}</div>"
        for column in element["columns"]
    )
    return f'<div class="columns">{columns}</div>'


def _button(element: dict[str, Any]) -> str:
    label = escape(element["text"]["content"])
    return f'<button class="{element.get("type", "")}">{label}</button>'


def _form(element: dict[str, Any]) -> str:
    return f"<form>{_all(element['elements'])}</form>"


def _input(element: dict[str, Any]) -> str:
    value = element.get("default_value", "")
    shown = value or element.get("placeholder", {}).get("content", "")
    look = "" if value else " grey"
    look += " lines" if element.get("input_type") == "multiline_text" else ""
    label = escape(element.get("label", {}).get("content", ""))
    box = f'<div class="text input{look}">{escape(shown)}</div>'
    return f"<div><label>{label}</label>{box}</div>"


def _select(element: dict[str, Any]) -> str:
    choices = [option["text"]["content"] for option in element["options"]]
    inside = f"<span>{escape(' / '.join(choices))}</span><span>▾</span>"
    return f'<div class="input grey select">{inside}</div>'


def _panel(element: dict[str, Any]) -> str:
    title = escape(element["header"]["title"]["content"])
    is_open = " open" if element.get("expanded") else ""
    inside = _all(element["elements"])
    return f"<details{is_open}><summary>{title}</summary>{inside}</details>"


ELEMENTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "button": _button,
    "collapsible_panel": _panel,
    "column_set": _columns,
    "div": _div,
    "form": _form,
    "hr": lambda element: "<hr>",
    "input": _input,
    "markdown": _markdown,
    "multi_select_static": _select,
    "select_static": _select,
}
