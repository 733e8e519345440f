"""The numbers a phone shows when a tap fails, and what each means for this program."""

from __future__ import annotations

# Number: what happened, and what mends it.
NOT_SUBSCRIBED = (
    "Feishu has nowhere to bring the tap: the app's callback card.action.trigger is "
    "not subscribed, not set to the long connection or not published; or no server "
    "holds the app's connection",
    "feishuperm doctor names which, feishuperm install --rescan subscribes it",
)
INTERNAL = ("Feishu failed by itself", "tap again in a minute")
TEMPLATE = (
    "Feishu could not draw the card",
    "tap again; if it stays: feishuperm doctor, and tell us",
)
CODES: dict[int, tuple[str, str]] = {
    200080: INTERNAL,
    200340: NOT_SUBSCRIBED,
    200341: (
        "the server did not answer the tap within 3 seconds: it was busy, restarting, "
        "or its connection was half dead",
        "feishuperm status, then tap again: nothing was decided twice",
    ),
    200342: (
        "the app's callback is set to a web address that does not answer",
        "set it to the long connection: feishuperm doctor names the page",
    ),
    200343: (
        "the app's callback is set to a web address that does not exist",
        "set it to the long connection: feishuperm doctor names the page",
    ),
    200345: NOT_SUBSCRIBED,
    200346: NOT_SUBSCRIBED,
    200347: NOT_SUBSCRIBED,
    200530: TEMPLATE,
    200671: (
        "whoever got the tap answered with an error: often a second program on the "
        "same app",
        "feishuperm doctor counts the app's connections",
    ),
    200672: (
        "whoever got the tap gave an answer that Feishu cannot read: often a second "
        "program on the same app",
        "feishuperm doctor counts the app's connections",
    ),
    200673: (
        "the tap was taken, but Feishu could not draw the new card",
        "look into the inbox for what was decided: feishuperm status",
    ),
    200830: (
        "the tap was taken, but its card is of an older form that cannot be changed",
        "look into the inbox for what was decided: feishuperm status",
    ),
    200861: TEMPLATE,
    230099: TEMPLATE,
    300000: INTERNAL,
    108002: (
        "whoever got the tap gave an empty answer: a second program on the same app",
        "feishuperm doctor counts the app's connections",
    ),
}
