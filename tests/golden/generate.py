"""Play every scene in every language, and compare with the golden files."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.golden.app import app
from tests.golden.commands import commands, served
from tests.golden.gateway import gateway
from tests.golden.pages import away, pages, share
from tests.golden.panels import panels
from tests.golden.rare import apps, attempts, burst, terminal
from tests.golden.record import Record
from tests.golden.stage import folder
from tests.golden.webhook import expired, reminded, title, webhook

GOLDEN = Path(__file__).resolve().parent
LANGUAGES = ("zh", "en")
Scene = Callable[[Path, str, Record], None]
SCENES: tuple[Scene, ...] = (
    app, pages, reminded, gateway, webhook, commands, terminal, apps, attempts, burst,
    title, expired, away, served, share, panels,
)  # fmt: skip
AT_ONCE = 3  # scenes of a language: they wait more than they work
CONTEXT, MOST_LINES = 2, 60  # of a diff


def generate(pyz: Path, languages: Sequence[str] = LANGUAGES) -> dict[str, str]:
    """Every golden file, by its path below this folder."""
    plays = [(scene, language) for scene in SCENES for language in languages]
    with folder() as place, ThreadPoolExecutor(AT_ONCE * len(languages)) as pool:
        copy = Path(shutil.copy2(pyz, place / "feishuperm.pyz"))  # some texts name it
        records = list(pool.map(lambda play: perform(copy, *play), plays))
    files: dict[str, str] = {}
    for (scene, language), record in zip(plays, records):
        for name, text in record.files().items():
            path = f"{language}/{name}"
            assert path not in files, f"{scene.__name__} writes {path} once more"
            files[path] = text
    return dict(sorted(files.items()))


def perform(pyz: Path, scene: Scene, language: str) -> Record:
    record = Record()
    scene(pyz, language, record)
    return record


def differences(
    files: dict[str, str],
    golden: Path = GOLDEN,
    languages: Sequence[str] = LANGUAGES,
) -> dict[str, str]:
    """What differs from the golden files: path to a short unified diff."""
    kept = {
        path.relative_to(golden).as_posix(): path.read_text("utf-8")
        for language in languages
        for path in (golden / language).rglob("*")
        if path.is_file()
    }
    return {
        name: short_diff(name, kept.get(name, ""), files.get(name, ""))
        for name in sorted({*kept, *files})
        if kept.get(name) != files.get(name)
    }


def short_diff(name: str, old: str, new: str) -> str:
    lines = list(
        difflib.unified_diff(
            old.splitlines(),
            new.splitlines(),
            name,
            f"{name} (now)",
            n=CONTEXT,
            lineterm="",
        )
    )
    more = len(lines) - MOST_LINES
    shown = lines[:MOST_LINES] + ([f"... {more} lines more"] if more > 0 else [])
    return "\n".join(shown)
