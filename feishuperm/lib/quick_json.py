"""JSON for a process that lives a moment: the standard library's C code and no more.

`import json` brings `re` and ten modules behind it, which takes longer than all that a
hook event loads of ours.  Whatever is not plain goes to `json` itself, so that results
and errors are the same; so does everything where a Python has no such C code.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

BLANKS = " \t\n\r"


class Rules:
    """What the scanner asks for; the defaults of `json.loads`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    def __init__(self, parse_constant: Callable[[str], Any]) -> None:
        self.parse_constant = parse_constant
        self.memo: dict[str, str] = {}


def loads(data: str | bytes, parse_constant: Callable[[str], Any] = float) -> Any:
    """Like `json.loads`. Raises ValueError and RecursionError."""
    try:
        from _json import make_scanner

        text = data if isinstance(data, str) else data.decode()
        start = len(text) - len(text.lstrip(BLANKS))
        scan: Any = make_scanner
        value, end = scan(Rules(parse_constant))(text, start)
        if not text[end:].strip(BLANKS):
            return value
    except (ImportError, StopIteration, ValueError, TypeError, AttributeError):
        pass
    except SystemError:  # older scanners can tell what is wrong only if json is loaded
        pass
    import json

    return json.loads(data, parse_constant=parse_constant)


def dumps(value: Any, ensure_ascii: bool = True) -> str:
    """Like `json.dumps`. Raises ValueError and TypeError."""
    try:
        from _json import encode_basestring, encode_basestring_ascii, make_encoder

        make: Any = make_encoder
        text = encode_basestring_ascii if ensure_ascii else encode_basestring
        layout = (None, ": ", ", ", False, False, True)  # no indent, no sorting, NaN
        return "".join(make({}, None, text, *layout)(value, 0))
    except (ImportError, TypeError):
        import json

        return json.dumps(value, ensure_ascii=ensure_ascii)
