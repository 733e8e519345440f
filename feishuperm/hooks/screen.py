"""What a person sees of a headless run: tool calls, waits, refusals, the end.

It knows no agent's protocol: who drives one says what was said, called and asked.
"""

from __future__ import annotations

import json
from typing import Any, TextIO

from feishuperm.lib.display import one_line, visible
from feishuperm.lib.language import translate
from feishuperm.lib.tool import summary
from feishuperm.messages import msg
from feishuperm.models.fields import list_at, number_at, part_at, value_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.hooks.agent_run import Question

WIDTH = 100  # of a tool call; more does not fit beside a countdown


class Screen:
    """What a person sees of a run: tool calls, waits, hooks, the cost at the end.

    Progress goes to stderr, the answer to stdout.  On a terminal the line of a wait
    counts down in place; anywhere else each thing is said once, on a plain line.
    """

    def __init__(self, out: TextIO, err: TextIO, as_json: bool) -> None:
        self.out = out
        self.err = err
        self.as_json = as_json
        self.live = err.isatty()
        self.counting = ""  # the countdown now on the last line
        self.held = ""  # a text that is progress only if something follows it
        self.said_no_server = False
        self.warned: set[str] = set()  # each warning is said once
        self.hook_words: list[str] = []  # which the CLI repeats in words of its own

    def message(self, type: str, body: dict[str, Any]) -> None:
        """An assistant's words and tool calls; warnings of the CLI."""
        if type == "system" and body.get("subtype") == "informational":
            said = str(body.get("content"))
            if not any(words in said for words in self.hook_words):
                self._tell(said)
        if type != "assistant":
            return
        inside = "  " if body.get("parent_tool_use_id") else ""
        for block in list_at(body, "message", "content"):
            if value_at(block, "type") == "text":
                self.said(inside + visible(str(block.get("text"))).strip())
            elif value_at(block, "type") == "tool_use":
                self.called(block.get("name"), block.get("input"), inside)

    def said(self, text: str) -> None:
        self._flush()
        self.held = text

    def called(self, name: Any, tool_input: Any, inside: str = "") -> None:
        self._flush()
        self.line(f"{inside}* {_call(name, tool_input)}")

    def hook_output(self, output: dict[str, Any]) -> None:
        """What a hook has to say to the user."""
        for text in (output.get("systemMessage"), output.get("stopReason")):
            if text:
                self.hook_words.append(str(text))
                self.line(translate("hook: {}", visible(str(text))))
        if output.get("decision") == "block":
            reason = visible(str(output.get("reason", "")))
            self.line(translate("hook blocked: {}", reason))

    def asks(self, question: Question) -> None:
        if not self.live:
            self.line(translate("  waiting for approval: {}", _call_of(question)))

    def decided(self, question: Question, decision: dict[str, Any]) -> None:
        if decision.get("behavior") == "allow":
            self.line(translate("  allowed: {}", _call_of(question)))
        else:
            said = one_line(str(decision.get("message", "")))
            self.line(translate("  refused: {}: {}", _call_of(question), said))

    def settled(self, question: Question) -> None:
        how = translate(msg("answered elsewhere"))
        self.line(f"  {how}: {_call_of(question)}")

    def no_server(self) -> None:
        if not self.said_no_server:
            self.said_no_server = True
            self.warn(msg("no server is running, every request is refused"))
            self.line(translate("hint: {}", "feishuperm serve"))

    def tick(self, waiting: list[Question], now: float) -> None:
        """Count down, on a terminal."""
        if not self.live or not waiting:
            return
        first = min(waiting, key=lambda question: question.wait.deadline)
        more = msg(" (and {} more)", len(waiting) - 1) if len(waiting) > 1 else ""
        seconds = max(0, int(first.wait.deadline - now))
        call = f"{_call_of(first)}{translate(more)}"
        text = translate("  waiting for approval: {}: {} s", call, seconds)
        if text != self.counting:
            self._progress(f"\r\x1b[K{text}")
            self.counting = text

    def warn(self, text: str) -> None:
        """A sentence of feishuperm, translated."""
        self._tell(translate(text))

    def _tell(self, text: str) -> None:
        if text not in self.warned:
            self.warned.add(text)
            self.line("feishuperm: " + visible(text))

    def result(self, result: dict[str, Any], refusals: int) -> None:
        """The answer on stdout, what it took on stderr."""
        answer = result.get("result")
        if self.as_json:
            print(json.dumps(result, ensure_ascii=False), file=self.out, flush=True)
        elif isinstance(answer, str):
            self.clear()
            print(visible(answer), file=self.out, flush=True)
        else:
            self._flush()
        for error in list_at(result, "errors"):
            if not str(error).startswith("[ede_diagnostic]"):  # the CLI's own notes
                self._tell(one_line(str(error)))
        seconds = f"{number_at(result, 'duration_ms') / 1000:.1f}"
        done = msg("done in {} s", seconds)
        parts = [msg("failed in {} s", seconds) if result.get("is_error") else done]
        if "num_turns" in result:  # an agent may not say
            parts.append(msg("{:.0f} turns", number_at(result, "num_turns")))
            parts.append(f"${number_at(result, 'total_cost_usd'):.4f}")
        if refusals:
            parts.append(msg("{} refused", refusals))
        self.line("feishuperm: " + ", ".join(map(translate, parts)))

    def line(self, text: str) -> None:
        self.clear()
        self._progress(text + "\n")

    def _progress(self, text: str) -> None:
        """Nobody may be reading it any more; the session goes on."""
        try:
            self.err.write(text)
            self.err.flush()
        except (OSError, ValueError):
            self.live = False

    def _flush(self) -> None:
        if self.held:
            self.line(self.held)
            self.held = ""

    def clear(self) -> None:
        """Take the countdown from the last line."""
        if self.counting:
            self._progress("\r\x1b[K")
            self.counting = ""


def _call_of(question: Question) -> str:
    return _call(question.tool_name, question.tool_input)


def _call(name: Any, tool_input: Any) -> str:
    """One line that tells a tool call apart from others."""
    command = value_at(tool_input, "command")
    if isinstance(command, str):
        return one_line(f"{name}: {command}", WIDTH)
    return one_line(summary(str(name), part_at(tool_input)), WIDTH)
