"""The list of passes, each with a button that ends it."""

from __future__ import annotations

from feishuperm.handlers.pages.layout import link_form, moment, say, shown
from feishuperm.lib.display import visible
from feishuperm.lib.text import text
from feishuperm.models.ask import last_name
from feishuperm.services.passes import Pass, Passes


def pass_items(language: str, passes: Passes) -> list[dict[str, str]]:
    """Every pass as the inbox shows it."""
    return [
        {
            "id": row.id,
            "what": visible(row.shown),
            "about": about(language, passes, row),
        }
        for row in passes.all()
    ]


def about(language: str, passes: Passes, row: Pass) -> str:
    """Where a pass holds, until when, and for how many calls."""
    left = passes.left(row)
    parts = (
        visible(last_name(row.project)),
        row.session[:8],
        text(language, "pass.until", until=moment(row.ends)),
        "" if left is None else text(language, "pass.left", count=left),
        row.id,
    )
    return " · ".join(filter(None, parts))


def pass_list(language: str, items: list[dict[str, str]]) -> str:
    """The section for the inbox; its script draws it anew when something changes."""
    end = say(language, "pass.revoke")
    rows = "".join(
        f'<li class="stack"><code class="rule">{shown(item["what"])}</code>'
        f'<span class="muted">{shown(item["about"])}</span>'
        f"{link_form('passes?pass=' + item['id'], end, 'plain')}</li>"
        for item in items
    )
    every = link_form("passes?pass=all", say(language, "pass.revoke_all"), "no")
    title = f'<h2 class="section">{say(language, "pass.title")}</h2>'
    return (
        f'<section id="passes"{"" if items else " hidden"}>{title}'
        f'<ul class="sheet recent" id="pass-list">{rows}</ul>{every}</section>'
    )
