"""One app, many machines: the built file as gateway, as machines, as hooks."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from feishuperm.channels.gateway import dial_gateway
from feishuperm.errors import FeishupermError
from feishuperm.protocol.machine import LOGIN, MachineWire, prove
from tests.conftest import wait_until
from tests.fakes.feishu_app import OWNER, STRANGER, FakePlatform, Handshake
from tests.gateways import Join, RunningGateway, enrolment, join
from tests.served import Served, Transcript, decision, event, finish


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform() as platform:
        yield platform


@pytest.fixture
def gateway(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> Iterator[RunningGateway]:
    with RunningGateway(pyz, tmp_path / "gateway", feishu) as running:
        yield running


@pytest.fixture
def machine(
    pyz: Path, tmp_path: Path, gateway: RunningGateway, feishu: FakePlatform
) -> Iterator[Served]:
    home = tmp_path / "laptop"
    join(pyz, home, gateway, feishu, "--name", "laptop")
    with Served(pyz, home, PERMISSION_REQUEST_TIMEOUT="300") as server:
        wait_until(lambda: channel(server)["state"] == "up")
        yield server


def channel(server: Served) -> dict[str, str]:
    status = server.status() or {}
    rows = [row for row in status["channels"] if row["name"] == "gateway"]
    return rows[0] if rows else {"state": "none"}


def is_shown(server: Served) -> bool:
    """Whether a request is pending, and its hook knows that a person can see it."""
    status = server.status() or {"waiting": []}
    return any(row["shown"] for row in status["waiting"])


def card_of(feishu: FakePlatform, count: int) -> str:
    wait_until(lambda: len(feishu.app_messages) > count)
    return feishu.last


def test_tap_reaches_the_machine_that_asked(
    machine: Served, feishu: FakePlatform, tmp_path: Path
) -> None:
    cards = len(feishu.app_messages)
    transcript = Transcript(tmp_path)
    transcript.call("先看看。", **event()["tool_input"])
    hook = machine.hook({**event(), "transcript_path": str(transcript.path)})
    message = card_of(feishu, cards)
    assert "laptop" in json.dumps(feishu.card(message), ensure_ascii=False)
    tap = feishu.tap(message, "批准运行")
    assert tap.ok and tap.toast == {"type": "success", "content": "已批准运行"}
    assert decision(finish(hook)) == {"behavior": "allow"}
    assert feishu.buttons(message) == []
    wait_until(lambda: feishu.patches)
    transcript.result("Exit code 3\nboom", is_error=True)
    wait_until(lambda: "失败（退出码 3）" in str(feishu.card(message)))


def test_join_shows_who_confirmed_and_stores_a_key(
    pyz: Path, tmp_path: Path, gateway: RunningGateway, feishu: FakePlatform
) -> None:
    said = join(pyz, tmp_path / "box", gateway, feishu, "--name", "box")
    assert OWNER in said
    kept = enrolment(tmp_path / "box")
    assert kept["owner"] == OWNER and len(bytes.fromhex(kept["keys"][0])) == 32
    config = (tmp_path / "box" / ".config" / "feishuperm" / "config.env").read_text()
    assert f"FEISHUPERM_GATEWAY={gateway.url}" in config
    assert kept["keys"][0] not in gateway.output() + said
    rows = gateway.machines()
    assert [(row["name"], row["connected"]) for row in rows] == [("box", False)]


def test_second_machine_of_a_name_is_told_apart_and_key_rotates(
    pyz: Path, tmp_path: Path, machine: Served, gateway: RunningGateway,
    feishu: FakePlatform,
) -> None:  # fmt: skip
    first = enrolment(machine.home)["keys"][0]
    join(pyz, tmp_path / "other", gateway, feishu, "--name", "laptop")
    names = sorted(row["name"] for row in gateway.machines())
    assert names == ["laptop", "laptop-2"]
    machine.stop()
    machine.start()
    wait_until(lambda: channel(machine)["state"] == "up")
    newest, *older = enrolment(machine.home)["keys"]
    assert newest != first and first in older, "should the gateway lose its last write"


def test_stranger_neither_taps_nor_joins_for_others(
    machine: Served, feishu: FakePlatform, gateway: RunningGateway
) -> None:
    cards = len(feishu.app_messages)
    hook = machine.hook(event())
    message = card_of(feishu, cards)
    tap = feishu.tap(message, "批准运行", who=STRANGER)
    assert tap.toast["type"] == "error" and tap.card is None
    assert hook.poll() is None
    assert feishu.tap(message, "拒绝运行").ok
    assert decision(finish(hook))["behavior"] == "deny"


@pytest.fixture
def impatient(
    pyz: Path, tmp_path: Path, gateway: RunningGateway, feishu: FakePlatform
) -> Iterator[Served]:
    """A machine whose requests are denied after some seconds, if they are shown."""
    home = tmp_path / "impatient"
    join(pyz, home, gateway, feishu, "--name", "impatient")
    with Served(pyz, home, PERMISSION_REQUEST_TIMEOUT="20") as server:
        wait_until(lambda: channel(server)["state"] == "up")
        yield server


@pytest.mark.full
def test_request_is_released_while_the_gateways_app_has_lost_feishu(
    machine: Served, impatient: Served, feishu: FakePlatform
) -> None:
    cards = len(feishu.app_messages)
    patient, first = machine.hook(event()), card_of(feishu, cards)
    hook, second = impatient.hook(event()), card_of(feishu, cards + 1)
    feishu.connections.refusals.extend([Handshake(514)] * 1000)
    feishu.connections.cut()
    for server in (machine, impatient):
        wait_until(lambda server=server: channel(server)["state"] == "down")
        assert "Feishu" in channel(server)["detail"]
    assert finish(machine.hook(event())) == "", "released at once"
    assert finish(hook, timeout=40) == "", "nobody could answer it"
    feishu.connections.refusals.clear()
    wait_until(lambda: channel(machine)["state"] == "up", timeout=60)
    assert feishu.tap(first, "批准运行").toast["content"] == "已批准运行"
    assert decision(finish(patient)) == {"behavior": "allow"}
    wait_until(lambda: feishu.buttons(second) == [])


@pytest.mark.full
def test_request_is_released_while_the_gateway_is_frozen(
    impatient: Served, gateway: RunningGateway, feishu: FakePlatform
) -> None:
    cards = len(feishu.app_messages)
    hook = impatient.hook(event())
    message = card_of(feishu, cards)
    wait_until(lambda: is_shown(impatient))
    assert gateway.process is not None
    os.kill(gateway.process.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: channel(impatient)["state"] == "down")
        assert finish(hook, timeout=40) == ""
    finally:
        os.kill(gateway.process.pid, signal.SIGCONT)
    wait_until(lambda: feishu.buttons(message) == [], timeout=60)


def test_request_that_no_gateway_can_read_keeps_nobody_out(
    machine: Served, feishu: FakePlatform
) -> None:
    options = [{"label": f"o{number}", "description": ""} for number in range(3000)]
    question = {"question": "q?", "header": "h", "options": options,
                "multiSelect": False}  # fmt: skip
    assert finish(machine.hook(event("AskUserQuestion", questions=[question]))) == ""
    assert channel(machine)["state"] == "up"
    cards = len(feishu.app_messages)
    hook = machine.hook(event())
    feishu.tap(card_of(feishu, cards), "批准运行")
    assert decision(finish(hook)) == {"behavior": "allow"}


def test_wrong_codes_lock_the_sender_out(
    pyz: Path, tmp_path: Path, gateway: RunningGateway, feishu: FakePlatform
) -> None:
    joining = Join(pyz, tmp_path / "box", gateway.url)
    try:
        code = joining.code()
        wrong = [f"{(int(code) + n) % 10**6:06d}" for n in range(1, 6)]
        for number, guess in enumerate(wrong, 1):
            feishu.say(guess, who=STRANGER)
            wait_until(lambda number=number: len(feishu.replies) >= number)
        feishu.say(code, who=STRANGER)
        wait_until(lambda: len(feishu.replies) > len(wrong))
        assert "十分钟" in json.dumps(feishu.replies[-1], ensure_ascii=False)
        kinds = {message["msg_type"] for message in feishu.app_messages.values()}
        assert kinds == {"text"}, "no card asks the guesser"
    finally:
        joining.close()


def test_revoked_machine_is_out_and_its_card_void(
    machine: Served, feishu: FakePlatform, gateway: RunningGateway
) -> None:
    cards = len(feishu.app_messages)
    hook = machine.hook(event())
    message = card_of(feishu, cards)
    (row,) = gateway.machines()
    assert row["waiting"] == 1 and row["connected"]
    assert gateway.run("machines", "revoke", row["id"]).returncode == 0
    wait_until(lambda: channel(machine)["state"] == "down")
    wait_until(lambda: feishu.patches)
    assert feishu.buttons(message) == []
    assert gateway.machines() == []
    assert hook.poll() is None, "nothing is denied: the terminal and inbox decide"


def test_gateway_that_dies_loses_no_request(
    machine: Served, feishu: FakePlatform, gateway: RunningGateway
) -> None:
    cards = len(feishu.app_messages)
    hook = machine.hook(event())
    message = card_of(feishu, cards)
    # Before the machine is told that it is shown, the request would be handed back.
    wait_until(lambda: is_shown(machine))
    gateway.kill()
    wait_until(lambda: channel(machine)["state"] == "down")
    gateway.start()
    wait_until(lambda: channel(machine)["state"] == "up", timeout=40)
    tap = feishu.tap(message, "批准运行")
    assert tap.ok, tap
    assert decision(finish(hook)) == {"behavior": "allow"}


def test_machine_that_is_away_is_named_and_the_tap_is_not_kept(
    machine: Served, feishu: FakePlatform, gateway: RunningGateway
) -> None:
    cards = len(feishu.app_messages)
    hook = machine.hook(event())
    message = card_of(feishu, cards)
    # A hook that does not know that it is shown is handed back by the new server.
    wait_until(lambda: is_shown(machine))
    machine.kill()
    wait_until(lambda: not gateway.machines()[0]["connected"])
    tap = feishu.tap(message, "批准运行")
    assert tap.toast["type"] == "warning" and "laptop 不在线" in tap.toast["content"]
    machine.start()
    wait_until(lambda: channel(machine)["state"] == "up")
    wait_until(machine.waiting)
    assert hook.poll() is None, "a tap that was refused must not be applied later"

    def is_denied() -> bool:
        if feishu.buttons(message):
            feishu.tap(message, "拒绝运行")
        return hook.poll() is not None

    wait_until(is_denied)
    assert decision(finish(hook))["behavior"] == "deny"


def test_health_readiness_and_figures(gateway: RunningGateway) -> None:
    assert gateway.get("/healthz") == (200, "ok\n")
    assert gateway.get("/readyz") == (200, "ready\n")
    status, text = gateway.get("/metrics")
    assert status == 200 and "feishuperm_machines 0" in text
    through_proxy = {"X-Forwarded-For": "192.0.2.1"}
    assert gateway.get("/metrics", **through_proxy)[0] == 403
    assert gateway.get("/machine")[0] == 426
    assert gateway.get("/")[0] == 404


def test_leave_undoes_join(
    pyz: Path, tmp_path: Path, gateway: RunningGateway, feishu: FakePlatform
) -> None:
    home = tmp_path / "box"
    config = home / ".config" / "feishuperm" / "config.env"
    config.parent.mkdir(parents=True)
    config.write_text("# mine\nFEISHUPERM_LANG=en\n")
    before = config.read_bytes()
    join(pyz, home, gateway, feishu)
    assert config.read_bytes() != before
    served = Served(pyz, home)
    done = subprocess.run([str(pyz), "leave"], env=served.environ, timeout=30)
    assert done.returncode == 0
    assert config.read_bytes() == before
    assert not (config.parent / "gateway.json").exists()


def test_gateway_tells_of_itself_in_status_and_doctor(gateway: RunningGateway) -> None:
    done = gateway.run("status")
    assert done.returncode == 0 and "connected machines: 0" in done.stdout
    assert "app up" in done.stdout
    findings = json.loads(gateway.run("doctor", "--json").stdout)
    rows = findings["checks"] if isinstance(findings, dict) else findings
    assert [row["state"] for row in rows if row["check"] == "gateway"] == ["ok"]


def test_join_names_who_confirmed_as_the_directory_does(
    pyz: Path, tmp_path: Path, gateway: RunningGateway, feishu: FakePlatform
) -> None:
    feishu.people[OWNER] = "韩梅梅"
    said = join(pyz, tmp_path / "box", gateway, feishu)
    assert f"韩梅梅 ({OWNER})" in said
    assert enrolment(tmp_path / "box")["owner_name"] == "韩梅梅"


def test_agent_cannot_give_its_machine_to_a_gateway_of_its_own(
    pyz: Path, tmp_path: Path, gateway: RunningGateway
) -> None:
    """Whoever owns the gateway answers for the machine."""
    environ = {**gateway.environ, "HOME": str(tmp_path), "CLAUDECODE": "1"}
    done = subprocess.run(
        [str(pyz), "join", gateway.url], env=environ, text=True, capture_output=True,
        timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "inside a session" in done.stderr
    assert "pairing code" not in done.stdout and "配对码" not in done.stdout


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "restarted"])
def test_request_whose_only_surface_went_away_is_released_not_denied(
    pyz: Path, tmp_path: Path, gateway: RunningGateway, feishu: FakePlatform,
    is_restarted: bool,
) -> None:  # fmt: skip
    home = tmp_path / "laptop"
    join(pyz, home, gateway, feishu)
    with Served(pyz, home, PERMISSION_REQUEST_TIMEOUT="8") as machine:
        wait_until(lambda: channel(machine)["state"] == "up")
        cards = len(feishu.app_messages)
        hook = machine.hook(event())
        card_of(feishu, cards)
        wait_until(lambda: is_shown(machine))
        gateway.kill()
        if is_restarted:
            machine.kill()
            machine.start()
        assert finish(hook) == ""
        assert "a phone cannot open" not in machine.output()


def test_server_in_a_terminal_leaves_with_its_machine_and_restarts_there(
    machine: Served, gateway: RunningGateway
) -> None:
    """Its process stays, and so do the requests that are pending."""

    def run(*words: str) -> str:
        done = subprocess.run(
            [machine.pyz, *words], env=machine.environ, cwd=machine.home, text=True,
            capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    hook = machine.hook(event())
    wait_until(lambda: (machine.status() or {})["waiting_count"] == 1)
    assert "restarted" in run("leave")
    assert channel(machine)["state"] == "none"
    wait_until(lambda: not gateway.machines()[0]["connected"])
    wait_until(lambda: (machine.status() or {})["waiting_count"] == 1)
    assert machine.process is not None
    assert f"pid {machine.process.pid}" in run("restart")
    wait_until(lambda: (machine.status() or {})["waiting_count"] == 1)
    assert hook.poll() is None


@pytest.mark.parametrize("broken", ["[" * 100_000, "{}", '{"machine": 7}', None])
def test_gateway_that_does_not_fit_is_a_channel_that_is_down(
    pyz: Path, tmp_path: Path, broken: str | None
) -> None:
    home = tmp_path / "laptop"
    (home / ".config" / "feishuperm").mkdir(parents=True, mode=0o700)
    if broken is not None:
        (home / ".config" / "feishuperm" / "gateway.json").write_text(broken)
    with Served(pyz, home, FEISHUPERM_GATEWAY="https://127.0.0.1:9") as machine:
        row = channel(machine)
        assert row["state"] == "down" and row["detail"]
        assert "inbox" in {row["name"] for row in (machine.status() or {})["channels"]}


def test_doctor_finds_a_machine_that_was_revoked(
    machine: Served, gateway: RunningGateway
) -> None:
    def findings() -> dict[str, dict[str, str]]:
        done = subprocess.run(
            [machine.pyz, "doctor", "--json"], env=machine.environ, cwd=machine.home,
            text=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
        return {row["check"]: row for row in json.loads(done.stdout)}

    found = findings()
    assert found["gateway"]["state"] == found["feishu"]["state"] == "ok"
    assert (
        gateway.run("machines", "revoke", gateway.machines()[0]["id"]).returncode == 0
    )
    wait_until(lambda: channel(machine)["state"] == "down")
    found = findings()
    assert found["gateway"]["state"] == "fail" and "revoked" in found["gateway"]["text"]
    assert found["gateway"]["fix"].endswith(f"join {gateway.url}")


def test_doctor_tells_a_gateway_that_is_away_from_one_that_revoked(
    machine: Served, gateway: RunningGateway
) -> None:
    gateway.stop()
    wait_until(lambda: channel(machine)["state"] == "down")
    done = subprocess.run(
        [machine.pyz, "doctor", "--json"], env=machine.environ, cwd=machine.home,
        text=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
        check=False,
    )  # fmt: skip
    found = {row["check"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 1 and found["gateway"]["state"] == "fail"
    assert found["gateway"]["text"].startswith("the gateway is down: ")
    assert "join" not in found["gateway"]["fix"]
    assert "setup" not in str(found["feishu"])


def open_socket(gateway: RunningGateway) -> tuple[socket.socket, MachineWire]:
    """A WebSocket to the gateway that has not logged in."""
    sock, rest = dial_gateway(
        gateway.url,
        lambda url: socket.create_connection(("127.0.0.1", gateway.port), 10),
    )
    wire = MachineWire(True, 0.0)
    wire.receive_data(rest, 0.0)
    return sock, wire


def test_silent_sockets_beyond_the_limit_of_files_stop_no_card(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    limited = tmp_path / "limited"
    limited.write_text(f'#!/bin/sh\nulimit -n 256\nexec {pyz} "$@"\n')
    limited.chmod(0o755)
    with contextlib.ExitStack() as stack:
        gateway = stack.enter_context(
            RunningGateway(limited, tmp_path / "gateway", feishu)
        )
        home = tmp_path / "laptop"
        join(pyz, home, gateway, feishu)
        machine = stack.enter_context(Served(pyz, home))
        wait_until(lambda: channel(machine)["state"] == "up")
        for _ in range(300):
            with contextlib.suppress(OSError, FeishupermError):
                stack.enter_context(open_socket(gateway)[0])
        cards = len(feishu.app_messages)
        hook = machine.hook(event())
        tap = feishu.tap(card_of(feishu, cards), "批准运行")
        assert tap.ok and decision(finish(hook)) == {"behavior": "allow"}
        assert gateway.get("/healthz")[0] == 200
        assert "Too many open files" not in gateway.output()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_machine_that_floods_fills_no_memory(
    pyz: Path, tmp_path: Path, gateway: RunningGateway, feishu: FakePlatform
) -> None:
    join(pyz, tmp_path / "hostile", gateway, feishu, "--name", "hostile")
    own = enrolment(tmp_path / "hostile")
    sock, wire = open_socket(gateway)
    with sock:
        while (hello := wire.next_event()) is None:
            wire.receive_data(sock.recv(65536), 0.0)
        parts = (LOGIN, "1", own["machine"], hello["nonce"], "n")
        proof = prove(bytes.fromhex(own["keys"][0]), *parts)
        wire.send("login", machine=own["machine"], nonce="n", instance="i",
                  proofs=[proof])  # fmt: skip
        sock.sendall(wire.data_to_send())
        wait_until(lambda: gateway.machines()[0]["connected"])
        assert gateway.process is not None
        status = Path(f"/proc/{gateway.process.pid}/status")

        def resident() -> int:
            words = status.read_text().partition("VmRSS:")[2].split()
            return int(words[0]) // 1024

        before = resident()
        sock.settimeout(0.5)
        wire.send("settle", outcome={"id": "x", "detail": "x" * 500_000})
        wire.send("news", filling="x" * 500_000)
        data = wire.data_to_send() * 20
        with contextlib.suppress(OSError):
            for _ in range(10):  # 200 MB, if somebody takes them
                sock.sendall(data)
        assert resident() - before < 60
        assert gateway.get("/healthz")[0] == 200


# What the app can, a gateway can.


@pytest.fixture
def patient(
    pyz: Path, tmp_path: Path, gateway: RunningGateway, feishu: FakePlatform
) -> Iterator[Served]:
    """A machine that gives a person who reads more time, and lets them grant."""
    home = tmp_path / "laptop"
    join(pyz, home, gateway, feishu, "--name", "laptop")
    wishes = {
        "PERMISSION_REQUEST_TIMEOUT": "60", "PERMISSION_HOLD": "600",
        "FEISHUPERM_GATEWAY_GRANTS": "on",
    }  # fmt: skip
    with Served(pyz, home, **wishes) as server:
        wait_until(lambda: channel(server)["state"] == "up")
        yield server


def test_reading_through_a_gateway_gives_time_and_changes_the_card_once(
    patient: Served, feishu: FakePlatform
) -> None:
    cards = len(feishu.app_messages)
    hook = patient.hook(event())
    message = card_of(feishu, cards)
    wait_until(lambda: is_shown(patient))
    tap = feishu.tap(message, "我在看")
    assert tap.ok and tap.toast["type"] == "success"
    wait_until(lambda: feishu.patches)
    wait_until(lambda: "我在看" not in str(feishu.buttons(message)))
    assert len(feishu.patches) == 1
    assert feishu.tap(message, "批准运行").toast["content"] == "已批准运行"
    assert decision(finish(hook)) == {"behavior": "allow"}


def test_words_to_a_gateway_are_about_ones_machines(
    patient: Served, feishu: FakePlatform
) -> None:
    cards = len(feishu.app_messages)
    hook = patient.hook(event())
    message = card_of(feishu, cards)

    def said(words: str) -> str:
        before = len(feishu.replies)
        feishu.say(words)
        wait_until(lambda: len(feishu.replies) > before)
        return json.dumps(feishu.replies[-1], ensure_ascii=False)

    assert "laptop" in said("状态") and "1. " in said("状态")
    assert "静音到" in said("静音 laptop 1h")
    quiet = patient.hook({**event(), "session_id": "another"})
    assert finish(quiet) == "", "nobody is asked: the terminal decides"
    assert "已恢复" in said("恢复")
    assert feishu.tap(message, "批准运行").ok
    assert decision(finish(hook)) == {"behavior": "allow"}


def test_many_requests_share_a_card_and_are_allowed_by_one_tap(
    patient: Served, feishu: FakePlatform
) -> None:
    cards = len(feishu.app_messages)
    hooks = [
        patient.hook({**event(), "tool_input": {"command": f"echo {number}"}})
        for number in range(9)
    ]
    wait_until(lambda: len(feishu.app_messages) >= cards + 6)

    def shared() -> str:
        ids = list(feishu.app_messages)[cards:]
        full = [id for id in ids if "×4" in str(feishu.card(id))]
        return full[0] if full else ""

    wait_until(shared)
    tap = feishu.tap(shared(), "全部批准")
    assert tap.ok and tap.toast["type"] == "success"
    wait_until(lambda: sum(hook.poll() is not None for hook in hooks) == 4)
    for id in list(feishu.app_messages)[cards:]:
        if id != shared():
            assert feishu.tap(id, "批准运行").toast["content"] == "已批准运行"
    outputs = [decision(finish(hook)) for hook in hooks]
    assert outputs == [{"behavior": "allow"}] * 9
    wait_until(lambda: feishu.buttons(shared()) == [])
