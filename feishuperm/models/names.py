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
# What each command does, by who runs it, in the order of `--help`.
COMMAND_GROUPS = {
    msg("Every day"): {
        "status": msg("is it running, which channels are up, what is pending"),
        "sessions": msg("what runs, waits or has ended here: sessions of the agents"),
        "log": msg("the decision ledger: show, verify, undo a rule"),
        "passes": msg("temporary approvals: list, add, revoke"),
        "run": msg("a headless Claude session with your hooks and Feishu approval"),
        "test-card": msg("send a real card and wait for the tap"),
        "demo": msg("try it without Feishu and without Claude Code"),
        "help": msg("the manual: feishuperm help TOPIC"),
        "version": msg("version, commit, Python"),
    },
    msg("Set-up"): {
        "install": msg("register hooks, service and config file"),
        "uninstall": msg("undo exactly what install did"),
        "doctor": msg("check every hop from hook to phone"),
        "restart": msg("restart the server; pending requests are kept"),
        "stop": msg("stop the server; pending requests return to the terminal"),
        "plugin": msg("the folder of a Claude Code plugin that calls feishuperm"),
        "trust": msg("look at what a project would run, and trust exactly that"),
        "join": msg("let a team's gateway carry this machine's requests"),
        "leave": msg("leave the gateway that this machine has joined"),
        "gateway": msg("one Feishu app for many machines, in the foreground"),
        "machines": msg("on a gateway: list, rename and revoke machines"),
    },
    msg("Run by other programs"): {
        "serve": msg("run the server in the foreground"),
        "hook": msg("read one hook event on stdin, print the decision"),
        "supervisor": msg(
            "reviews stops and questions (a hook); on, off and status switch it"
        ),
    },
}
COMMANDS = {
    name: summary
    for group in COMMAND_GROUPS.values()
    for name, summary in group.items()
}
# Of `help TOPIC`: pages of help/, one per language
TOPICS = (
    *("settings", "feishu", "phone", "buttons", "chat", "sessions", "agents", "hooks"),
    *("supervisor", "team", "security", "trouble"),
)
LANGUAGES = ("zh", "en")
# Commands of the chat that `services.sessions` answers.
SESSION_COMMANDS = ("sessions", "progress", "start", "continue")
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
