"""A page as a reader without scripts sees it, and asks to draw pages from."""

from __future__ import annotations

from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any

from feishuperm.messages import text
from feishuperm.models.ask import Ask, Block, Outcome
from feishuperm.models.kind import KINDS, offers

ID = "1700000000-0badcafe"
VOID = {"meta", "link", "input", "path", "br", "hr"}


class Form:
    """What a button sends, and what it says."""

    def __init__(self, attributes: dict[str, str]) -> None:
        assert attributes["method"] == "post"
        self.attributes = attributes
        self.inputs: list[dict[str, str]] = []
        self.buttons: list[str] = []

    def hidden(self) -> dict[str, str]:
        """The fields a person does not see."""
        return {
            field["name"]: field["value"]
            for field in self.inputs
            if field.get("type") == "hidden"
        }

    def names(self) -> list[str]:
        """The fields a person fills in."""
        return [field["name"] for field in self.inputs if field.get("type") != "hidden"]


class Page(HTMLParser):
    """A parsed page: its text, its elements, and that every tag is closed in order."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.forms: dict[str, Form] = {}  # by where they go
        self._open: list[str] = []
        self._form: Form | None = None
        self._named: dict[str, Form] = {}  # forms whose buttons say where they go
        self._routes: list[tuple[dict[str, str], list[str]]] = []
        self.feed(body.decode())
        self.close()
        assert self._open == []
        self._find_routes()

    def _find_routes(self) -> None:
        """Each button that names its route is a form, with all its form's fields."""
        for attributes, label in self._routes:
            action, owner = attributes["formaction"], self._named[attributes["form"]]
            made = Form({"method": "post", "action": action})
            made.inputs = [*owner.inputs, {"type": "hidden", **attributes}]
            made.buttons = ["".join(label)]
            self.forms[action] = made

    @classmethod
    def of(cls, pieces: Iterable[bytes]) -> Page:
        """A page that is made piece by piece."""
        return cls(b"".join(pieces))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "form":
            self._form = Form(self.elements[-1][1])
            if "id" in self._form.attributes:
                self._named[self._form.attributes["id"]] = self._form
            else:
                self.forms[self._form.attributes["action"]] = self._form
        elif tag in ("input", "textarea"):
            owner = self._named.get(self.elements[-1][1].get("form", ""), self._form)
            if owner:
                owner.inputs.append(self.elements[-1][1])
        elif tag == "button" and "formaction" in self.elements[-1][1]:
            self._routes.append((self.elements[-1][1], []))
        elif tag == "button" and self._form:
            self._form.buttons.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag
        if tag == "form":
            self._form = None

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script":
            self.scripts.append(data)
        elif inside == "style":
            self.styles.append(data)
        else:
            self.text += data
        if inside == "button" and self._form:
            self._form.buttons[-1] += data
        elif inside == "button" and self._routes:
            self._routes[-1][1].append(data)

    def all(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        """The attributes of every such element; `class_` for `class`."""
        named = {name.rstrip("_"): value for name, value in wanted.items()}
        return [
            attrs
            for name, attrs in self.elements
            if name == tag and named.items() <= attrs.items()
        ]

    def form(self, path: str) -> dict[str, str]:
        """The hidden fields of the form that posts to a path."""
        return self.forms[path].hidden()

    def button(self, path: str) -> str:
        """The label of the one button of the form that posts to a path."""
        (label,) = self.forms[path].buttons
        return label


def make_ask(kind: str = "permission", tool_input: Any = None, **changes: Any) -> Ask:
    """A request of a kind, about `npm run build` if nothing else is said."""

    def say(key: str, **values: object) -> str:
        return text("zh", key, **values)

    row = KINDS[kind]
    fields = row.fields(tool_input or {"command": "npm run build"}, say)
    ask = Ask(
        id=ID,
        kind=kind,
        heading=say(row.heading),
        empty=say(row.empty),
        tool="Bash",
        summary="Bash",
        blocks=(Block("code", "命令", "npm run build", "bash"),),
        project="/home/u/shop",
        branch="main",
        session="5e55",
        created=1_700_000_000.0,
        seconds=55,
        actions=offers(row, fields, say, "Bash"),
        fields=fields,
        digest="d16e57",
    )
    return ask._replace(**changes)


def make_outcome(done: str = "已批准运行", **changes: Any) -> Outcome:
    outcome = Outcome(
        id=ID,
        kind="permission",
        state="allowed",
        action="allow",
        surface="link",
        ended=1_700_000_020.0,
        done=done,
        look="good",
        summary="Bash",
        project="/home/u/shop",
        head="a1b2c3",
    )
    return outcome._replace(**changes)


def make_links(ask: Ask) -> dict[str, str]:
    """As the callback makes them: one per offer, and the request's own page."""
    row = KINDS[ask.kind]
    paths = {offer.name: row.action(offer.name) for offer in ask.actions}
    links = {
        name: f"{action.path[1:]}?id={ID}&sig=s-{name}"
        for name, action in paths.items()
        if action
    }
    hold = f"hold?id={ID}&sig=s-hold"
    return {**links, "request": f"request?id={ID}&sig=s-request", "hold": hold}
