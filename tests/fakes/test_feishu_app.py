"""The fake platform is true: the official client works against it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import wait_until
from tests.fakes.feishu import APP_ID, APP_SECRET
from tests.fakes.feishu_app import OWNER, FakePlatform

CLIENT = """\
import sys
import lark_oapi as lark
from lark_oapi.event.callback.model.p2_card_action_trigger import (
    P2CardActionTriggerResponse,
)

def tapped(event):
    said = f"{event.event.operator.open_id} {event.event.action.value['action']}"
    return P2CardActionTriggerResponse({"toast": {"type": "info", "content": said}})

builder = lark.EventDispatcherHandler.builder("", "")
builder.register_p2_card_action_trigger(tapped)
builder.register_p2_im_message_receive_v1(lambda event: None)
app, secret, domain = sys.argv[1:]
lark.ws.Client(app, secret, event_handler=builder.build(), domain=domain).start()
"""


@pytest.mark.sdk
def test_official_client_connects_takes_a_tap_and_answers_it() -> None:
    with FakePlatform() as feishu:
        command = [sys.executable, "-c", CLIENT, APP_ID, APP_SECRET, feishu.base_url]
        client = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_until(lambda: feishu.connections.open and feishu.connections.pings)
            feishu.app_messages["om_1"] = {"msg_type": "interactive", "content": "{}"}
            action = {"tag": "button", "value": {"action": "allow"}}
            for parts in (1, 3):
                tap = feishu.act("om_1", action, parts=parts)
                assert tap.ok, tap
                assert tap.toast == {"type": "info", "content": f"{OWNER} allow"}
            assert feishu.say("hello") == {"code": 200}
        finally:
            client.kill()
            client.wait(10)
