"""`install --ask-list`: what Claude Code shall ask about though it is in auto mode.

Interactive sessions start in auto mode, in which Claude Code judges most calls itself
and asks about few.  A rule under `permissions.ask` is asked about in every mode but
`dontAsk` and `bypassPermissions`, and so reaches the phone; it also wins over a rule
that allows the same.  Here is a short list for what people want to see, and how it gets
into a settings text and out again.

The rules look at the words of a command, no more: `bash -c 'git push'` is no push to
them.  tests/e2e/test_ask_list.py says which calls reach our hook and which do not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from feishuperm.lib import settings_editor as editor
from feishuperm.lib.terminal import ask, say, show
from feishuperm.lib.tongue import translate

ASK: editor.Path = ("permissions", "ask")
# Why, and the rules for it.
LIST: dict[str, tuple[str, ...]] = {
    "push": ("Bash(git push *)", "Bash(git -C * push *)"),
    "publish": (
        *("Bash(npm publish *)", "Bash(pnpm publish *)", "Bash(cargo publish *)"),
        *("Bash(twine upload *)", "Bash(docker push *)", "Bash(gh release *)"),
    ),
    "deploy": (
        *("Bash(*deploy*)", "Bash(kubectl apply *)", "Bash(kubectl delete *)"),
        *("Bash(helm *)", "Bash(terraform apply *)", "Bash(terraform destroy *)"),
    ),
    "production": ("Bash(*production*)", "Bash(ssh *)"),
    "money": ("Bash(stripe *)", "Bash(*payout*)", "Bash(*refund*)"),
    "delete outside the project": (
        *("Bash(rm /*)", "Bash(rm * /*)", "Bash(rm ~*)", "Bash(rm * ~*)"),
        *("Bash(rm ../*)", "Bash(rm * ../*)", "Bash(rm *$HOME*)"),
    ),
    "credentials": (
        *("Read(~/.ssh/**)", "Read(~/.aws/**)", "Read(**/.env)"),
        *("Bash(*.ssh/*)", "Bash(*.aws/*)", "Bash(* .env*)"),
    ),
}
RULES = tuple(rule for rules in LIST.values() for rule in rules)


def listing() -> str:
    """The list as a person reads it, rule by rule."""
    rows = ("\n    ".join((f"  {translate(why)}:", *LIST[why])) for why in LIST)
    return "\n".join(rows)


def ask_list() -> bool:
    """Offer the list; Enter takes it."""
    say(
        "In auto mode Claude Code asks about little, so few cards come. It can always\n"
        "ask about these:"
    )
    show(listing())
    return ask("Add these rules? [Y/n] ") not in ("n", "no")


def rules_of(text: str) -> list[str]:
    """The rules under `permissions.ask` in a settings text; none if unreadable."""
    try:
        rules = editor.get_value(text, ASK)
    except editor.SettingsError:
        return []
    items = rules if isinstance(rules, list) else []
    return [rule for rule in items if isinstance(rule, str)]


def missing_rules(text: str, rules: Sequence[str]) -> list[str]:
    """Those that are not there yet."""
    present = rules_of(text) if rules else []
    return [rule for rule in rules if rule not in present]


def put_rules(text: str, rules: Sequence[str]) -> str:
    """The text with these rules at the end of the list. Raises SettingsError."""
    missing = missing_rules(text, rules)
    if missing and editor.get_value(text, ASK) is editor.MISSING:
        return editor.set_value(text, ASK, missing)
    for rule in missing:
        text = editor.add_item(text, ASK, rule)
    return text


def drop_rules(text: str, rules: Collection[str], original: str = "") -> str:
    """The text without these rules, and without what is empty for it."""
    value = editor.get_value(text, ASK) if rules else None
    items = value if isinstance(value, list) else []
    for place in reversed(range(len(items))):
        if items[place] in rules:
            text = editor.cut(text, (*ASK, place))
    return editor.prune(text, ASK, original) if items else text
