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
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from feishuperm.channels.base import keep_last
from feishuperm.errors import FeishupermError
from feishuperm.lib import claude_client as client
from feishuperm.lib.display import first_seen
from feishuperm.lib.log import log, report
from feishuperm.lib.task import Promise, run
from feishuperm.messages import message_of, msg, text
from feishuperm.models import panel as looks
from feishuperm.models.ask import NO, YES, Block, last_name
from feishuperm.models.panel import ERROR, Asker, Button, Panel, Row, Told
from feishuperm.models.settings import Settings
from feishuperm.services.ledger import START, Ledger
from feishuperm.services.sessions import Sessions, Then

T = TypeVar("T")
SHOWN_SECONDS = 600.0  # that a card may be confirmed
HOUR, MOST_AN_HOUR = 3600.0, 20
MOST_SHOWN = 50  # cards at a time: the oldest cannot be confirmed any more
# Characters: the card has to show all of it, and Feishu takes 30 kB.
MOST_TEXT = 2000
UNSENDABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
GO, CANCEL = "go", "cancel"
FAILURES = (FeishupermError, OSError, ValueError)  # whose text people are told
USAGE = {
    "start": msg("Like this: `start PROJECT what to do`; projects: {}"),
    "continue": msg("Like this: `continue SESSION what to do`"),
}
TOO_LONG = msg("The text is longer than {} characters: send less")
NOT_STARTED = msg("Nothing was started")
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
LINK = msg("{} is a link to {}: FEISHUPERM_PROJECTS must name that")
VOID = msg(
    "This card has been used, is older than ten minutes, or is from before a restart: "
    "nothing was started"
)


