"""Sessions that are started and continued from the chat: 新任务, 继续.

Only with FEISHUPERM_REMOTE=on, only for owners, only in the folders of
FEISHUPERM_PROJECTS.  A command shows what would be done; the button of that card does
it, once:

    asked -> shown        a card with the folder as it really is, the text, the mode
    shown -> started      by its button, pressed by the person who asked, in ten minutes
          -> cancelled    by its other button
          -> too late     nothing happens; the card says so, and so does a second press
    started -> runs | failed     the client has answered, or did not; both are told

What a card shows is looked at again before it is done: the folder, its mode, and
whether the session has ended.  Nobody is ever spared a question this way: no mode in
which nobody is asked, no pass, no rule.  The client runs in a thread; it gets values
and returns them.  What is about to be started is on the disk before it is.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from feishuperm.errors import FeishupermError
from feishuperm.lib import claude_client as client
from feishuperm.lib.display import first_seen
from feishuperm.lib.log import log
from feishuperm.messages import message_of, msg, text
from feishuperm.models import panel as looks
from feishuperm.models.ask import NO, YES, Block, last_name
from feishuperm.models.panel import ERROR, Asker, Button, Panel, Row, Told
from feishuperm.models.settings import Settings
from feishuperm.services.ledger import START, Ledger
from feishuperm.services.sessions import Sessions, Then

SHOWN_SECONDS = 600.0  # that a card may be confirmed
HOUR, MOST_AN_HOUR = 3600.0, 20
MOST_SHOWN = 50  # cards at a time: the oldest cannot be confirmed any more
# Characters: the card has to show all of it, and Feishu takes 30 kB.
MOST_TEXT = 2000
UNSENDABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
GO, CANCEL = "go", "cancel"
USAGE = {
    "start": msg("Like this: `start PROJECT what to do`; projects: {}"),
    "continue": msg("Like this: `continue SESSION what to do`"),
}
NO_MODE = msg("Claude Code's own default (no settings file names one)")
REMOTE_OFF = msg(
    "Sessions cannot be started from here: on the computer, `feishuperm install "
    "--remote` switches it on"
)
NOT_SHOWN = msg(
    "Cards show no content here (FEISHUPERM_CARD=title), so nothing can be started by "
    "one"
)
NOT_BY_GATEWAY = msg(
    "Through a gateway nothing is started or continued: on that computer, "
    "FEISHUPERM_GATEWAY_GRANTS=on allows it"
)
OVER = msg(
    "This card has been used, is older than ten minutes, or is from before a restart: "
    "nothing was started"
)


class Plan(NamedTuple):
    """What a card would do; `mode` and `folder` as they were when it was shown."""

    id: str
    action: str  # a command: "start" or "continue"
    text: str
    folder: str = ""
    session: str = ""  # to continue
    mode: str = ""
    asker: Asker = Asker()
    made: float = 0.0


class Starts:
    """One per server; everything but the client runs on the loop."""

    COMMANDS: tuple[str, ...] = ("start", "continue")
    PANELS: tuple[str, ...] = ("start",)

    def __init__(
        self,
        settings: Settings,
        sessions: Sessions,
        ledger: Ledger,
        record: Callable[[dict[str, Any]], object],
        show: Callable[[str, Panel], object],
        in_thread: Callable[..., object] = lambda work, then: then(work()),
        clock: Callable[[], float] = time.time,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._ledger = ledger
        self._record = record  # an entry of the ledger, soon
        self._show = show
        self._in_thread = in_thread
        self._clock = clock
        self._environ = environ
        self._plans: dict[str, Plan] = {}  # shown and not used, by id
        self._at_it: set[str] = set()  # people whose start is not over
        self._times: dict[str, list[float]] = {}  # of a person's starts, this hour

    def facts(self) -> dict[str, Any]:
        """What `status` and `doctor` are told; nothing while it is off."""
        if self._settings.feishuperm_remote != "on":
            return {}
        return {
            "projects": list(self._settings.feishuperm_projects),
            "path": self._environ.get("PATH", os.defpath),
            "has_key": client.has_key(self._environ),
        }

    # What a person writes.

    def command(self, name: str, words: str, asker: Asker, then: Then) -> None:
        """Show what would be started, or say why it is not."""
        named = "".join(words.split(None, 1)[:1])
        ask = partial(self._ask, name, words.strip(), asker, then)
        try:
            self.check(asker)
        except FeishupermError as error:
            then(self._told(message_of(error)))
            return
        if name == "continue" and named and not self._sessions.find(named):
            self._sessions.refresh(ask)  # it may have ended before this server came
        else:
            ask()

    def _ask(self, name: str, words: str, asker: Asker, then: Then) -> None:
        try:
            plan = self._plan(name, words, asker)
        except FeishupermError as error:
            then(self._told(message_of(error)))
        else:
            self._in_thread(partial(self._looked_at, plan), partial(self._offer, then))

    def check(self, asker: Asker) -> None:
        """Whether this person may start, from there. Raises FeishupermError."""
        if self._settings.feishuperm_remote != "on":
            raise FeishupermError(REMOTE_OFF)
        if self._settings.titles_only():
            raise FeishupermError(NOT_SHOWN)
        self.must_be_owner(asker)

    def must_be_owner(self, asker: Asker) -> None:
        """Over the app only. Raises FeishupermError; the channel has looked as well."""
        settings = self._settings
        if "gateway" in (asker.surface, asker.channel):
            if settings.feishuperm_gateway_grants != "on" or not asker.who:
                raise FeishupermError(NOT_BY_GATEWAY)
        elif asker.channel != "app" or asker.who not in settings.app_people()[1]:
            raise FeishupermError(msg("Only an owner may do that, over the app"))

    def _plan(self, action: str, words: str, asker: Asker) -> Plan:
        """What somebody asks for. Raises FeishupermError."""
        id = f"start:{os.urandom(8).hex()}"
        plan = Plan(id, action, "", asker=asker, made=self._clock())
        projects = self._settings.feishuperm_projects
        if action == "start":
            folder, said = find_project(words, projects)
            plan = plan._replace(folder=folder)
        else:
            named, said = [*words.split(None, 1), "", ""][:2]
            plan = plan._replace(session=self._session(named))
        names = ", ".join(map(last_name, projects)) or "-"
        said = said.replace("\r\n", "\n").strip()
        return plan._replace(text=checked(said, msg(USAGE[action], names)))

    def _session(self, named: str) -> str:
        """The id of the one session that is called so. Raises FeishupermError."""
        if not named:
            raise FeishupermError(USAGE["continue"])
        found = {row.id: row for row in self._sessions.find(named)}
        if not found and client.SESSION_ID.fullmatch(named):
            return named  # of long ago: its transcript may be there
        if len(found) != 1:
            short = ", ".join(row.short for row in found.values())
            none = msg("No session is called {}: send `sessions` for a list", named)
            raise FeishupermError(msg("Which one? {}", short) if found else none)
        (row,) = found.values()
        if row.agent != "claude":
            raise FeishupermError(msg("Only sessions of Claude Code can be continued"))
        return row.id

    def _looked_at(self, plan: Plan) -> Plan | str:
        """The plan as things really are, or what is against it; in a thread."""
        try:
            return look(plan, self._settings.feishuperm_projects, self._environ)
        except (FeishupermError, OSError, ValueError) as error:
            return message_of(error)

    def _offer(self, then: Then, plan: Plan | str) -> None:
        if not isinstance(plan, Plan):
            then(self._told(plan))
            return
        self._plans[plan.id] = plan
        while len(self._plans) > MOST_SHOWN:
            del self._plans[next(iter(self._plans))]
        then(Told(panel=self._panel(plan)))

    # What a person presses.

    def press(
        self, panel: str, action: str, words: str, asker: Asker, then: Then
    ) -> None:
        """Start what the card shows, once, for the person who asked for it."""
        plan = self._plans.get(panel)
        try:
            if plan is None:
                raise FeishupermError(OVER)
            self.check(asker)
            if (asker.who, asker.channel) != (plan.asker.who, plan.asker.channel):
                raise FeishupermError(msg("Only the person who asked can start it"))
            if action == GO and self._clock() - plan.made <= SHOWN_SECONDS:
                self._must_be_free(asker.who)
        except FeishupermError as error:
            then(self._told(message_of(error)))
            return
        del self._plans[panel]  # whatever comes now: once
        if not 0 <= self._clock() - plan.made <= SHOWN_SECONDS:
            then(Told(self._say(OVER), looks.WARNING, self._end(plan, OVER)))
        elif action == GO:
            starting = msg("Starting; this card will say how it went")
            # It looks open, so that its channel goes on to change it.
            card = self._panel(plan)._replace(buttons=(), note=self._say(starting))
            then(Told(self._say(starting), looks.INFO, card))
            self.carry_out(plan, partial(self._tell, plan))
        else:
            cancelled = msg("Cancelled: nothing was started")
            then(Told(self._say(cancelled), panel=self._end(plan, cancelled)))

    def is_busy(self, who: str) -> bool:
        """Whether a start of this person is not over."""
        return who in self._at_it

    def _must_be_free(self, who: str) -> None:
        """One start at a time, and so many an hour. Raises FeishupermError."""
        if self.is_busy(who):
            raise FeishupermError(msg("Another start is not over yet: press again"))
        now = self._clock()
        times = [t for t in self._times.get(who, ()) if 0 <= now - t < HOUR]
        if len(times) >= MOST_AN_HOUR:
            raise FeishupermError(msg("{} starts in an hour: that is all", len(times)))
        self._times[who] = times

    def _tell(self, plan: Plan, session: str, problem: str) -> None:
        """The card says how it went."""
        done = msg("Session {} runs", session)
        panel = self._end(plan, problem or done)
        look = looks.OVER if problem else looks.GOOD
        self._show(plan.asker.channel, panel._replace(look=look, session=plan.session))

    # What is done.

    def resume(
        self, session: str, text: str, asker: Asker, then: Callable[[str, str], object]
    ) -> None:
        """Go on with a session that has ended, as this person had asked before.

        `then` gets its short id, or the sentence why not.
        """
        id = f"limit:{session[:8]}"
        plan = Plan(id, "continue", text, "", session, "", asker, self._clock())
        try:
            self.check(asker)
            self._must_be_free(asker.who)
        except FeishupermError as error:
            then("", message_of(error))
            return
        self.carry_out(plan, then)

    def carry_out(self, plan: Plan, then: Callable[[str, str], object]) -> None:
        """Write it down, start it, write down how it went."""
        who, entry = plan.asker.who, self._entry(plan)
        try:
            intent = self._ledger.intend({**entry, "of": START})
        except OSError as error:
            log(f"{plan.id}: the ledger cannot be written: {error}", "error")
            then("", msg("It could not be recorded, so nothing was started"))
            return
        self._at_it.add(who)
        self._times.setdefault(who, []).append(self._clock())

        def ended(result: tuple[str, str, Plan]) -> None:
            session, problem, done = result
            self._at_it.discard(who)
            end = {**self._entry(done), "event": START, "intent": intent}
            end["state"] = "failed" if problem else "started"
            end["session"] = done.session or session
            self._record({**end, "reason": str(problem)} if problem else end)
            then(session, problem)

        self._in_thread(partial(self._run, plan), ended)

    def _run(self, plan: Plan) -> tuple[str, str, Plan]:
        """The session's short id, or what is against it; in a thread."""
        now = plan
        try:
            now = look(plan, self._settings.feishuperm_projects, self._environ)
            if plan.folder and (now.folder, now.mode) != (plan.folder, plan.mode):
                raise FeishupermError(
                    msg("The folder or its mode is not as shown any more: ask again")
                )
            id = client.start(now.text, now.folder, now.session, self._environ)
            return id, "", now
        except (FeishupermError, OSError, ValueError) as error:
            return "", message_of(error), now

    def _entry(self, plan: Plan) -> dict[str, Any]:
        """What the ledger holds of it, which masks its secrets."""
        entry = {"id": plan.id, "action": plan.action, "detail": plan.text}
        entry.update(surface=plan.asker.surface, who=plan.asker.who, mode=plan.mode)
        return {**entry, "project": plan.folder, "session": plan.session}

    # What is shown.

    def _panel(self, plan: Plan) -> Panel:
        title = msg("Start a session?")
        if plan.session:
            title = msg("Continue session {}?", plan.session[:8])
        shown = {
            msg("Folder"): Block("path", "", plan.folder),
            msg("Text"): Block("code", "", plan.text),
            msg("Permission mode"): Block("text", "", plan.mode or self._say(NO_MODE)),
        }
        note = msg("It starts on this button, once, within ten minutes")
        if not client.has_key(self._environ):
            note = client.NO_KEY
        go, cancel = self._say(msg("Start it")), self._say(msg("Cancel"))
        return Panel(
            id=plan.id,
            language=self._settings.feishuperm_lang,
            title=self._say(title),
            headline=last_name(plan.folder),
            rows=tuple(
                Row(block._replace(label=self._say(name)))
                for name, block in shown.items()
            ),
            buttons=(Button(GO, go, YES), Button(CANCEL, cancel, NO)),
            note=self._say(note),
            session=plan.session,
        )

    def _end(self, plan: Plan, sentence: str) -> Panel:
        return self._panel(plan).frozen(self._say(sentence))

    def _say(self, sentence: str) -> str:
        return text(self._settings.feishuperm_lang, sentence)

    def _told(self, sentence: str) -> Told:
        """Why nothing is done; a sentence without a blank quotes nothing."""
        fixed = sentence in (REMOTE_OFF, NOT_SHOWN, NOT_BY_GATEWAY, OVER)
        return Told(self._say(sentence), ERROR, fixed=fixed)


