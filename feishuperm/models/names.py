"""Names that several rooms must agree on: programs, commands, tools, notices."""

from __future__ import annotations

from feishuperm.messages import msg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.models.payload import HookPayload

ARCHIVE = "feishuperm.pyz"
# What the file may be called by, and the command each name means; the bare name takes
# the command from its first argument.  `permission-notify` is the seed's.
HOOK_PROGRAM, SUPERVISOR_PROGRAM = "feishuperm-hook", "feishuperm-supervisor"
PROGRAMS = {
    "feishuperm": "",
    HOOK_PROGRAM: "hook",
    "feishuperm-serve": "serve",
    SUPERVISOR_PROGRAM: "supervisor",
    "permission-notify": "hook",
}
# What each does: help/commands.*.txt, in the order of `--help`.
COMMANDS = (
    *("status", "sessions", "log", "passes", "run", "test-card", "demo", "help"),
    *("version", "install", "uninstall", "doctor", "restart", "stop", "plugin"),
    *("trust", "join", "leave", "gateway", "machines", "serve", "hook", "supervisor"),
)
# Of `help TOPIC`: pages of help/, one per language
TOPICS = (
    *("settings", "feishu", "phone", "buttons", "chat", "sessions", "agents", "hooks"),
    *("supervisor", "team", "security", "trouble"),
)
LANGUAGES = ("zh", "en")
# Commands of the chat that services answer, see `services.sessions.Panels`.
SERVED_COMMANDS = (
    *("status", "passes", "undo", "sessions", "progress", "start", "continue"),
)
PATH_KEYS = ("file_path", "notebook_path")  # where a tool's input names a file
# Tools of the client whose calls are something else than a permission.
QUESTION_TOOL = "AskUserQuestion"
PLAN_TOOL = "ExitPlanMode"
# Names for what is no tool call and yet waits for a person.
IDLE, FORM = "(idle)", "(form)"
IDLE_TYPE = "idle_prompt"  # of a Notification: nobody has typed for a minute
LAST_WORDS = "last_assistant_message"
# Tools that nobody has, so that no rule can ever match them.  The server settles the
# doctor's at once: it rings no phone, writes no rule and keeps no record.
DOCTOR_TOOL = "feishuperm-doctor"
DOCTOR_ANSWER = "the way from hook to server and back works"  # with a denial
TEST_TOOL = "feishuperm-test"
# What several rooms say of a request.
NOT_OFFERED = msg("This request offers no such action; nothing was done.")
NOT_AS_SHOWN = msg("The request is not the one that was shown; nothing was done.")
EXPIRED = msg("Permission request timed out, denied automatically")
INVALID = msg("This request is invalid or has expired")
NO_REQUEST = msg(
    "No such request: the link is incomplete, or the request ended long ago."
)
KEPT = msg("Until it is restarted, this agent asks no more in this project about:")
# Where somebody decides; what a card or a page calls it.
SURFACES = {
    "link": msg("web page"),
    "card": msg("Feishu"),
    "message": msg("Feishu"),
    "webhook": msg("Feishu"),
    "page": msg("web page"),
    "inbox": msg("inbox"),
    "terminal": msg("terminal"),
    "gateway": msg("Feishu"),
    "pass": msg("pass"),
    "control": msg("command line"),
}


class NoticeEvent:
    """A row: the kind of FEISHUPERM_NOTIFY that asks for it, and the fields that tell.

    The first field that holds text is shown; a tool's name goes before it.
    """

    def __init__(self, kind: str, *fields: str) -> None:
        self.kind = kind
        self.fields = fields

    def text(self, payload: HookPayload) -> str:
        """What the notice says."""
        values = (payload.fields.get(field) for field in self.fields)
        said = next((value for value in values if value and isinstance(value, str)), "")
        tool = payload.fields.get("tool_name")
        return f"{tool}: {said}" if isinstance(tool, str) and tool else said


# Which events make a notice.
NOTICE_EVENTS = {
    "Stop": NoticeEvent("stop", LAST_WORDS),
    "Notification": NoticeEvent("notification", "message", "title"),
    "StopFailure": NoticeEvent(
        "failure", *("error_details", LAST_WORDS, "error", "message")
    ),
    "PostToolUseFailure": NoticeEvent("failure", "error", "message"),
}
