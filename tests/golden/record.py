"""What people see, as text that is the same at every run.

A `Record` collects it by file and situation; `normalise` puts fixed words where a run
differs from another: ids, times, ports, places, signatures, versions.
"""

from __future__ import annotations

import json
import re
from typing import Any

SESSION = "5f0c2d1e"  # the sessions of all events begin so
WIDTH = 140  # of a JSON value that stays on one line
_HEX = "[0-9a-f]"

# The first rule that fits takes the text; later rules see what is left.
RULES: tuple[tuple[str, str], ...] = (
    (r"/tmp/gold-[a-z0-9_]{8}", "/GOLD"),
    (rf"\b\d{{10}}-{_HEX}{{8}}\b", "ID"),
    (rf"(?<![0-9a-z])m-{_HEX}{{12}}\b", "MACHINE"),
    (r"(?<!\w)(localhost|127\.0\.0\.1|\[::1\]):\d+", r"\1:PORT"),
    (r"\b(port|端口) \d{4,5}\b", r"\1 PORT"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?", "TIME"),
    (r"\b\d\d-\d\d \d\d:\d\d(:\d\d)?\b", "TIME"),
    (r"\b\d\d:\d\d:\d\d\b", "HH:MM:SS"),
    (r"\b\d\d:\d\d\b(?!:)", "HH:MM"),
    (r'(?<=": )1[78]\d{8}(\.\d+)?\b', '"SECONDS"'),
    (r"\b(Set-Cookie: [\w-]+)=[^;]+", r"\1=SECRET"),
    (r"\b(sig|ticket|key)=[\w-]{16,}", r"\1=SECRET"),
    (r'"(nonce|sig|ticket|uuid|boot)": "(?!ID\b)[^"]*"', r'"\1": "NONCE"'),
    (r"sha256-[\w+/]{43}=", "sha256-HASH"),
    (rf"\b{_HEX}{{64}}\b|\b{_HEX}{{40}}\b|\b{_HEX}{{32}}\b|\b{_HEX}{{16}}\b", "HASH"),
    (rf"\b(?!{SESSION}\b){_HEX}{{8}}\b(?!-)", "HASH"),
    (r'name="(sig|ticket)" value="[\w-]+"', r'name="\1" value="SECRET"'),
    (r'data-left="[\d.]+"', 'data-left="LEFT"'),
    (r'"(pid|seconds|seconds_left|until|left)": [\d.]+', r'"\1": "NUMBER"'),
    (r"\bpython[\d.]* \(pid", "PROCESS (pid"),
    (r"\bpid \d+", "pid PID"),
    (r"\b(User: |用户：)\w+", r"\1USER"),
    (r"\bcommit [0-9a-f]{7,40}[^,\n]{0,20},", "commit COMMIT,"),
    (r'"(dirty|fast)": (true|false)', r'"\1": BOOLEAN'),
    (r"/usr/bin/python3[.\d]*", "PYTHON"),
    (r"(?m)^\S+ +(loopback|回环地址) .*\n", ""),
    (r"已 \d+ 秒", "已 N 秒"),
    (r"\bfor \d+ s\b", "for N s"),
    (r"(?<=  )\d+ (秒|s)(?=  )", "N s"),
    (r"(?<= · )\d+ (秒|s)(?= · )", "N s"),
    (r"还剩 \d+ (秒|分钟)", "还剩 N"),
    (r"\b\d+ (seconds|minutes|min|s) left", "N left"),
    (r"\b\d+\.\d (秒后?|s\b)", r"N.N \1"),
    (r"(?<![-\w.])[0-9]\.\d+\.\d+\b(?!\.)", "VERSION"),
)
_RULES = [(re.compile(pattern), word) for pattern, word in RULES]


def normalise(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, word in _RULES:
        text = pattern.sub(word, text)
    return text


def each_string(value: Any) -> Any:
    """The JSON value, each of its strings normalised."""
    if isinstance(value, str):
        return normalise(value)
    if isinstance(value, list):
        return [each_string(one) for one in value]
    if isinstance(value, dict):
        return {key: each_string(one) for key, one in value.items()}
    return value


class Record:
    """The golden files of one language: name to text."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, str] = {}

    def put(self, file: str, situation: str, value: Any) -> None:
        """One situation of a JSON file."""
        rows = self.values.setdefault(file, {})
        assert situation not in rows, f"{file}: {situation} twice"
        # Strings by themselves, as HTML has quotes; then what a key tells.
        text = json.dumps(each_string(value), ensure_ascii=False)
        rows[situation] = json.loads(normalise(text))

    def text(self, file: str, text: str) -> None:
        """A whole file, or more of it."""
        kept = self.texts.get(file, "")
        self.texts[file] = kept + normalise(text).rstrip("\n") + "\n"

    def page(self, name: str, answer: Any) -> None:
        """A page as a browser gets it, without its style and its scripts."""
        policy = answer.headers.get("Content-Security-Policy", "")
        type = answer.headers.get("Content-Type", "")
        more = [
            f"{key}: {answer.headers[key]}" for key in MORE if key in answer.headers
        ]
        head = "\n".join([f"{answer.status} {type}", *more, policy])
        body = re.sub(
            r"<(style|script)>.*?</\1>", r"<\1></\1>", answer.text, flags=re.DOTALL
        )
        body = re.sub(r">(?=<(?!/))", ">\n", body)
        self.text(f"pages/{name}.html", f"<!-- {head} -->\n{body}")

    def files(self) -> dict[str, str]:
        """Every file: name to text."""
        drawn = {name: draw(rows) + "\n" for name, rows in self.values.items()}
        return {**drawn, **self.texts}


MORE = ("Location", "Set-Cookie", "Cache-Control", "Referrer-Policy")


def draw(value: Any, indent: str = "") -> str:
    """JSON to read: what is short stays on one line."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if not value or not isinstance(value, (dict, list)):
        return line
    if indent and len(indent) + len(line) <= WIDTH:
        return line
    inner = indent + " "
    if isinstance(value, list):
        rows = [inner + draw(one, inner) for one in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    rows = [
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {draw(value[key], inner)}"
        for key in (value if not indent else sorted(value))
    ]
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
