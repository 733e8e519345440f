"""Scenes of the app: cards in every state, toasts, chat, and how the hooks end."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any

from tests.conftest import wait_until
from tests.fakes.feishu_app import STRANGER
from tests.golden.events import CASES, NOTICES, OTHERS
from tests.golden.record import WIDTH, Record, normalise
from tests.golden.stage import Asked, Stage

CARDS, HOOKS, CHAT = "app_cards.json", "hook_output.json", "app_chat.json"
# Buttons by what they do: (situation, button, what was filled in).
TAPS: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("Bash plain", "allow", None),
    ("Bash plain", "always", None),
    ("Bash plain", "deny", None),
    ("Bash plain", "interrupt", None),
    ("Bash plain", "edit", {"command": "npm run build \\\n  --if-present "}),
    ("Bash plain", "minutes", None),
    ("Bash suggested rule", "session", None),
    ("Bash secret", "allow", None),
    ("Bash danger", "deny", {"reason": "先备份 [x](y)"}),
    ("Edit of a file", "allow", None),
    ("ExitPlanMode", "approve", None),
    ("ExitPlanMode", "deny", {"reason": "smaller steps"}),
    ("ExitPlanMode", "interrupt", None),
    ("AskUserQuestion", "answer", {"q0": "0", "q1": ["0", "1"], "q1_other": "XL"}),
    ("question of many answers", "deny", None),
    ("denied", "allow", None),
    ("denied", "deny", None),
    ("form", "answer", {"f0": "Bob", "f1": "1", "f2": "3", "f3": "0"}),
    ("form", "deny", None),
    ("form address", "answer", None),
    ("next", "send", {"text": "继续\n跑测试"}),
    ("next", "deny", None),
)


def app(pyz: Path, language: str, record: Record) -> None:
    """Everything that happens while there is time."""
    with Stage.app(pyz, language, record) as stage:
        show_cards(stage)
        show_taps(stage)
        show_wrong_taps(stage)
        show_endings(stage)
        show_results(stage)
        show_notices(stage)
        show_chat(stage)
        stage.record.text("transcripts/app.txt", stage.run("log"))
        stage.served.stop()
        show_ledger(stage, "ledger_app.txt")


def show_cards(stage: Stage) -> None:
    for name in (*CASES, *OTHERS):
        asked = stage.ask_on_card(name)
        if name == "Write too long for a card":
            card = asked.patched()
            files = [data.decode() for data in stage.feishu.files.values()]
            said = [one for id, one in stage.feishu.replies if id == asked.message]
            stage.record.put(CARDS, f"{name}: attached", {
                "first and last line": [
                    line for file in files for line in file.splitlines()[:6] +
                    file.splitlines()[-1:]
                ],
                "replies": said,
            })  # fmt: skip
        else:
            card = asked.card()
        stage.record.put(CARDS, name, card)
        asked.drop()


def show_taps(stage: Stage) -> None:
    for name, action, form in TAPS:
        asked = stage.ask_on_card(name)
        put_tap(asked, f"{name}: {action}", action, form)
    asked = stage.ask_on_card("question of one")
    put_tap(asked, "question of one: second option", "answer:1", None)


def put_tap(
    asked: Asked, title: str, action: str, form: Any, file: str = CARDS
) -> None:
    """Tap, and record card, toast and the hook's end."""
    tap = asked.tap(action, form)
    hook = asked.end()
    hooks = HOOKS if file == CARDS else file.replace("cards", "hook_output")
    asked.stage.record.put(hooks, title, hook)
    told = {"toast": tap.toast, "card": asked.patched()}
    asked.stage.record.put(file, title, told)


