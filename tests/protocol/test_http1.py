"""HTTP/1.1 requests: every cut gives the same requests, every doubt is refused."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from feishuperm.errors import ProtocolError
from feishuperm.protocol.http1 import (
    MAX_BODY,
    MAX_FIELDS,
    MAX_HEAD,
    Request,
    RequestReader,
    Response,
    parse_form,
)
from tests.tables import every_row

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /answer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"


def read_all(data: bytes, step: int = 0) -> list[Request]:
    """The requests in `data`, fed whole or in steps."""
    reader = RequestReader()
    requests = []
    for start in range(0, len(data), step or len(data)):
        reader.receive_data(data[start : start + (step or len(data))])
        while (event := reader.next_event()) is not None:
            requests.append(event)
    return requests


def status_of(data: bytes, step: int = 0) -> int:
    """The status the reader refuses with, or 200."""
    try:
        read_all(data, step)
    except ProtocolError as error:
        return error.status
    return 200


def fields(request: Request) -> tuple[object, ...]:
    return tuple(getattr(request, name) for name in Request.__slots__)


def get(path: bytes, *headers: bytes) -> Request:
    lines = (b"GET %s HTTP/1.1" % path, b"Host: x", *headers, b"", b"")
    [request] = read_all(b"\r\n".join(lines))
    return request


def test_what_is_done_to_one_request_is_not_seen_in_the_next_like_it() -> None:
    data = b"GET /?a=1 HTTP/1.1\r\nHost: x\r\n\r\n"
    [first] = read_all(data)
    first.headers["host"], first.query["a"] = "y", "2"
    [second] = read_all(data)
    assert (second.headers, second.query) == ({"host": "x"}, {"a": "1"})


def test_get_has_all_its_parts() -> None:
    [request] = read_all(
        b"GET /allow?id=1-ab&x=1 HTTP/1.1\r\nHost: h:8080\r\nUser-Agent:  a b \r\n\r\n"
    )
    assert (request.method, request.path, request.version) == ("GET", "/allow", "1.1")
    assert request.query == {"id": "1-ab", "x": "1"}
    assert request.headers == {"host": "h:8080", "user-agent": "a b"}
    assert (request.body, request.peer, request.keep_alive) == (b"", "", True)


TOKENS = st.text("ABCxyz-_09", min_size=1, max_size=8)
VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=20)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    body = draw(st.binary(max_size=40))
    target = draw(st.text("abc/%4e2?&=+é", max_size=12)).encode()
    lines = [b"%s /%s HTTP/1.1" % (draw(TOKENS).encode(), target), b"Host: x"]
    for name, value in draw(st.lists(st.tuples(TOKENS, VALUES), max_size=4)):
        lines.append(f"X-{name}: {value}".encode())
    if body:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@given(st.lists(requests(), max_size=4), st.integers(1, 50))
def test_pipelined_requests_are_the_same_however_they_arrive(
    parts: list[bytes], step: int
) -> None:
    data = b"".join(parts)
    if not data:
        return
    whole = [fields(request) for request in read_all(data)]
    assert len(whole) == len(parts)
    assert [fields(request) for request in read_all(data, 1)] == whole
    assert [fields(request) for request in read_all(data, step)] == whole


@given(requests(), st.binary(max_size=30))
def test_bytes_after_a_request_do_not_change_it(data: bytes, trailing: bytes) -> None:
    reader = RequestReader()
    reader.receive_data(data + trailing)
    event = reader.next_event()
    assert isinstance(event, Request)
    assert fields(event) == fields(read_all(data)[0])


PIECES = [
    GET,
    POST,
    b"GET / ",
    b"HTTP/1.1",
    b"\r\n",
    b"\n",
    b"\r",
    b": ",
    b"Content-Length: 3",
    b"Transfer-Encoding: chunked",
    b"Expect: 100-continue",
]
NOISE = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.sampled_from(PIECES),
    ),
    max_size=12,
).map(b"".join)


@given(NOISE)
@example(b"\r\n" + GET)
@example(b"\r\n" * 50 + GET)
@example(GET + b"\r\n\r\n" + GET)
def test_rubbish_is_refused_with_a_status_or_read_but_never_crashes(
    data: bytes,
) -> None:
    if not data:
        return
    whole, single = status_of(data), status_of(data, 1)
    assert whole in (200, 400, 411, 413, 431)
    assert single == whole


@every_row(
    ("data", "status"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1 \r\nHost: x\r\n\r\n", 400),
        (b"G(T / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET allow HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET http://x/allow HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET HTTP://other HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET http://x?q=1 HTTP/1.0\r\n\r\n", 400),
        (b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b" GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /a\x0bb HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x, y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a@x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x:8a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\x85\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: x y\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHOST: x\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nName : y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \xb2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n", 400),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
            b"Content-Length: 5\r\n\r\nhello",
            400,
        ),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n"
            b"Content-Length: 5\r\nTransfer-Encoding: identity\r\n\r\nhello",
            400,
        ),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\nhello", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1_0\r\n\r\nhello", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n\r\n", 413),
    ],
)
def test_what_two_parsers_could_read_in_two_ways_is_refused(
    data: bytes, status: int
) -> None:
    assert status_of(data) == status
    assert status_of(data, 1) == status


def padded(size: int) -> bytes:
    """A request whose head, without its empty line, has exactly `size` bytes."""
    start = b"GET / HTTP/1.1\r\nHost: x\r\nPad: "
    return start + b"p" * (size - len(start)) + b"\r\n\r\n"


@every_row("step", [0, 1, 1000])
def test_the_limit_of_the_head_is_exact(step: int) -> None:
    assert status_of(padded(MAX_HEAD), step) == 200
    assert status_of(padded(MAX_HEAD + 1), step) == 431


def test_an_endless_head_is_refused_at_the_limit() -> None:
    assert status_of(b"GET /" + b"a" * (MAX_HEAD - 2)) == 200
    assert status_of(b"GET /" + b"a" * (MAX_HEAD - 1)) == 431


def test_the_limit_of_the_body_is_exact() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    data = head % MAX_BODY + b"b" * MAX_BODY
    for step in (0, 65536):
        [request] = read_all(data, step)
        assert len(request.body) == MAX_BODY
    assert status_of(head % (MAX_BODY + 1)) == 413


@every_row(
    ("version", "connection", "keep_alive"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: keep-alive\r\n", True),
        (b"1.1", b"Connection: close\r\n", False),
        (b"1.1", b"Connection: Upgrade, Close\r\n", False),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: Keep-Alive\r\n", True),
        (b"1.0", b"Connection: keep-alive, close\r\n", False),
    ],
)
def test_keep_alive_follows_version_and_header(
    version: bytes, connection: bytes, keep_alive: bool
) -> None:
    data = b"GET / HTTP/" + version + b"\r\nHost: x\r\n" + connection + b"\r\n"
    assert read_all(data)[0].keep_alive is keep_alive


def test_empty_lines_before_a_request_are_skipped() -> None:
    assert len(read_all(b"\r\n" + GET + b"\r\n\r\n\r\n" + POST)) == 2


def test_http_1_0_needs_no_host() -> None:
    assert read_all(b"GET / HTTP/1.0\r\n\r\n")[0].version == "1.0"


def test_requests_with_the_same_headers_do_not_share_them() -> None:
    first, second = read_all(GET + GET)
    first.headers["host"] = "changed"
    assert second.headers == {"host": "x"}


def test_headers_that_change_on_a_kept_connection_are_read_anew() -> None:
    closing = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    requests = read_all(GET + POST + GET + closing)
    assert [request.body for request in requests] == [b"", b"hello", b"", b""]
    assert [request.keep_alive for request in requests] == [True, True, True, False]


@every_row(
    "host", ["localhost:8080", "[::1]:8080", "[::1]", "127.0.0.1", "my_box.local"]
)
def test_host_is_a_name_or_an_address(host: str) -> None:
    data = b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % host.encode()
    assert read_all(data)[0].headers["host"] == host


@every_row(
    ("headers", "upgrades"),
    [
        ([], False),
        ([b"Connection: keep-alive"], False),
        ([b"Connection: Upgrade", b"Upgrade: websocket"], True),
        ([b"Upgrade: h2c"], True),
        ([b"Connection: keep-alive , UPGRADE"], True),
        ([b"Connection: close", b"Connection: upgrade"], True),
        ([b"Connection: upgrades"], False),
    ],
)
def test_wish_for_another_protocol_is_seen(
    headers: list[bytes], upgrades: bool
) -> None:
    assert get(b"/", *headers).upgrades() is upgrades


def test_thousands_of_repeated_headers_are_joined_in_no_time() -> None:
    lines = [b"a: %d" % (number % 10) for number in range(2000)]
    request = get(b"/", *lines)
    assert request.headers["a"].count(", ") == 1999


def test_repeated_header_is_joined() -> None:
    request = get(b"/", b"X-Forwarded-For: a", b"x-forwarded-for: b")
    assert request.headers["x-forwarded-for"] == "a, b"


@every_row(
    ("target", "path", "query"),
    [
        (b"/", "/", {}),
        (b"/a%20b?", "/a b", {}),
        (b"/%E4%BD%A0?q=%E5%A5%BD+%2B", "/你", {"q": "好 +"}),
        ("/你?q=好".encode(), "/你", {"q": "好"}),
        (b"/%ff%?q=%zz%ff", "/\ufffd%", {"q": "%zz\ufffd"}),
        (b"/?id=1&id=2&&flag&=v", "/", {"id": "1", "flag": "", "": "v"}),
    ],
)
def test_target_is_decoded_as_utf8(
    target: bytes, path: str, query: dict[str, str]
) -> None:
    request = get(target)
    assert (request.path, request.query) == (path, query)


def test_client_that_expects_100_and_sends_its_body_is_served() -> None:
    reader = RequestReader()
    reader.receive_data(POST[:-7] + b"Expect: 100-continue\r\n\r\nhello")
    assert isinstance(reader.next_event(), Request)


def test_state_says_what_is_being_read() -> None:
    reader = RequestReader()
    states = [reader.state]
    for piece in (POST[:10], POST[10:-2], POST[-2:]):
        reader.receive_data(piece)
        event = reader.next_event()
        states.append(reader.state)
    assert states == ["idle", "head", "body", "idle"]
    assert isinstance(event, Request)


def test_response_is_one_piece_with_its_length() -> None:
    data = Response(200, "你".encode(), "text/html", [("Allow", "GET")]).encode(True)
    assert data == (
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n"
        b"Content-Type: text/html\r\nAllow: GET\r\n\r\n\xe4\xbd\xa0"
    )


def test_response_to_head_has_the_length_but_no_body() -> None:
    data = Response(404, b"gone").encode(with_body=False)
    assert b"Content-Length: 4\r\n" in data
    assert b"Connection: close\r\n" in data
    assert data.endswith(b"\r\n\r\n")


@every_row(
    ("name", "value"),
    [
        ("Location", "/a\r\nSet-Cookie: b"),
        ("Location", "/a\nb"),
        ("Location", "/a\rb"),
        ("Location", "/a\0"),
        ("Location", "你"),
        ("A: b\r\nC", "d"),
    ],
)
def test_response_header_cannot_break_out(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"control character|can't encode"):
        Response(302, b"", headers=[(name, value)]).encode()


def test_content_type_cannot_break_out() -> None:
    with pytest.raises(ValueError, match="control character"):
        Response(200, b"", "text/html\r\nX: y").encode()


def test_form_keeps_every_value_in_order() -> None:
    form = parse_form(b"a=1&b=%E4%BD%A0+%26&a=2&c&a=")
    assert form == {"a": ["1", "2", ""], "b": ["你 &"], "c": [""]}


def test_form_with_too_many_fields_is_refused() -> None:
    assert len(parse_form(b"a=1&" * (MAX_FIELDS - 1) + b"a=1")["a"]) == MAX_FIELDS
    with pytest.raises(ProtocolError):
        parse_form(b"a=1&" * MAX_FIELDS)


@given(st.binary(max_size=200))
def test_random_forms_are_read_somehow(body: bytes) -> None:
    for values in parse_form(body).values():
        assert all(isinstance(value, str) for value in values)


def test_body_where_none_is_wanted_is_refused_before_it_is_read() -> None:
    reader = RequestReader(max_body=0)
    reader.receive_data(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n")
    with pytest.raises(ProtocolError) as caught:
        reader.next_event()
    assert caught.value.status == 413
