"""The visitor reads pages like a browser would."""

from __future__ import annotations

from feishuperm.setup.demo import read_forms

PAGE = """
<form action="allow"><input type="hidden" name="id" value="1-a&amp;b"></form>
<input name="outside" value="x">
<form method="post" action="/answer">
<input name="id" value="2"><input type="radio" name="q0" value="One">
<input type="radio" name="q0" value="Two"><input name="q0_other"></form>
"""


def test_first_option_is_chosen_and_entities_are_read() -> None:
    assert read_forms(PAGE, "http://h:1/prefix/request?id=1") == {
        "http://h:1/prefix/allow": [("id", "1-a&b")],
        "http://h:1/answer": [("id", "2"), ("q0", "One"), ("q0_other", "")],
    }


def test_first_of_the_buttons_that_are_options_is_chosen() -> None:
    page = (
        '<form action="answer"><input name="id" value="1">'
        '<button name="q0" value="a">a</button><button name="q0" value="b">b</button>'
        '</form><form action="answer"><input name="id" value="1">'
        '<input name="q0_other" value=""><button>send</button></form>'
    )
    forms = read_forms(page, "http://h/request")
    assert forms == {"http://h/answer": [("id", "1"), ("q0", "a"), ("q0_other", "")]}


def test_button_that_names_its_route_sends_the_fields_of_its_form() -> None:
    page = (
        '<form id="grant" method="post"><input name="id" value="1"></form>'
        '<input form="grant" type="radio" name="q0" value="Red">'
        '<button form="grant" formaction="allow" name="sig" value="s">Allow</button>'
    )
    forms = read_forms(page, "http://h/request")
    fields = [("id", "1"), ("q0", "Red"), ("sig", "s")]
    assert forms["http://h/allow"] == fields