def show_wrong_taps(stage: Stage) -> None:
    """What is refused is told in a toast; the card stays as it is."""
    asked = stage.ask_on_card("form")
    wrong = {
        "short name": {"f0": "B", "f1": "1"},
        "no size": {"f0": "Bob"},
        "too many": {"f0": "Bob", "f1": "1", "f2": "10"},
    }
    toasts = {name: asked.tap("answer", form).toast for name, form in wrong.items()}
    asked.drop()
    asked = stage.ask_on_card("Bash plain")
    toasts["command emptied"] = asked.tap("edit", {"command": " "}).toast
    values = [button["behaviors"][0]["value"] for button in buttons(asked)]
    act = stage.feishu.act
    toasts["stranger"] = act(
        asked.message, {"tag": "button", "value": values[0]}, STRANGER
    ).toast
    for key in ("nonce", "digest", "action"):
        bad = {"tag": "button", "value": {**values[0], key: "wrong"}}
        toasts[f"wrong {key}"] = act(asked.message, bad).toast
    asked.tap("allow")
    asked.end()
    late = act(asked.message, {"tag": "button", "value": values[2]})
    toasts["too late"] = late.toast
    asked = stage.ask_on_card("next")
    toasts["nothing to send"] = asked.tap("send", {"text": "  "}).toast
    asked.drop()
    for name, toast in toasts.items():
        stage.record.put(CHAT, f"toast: {name}", toast)


def buttons(asked: Asked) -> list[Any]:
    return asked.stage.feishu.buttons(asked.message)


def show_endings(stage: Stage) -> None:
    """Requests that no tap ends."""
    for name in ("Bash plain", "question of one", "next"):
        asked = stage.ask_on_card(name)
        asked.drop()
        stage.record.put(CARDS, f"{name}: gone", asked.patched())
    transcript = stage.transcript()
    transcript.call("I build it.", command="npm run build", description="build it")
    path = str(transcript.path)
    asked = stage.ask_on_card("Bash plain", transcript_path=path)
    stage.record.put(CARDS, "Bash plain: what was said before", asked.card())
    transcript.result("built")
    stage.record.put(HOOKS, "Bash plain: terminal", asked.end())
    stage.record.put(CARDS, "Bash plain: terminal", asked.patched())
    for name in ("Bash plain", "ExitPlanMode", "denied", "form"):
        asked = stage.ask_on_card(name)
        stage.served.control(command="release")
        stage.record.put(HOOKS, f"{name}: released", asked.end())
        stage.record.put(CARDS, f"{name}: released", asked.patched())


def show_results(stage: Stage) -> None:
    """What became of a call that was allowed."""
    results = {"ran": ("built", False), "failed": ("Exit code 3\nboom", True)}
    for name, (said, failed) in results.items():
        transcript = stage.transcript()
        transcript.call("I build it.", command="npm run build", description="build it")
        path = str(transcript.path)
        asked = stage.ask_on_card("Bash plain", transcript_path=path)
        asked.tap("allow")
        asked.end()
        settled = asked.patched()
        transcript.result(said, failed)
        wait_until(lambda asked=asked, old=settled: asked.patched() != old)
        stage.record.put(CARDS, f"Bash plain: allowed, {name}", asked.patched())


def show_notices(stage: Stage) -> None:
    for name in NOTICES:
        before = set(stage.feishu.app_messages)
        _, event = stage.event(name)
        stage.served.hook(event).communicate(timeout=60)
        fresh = wait_until(lambda old=before: set(stage.feishu.app_messages) - old)
        stage.record.put(CARDS, f"notice: {name}", stage.feishu.card(fresh.pop()))
    show_test_card(stage)


