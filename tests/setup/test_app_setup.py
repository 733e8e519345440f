"""An app on its way into the settings: its secret first, then its owner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from feishuperm.commands.install import parser
from feishuperm.errors import FeishupermError
from feishuperm.setup import feishu_setup
from feishuperm.setup.feishu_setup import FEISHU, LARK, AppSetup, WantedConfig
from feishuperm.setup.scan import ADDONS, Created
from feishuperm.setup.steps import Manifest
from tests.fakes.feishu import APP_ID, APP_SECRET
from tests.fakes.feishu_app import BOT, OWNER
from tests.fakes.feishu_registration import Platform, Registration


class Person:
    """A person with a home, some settings, and answers to what they are asked."""

    def __init__(self, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch):
        self.environ = environ
        self.config = Path(environ["HOME"], ".config/feishuperm/config.env")
        self.answers: list[str] = []
        self.asked: list[str] = []
        monkeypatch.setattr("builtins.input", self.answer)
        monkeypatch.setattr(feishu_setup.getpass, "getpass", self.answer)

    def answer(self, prompt: str) -> str:
        self.asked.append(prompt)
        if not self.answers:
            raise EOFError
        return self.answers.pop(0)

    def has(self, **values: str) -> None:
        self.config.parent.mkdir(parents=True, exist_ok=True)
        lines = (f"{key}={value}\n" for key, value in values.items())
        self.config.write_text("".join(lines))

    def app(self, *args: str) -> AppSetup:
        options = parser().parse_args(["--no-qr", *args])
        config = WantedConfig(options, self.environ)
        manifest = Manifest(self.environ)
        manifest.open()
        return AppSetup(config, manifest, options, lambda: "feishuperm")

    def values(self) -> dict[str, str]:
        pairs = (line.partition("=") for line in self.config.read_text().splitlines())
        return {key: value for key, _, value in pairs if value and key[0] != "#"}


@pytest.fixture
def person(bare: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Person:
    return Person(bare, monkeypatch)


@pytest.fixture
def feishu(person: Person) -> Iterator[Platform]:
    with Platform() as platform:
        person.environ["FEISHU_BASE_URL"] = platform.base_url
        yield platform


@pytest.fixture
def accounts(person: Person, feishu: Platform) -> Iterator[Registration]:
    with Registration(feishu) as host:
        person.environ["FEISHU_ACCOUNTS_URL"] = host.url
        host.script.append((200, host.app(user_info={"open_id": OWNER})))
        feishu.add(ADDONS)
        yield host


def test_scanner_is_the_owner(person: Person, accounts: Registration) -> None:
    app = person.app()
    app.scan()
    assert app.is_new and app.has_people()
    values = person.values()
    assert values["FEISHU_APP_ID"] == APP_ID
    assert values["FEISHU_APP_SECRET"] == APP_SECRET
    assert values["FEISHU_OWNER_ID"] == OWNER
    assert person.asked == []


@pytest.mark.parametrize("open_id", ["", BOT])
def test_app_without_its_scanner_belongs_to_whom_the_platform_names(
    person: Person, accounts: Registration, feishu: Platform, open_id: str
) -> None:
    accounts.script[0] = (200, accounts.app(user_info={"open_id": open_id}))
    feishu.owner = "ou_maker"
    app = person.app()
    app.scan()
    assert person.values()["FEISHU_OWNER_ID"] == "ou_maker"
    assert "app" in app.config.settings().surfaces()


def test_app_that_nobody_owns_is_kept_and_not_used(
    person: Person,
    accounts: Registration,
    feishu: Platform,
    capsys: pytest.CaptureFixture[str],
) -> None:
    accounts.script[0] = (200, accounts.app())
    feishu.owner = ""
    person.answers = ["who am I", ""]
    app = person.app()
    app.scan()
    assert len(person.asked) == 2
    assert "not used until it has an owner" in capsys.readouterr().out
    assert person.values()["FEISHU_APP_SECRET"] == APP_SECRET
    assert "app" not in app.config.settings().surfaces()
    person.answers = ["ou_late"]
    later = person.app()
    later.name_owner()
    assert later.has_people() and "app" in later.config.settings().surfaces()


def test_people_of_another_app_do_not_stay(
    person: Person, accounts: Registration, capsys: pytest.CaptureFixture[str]
) -> None:
    person.has(
        FEISHU_APP_ID="cli_old",
        FEISHU_APP_SECRET="old",
        FEISHU_OWNER_ID="ou_old,ou_older",
        FEISHU_RECEIVE_ID="oc_old",
    )
    app = person.app("--setup")
    app.scan()
    settings = app.config.settings()
    assert settings.app_people() == (OWNER, {OWNER})
    assert "old" not in person.config.read_text()
    said = capsys.readouterr().out
    assert "app cli_old is no longer used here, but still exists in Feishu" in said


def test_scan_for_the_same_app_leaves_its_people(
    person: Person, accounts: Registration
) -> None:
    person.has(
        FEISHU_APP_ID=APP_ID,
        FEISHU_APP_SECRET="old",
        FEISHU_OWNER_ID="ou_a,ou_b",
        FEISHU_RECEIVE_ID="oc_group",
    )
    app = person.app("--rescan")
    app.scan(APP_ID)
    assert app.config.settings().app_people() == ("oc_group", {"ou_a", "ou_b"})
    assert person.values()["FEISHU_APP_SECRET"] == APP_SECRET


@pytest.mark.parametrize(
    ("base", "is_lark", "written"),
    [
        ("", True, LARK),
        ("", False, ""),
        (LARK, False, FEISHU),
        (LARK, True, LARK),
        ("http://127.0.0.1:9", True, "http://127.0.0.1:9"),
    ],
)
def test_address_follows_the_brand(
    person: Person, base: str, is_lark: bool, written: str
) -> None:
    person.has(**({"FEISHU_BASE_URL": base} if base else {"FEISHUPERM_LANG": "en"}))
    person.app()._keep(Created("cli_a1", "secret", OWNER, is_lark))
    assert person.values().get("FEISHU_BASE_URL", "") == written


def test_list_of_surfaces_takes_the_app_in(
    person: Person, accounts: Registration
) -> None:
    person.has(FEISHUPERM_SURFACES="inbox")
    person.app().scan()
    assert person.values()["FEISHUPERM_SURFACES"] == "app,inbox"


def test_scan_that_fails_changes_nothing(
    person: Person, accounts: Registration
) -> None:
    accounts.script[0] = (400, {"error": "access_denied"})
    app = person.app()
    with pytest.raises(FeishupermError, match="refused on the phone"):
        app.scan()
    assert not app.is_new and not person.config.exists()


# An app that is there.


def test_given_app_is_tried_before_it_is_kept(
    person: Person, feishu: Platform, capsys: pytest.CaptureFixture[str]
) -> None:
    feishu.add(ADDONS)
    person.answers = ["app_1", "x", APP_ID, "", APP_ID, "bad", APP_ID, APP_SECRET, ""]
    app = person.app()
    assert app.given() and app.is_new
    said = capsys.readouterr().out
    assert "FEISHU_APP_ID: 'app_1' is not the id" in said
    assert "the App Secret is missing" in said
    assert "Feishu does not accept it: 10015" in said
    assert APP_SECRET not in said and "bad" not in said
    assert person.asked[-1] == f"Your open_id, ou_... [{OWNER}, the app's owner]: "
    assert person.values()["FEISHU_OWNER_ID"] == OWNER
    bot = {"FEISHU_WEBHOOK_URL": "https://open.feishu.cn/open-apis/bot/v2/hook/x"}
    app.config.new.update(bot)
    assert app.config.settings().surfaces() == {"app", "inbox", "webhook"}


def test_given_app_may_be_somebody_elses(person: Person, feishu: Platform) -> None:
    feishu.add(ADDONS)
    feishu.owner = "ou_admin"
    person.answers = [APP_ID, APP_SECRET, "ou_me"]
    app = person.app()
    assert app.given()
    assert app.config.settings().app_people() == ("ou_me", {"ou_me"})


def test_empty_id_leads_back_to_the_choice(person: Person) -> None:
    person.answers = [""]
    app = person.app()
    assert not app.given() and not app.is_new
    assert not person.config.exists()


def test_no_more_answers_leave_an_app_that_cannot_be_used_alone(
    person: Person, feishu: Platform
) -> None:
    person.answers = [APP_ID, APP_SECRET]
    app = person.app()
    with pytest.raises(EOFError):
        app.given()
    assert person.values()["FEISHU_APP_SECRET"] == APP_SECRET
    assert "app" not in app.config.settings().surfaces()
