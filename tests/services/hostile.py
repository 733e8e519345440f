"""Strings that try to become shell syntax; each that succeeds makes a file `pwned`."""

from __future__ import annotations

import itertools

_RUN = "touch pwned"
_PAYLOADS = (
    f"$({_RUN})", f"`{_RUN}`", f"; {_RUN};", f"&& {_RUN} &&", f"|| {_RUN}",
    f"| {_RUN}", f"& {_RUN} &", f"\n{_RUN}\n", f"\r\n{_RUN}\r\n", f"${{IFS}}{_RUN}",
    f"${{x:=$({_RUN})}}", f"$(({_RUN}))", f"a[$({_RUN})]", f"<({_RUN})", f">({_RUN})",
    f"{{ {_RUN}; }}", f"({_RUN})", f"!{_RUN}", f"# {_RUN}", "> pwned", ">> pwned",
    "2> pwned", "< /dev/null > pwned", f"<<EOF\n$({_RUN})\nEOF\n", f"eval {_RUN}",
)  # fmt: skip
_WRAPS = (
    "{}",
    "'{}'",
    '"{}"',
    "'; {} #",
    '"; {} #',
    "\\{}",
    "-{}",
    "a{}\nb",
    "'\"{}\"'",
)
_PLAIN = (
    *(
        "",
        " ",
        "  two  spaces  ",
        "\t",
        "\n",
        "\n\n",
        "trailing\n",
        "\\",
        "\\\\",
        "\\n",
    ),
    *(
        "'",
        '"',
        "''",
        '""',
        "'\\''",
        "$",
        "$$",
        "$?",
        "$#",
        "$0",
        "$@",
        "$*",
        "$!",
        "$-",
    ),
    *("$FILE", "${FILE}", "$COMMAND", "${COMMAND}", "$TOOL$FILE", "$PATH", "${PATH}"),
    *(
        "*",
        "?",
        "[a-z]*",
        "~",
        "~root",
        "/*",
        ".*",
        "{a,b}",
        "{1..9}",
        "!!",
        "!1",
        "^a",
    ),
    *(
        "-n",
        "-e",
        "--",
        "-rf /",
        "--help",
        "-",
        "%s",
        "%n%n",
        "%d",
        "\\033[31m",
        "\x1b[0m",
    ),
    *(
        "a\x00b",
        "\x00",
        "\x07",
        "\x7f",
        "\u202e",
        "\u2028",
        "日本語",
        "😀",
        "\ud800",
        "é",
    ),
    *(
        "a b",
        "a\tb",
        "a;b",
        "a|b",
        "a&b",
        "a<b",
        "a>b",
        "a(b",
        "a)b",
        "a#b",
        "#",
        "=",
        "a=b",
    ),
    *(
        "x" * 5000,
        "'" * 999,
        "$(" * 500,
        "`" * 501,
        "\\" * 333,
        "\n" * 100,
        "EOF",
        "esac",
    ),
    *(
        "if",
        "then",
        "fi",
        "do",
        "done",
        "function x {",
        "}",
        "{",
        "[[",
        "]]",
        "((",
        "))",
    ),
)

CORPUS = tuple(
    dict.fromkeys(
        (
            *_PLAIN,
            *(wrap.format(load) for wrap, load in itertools.product(_WRAPS, _PAYLOADS)),
        )
    )
)