class Plan(NamedTuple):
    """What a card would do; `mode` and `folder` as they were when it was shown."""

    id: str
    text: str
    asker: Asker
    folder: str = ""
    session: str = ""  # to continue
    mode: str = ""
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
        self._at_it: set[str] = set()  # people and sessions whose start is not over
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

    # What a person writes, and presses.

    def command(self, name: str, words: str, asker: Asker, then: Then) -> None:
        """Show what would be started, or say why it is not."""
        self._tell(self._offer(name, words.strip(), asker), then)

    def press(
        self, panel: str, action: str, words: str, asker: Asker, then: Then
    ) -> None:
        """Start what the card shows, once, for the person who asked for it."""
        self._tell(self._pressed(panel, action, asker), then)

    def _tell(self, steps: Coroutine[Any, Any, Told], then: Then) -> None:
        async def tell() -> None:
            try:
                told = await steps
            except FAILURES as error:
                told = self._refused(message_of(error))
            then(told)

        run(tell(), report)

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

    async def _offer(self, name: str, words: str, asker: Asker) -> Told:
        """The card of what somebody asks for."""
        self.check(asker)
        projects = self._settings.feishuperm_projects
        usage = msg(USAGE[name], ", ".join(map(last_name, projects)) or "-")
        folder = session = ""
        if name == "start":
            folder, said = find_project(words, projects)
            said = checked(said, usage)
        else:
            named, said = [*words.split(None, 1), "", ""][:2]
            said, session = checked(said, usage), await self._session(named)
        id = f"start:{os.urandom(8).hex()}"
        plan = Plan(id, said, asker, folder, session, made=self._clock())
        plan = await self._work(partial(self._look_at, plan))
        keep_last(self._plans, id, plan, MOST_SHOWN)
        return Told(panel=self._panel(plan))

    async def _session(self, named: str) -> str:
        """The id of the one session that is called so. Raises FeishupermError."""
        if not self._sessions.find(named):  # it may have ended before this server came
            seen = Promise[None]()
            self._sessions.refresh(partial(seen.resolve, None))
            await seen
        found = self._sessions.find(named)
        if not found and client.SESSION_ID.fullmatch(named):
            return named  # of long ago: its transcript may be there
        if len(found) != 1:
            short = ", ".join(row.short for row in found)
            none = msg("No session is called {}: send `sessions` for a list", named)
            raise FeishupermError(msg("Which one? {}", short) if found else none)
        if found[0].agent != "claude":
            raise FeishupermError(msg("Only sessions of Claude Code can be continued"))
        return found[0].id

    async def _pressed(self, panel: str, action: str, asker: Asker) -> Told:
        plan = self._plans.get(panel)
        if plan is None:
            raise FeishupermError(VOID)
        self.check(asker)
        if (asker.who, asker.channel) != (plan.asker.who, plan.asker.channel):
            raise FeishupermError(msg("Only the person who asked can start it"))
        is_late = not 0 <= self._clock() - plan.made <= SHOWN_SECONDS
        if is_late or action != GO:
            del self._plans[panel]
            said = VOID if is_late else msg("Cancelled: nothing was started")
            card = self._panel(plan, NOT_STARTED).frozen(self.say(said))
            told = Told(self.say(said), panel=card)
            return told._replace(status=looks.WARNING) if is_late else told
        end = self._intend(plan)
        del self._plans[panel]  # whatever comes now: once
        run(self._follow(plan, end), report)
        said = self.say("Starting; this card will say how it went")
        # It looks open, so that its channel goes on to change it.
        card = self._panel(plan, msg("Starting a session"))
        return Told(said, looks.INFO, card._replace(buttons=(), note=said))

    async def _follow(self, plan: Plan, end: dict[str, Any]) -> None:
        """The card says how it went."""
        look, title = looks.OVER, NOT_STARTED
        try:
            said = msg("Session {} runs", await self._start(plan, end))
            look, title = looks.GOOD, msg("The session runs")
        except FAILURES as error:
            said = message_of(error)
        panel = self._panel(plan, title).frozen(self.say(said))
        self._show(plan.asker.channel, panel._replace(look=look))

    # What is done.

    async def resume(self, session: str, text: str, asker: Asker) -> None:
        """Go on with a session that has ended, as this person had asked before.

        Raises FeishupermError.
        """
        self.check(asker)
        plan = Plan(f"limit:{session[:8]}", text, asker, session=session)
        await self._start(plan, self._intend(plan))

    def is_busy(self, *of: str) -> bool:
        """Whether a start of this person, or of this session, is not over."""
        return not self._at_it.isdisjoint(of)

    def _intend(self, plan: Plan) -> dict[str, Any]:
        """Write down what will be started; the entry of its end, as far as it is known.

        One start at a time, and so many an hour. Raises FeishupermError.
        """
        who, now = plan.asker.who, self._clock()
        if self.is_busy(who, plan.session):
            raise FeishupermError(msg("Another start is not over yet: press again"))
        times = [t for t in self._times.get(who, ()) if 0 <= now - t < HOUR]
        if len(times) >= MOST_AN_HOUR:
            raise FeishupermError(msg("{} starts in an hour: that is all", len(times)))
        entry = {  # the ledger masks the secrets in it
            "id": plan.id, "action": "continue" if plan.session else "start",
            "detail": plan.text, "mode": plan.mode, "project": plan.folder,
            "session": plan.session, "surface": plan.asker.surface, "who": who,
        }  # fmt: skip
        try:
            intent = self._ledger.intend({**entry, "of": START})
        except OSError as error:
            log(f"{plan.id}: the ledger cannot be written: {error}", "error")
            never = msg("It could not be recorded, so nothing was started")
            raise FeishupermError(never) from None
        self._times[who] = [*times, now]
        self._at_it |= {who, plan.session} - {""}
        return {**entry, "event": START, "intent": intent}

    async def _start(self, plan: Plan, end: dict[str, Any]) -> str:
        """The short id of the session that runs now; writes down how it went."""
        try:
            id, now = await self._work(partial(self._run, plan))
        except FAILURES as error:
            self._record({**end, "state": "failed", "reason": str(message_of(error))})
            raise
        finally:
            self._at_it -= {plan.asker.who, plan.session}
        end.update(project=now.folder, mode=now.mode, session=plan.session or id)
        self._record({**end, "state": "started"})
        return id

    def _work(self, work: Callable[[], T]) -> Promise[T]:
        """What comes of work in a thread; what that raises is raised here."""
        done = Promise[T]()

        def careful() -> Callable[[], None]:
            try:
                return partial(done.resolve, work())
            except Exception as error:  # whatever it is, somebody waits for it
                return partial(done.fail, error)

        self._in_thread(careful, lambda tell: tell())
        return done

    def _look_at(self, plan: Plan) -> Plan:
        return look(plan, self._settings.feishuperm_projects, self._environ)

    def _run(self, plan: Plan) -> tuple[str, Plan]:
        """Start what was shown, if it is still so; in a thread."""
        now = self._look_at(plan)
        if plan.folder and now != plan:
            raise FeishupermError(
                msg("The folder or its mode is not as shown any more: ask again")
            )
        return client.start(now.text, now.folder, now.session, self._environ), now

    # What is shown.

    def _panel(self, plan: Plan, title: str = "") -> Panel:
        say, question = self.say, msg("Start a session?")
        if plan.session:
            question = msg("Continue session {}?", plan.session[:8])
        note = msg("It starts on this button, once, within ten minutes")
        rows = (
            Row(Block("path", say("Folder"), plan.folder)),
            Row(Block("code", say("Text"), plan.text)),
            Row(Block("text", say("Permission mode"), plan.mode or say(NO_MODE))),
        )
        go, cancel = Button(GO, say("Start it"), YES), Button(CANCEL, say("Cancel"), NO)
        return Panel(
            plan.id,
            self._settings.feishuperm_lang,
            say(title or question),
            last_name(plan.folder),
            rows=rows,
            buttons=(go, cancel),
            note=say(note if client.has_key(self._environ) else client.NO_KEY),
            session=plan.session,
        )

    def say(self, sentence: str) -> str:
        return text(self._settings.feishuperm_lang, sentence)

    def _refused(self, sentence: str) -> Told:
        """Why nothing is done; a sentence without a blank quotes nothing."""
        fixed = sentence in (REMOTE_OFF, NOT_SHOWN, NOT_BY_GATEWAY, VOID)
        return Told(self.say(sentence), ERROR, fixed=fixed)


