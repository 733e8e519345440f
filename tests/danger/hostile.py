"""Commands that no person writes: random ones, and those that break readers."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.danger.corpus import call, cases

MEGABYTE = 1 << 20
PIECES = (
    *(
        "a",
        " ",
        "a ",
        ";",
        "'",
        '"',
        "\\",
        "$",
        "(",
        ")",
        "$(",
        "`",
        "\\`",
        "<",
        "<<a ",
    ),
    *(
        "\n",
        "a|",
        "\0",
        "{a,",
        "{a,b}",
        "../",
        "/",
        "@a",
        "'\\'",
        "/*",
        "${a:-",
        "$((",
        "#",
    ),
    *("bash -c ", "xargs ", "sudo ", "eval ", "X=$X$X$X;", "case x in ", "find -exec "),
    *(
        "iex ",
        "rm a ",
        "*",
        "http://",
        "arm ",
        "https://a/",
        "\t",
        "你",
        "\ud800",
        "a=b ",
    ),
    *(
        '"$(',
        "&&",
        "[[ ",
        "<(",
        "delete from a ",
        'open("a", ',
        'run("',
        "\\x41",
        "-c ",
    ),
    *("a*;", "./a;", "git clone a/b;./b/c;", "rmtree ", "copy(a, ", "s/a/b/e;"),
)
HEADS = (
    *(
        "",
        "echo ",
        "rm -rf ",
        "curl ",
        'psql -c "',
        "python3 -c '",
        "python3 <<E\n",
        "awk '",
    ),
    *(
        "pwsh -c '",
        "cat <<E\n",
        "for i in ",
        "scp ",
        "git ",
        "sed '",
        "gcloud ",
        "$'",
        "cmd /c ",
        "echo './a;./a' >a;",
    ),
)
TEXT = """\
rm -rf ~ / sudo bash -c eval $( ) ` ' " ; && | > >> < << EOF { } $X ${X:- curl sh . -
https://a.b git push --force npm publish find -exec {} \\; xargs psql DROP TABLE python3
import os; echo a=b export cd .. (( [[ case in for do done esac # <( {a,b} $'\\x72m' \\
"""
WORDS = (*TEXT.split(), "\n", "\0", "\x01", "\u202e", "\ud800")


def random_command(rng: random.Random) -> str:
    """Words of a shell in any order, or a good command with something done to it."""
    if rng.random() < 0.5:
        blank = rng.choice(("", " ", " "))
        return blank.join(rng.choice(WORDS) for _ in range(rng.randrange(1, 60)))
    text = str(call(rng.choice(COMMANDS))[1]["command"])
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(WORDS) + text[at + rng.randrange(3) :]
    return text


def hostile(size: int = MEGABYTE) -> Iterator[str]:
    """One piece over and over, behind every beginning."""
    for head in HEADS:
        for piece in PIECES:
            yield (head + piece * (size // len(piece)))[:size]


USES = (
    *("echo $X", 'echo "$X"', 'bash -c "$X"', 'python3 -c "$X"', 'node -e "$X"'),
    *('psql -c "$X"', 'sed "$X" a', 'awk "$X" a', 'pwsh -c "$X"', 'curl -d "$X" a'),
    *('printf "$X" a', 'rm "$X"', 'eval "$X"', 'git -c a="$X" b', '"$X"', "$X"),
    *('bash <<< "$X"', 'echo "$X" > a', 'echo "$X" >> a', 'xargs <<< "$X" rm'),
    *('find "$X" -delete', 'cmd /c "$X"', 'make -f - <<< "$X"', 'set -- $X; "$@"'),
)


def again(size: int = 60_000, uses: int = 300) -> Iterator[str]:
    """A long text, and one command over and over that is given it."""
    for use in USES:
        for piece in ("a", "a ", "./a;", "rm a ", "a\n", "/*", "a="):
            yield f"X='{piece * (size // len(piece))}';" + f"{use};" * uses


COMMANDS = [case.line for case in cases() if not case.line.startswith("@")]