def find_project(words: str, projects: tuple[str, ...]) -> tuple[str, str]:
    """The folder that a command begins with, and the rest. Raises FeishupermError.

    By its last name or whole path; the longest name counts, since one may have spaces.
    """
    found: dict[str, list[str]] = {}
    for folder in projects:
        for name in {folder, last_name(folder)}:
            if words.startswith(name) and (words[len(name) :] or " ")[0].isspace():
                found.setdefault(name, []).append(folder)
    if not found:
        named = " ".join(words.split(None, 1)[:1])[:100]
        names = ", ".join(map(last_name, projects)) or "-"
        raise FeishupermError(
            msg("No project is called {}: FEISHUPERM_PROJECTS has {}", named, names)
        )
    name = max(found, key=len)
    if len(found[name]) > 1:
        raise FeishupermError(msg("Which one? {}", ", ".join(found[name])))
    return found[name][0], words[len(name) :]


def checked(said: str, usage: str) -> str:
    """A text as the client may have it. Raises FeishupermError."""
    if not said:
        raise FeishupermError(usage)
    if len(said) > MOST_TEXT:
        raise FeishupermError(
            msg("The text is longer than {} characters: send less", MOST_TEXT)
        )
    # Such as /add-dir, which would widen the folder.  The client drops what nobody sees.
    if first_seen(said) == "/":
        raise FeishupermError(
            msg("A text that begins with / is a command of the client: use words")
        )
    if UNSENDABLE.search(said):
        raise FeishupermError(msg("The text holds control characters: send words"))
    return said


