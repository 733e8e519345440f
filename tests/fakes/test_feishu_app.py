"""The fake platform is true: both official clients work against it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.conftest import wait_until
from tests.fakes.feishu import APP_ID, APP_SECRET, Refusal
from tests.fakes.feishu_app import OWNER, PIN_SCOPE, FakePlatform
from tests.system_parts import NODE_SDK

CLIENT = """\
import os, sys
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
reads = []

def read(event):
    reads.append((event.event.reader.reader_id.open_id, event.event.message_id_list))
    assert int(event.event.reader.read_time) > 1e12

builder.register_p2_im_message_message_read_v1(read)
app, domain = sys.argv[1:]
secret = os.environ["SECRET"]  # its process may be listed while another test looks
lark.ws.Client(app, secret, event_handler=builder.build(), domain=domain).start()
"""


# Sends a card, turns a tap into a toast and another card, a text into a change.
NODE_CLIENT = """\
const lark = require("@larksuiteoapi/node-sdk");
const [appId, domain, owner] = process.argv.slice(1);
const appSecret = process.env.SECRET;
const options = { appId, appSecret, domain, loggerLevel: lark.LoggerLevel.error };
const client = new lark.Client(options);
const card = (words, elements) => ({
  schema: "2.0",
  header: { title: { tag: "plain_text", content: words } },
  body: { elements },
});
const button = {
  tag: "button",
  text: { tag: "plain_text", content: "allow" },
  behaviors: [{ type: "callback", value: { action: "allow" } }],
};
let message;
const pin = (up) =>
  client.im.v2.feedCard.botTimeSentive({
    params: { user_id_type: "open_id" },
    data: { time_sensitive: up, user_ids: [owner] },
  });
const dispatcher = new lark.EventDispatcher({}).register({
  "card.action.trigger": async (event) => ({
    toast: {
      type: "info",
      content: `${event.operator.open_id} ${event.action.value.action}`,
    },
    card: { type: "raw", data: card("tapped", []) },
  }),
  "im.message.message_read_v1": async (event) => {
    const { open_id: reader } = event.reader.reader_id;
    await pin(event.message_id_list.length > 0 && reader === owner);
  },
  "im.message.receive_v1": async (event) => {
    const words = JSON.parse(event.message.content).text;
    const content = JSON.stringify(card(words, []));
    await client.im.message.patch({
      path: { message_id: message },
      data: { content },
    });
  },
});
client.im.message
  .create({
    params: { receive_id_type: "open_id" },
    data: {
      receive_id: owner,
      msg_type: "interactive",
      content: JSON.stringify(card("sent", [button])),
      uuid: "u-1",
    },
  })
  .then((answer) => {
    message = answer.data.message_id;
    new lark.WSClient(options).start({ eventDispatcher: dispatcher });
  });
"""


@contextlib.contextmanager
def running(command: list[str], **environ: str) -> Iterator[None]:
    """A client as a process of its own, ended by its id."""
    client = subprocess.Popen(
        command,
        env={**os.environ, "SECRET": APP_SECRET, **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        client.kill()
        client.wait(10)


@pytest.mark.sdk
def test_official_client_connects_takes_a_tap_and_answers_it() -> None:
    with FakePlatform() as feishu:
        command = [sys.executable, "-c", CLIENT, APP_ID, feishu.base_url]
        with running(command):
            wait_until(lambda: feishu.connections.open and feishu.connections.pings)
            feishu.app_messages["om_1"] = {"msg_type": "interactive", "content": "{}"}
            action = {"tag": "button", "value": {"action": "allow"}}
            for parts in (1, 3):
                tap = feishu.act("om_1", action, parts=parts)
                assert tap.ok, tap
                assert tap.toast == {"type": "info", "content": f"{OWNER} allow"}
            assert feishu.say("hello") == {"code": 200}
            assert feishu.read("om_1") is None  # the app is not told
            feishu.tells_reading = True
            assert feishu.read("om_1", "om_2") == {"code": 200}


@pytest.mark.node
def test_official_node_client_sends_takes_a_tap_and_changes_its_card() -> None:
    with FakePlatform() as feishu:
        command = ["node", "-e", NODE_CLIENT, APP_ID, feishu.base_url, OWNER]
        with running(command, NODE_PATH=str(NODE_SDK / "node_modules")):
            wait_until(lambda: feishu.connections.open and feishu.connections.pings)
            assert feishu.card(feishu.last)["header"]["title"]["content"] == "sent"
            sent = feishu.app_messages[feishu.last]["content"]
            for parts in (1, 3):
                feishu.app_messages[feishu.last]["content"] = sent
                tap = feishu.tap(feishu.last, "allow", parts=parts)
                assert tap.ok, tap
                assert tap.toast == {"type": "info", "content": f"{OWNER} allow"}
                assert tap.card == feishu.card(feishu.last)
                assert feishu.buttons(feishu.last) == []
            assert feishu.say("changed") == {"code": 200}
            (change,) = wait_until(lambda: feishu.patches)
            assert change[0] == feishu.last
            assert change[1]["header"]["title"]["content"] == "changed"
            feishu.tells_reading = True
            feishu.granted.append(PIN_SCOPE)
            assert feishu.read(feishu.last) == {"code": 200}
            assert feishu.pinned == {OWNER} and feishu.pins == [(True, [OWNER])]
            assert feishu.read() == {"code": 200}
            assert feishu.pinned == set()


def pin(
    feishu: FakePlatform, query: str = "user_id_type=open_id", **body: object
) -> int:
    """The code of an answer to a call about the list."""
    request = urllib.request.Request(
        f"{feishu.base_url}/open-apis/im/v2/feed_cards/bot_time_sentive?{query}",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {feishu.tenant_token}"},
        method="PATCH",
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(json.load(answer)["code"])
    except urllib.error.HTTPError as error:
        return int(json.load(error)["code"])


def test_fake_puts_the_chat_on_top_only_of_those_it_may_and_only_when_asked_well() -> (
    None
):
    with FakePlatform() as feishu:
        good = {"time_sensitive": True, "user_ids": [OWNER, "ou_far"]}
        assert pin(feishu, **good) == 99991672  # no permission, as most apps
        feishu.granted.append(PIN_SCOPE)
        for bad in (
            {}, {"time_sensitive": True}, {**good, "user_ids": []},
            {**good, "time_sensitive": 1}, {**good, "user_ids": ["om_1"]},
            {**good, "more": 1}, {**good, "user_ids": OWNER},
        ):  # fmt: skip
            assert pin(feishu, **bad) == 99992402
        assert pin(feishu, "user_id_type=user_id", **good) == 99992402
        assert feishu.pinned == set() and feishu.pins == []
        feishu.unreachable.add("ou_far")
        assert pin(feishu, **good) == 0 and feishu.pinned == {OWNER}
        feishu.pin_refusals.append(Refusal(99991400, "request trigger limit", 429))
        assert pin(feishu, **{**good, "time_sensitive": False}) == 99991400
        assert pin(feishu, **{**good, "time_sensitive": False}) == 0
        assert feishu.pinned == set()
