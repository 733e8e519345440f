"""Every sentence that people read: English in the code, Chinese in one catalogue.

A sentence is written where it is used.  `text()` says it in a language at once, as
cards and pages do.  `msg()` makes a `Message`: English to the log, to JSON and to other
programs, and told in the reader's language where it is printed (`lib/language.py`).
The Chinese of both is in `locale/`, found by the English template; a sentence without
it stays English.  `python3 build.py words` brings the catalogue up to date.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from gettext import GNUTranslations
    from typing import Any

CATALOGUE = "locale/zh_CN/LC_MESSAGES/feishuperm"
ENGLISH, CHINESE = "en", "zh"
# The contexts of what no call names: what the system says, and names in our data.
SYSTEM, WORD = "system", "word"
MADE = "messages"  # the key of a reply under which they are
NONE: Mapping[str, Any] = {}
_open: list[GNUTranslations] = []  # the catalogue, once somebody needs it


class Message(str):
    """An English sentence that still knows its template and its values."""

    __slots__ = ("args", "context", "template", "values")
    template: str
    context: str
    args: tuple[Any, ...]
    values: Mapping[str, Any]

    def __new__(
        cls, template: str, context: str = "", args: Any = (), values: Any = NONE
    ) -> Message:
        filled = template.format(*args, **values) if args or values else template
        self = str.__new__(cls, filled)
        self.template, self.context = template, context
        self.args, self.values = args, values
        return self


def msg(template: str, /, *args: Any, **values: Any) -> str:
    """A sentence, its blanks filled in; what fills them may be a sentence or error."""
    if not args and not values:
        return template if isinstance(template, Message) else Message(template)
    context = template.context if isinstance(template, Message) else ""
    kept = {name: _kept(value) for name, value in values.items()}
    return Message(str(template), context, tuple(map(_kept, args)), kept)


def pmsg(context: str, template: str) -> str:
    """A sentence whose English means several things; the context says which one."""
    return Message(template, context)


def word(name: str) -> str:
    """A name that is data too (a state, a unit, a check), as people are told it."""
    return name if isinstance(name, Message) else Message(name, WORD)


def message_of(error: BaseException) -> str:
    """What an error says; of the system's, without its number and path."""
    said = error.args[0] if error.args else ""
    if isinstance(said, Message):
        return said
    return Message(getattr(error, "strerror", None) or str(error), SYSTEM)


def text(language: str, template: str, /, *args: Any, **values: Any) -> str:
    """A sentence in a language, its blanks filled in; a message has its own values."""
    found, given = _find(template, language), values
    if isinstance(template, Message) and not (args or values):
        args, given = template.args, dict(template.values)
    if not args and not given:
        return found
    for name, value in given.items():
        if isinstance(value, Message):
            given[name] = text(language, value)
    if args:
        args = tuple(text(language, v) if isinstance(v, Message) else v for v in args)
    return found.format(*args, **given)


def pack(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply for another process, and beside it how its messages are made."""
    made: dict[str, Any] = {}
    _collect(reply, made)
    return {**reply, MADE: made} if made else reply


def _collect(value: Any, made: dict[str, Any]) -> None:
    if isinstance(value, Message) and (value.args or value.values):
        made[value] = [value.template, value.args, value.values]
        _collect([*value.args, *value.values.values()], made)
    elif isinstance(value, dict):
        _collect(list(value.values()), made)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _collect(part, made)


def unpack(value: Any, made: dict[str, Any]) -> Any:
    """What was packed, its messages made again."""
    if isinstance(value, str) and value in made:
        template, args, values = made[value]
        rest = {english: row for english, row in made.items() if english != value}
        return Message(template, "", unpack(args, rest), unpack(values, rest))
    if isinstance(value, dict):
        for name, part in value.items():
            value[name] = unpack(part, made)
    elif isinstance(value, list):
        return [unpack(part, made) for part in value]
    return value


def _find(message: str, language: str) -> str:
    """The template of a message in a language."""
    template, context = str(message), ""
    if isinstance(message, Message):
        template, context = message.template, message.context
    if language == ENGLISH or not template:  # the empty one is the catalogue's head
        return template
    if language != CHINESE:
        raise ValueError(f"no sentence is told in {language!r}")
    catalogue = _open[0] if _open else _catalogue()
    found = catalogue.pgettext(context, template) if context else template
    if context not in ("", SYSTEM) or found != template:
        return found
    return catalogue.gettext(template)


def _kept(value: Any) -> Any:
    """A value that may be kept for long: of an error, only what it says."""
    if not isinstance(value, BaseException):
        return value
    if value.args and isinstance(value.args[0], Message):
        return value.args[0]
    if isinstance(value, OSError) and value.strerror and not value.filename:
        return Message("[Errno {}] {}", "", (value.errno, message_of(value)))
    return str(value)


def _catalogue() -> GNUTranslations:
    """The compiled catalogue of a built file; in the sources it is compiled here."""
    if _open:
        return _open[0]
    import gettext  # late: English needs neither
    import io

    read = __spec__.loader.get_data  # type: ignore[union-attr]
    base = __file__[: -len("messages.py")] + CATALOGUE
    try:
        data = read(base + ".mo")
    except OSError:
        from feishuperm.compiled import compile_po

        data = compile_po(read(base + ".po").decode())
    _open.append(gettext.GNUTranslations(io.BytesIO(data)))
    return _open[0]
