"""Shell text as commands: how words are told apart, and what cannot be read."""

from __future__ import annotations

from feishuperm.shell.reader import (
    MAX_DEPTH,
    MAX_TEXT,
    Budget,
    Command,
    Part,
    Script,
    Word,
    parse,
)
from tests.tables import every_row


def shown(script: Script) -> str:
    """Commands with a `;` between pipelines and a `|` inside of them."""
    return "; ".join(" | ".join(map(_command, pipe)) for pipe in script.pipelines)


def _command(command: Command) -> str:
    words = [_word(word) for word in command.words]
    words += [f"{operator}{_word(word)}" for operator, word in command.redirects]
    words += [f"<<[{_word(command.stdin)}]"] if command.stdin else []
    words += [f"( {shown(command.body)} )"] if command.body else []
    return " ".join(["}"] * command.closes + words)


def _word(word: Word) -> str:
    return "".join(map(_part, word.parts))


def _part(part: Part) -> str:
    if part.script is not None:
        return ("<" if part.is_file else "$") + f"( {shown(part.script)} )"
    if part.kind == "variable":
        default = _word(part.default) if part.default else ""
        return f"${{{part.text}{default}}}"
    return part.text.replace(" ", "_")


@every_row(
    ("text", "commands"),
    [
        ("a  b\tc", "a b c"),
        (r"a\ b 'c d'\''e' \x", "a_b c_d'e x"),
        ('a "b $c \\" \\n"', 'a b_${c}_"_\\n'),
        (r"$'\x72\155\n\u4f60'", "rm\n你"),
        ("a\\\n b", "a b"),
        ("a;b&&c||d&e\nf", "a; b; c; d; e; f"),
        ("a|b|&c", "a | b | c"),
        ("a # b\nc", "a; c"),
        ("a#b", "a#b"),
        ("a $(b `c`) `d`", "a $( b $( c ) ) $( d )"),
        ("a <(b) >(c)", "a <( b ) <( c )"),
        ("a ${b:-c d} ${#e} $1 $", "a ${b:-c_d} ${e} ${1} $"),
        ("a >b 2>>c <d >&2 &>e", "a >b >>c <d >&2 &>e"),
        ("(a; b) | c", "( a; b ) | c"),
        ("{ a; b; } >c", "a; b; } >c"),
        ("if a; then b; else c; fi", "a; b; c; }"),
        ("for i in a b; do c; done <d", "for i in a b; c; } <d"),
        ("while a; do b; done", "a; b; }"),
        ("case $x in a|b) c;; (d) e;; esac", "c; e; }"),
        ("case x in # a\nb) (c) ;; esac; d", "( c ); }; d"),
        ("case x in\nesac; a", "}; a"),
        ("f() { a; }", "a; }"),
        ("f( ) { a; }", "a; }"),
        ("function f { a; }", "a; }"),
        ("a=(b c)", "a= b c ( b c )"),
        ("[[ a < b && c ]] && d", "[[ a b c; d"),
        ("((a = $(b))); c", "(( $( b ); c"),
        ("a $((1 + $(b)))", "a 0$( b )"),
        ("a <<< 'b c'", "a <<[b_c]"),
        ("a)b", "a; b"),
    ],
)
def test_text_is_told_apart(text: str, commands: str) -> None:
    script = parse(text, Budget())
    assert shown(script) == commands and script.unread == ""


@every_row(
    ("text", "commands"),
    [
        ("a <<E; b\n$x `c`\nE\nd", "a <<[${x}_$( c )\n]; b; d"),
        ("a <<'E'\n$x\nE\nb", "a <<[$x\n]; b"),
        ("a <<-E\n\tb\n\tE\nc", "a <<[\tb\n]; c"),
    ],
)
def test_document_stands_behind_its_line(text: str, commands: str) -> None:
    assert shown(parse(text, Budget())) == commands