def show_test_card(stage: Stage) -> None:
    """`test-card`, tapped."""
    before = set(stage.feishu.app_messages)
    served = stage.served
    with subprocess.Popen(
        [served.pyz, "test-card"], env=served.environ, cwd=served.project,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    ) as process:  # fmt: skip
        fresh = wait_until(lambda: set(stage.feishu.app_messages) - before)
        asked = Asked(stage, "test card", process, "")
        asked.message = fresh.pop()
        stage.record.put(CARDS, "test card", asked.card())
        value = buttons(asked)[0]["behaviors"][0]["value"]
        tap = stage.feishu.act(asked.message, {"tag": "button", "value": value})
        said = process.communicate(timeout=60)[0]
    settled = {"toast": tap.toast, "card": asked.patched()}
    stage.record.put(CARDS, "test card: tapped", settled)
    text = f"$ feishuperm test-card\n{said}\n"
    stage.record.text("transcripts/app.txt", text)


# The chat.


def show_chat(stage: Stage) -> None:
    show_card(stage, "passes", "says: passes")
    for words in ("help", "帮助", "状态", "undo", "静音 30m", "mute 1h", "on", "恢复",
                  "hello", "通行证 撤销 全部"):  # fmt: skip
        say(stage, words)
    asked = stage.ask_on_card("Bash plain", tool_input={"command": "make release"})
    say(stage, "status")
    say(stage, "好", title="yes, to nothing")
    say(stage, "what is this", asked.message, "unclear reply")
    say(stage, "always", asked.message, "always, said once")
    say(stage, "always", asked.message, "always, said twice")
    stage.record.put(HOOKS, "Bash plain: always, in words", asked.end())
    wait_until(lambda: "make release" in json.dumps(asked.card()))
    say(stage, "undo", title="undo a rule")
    rule = "Bash(make release) · "
    stage.record.put(CARDS, "Bash plain: always, undone", asked.patched(rule))
    say(stage, "ok", "om_long_ago", "reply to what is over")
    asked = stage.ask_on_card("Bash plain")
    say(stage, "拒绝 太危险", asked.message, "deny with a reason")
    stage.record.put(HOOKS, "Bash plain: denied in words", asked.end())
    stage.record.put(CARDS, "Bash plain: denied in words", asked.patched())
    show_passes(stage)


def say(
    stage: Stage, words: str, parent: str = "", title: str = "", file: str = CHAT
) -> Any:
    """Write to the bot; what it answers."""
    before = len(stage.feishu.replies)
    stage.feishu.say(words, parent)
    wait_until(lambda: len(stage.feishu.replies) > before)
    reply = stage.feishu.replies[before][1]
    content = json.loads(normalise(reply["content"]))
    stage.record.put(file, title or f"says: {words}", content)
    return content


def show_card(stage: Stage, words: str, title: str) -> str:
    """Write to the bot; the message that it answers with."""
    before = set(stage.feishu.app_messages)
    stage.feishu.say(words)
    fresh = wait_until(lambda: set(stage.feishu.app_messages) - before)
    message: str = fresh.pop()
    stage.record.put(CHAT, title, stage.feishu.card(message))
    return message


def show_passes(stage: Stage) -> None:
    asked = stage.ask_on_card("Bash plain")
    asked.tap("minutes")
    asked.end()
    again = stage.served.hook(stage_event_again(stage))
    out, _ = again.communicate(timeout=60)
    stage.record.put(HOOKS, "Bash plain: let through by a pass", json.loads(out))
    message = show_card(stage, "passes", "passes: one")
    revoke = stage.feishu.buttons(message, of_panels=True)[0]
    value = revoke["behaviors"][0]["value"]
    tap = stage.feishu.act(message, {"tag": "button", "value": value})
    stage.record.put(CHAT, "passes: revoked", {"toast": tap.toast, "card": tap.card})


def stage_event_again(stage: Stage) -> Any:
    """The newest event once more, in the same session."""
    stage.sessions -= 1
    return stage.event("Bash plain")[1]


def show_ledger(stage: Stage, file: str) -> None:
    for entry in stage.served.ledger():
        entry.pop("base", None)  # says how far a check came, which time decides
        line = normalise(json.dumps(entry, ensure_ascii=False, sort_keys=True))
        stage.record.text(file, textwrap.fill(line, WIDTH, subsequent_indent="  "))
