"""SQL and its relatives: which statements destroy data.

Statements are told apart by `;` outside of quotes and comments; the first word and the
lack of a WHERE are all that is looked at.
"""

from __future__ import annotations

import re

MAX_SQL = 30_000  # characters

_COMMENT = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_STRING = re.compile(r"'[^']*'")
_DESTROYS = re.compile(
    r"\b(?:drop\s+(?:table|database|schema|view|materialized|index|collection|user|role"
    r"|column|constraint|owned|tablespace|keyspace|function|sequence|type|trigger|policy)"
    r"|drop\s+if\s+exists"
    r"|truncate\b(?!\s*\()|detach\s+partition|purge\s+binary|reset\s+master"
    r"|grant\s+\w|revoke\s+\w|alter\s+user|alter\s+role|create\s+user|shutdown\b"
    r"|alter\s+table\s+(?:if\s+exists\s+|only\s+)*\S+\s+drop\s+(?!default|not)"
    r"|copy\s+[^;]{0,2000}\bprogram\b)",
    re.IGNORECASE,
)
_ROWS = re.compile(
    r"\b(delete\s+(?:\w+\s+)?from|update)\s+[\w.\"`\[\]]+", re.IGNORECASE
)
_WHERE = re.compile(r"\b(?:where|using|limit\s+\d{1,3})\b", re.IGNORECASE)
_EXECUTES = re.compile(r"\b(?:execute|prepare)\b", re.IGNORECASE)
_NAME = re.compile(r'"[^"\n]*"')
_ALWAYS = re.compile(
    r"\bwhere\s+\(?(?:true|1|not\s+false|([\w'.]+)\s*=\s*\1|\w+\s+is\s+not\s+null"
    r"|\w+\s*>=?\s*-?[01])\)?\s*\Z",
    re.IGNORECASE,
)
_NO_SQL = re.compile(
    r"\b(?:flushall|flushdb|dropDatabase|deleteMany\(\s*(?:\{\s*\})?\s*\)"
    r"|remove\(\s*\{\s*\}\s*\)|drop\(\s*\)|dropCollection|dropIndexes|config\s+set"
    r"|debug\s+segfault)",
    re.IGNORECASE,
)
_SHELL_OUT = re.compile(
    r"^[ \t]*(?:\\!|\.shell|\.system|system\s)[ \t]*(.+)$", re.MULTILINE
)

_READS = re.compile(r"^[ \t]*(?:\\ir?|\.read|source)[ \t]+(\S+)", re.MULTILINE)


def destroys(text: str) -> str:
    """The statement that destroys data, or nothing."""
    text = text[:MAX_SQL]
    # Dialects disagree about a backslash before a quote: then all of it counts.
    if "\\'" not in text and not _EXECUTES.search(text):
        text = _NAME.sub('"x"', _STRING.sub("''", text))
    text = _COMMENT.sub(" ", text)
    for statement in text.split(";"):
        if _is_harmful(statement.strip()):
            return " ".join(statement.split())[:400]
    return ""


def runs(text: str) -> list[str]:
    """The shell commands that a client is told to run."""
    return [match[1] for match in _SHELL_OUT.finditer(text[:MAX_SQL])][:5]


def files(text: str) -> list[str]:
    """The files of statements that a client is told to read."""
    return [match[1] for match in _READS.finditer(text[:MAX_SQL])][:5]


def _is_harmful(statement: str) -> bool:
    if _DESTROYS.search(statement) or _NO_SQL.search(statement):
        return True
    match = _ROWS.search(statement)
    if match is None or (
        match[1].lower() == "update" and " set " not in _spaced(statement)
    ):
        return False
    return not _WHERE.search(statement, match.end()) or bool(_ALWAYS.search(statement))


def _spaced(statement: str) -> str:
    return " ".join(statement.lower().split())
