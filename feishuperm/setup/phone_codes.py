"""The numbers a phone shows when a tap fails: what each means, and what mends it."""

from __future__ import annotations

FOREIGN = (
    "whoever got the tap answered it wrongly: often a second program on the same app",
    "feishuperm doctor counts the app's connections",
)
INTERNAL = ("Feishu failed by itself", "tap again in a minute")
UNSUBSCRIBED = (
    "Feishu has nowhere to bring the tap: the app's callback card.action.trigger is "
    "not subscribed, not set to the long connection or not published; or no server "
    "holds the app's connection",
    "feishuperm doctor names which, feishuperm install --rescan subscribes it",
)
SLOW = (
    "the server did not answer the tap within 3 seconds: it was busy, restarting, or "
    "its connection was half dead",
    "feishuperm status, then tap again: nothing is decided twice",
)
WEB = (
    "the app's callback is set to a web address, and nobody answers there",
    "set it to the long connection: feishuperm doctor names the page",
)
CARD = (
    "Feishu could not draw the card",
    "tap again; if it stays: feishuperm doctor",
)
REDRAW = (
    "the tap was taken, but Feishu could not draw the new card",
    "look into the inbox for what was decided: feishuperm status",
)
CODES = {
    108002: FOREIGN,
    200080: INTERNAL,
    200340: UNSUBSCRIBED,
    200341: SLOW,
    200342: WEB,
    200343: WEB,
    200345: UNSUBSCRIBED,
    200346: UNSUBSCRIBED,
    200347: UNSUBSCRIBED,
    200530: CARD,
    200671: FOREIGN,
    200672: FOREIGN,
    200673: REDRAW,
    200830: REDRAW,
    200861: CARD,
    230099: CARD,
    300000: INTERNAL,
}
