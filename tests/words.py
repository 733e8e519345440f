"""The catalogue of sentences, kept up to date with Babel: `python3 build.py words`.

Every sentence of the source gets an entry of the .po file; entries that nobody says any
more go.  They are sorted, and name no file, so that code which moves changes no line.
Exit code 1 if one has no Chinese yet.
"""

from __future__ import annotations

import ast
import io
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import IO

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from feishuperm.messages import CATALOGUE, SYSTEM, WORD

PACKAGE = Path(__file__).parents[1] / "feishuperm"
PO = PACKAGE / f"{CATALOGUE}.po"
# The functions that are given a sentence, and as which argument.
KEYWORDS = {
    "msg": (1,), "pmsg": ((1, "c"), 2), "text": (2,), "say": (1,), "said": (2,),
    "_say": (2,), "warn": (1,), "ask": (1,),
    "translate": (1,), "failure": (1,),
}  # fmt: skip
HEADER = """\
# Every sentence of feishuperm in Chinese.  `python3 build.py words` adds what the code
# says and removes what it says no more; the Chinese is written here by hand.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=utf-8\\n"
"""

# Tables of text that hold sentences.
TOLD = (
    *("agents/agents", "danger/sentences", "lib/feishu_codes", "lib/tools"),
    *("setup/modes", "models/form", "server/sentences"),
    *("services/refusals", "services/sentences"),
)
METHODS = ("say", "translate")  # of those also by this name
Key = tuple[str, str]  # context, English


def find_calls(
    file: IO[bytes], keywords: Iterable[str], tags: object, options: object
) -> Iterator[tuple[int, str, tuple[str | None, ...], list[str]]]:
    """Babel's own finder of Python misses calls within the arguments of others."""
    for node in ast.walk(ast.parse(file.read())):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
        if name in keywords and (isinstance(node.func, ast.Name) or name in METHODS):
            for row in product(*map(literals, node.args)):
                yield node.lineno, name, row, []


def find_blanks(
    file: IO[bytes], keywords: object, tags: object, options: object
) -> Iterator[tuple[int, str, tuple[str | None, ...], list[str]]]:
    """The sentences of a page's template: `{{=words}}`."""
    for sentence in re.findall(r"\{\{=(.+?)\}\}(?!\})", file.read().decode()):
        yield 1, "text", (None, sentence), []


def find_told(
    file: IO[bytes], keywords: object, tags: object, options: object
) -> Iterator[tuple[int, str, tuple[str | None, ...], list[str]]]:
    """The sentences of a table that is text: what stands behind ` = `."""
    for line in file.read().decode().splitlines():
        for sentence in line.split(" = ")[1:] if line[:2] != "# " else ():
            yield 1, "text", (None, sentence), []


def literals(node: ast.expr) -> tuple[str | None, ...]:
    """The texts that an argument may be."""
    if isinstance(node, ast.IfExp):
        return literals(node.body) + literals(node.orelse)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return (node.value if is_text else None,)  # type: ignore[attr-defined]


def extract() -> dict[Key, list[str]]:
    """Every sentence of the source, and the files that say it."""
    found: dict[Key, list[str]] = {}
    method = [("**.py", find_calls), ("**.html", find_blanks)]
    method += [(f"{name}.txt", find_told) for name in TOLD]
    rows = extract_from_dir(PACKAGE, method, keywords=KEYWORDS)
    for file, _, message, _, context in rows:
        places = found.setdefault((context or "", str(message)), [])
        if file not in places:
            places.append(file)
    return found


def read() -> dict[Key, str]:
    """The catalogue as Babel reads it."""
    catalogue = read_po(io.BytesIO(PO.read_bytes()), locale="zh_CN", charset="utf-8")
    return {(m.context or "", str(m.id)): str(m.string) for m in catalogue if m.id}


def write(chinese: dict[Key, str]) -> list[Key]:
    """Write the catalogue; returns the sentences that have no Chinese."""
    catalogue = Catalog(locale="zh_CN", charset="utf-8")
    sentences = extract()
    sentences.update({key: [] for key in chinese if key[0] in (SYSTEM, WORD)})
    for context, english in sorted(sentences):
        said = chinese.get((context, english), "")
        catalogue.add(english, said, context=context or None)
    data = io.BytesIO()
    write_po(data, catalogue, width=0, omit_header=True)
    PO.parent.mkdir(parents=True, exist_ok=True)
    PO.write_text(f"{HEADER}\n{data.getvalue().decode().strip()}\n", "utf-8")
    return [key for key in sentences if not chinese.get(key)]


def holes(sentence: str) -> list[str]:
    """The blanks of a sentence: each by its name, or its number and its form."""
    found = re.findall(r"\{(\w*(?:![rsa])?(?::[^{}]*)?)\}", sentence)
    return sorted(
        hole if hole[:1].isalnum() else f"{number}{hole}"
        for number, hole in enumerate(found)
    )


def has_chinese(text: str) -> bool:
    """Whether what was printed is in Chinese, and no English sentence is in it."""
    text = re.sub(r"feishuperm( [a-z-]+)*", "", text)
    left = re.search(r"(?<![\w/-])[a-z]{2,}( [a-z]{2,}){2,}|hint:|note:", text)
    assert left is None, text
    return re.search("[\u4e00-\u9fff]", text) is not None


def main() -> int:
    missing = write(read() if PO.exists() else {})
    for _, english in missing:
        print(f"words: no Chinese for {english!r}")
    print(f"words: {len(extract())} sentences, {len(missing)} without Chinese")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
