"""Names that several rooms must agree on: our programs, languages, and some tools."""

from __future__ import annotations

ARCHIVE = "feishuperm.pyz"
# What the file may be called by, and the command each name means; the bare name takes
# the command from its first argument.  `permission-notify` is the seed's.
PROGRAMS = {
    "feishuperm": "",
    "feishuperm-hook": "hook",
    "feishuperm-serve": "serve",
    "feishuperm-supervisor": "supervisor",
    "permission-notify": "hook",
}
LANGUAGES = ("zh", "en")  # in the order in which `lib.text` has them
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
