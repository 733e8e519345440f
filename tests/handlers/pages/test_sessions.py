"""The way into the inbox, and the list of who has gone it."""

from __future__ import annotations

from feishuperm.handlers.pages.sessions import again_page, session_list, ticket_page
from feishuperm.services.sessions import Session
from tests.handlers.pages.page import Page
from tests.tables import every_row

EVIL = '"><script>x</script>'
PHONE = Session("s1", "h", 1.0, 2.0, "192.0.2.7", "Mozilla/5.0 (Linux; Android 14)")


@every_row("language", ["zh", "en"])
def test_ticket_is_used_up_by_a_button_and_not_by_its_link(language: str) -> None:
    page = Page(ticket_page(language, EVIL))
    assert page.form(".") == {"ticket": EVIL}
    links = [link for link in page.all("a") if "href" in link]
    assert links == [], "whoever opens every link uses nothing up"


@every_row("language", ["zh", "en"])
def test_browser_from_elsewhere_is_offered_the_way_again(language: str) -> None:
    page = Page(again_page(language))
    assert len(page.all("a", href=".")) == 1 and page.forms == {}


def test_every_browser_is_listed_with_a_button_to_send_it_away() -> None:
    other = PHONE._replace(id="s2", address=EVIL, agent=EVIL)
    page = Page(session_list("en", (PHONE, other), PHONE).encode())
    posted = [field["value"] for field in page.all("input", name="session")]
    assert posted == ["s1", "s2"]
    assert page.all("input", name="all", value="1")
    assert "192.0.2.7" in page.text and page.scripts == []
    assert {form["action"] for form in page.all("form")} == {"sessions"}


def test_own_browser_is_marked_and_no_other() -> None:
    other = PHONE._replace(id="s2")
    nobody = session_list("en", (PHONE, other), None)
    mine = session_list("en", (PHONE, other), other)
    assert " · " not in nobody
    assert [" · " in row for row in mine.split("</li>")] == [False, True, False]


def test_no_session_makes_no_list() -> None:
    assert session_list("en", (), None) == ""