@every_row(
    ("text", "unread"),
    [
        ("a; b 'c", "b 'c"),
        ('a; b "c', 'b "c'),
        ("a; b `c", "b `c"),
        ("a; b $(c", "b $(c"),
        ("a; b ${c", "b ${c"),
        ("a; b $'c", "b $'c"),
        ("a; ((b", "((b"),
        ("a; (b", "(b"),
        ("a; rm !(b|c) d", "rm !(b|c) d"),
        ("a; case b in c d) e;; esac", "case b in c d) e;; esac"),
        ("a; case b { c) d;; }", "case b { c) d;; }"),
        ("a <<E\nb\n", "b\n"),
        ("$(" * MAX_DEPTH, "$(" * MAX_DEPTH),
    ],
)
def test_what_cannot_be_followed_is_left(text: str, unread: str) -> None:
    assert parse(text, Budget()).unread.strip() == unread.strip()


def test_text_is_paid_for_and_bounded() -> None:
    budget = Budget(10)
    assert parse("a;" * 20, budget).unread and budget.left < 0
    assert parse("a" * MAX_TEXT + "b", Budget()).unread == "b"
    budget = Budget()
    parse("'" + "a " * 10_000 + "'", budget)
    assert Budget().left - budget.left < 5  # long quotes cost one


def test_word_is_plain_if_nothing_in_it_is_expanded_or_quoted() -> None:
    words = parse("a 'b' $c d'e'", Budget()).pipelines[0][0].words
    assert [word.plain() for word in words] == ["a", "", "", ""]


@every_row(
    "text",
    [
        "a |& b", "a &> b", "case x in a) b;& c) d;; esac", "f() { a; }", "a=(b)",
        "((a))", "a $((1))", "a $[1]", "a $b[1]", "a $'b'", 'a $"b"', "a <(b)",
        "function f { a; }", "(a) b", "{ a; } b", "[[ a ]] b", "[[ a && b ]]",
        "[[ a < b ]]", "[[ a\n]]", "a {b}> c", "a >& ", "a $(b # c\n)", "a; ;; b",
        "$(a <<E\nE\n)", "a <<E-F\nE-F\n", "a <<E\n$(b)\nE\n", "a <<E\n",
        'a "`b`"', "a `b \\`c\\``", "a \\", "a)", "| a", "a; && b", "for a in b & c",
    ],
)  # fmt: skip
def test_place_that_shells_read_differently_is_named(text: str) -> None:
    assert parse(text, Budget()).odd


@every_row(
    "text",
    [
        "a | b; c && d || e &", "if a; then b; fi > c", "for a in b; do c; done < d",
        "[[ a == b ]] && c", "[[ a =~ ^(b|c)$ ]]", "case a in b|c) d;; esac", "(a; b)",
        "a `b` $(c) ${d%e} \"$f\" 'g'", "a <<'E'\n$(b)\nE\n", "a 2>&1 # b", "! a",
    ],
)  # fmt: skip
def test_text_that_all_shells_read_alike_is_not_odd(text: str) -> None:
    script = parse(text, Budget())
    assert not script.odd and not script.unread


def test_oddness_of_one_text_is_not_that_of_the_next() -> None:
    budget = Budget()
    assert parse("a $((1))", budget).odd and not parse("a", budget).odd


def test_parts_tell_where_they_stand() -> None:
    text = "a 'b' $c \"${d}\" `e $f` $(g)\ncat <<E\n$h\nE\n"
    found = []

    def walk(script: Script) -> None:
        for command in (c for pipe in script.pipelines for c in pipe):
            stdin = [command.stdin] if command.stdin else []
            for part in (p for word in (*command.words, *stdin) for p in word.parts):
                if part.start >= 0:
                    found.append(text[part.start : part.end])
                if part.script:
                    walk(part.script)

    walk(parse(text, Budget()))
    assert found == ["'b'", "$c", "${d}", "`e $f`", "$f", "$(g)", "$h"]
