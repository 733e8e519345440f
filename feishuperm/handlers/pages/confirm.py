"""What a button link opens where a link must not decide by itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from feishuperm.handlers.pages.layout import frame, say, shown
from feishuperm.handlers.pages.pieces import Values, blocks, buttons, clock, head, sheet
from feishuperm.lib.text import text
from feishuperm.models.ask import Ask, Offer


def confirm_page(
    ask: Ask,
    offer: Offer,
    link: str,
    seconds_left: float,
    values: Values | None = None,
    events: str = "",
) -> Iterator[bytes]:
    """The request and the one button asked for, with the words one has to agree to."""
    title = text(ask.language, "page.confirm")
    words = f'<p class="note"><strong>{shown(offer.confirm)}</strong></p>'
    if offer.confirm:
        link += "&confirmed=1"
    top = (
        head(ask, title, clock(ask, seconds_left)),
        f'<p class="note">{say(ask.language, "page.confirm_hint")}</p>',
        *((words,) if offer.confirm else ()),
    )
    below = (buttons(ask, {offer.name: link}, (offer,), values),)
    body = chain(top, blocks(ask), below)
    return frame(ask.language, title, sheet(ask, body, events))
