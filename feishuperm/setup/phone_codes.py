"""The numbers a phone shows when a tap fails, and the sentences that explain them."""

from __future__ import annotations

# Number: the key of what happened; its cure has the same name and `_cure`.
CODES = {
    108002: "phone.foreign",
    200080: "phone.internal",
    200340: "phone.unsubscribed",
    200341: "phone.slow",
    200342: "phone.web",
    200343: "phone.web",
    200345: "phone.unsubscribed",
    200346: "phone.unsubscribed",
    200347: "phone.unsubscribed",
    200530: "phone.card",
    200671: "phone.foreign",
    200672: "phone.foreign",
    200673: "phone.redraw",
    200830: "phone.redraw",
    200861: "phone.card",
    230099: "phone.card",
    300000: "phone.internal",
}
