"""Letters that look like others: `gіthub.com` is not `github.com`.

A name in one script is nobody's trick: Chinese hosts, Russian file names and words with
accents stay as they are.  What is told are letters of another script among plain ones,
names made of nothing but such letters, and letters in another form (`ｇ`, `𝗀`).
"""

from __future__ import annotations

import re
import unicodedata

_LABEL = re.compile(r"[^\W_]+")
# Alphabets with letters that look like Latin ones, and the small ones that do.
_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
_ALIKE = frozenset("асеорхуіјѕһԁԛԝӏґкмтвнгԍαοινρτυχκηωѵϲϳօսոզցհ")
_CODED = "xn--"
MOST = 300  # characters of a name that are looked at
SHOWN = 3  # letters that are named


def odd_letters(name: str) -> str:
    """The name with the letters in it that look like others; empty if it has none."""
    name = name[:MOST]
    if name.isascii() and _CODED not in name.lower():
        return ""
    name = ".".join(map(_decoded, name.split(".")))
    odd = [letter for label in _LABEL.findall(name) for letter in _odd_in(label)]
    told = ", ".join(f"{c} U+{ord(c):04X}" for c in dict.fromkeys(odd[:SHOWN]))
    return f"{name} ({told})" if told else ""


def _odd_in(label: str) -> list[str]:
    others = [c for c in label if not c.isascii() and c.isalpha()]
    forms = [c for c in others if unicodedata.normalize("NFKC", c).isascii()]
    foreign = [c for c in others if unicodedata.name(c, "").startswith(_SCRIPTS)]
    is_mixed = any(c.isascii() and c.isalpha() for c in label)
    is_alike = bool(foreign) and all(c.lower() in _ALIKE for c in others)
    return forms + (foreign if is_mixed or is_alike else [])


def _decoded(label: str) -> str:
    """A part of a host name as a browser shows it."""
    if not label.lower().startswith(_CODED):
        return label
    try:
        return label[len(_CODED) :].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return label
