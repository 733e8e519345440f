"""Finds secrets inside commands and texts, and puts `***` in their place.

`mask(text)` keeps what a command is recognised by: the program, the names of its
options and variables, hosts and users.  It works on text of any kind, as it comes:
shell commands, JSON, YAML, headers, code.  It knows the shapes of common tokens, and
names that a secret usually stands behind (`API_KEY=`, `--password `, `"token":`); a
secret without shape and name it cannot know.  Where in doubt it hides: whoever may see
all of a request sees it on its page.

The time is linear, whatever the text.  Nothing is raised, and what is masked stays as
it is when it is masked again.
"""

from __future__ import annotations

HIDDEN = "***"
PASSES = 8  # until nothing changes any more; two are the rule, more are an attack
# Without one of these (in lower case) there is nothing to find.
HINTS = (
    "://", "token", "secret", "pass", "pwd", "key", "auth", "cred", "cookie", "bearer",
    "basic", "-----begin", "/hook", "sig", "akia", "asia", "eyj", "ghp_", "gho_",
    "ghu_", "ghs_", "ghr_", "github_pat_", "gl", "sk-", "sk_", "rk_", "xox", "xapp-",
    "aiza", "ya29.", "npm_", "pypi-", "hf_", "sg.", "hvs.", "_pat_", "ltai", "akid",
    "whsec_", "shp", "dop_v1_", "lin_api_", "atatt3", "密码", "口令", "密钥", "令牌",
    "1//0", ":aa", "mysql", "mariadb", "curl", "redis-cli", "7z", "zip", "ldap", "smb",
    "http", "mongo", "login", "pscp", "plink", "--user", "literal", "config:set",
    "pat", "otp", "pin", "xh", "wget", "security",
)  # fmt: skip


def mask(text: str) -> str:
    """The text without its secrets; the very same object when it has none."""
    masked, lower = text, _lower(text)
    if not any(hint in lower for hint in HINTS):
        return text
    for _ in range(PASSES):
        before, masked = masked, _once(masked, lower)
        if masked == before:
            return text if masked == text else masked
        lower = _lower(masked)
    return HIDDEN


def _once(text: str, lower: str) -> str:
    from feishuperm.lib.secret_finders import FINDERS

    spans = sorted(span for find in FINDERS for span in find(text, lower))
    parts: list[str] = []
    done = 0
    for start, end in spans:
        if start > done or not parts:
            parts += (text[done:start], HIDDEN)
        done = max(done, end)
    return "".join([*parts, text[done:]]) if spans else text


def _lower(text: str) -> str:
    """The text in lower case, every character in its place."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # A few letters become two.
    return "".join(low if len(low := c.lower()) == 1 else c for c in text)