def look(plan: Plan, projects: tuple[str, ...], environ: Mapping[str, str]) -> Plan:
    """The plan with what is true now. Raises FeishupermError."""
    client.find(environ)
    if plan.session:
        plan = _resumed(plan, environ)
    folder = real_folder(plan.folder, projects)
    mode = client.folder_mode(folder, environ)
    return plan._replace(folder=folder, mode=plan.mode if plan.session else mode)


def _resumed(plan: Plan, environ: Mapping[str, str]) -> Plan:
    """A session that can go on: its folder, its mode. Raises FeishupermError."""
    session = plan.session
    transcript = client.transcript_of(session, environ)
    folder = client.first_folder(transcript)
    if not folder:
        raise FeishupermError(msg("Session {} has no record here", session[:8]))
    lives = client.living(environ, session)
    if lives:
        how = msg("answer its card “Claude Code is done. What next?”, or type there")
        if lives == "background":
            how = msg("answer its card, or stop it first: claude stop {}", session[:8])
        raise FeishupermError(msg("Session {} still runs: {}", session[:8], how))
    mode = client.saved_mode(session, transcript, environ)
    if not mode:
        raise FeishupermError(
            msg("The permission mode of session {} is not known", session[:8])
        )
    return plan._replace(folder=os.path.realpath(folder), mode=mode)


def real_folder(folder: str, projects: tuple[str, ...]) -> str:
    """A folder of the list, if it is what it is called. Raises FeishupermError.

    A link is none, on either side: it may lead elsewhere tomorrow.
    """
    real, named = os.path.realpath(folder), os.path.normpath(folder)
    listed = {os.path.normpath(each) for each in projects}
    problem = ""
    if named in listed and real != named:
        problem = msg(
            "{} is a link to {}: FEISHUPERM_PROJECTS must name that", named, real
        )
    elif real not in listed:
        problem = msg("{} is not in FEISHUPERM_PROJECTS", real)
    elif not os.path.isdir(real):
        exists = os.path.exists(real)
        problem = msg("{} is no folder", real) if exists else msg("{} is gone", real)
    if problem:
        raise FeishupermError(problem)
    return real