def find_project(words: str, projects: tuple[str, ...]) -> tuple[str, str]:
    """The folder that a command begins with, and the rest. Raises FeishupermError.

    By its last name or whole path; the longest name counts, since one may have spaces.
    """
    found = [
        (len(name), folder)
        for folder in projects
        for name in {folder, last_name(folder)}
        if words.startswith(name) and (words[len(name) :] or " ")[0].isspace()
    ]
    size, _ = max(found, default=(0, ""))
    fit = [folder for length, folder in found if length == size]
    if len(fit) == 1:
        return fit[0], words[size:]
    named = " ".join(words.split(None, 1)[:1])[:100]
    names = ", ".join(map(last_name, projects)) or "-"
    none = msg("No project is called {}: FEISHUPERM_PROJECTS has {}", named, names)
    raise FeishupermError(msg("Which one? {}", ", ".join(fit)) if fit else none)


def checked(said: str, usage: str) -> str:
    """A text as the client may have it. Raises FeishupermError."""
    said = said.replace("\r\n", "\n").strip()
    # A command such as /add-dir would widen the folder; before it, the client drops
    # what nobody sees.
    command = msg("A text that begins with / is a command of the client: use words")
    for is_wrong, why in (
        (not said, usage),
        (len(said) > MOST_TEXT, msg(TOO_LONG, MOST_TEXT)),
        (first_seen(said) == "/", command),
        (UNSENDABLE.search(said), msg("The text holds control characters: send words")),
    ):
        if is_wrong:
            raise FeishupermError(why)
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
    session, short = plan.session, plan.session[:8]
    folder, mode = client.saved(session, environ)
    if not folder:
        raise FeishupermError(msg("Session {} has no record here", short))
    lives = client.living(environ, session)
    if lives:
        how = msg("answer its card “Claude Code is done. What next?”, or type there")
        if lives == "background":
            how = msg("answer its card, or stop it first: claude stop {}", short)
        raise FeishupermError(msg("Session {} still runs: {}", short, how))
    if not mode:
        raise FeishupermError(
            msg("The permission mode of session {} is not known", short)
        )
    return plan._replace(folder=os.path.realpath(folder), mode=mode)


def real_folder(folder: str, projects: tuple[str, ...]) -> str:
    """A folder of the list, if it is what it is called. Raises FeishupermError.

    A link is none, on either side: it may lead elsewhere tomorrow.
    """
    real, named = os.path.realpath(folder), os.path.normpath(folder)
    listed = {os.path.normpath(each) for each in projects}
    problem = ""
    if real != named and named in listed:
        problem = msg(LINK, named, real)
    elif real not in listed:
        problem = msg("{} is not in FEISHUPERM_PROJECTS", real)
    elif not os.path.isdir(real):
        problem = msg("{} is no folder", real)
    if problem:
        raise FeishupermError(problem)
    return real
