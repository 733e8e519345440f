"""Every sentence a person can read in a card, a page or a hook message.

One row per sentence: key, Chinese, English.  `{name}` is filled in by `text()`.  What a
terminal or a log shows is English and stays where it is printed.
"""

from __future__ import annotations

TEXTS: dict[str, tuple[str, str]] = {
    # What the model is told.
    "message.deny": ("用户通过飞书拒绝", "Denied by the user in Feishu"),
    "message.deny_reason": (
        "用户通过飞书拒绝：{reason}",
        "Denied by the user in Feishu: {reason}",
    ),
    "message.interrupt": (
        "用户通过飞书拒绝并中断",
        "Denied and interrupted by the user in Feishu",
    ),
    "message.expired": (
        "权限请求超时，自动拒绝",
        "Permission request timed out, denied automatically",
    ),
    # Buttons.
    "button.allow": ("批准运行", "Allow"),
    "button.always": ("始终允许", "Always allow"),
    "button.deny": ("拒绝运行", "Deny"),
    "button.interrupt": ("拒绝并中断", "Deny and interrupt"),
    # What a button did.
    "done.allow": ("已批准运行", "Allowed"),
    "done.always": ("已始终允许", "Always allowed"),
    "done.deny": ("已拒绝运行", "Denied"),
    "done.interrupt": ("已拒绝并中断", "Denied and interrupted"),
    # Cards.
    # Pages.
}

LANGUAGES = ("zh", "en")


def text(language: str, key: str, **values: object) -> str:
    """The sentence `key` in a language, its blanks filled in."""
    sentence = TEXTS[key][LANGUAGES.index(language)]
    return sentence.format(**values) if values else sentence
