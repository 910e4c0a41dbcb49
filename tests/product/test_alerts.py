# SPDX-License-Identifier: Apache-2.0
"""Alerts of a live node with simulated cards (SIM): a card gets busy, all are told, it rests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fakes.post_server import PostServer
from fakes.pty_screen import PtyScreen
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from product_node import STOKER, LiveNode, live_node, wait_until

from stoker.agent.alerts import alert_files
from stoker.mesh.wire.schema_telemetry import TelemetryReadRequest
from stoker.native import _sim
from stoker.probes.simdriver import libraries, profiles

pytestmark = pytest.mark.needs_root

BUSY, REST = (0.9, 0.0, 1.0), (0.0, 0.0, 1.0)
CONFIG = """\
[alerts]
interval_s = 0.5
webhook = "{url}/hook"
webhook_headers = {{ X-Key = "s3cret" }}
otel_logs = true

[otlp]
endpoint = "{url}"
interval_s = 600

[[alert]]
name = "busy"
metric = "hw.gpu.utilization"
above = 0.5
clear = 0.2
for_s = 1
text = "find out who it is"

[[alert]]
name = "losses"
metric = "stoker.job.lost"
above = 0
"""


class Scene:
    """A node, its cards, and the server to which it tells alerts."""

    def __init__(self, node: LiveNode, sim: _sim.Node, server: PostServer) -> None:
        self.node, self.sim, self.server = node, sim, server

    def hooked(self) -> list[tuple[str, str, str]]:
        """Return change, rule and card of each POST to the webhook."""
        posts = [json.loads(each.body) for each in self.server.heard if each.path == "/hook"]
        return [
            (each["change"], each["alert"]["rule"], each["alert"]["series"]["hw.id"])
            for each in posts
        ]

    def logged(self) -> list[str]:
        """Return the name of each log record at the collector."""
        found = []
        for post in self.server.heard:
            if post.path == "/v1/logs":
                request = logs_service_pb2.ExportLogsServiceRequest()
                request.ParseFromString(post.body)
                records = request.resource_logs[0].scope_logs[0].log_records
                found += [each.event_name for each in records]
        return found

    def published(self) -> list[str]:
        """Return each change that the bus kept."""
        request = TelemetryReadRequest(kind="alerts", since_s=600)
        found: Any = self.node.ask(lambda client: client.telemetry(request)).messages
        return [each.data["change"] for each in found]

    def firing(self) -> list[Any]:
        found: Any = self.node.json("alerts")["alerts"]
        return list(found)

    def wait_told(self, change: str, count: int) -> None:
        """Wait until every sink was told so many changes of alerts, the last of which is this."""
        record = f"stoker.alert.{change}"
        wait_until(lambda: [each[0] for each in self.hooked()][count - 1 :] == [change], "hook", 40)
        wait_until(lambda: self.logged()[count - 1 :] == [record], "a log record", 40)
        wait_until(lambda: self.published()[count - 1 :] == [change], "a message", 40)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("sim") / "node"
    sim = profiles.node("4xL40S", folder, seed=11)
    sim.set_open(True)
    server = PostServer()

    def prepare(node: LiveNode) -> None:
        node.root.mkdir(mode=0o700)
        (node.root / "config.toml").write_text(CONFIG.format(url=server.url))

    for card in range(4):
        sim.set_load(card, *REST)
    variables = libraries.environment(folder, [1], {})
    try:
        with live_node(device_kind="gpu", prepare=prepare, **variables) as node:
            yield Scene(node, sim, server)
    finally:
        server.close()


def test_a_reading_that_crosses_is_told_to_every_sink_until_it_is_resolved(scene: Scene) -> None:
    node = scene.node
    wait_until(lambda: _watched(node).get("busy") == 4, "four cards are watched", 60)
    assert node.stoker("alerts").stdout.decode().splitlines()[0] == "no alert fires"
    scene.sim.set_load(0, *BUSY)
    scene.wait_told("firing", 1)
    (alert,) = scene.firing()
    card = alert["series"]["hw.id"]
    assert scene.hooked() == [("firing", "busy", card)]
    assert alert["value"] > 0.5
    assert "hw.gpu.utilization is 0." in alert["reason"]
    assert ", above 0.5 for " in alert["reason"]
    check_the_table(node, card)

    check_the_live_view_shows_and_acknowledges_it(scene, f"a{alert['id']}")
    scene.wait_told("acknowledged", 2)
    check_another_agent_goes_on(scene)

    scene.sim.set_load(0, *REST)
    scene.wait_told("resolved", 3)
    assert scene.firing() == []
    told = node.stoker("events", "--kind", "alerts").stdout.decode()
    assert f"a{alert['id']}  resolved  busy" in told
    assert f"{card}  SIM" in told
    ended: Any = node.json("alerts", "history")["alerts"]
    assert [(each["state"], each["id"]) for each in ended] == [("resolved", alert["id"])]
    assert "not above 0.2" in ended[0]["reason"]
    assert ended[0]["acknowledged"]["why"] == "from stoker top"
    check_the_live_view_has_what_was_resolved(node)
    assert all(each.headers.get("X-Key") for each in scene.server.heard if each.path == "/hook")


def check_the_table(node: LiveNode, card: str) -> None:
    """People see which card, that it is simulated, why, what to do, and a rule without series."""
    said = node.stoker("alerts").stdout.decode()
    assert f"{card} SIM" in said
    assert "above 0.5 for" in said
    assert "find out who it is" in said
    assert "rule losses watches nothing: this node has no such series stoker.job.lost" in said
    assert b"s3cret" not in node.stoker("config", "print").stdout


def top(node: LiveNode, *words: str) -> PtyScreen:
    return PtyScreen([str(STOKER), "top", *words], node.environment, 100, 30)


def check_the_live_view_shows_and_acknowledges_it(scene: Scene, alert: str) -> None:
    """Every view says that it fires; `a` asks, is refused with --readonly, and `stoker alerts` has
    what was acknowledged."""
    node = scene.node
    with top(node, "alerts", "--readonly") as screen:
        screen.wait_for("find out who it is")
        screen.press("a")
        screen.wait_for("a changes something, and this view is --readonly")
        screen.press("q")
        assert screen.wait_end() == 0
    assert scene.firing()[0]["acknowledged"] is None
    with top(node, "jobs") as screen:
        screen.wait(lambda s: "! 1 alert" in s.lines[0] and "live" in s.lines[0], "the mark")
        screen.press(":alerts\r")
        screen.wait(lambda s: f"{alert} " in s.text and "FIRING" in s.text, "the alert")
        screen.wait(lambda s: "rules that watch nothing: losses" in s.text, "a rule without series")
        screen.wait(lambda s: "SIM" in s.text and "above 0.5" in s.text, "what has crossed")
        screen.press("a")
        screen.wait(
            lambda s: "acknowledge alert " in s.text and f":{alert}?" in s.text, "a question"
        )
        screen.press("n")
        screen.wait_for("nothing was changed")
        screen.press("ay")
        screen.wait_for(f":{alert}: acknowledged")
        screen.wait(lambda s: "1 alert seen" in s.lines[0] and "seen by: " in s.text, "who saw it")
        screen.press("q")
        assert screen.wait_end() == 0
    said = node.stoker("alerts").stdout.decode()
    assert "acknowledged" in said and "from stoker top" in said


def check_the_live_view_has_what_was_resolved(node: LiveNode) -> None:
    """The mark goes with the node's next observation, and the row stays."""

    def said() -> str:
        return node.stoker("top", "alerts", "--plain", "--once").stdout.decode()

    wait_until(lambda: said().startswith("Alerts  SIM  live"), "the mark is gone", 40)
    assert "resolved" in said() and "not above 0.2" in said()
    file = str(node.root / "alerts.rec")
    node.stoker("record", "--for", "500ms", "--interval", "0.2", file)
    replayed = node.stoker("top", "alerts", "--replay", file, "--once").stdout.decode()
    assert "not above 0.2" in replayed and "REPLAY" in replayed and "SIM" in replayed


def check_another_agent_goes_on(scene: Scene) -> None:
    """The next agent has the alert and its acknowledgement, and tells nothing again."""
    node = scene.node
    before = node.json("alerts")["judged_ns"]
    old = node.kill("agent")
    node.wait_for_new("agent", old)
    wait_until(lambda: _newer(node, before), "the next agent judges", 40)
    (alert,) = scene.firing()
    assert alert["acknowledged"]["why"] == "from stoker top"
    assert [change for change, _, _ in scene.hooked()] == ["firing", "acknowledged"]


def _watched(node: LiveNode) -> dict[str, int]:
    found = alert_files.read_status(node.state.run)
    return {each.name: each.series for each in found.rules} if found is not None else {}


def _newer(node: LiveNode, before: Any) -> bool:
    found = alert_files.read_status(node.state.run)
    return found is not None and found.t_ns > before and _watched(node).get("busy") == 4
