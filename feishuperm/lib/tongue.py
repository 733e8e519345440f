"""Which language the command line speaks.

What the settings say, if they say it; else what the locale names; else English.  Cards
and pages have the settings' own default, whatever a terminal is set to.
"""

from __future__ import annotations

import os

from feishuperm.errors import UsageError
from feishuperm.lib.config import config_path, read_config
from feishuperm.lib.text import LANGUAGES, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "FEISHUPERM_LANG"
# In the order in which a system asks them; the first that is set counts.
LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")
NO_LANGUAGE = ("", "c", "posix")


def of_locale(environ: Mapping[str, str]) -> str:
    """The language a locale names, of those we speak; empty if it names none."""
    value = next((environ[name] for name in LOCALE if environ.get(name)), "")
    name = value.partition(".")[0].partition("@")[0].lower()
    if name in NO_LANGUAGE:
        return ""
    return "zh" if name.partition("_")[0] in ("zh", "chinese") else "en"


def language(environ: Mapping[str, str] = os.environ) -> str:
    """What to speak to whoever typed a command."""
    try:
        given = environ.get(KEY) or read_config(config_path(environ)).get(KEY, "")
    except UsageError:
        given = ""
    return given if given in LANGUAGES else of_locale(environ) or "en"


def speak(key: str, **values: object) -> str:
    """A sentence of the command line."""
    return text(language(), key, **values)
