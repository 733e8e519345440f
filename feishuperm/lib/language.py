"""Which language the command line speaks.

What the settings say, if they say it; else what the locale names; else English.  Cards
and pages have the settings' own default, whatever a terminal is set to.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from feishuperm import messages
from feishuperm.lib.config import sources
from feishuperm.models.names import LANGUAGES

KEY = "FEISHUPERM_LANG"
# In the order in which a system asks them; the first that is set counts.
LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")
NO_LANGUAGE = ("", "c", "posix")


def of_locale(environ: Mapping[str, str]) -> str:
    """The language a locale names, of those we have; empty if it names none."""
    value = next((environ[name] for name in LOCALE if environ.get(name)), "")
    name = value.partition(".")[0].partition("@")[0].lower()
    if name in NO_LANGUAGE:
        return ""
    return "zh" if name.partition("_")[0] in ("zh", "chinese") else "en"


def language(environ: Mapping[str, str] = os.environ) -> str:
    """The language of the person who typed a command."""
    found = (values.get(KEY) for _, values in sources(environ, lenient=True))
    given = next(filter(None, found), "")
    return given if given in LANGUAGES else of_locale(environ) or "en"


@cache
def spoken() -> str:
    """The same for this process: decided once, though config.env may change."""
    return language() if can_show("中") else "en"


def can_show(text: str) -> bool:
    """Whether the terminal's encoding has these characters at all."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def translate(message: str, /, *args: Any, **values: Any) -> str:
    """A sentence in the language of the person at the terminal."""
    return messages.text(spoken(), message, *args, **values)


def page(name: str, ending: str = "md") -> str:
    """A page of `help/` in the same language."""
    import pkgutil  # late: most commands show none

    data = pkgutil.get_data("feishuperm", f"help/{name}.{spoken()}.{ending}") or b""
    return data.decode()


def duration(seconds: float, say: Callable[..., str] = translate) -> str:
    """A time span as short as it can be said."""
    whole = max(0, int(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {say(messages.word(unit))}"
    return f"{whole} {say(messages.word('s'))}"
