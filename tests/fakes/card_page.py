"""A card as a web page: an illustration of the JSON we send, not Feishu's own drawing.

Only the elements our cards use are known; any other tag fails, so that the picture in
the README cannot silently leave something out.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

STYLE = """
body { margin: 0; padding: 16px; background: #f0f1f3; color: #1f2329;
  font: 15px/1.6 -apple-system, "PingFang SC", "Noto Sans CJK SC", sans-serif; }
.card { background: #fff; border-radius: 10px; overflow: hidden; max-width: 520px;
  border: 1px solid #dee0e3; }
header { padding: 12px 14px; }
header b { display: block; font-size: 16px; }
header small { color: #646a73; font-size: 13px; }
.orange { background: #feead2; color: #a44904; } .yellow { background: #faf1d1; }
.blue { background: #e1eaff; color: #1c4cba; } .indigo { background: #e0e2fa; }
.body { padding: 12px 14px 16px; display: grid; gap: 9px; }
.columns { display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; gap: 9px; }
.column { display: grid; gap: 4px; align-content: start; min-width: 0; }
.grey { color: #8f959e; font-size: 13px; }
hr { width: 100%; border: 0; border-top: 1px solid #dee0e3; }
div { overflow-wrap: anywhere; }
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
        f'<div class="card"><header class="{header["template"]}">'
        f"<b>{escape(header['title']['content'])}</b>"
        f"<small>{escape(subtitle)}</small></header>"
        f'<div class="body">{_all(card["body"]["elements"])}</div></div>'
        '<p class="grey">示意图，不是飞书的截图 · an illustration, not a screenshot</p>'
    )


def _all(elements: list[dict[str, Any]]) -> str:
    return "".join(ELEMENTS[element["tag"]](element) for element in elements)


def _div(element: dict[str, Any]) -> str:
    look = element["text"].get("text_color", "")
    return f'<div class="{look}">{escape(element["text"]["content"])}</div>'


def _markdown(element: dict[str, Any]) -> str:
    lines = element["content"].split("\n")
    if lines[0].startswith("```") and lines[-1].startswith("```"):
        return f"<pre>{escape(chr(10).join(lines[1:-1]))}</pre>"
    return f"<div>{escape(element['content'])}</div>"


def _columns(element: dict[str, Any]) -> str:
    columns = "".join(
        f'<div class="column">{_all(column["elements"])}</div>'
        for column in element["columns"]
    )
    return f'<div class="columns">{columns}</div>'


def _button(element: dict[str, Any]) -> str:
    label = escape(element["text"]["content"])
    return f'<button class="{element.get("type", "")}">{label}</button>'


ELEMENTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "button": _button,
    "column_set": _columns,
    "div": _div,
    "hr": lambda element: "<hr>",
    "markdown": _markdown,
}
