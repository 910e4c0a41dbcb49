# SPDX-License-Identifier: Apache-2.0
"""Alerts over the bus: who may read them, which nodes are asked, and what is missing is named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from fakes import top_cluster

from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.server import node_proxy_alerts
from stoker.mesh.wire import queries
from stoker.mesh.wire.queries import AlertsQuery, AlertsReply
from stoker.mesh.wire.schema_alerts import AlertAckRequest, AlertList, AlertRequest, NodeAlerts
from stoker.native.errors import Denied, NotFound, Unavailable
from stoker.scheduler.nouns import AlertCounts, Observation

HOT, IDLE, OVER = top_cluster.alerts().alerts
COUNTS = {
    "calm": AlertCounts(0, 0, 0),
    "no-rules": None,
    "n1": AlertCounts(1, 1, 1),
    "n2": AlertCounts(1, 0, 0),
    "mad": AlertCounts(-7, 1 << 63, 1),
    "gone": AlertCounts(2, 2, 0),
}
ANSWERS = {
    "n1": NodeAlerts(alerts=(OVER, HOT), left_out=3),
    "n2": NodeAlerts(alerts=(msgspec.structs.replace(IDLE, node="n1"),)),
}


class Nodes:
    """The replica's knowledge of nodes, and the nodes that answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, AlertsQuery]] = []
        self.broken = ""
        now_ns = boot_ns()
        heard = {
            name: (Observation(1, name, 1, 0, 0, alerts=counts),
                   now_ns - (6 * 10**9 if name == "gone" else 0))
            for name, counts in COUNTS.items()
        }  # fmt: skip
        book = SimpleNamespace(nodes=dict.fromkeys(COUNTS))
        self.replica: Any = SimpleNamespace(
            state=SimpleNamespace(book=book), nodes=SimpleNamespace(observations=heard)
        )

    async def ask(self, node: str, what: str, payload: bytes, timeout_s: float) -> bytes:
        query = queries.decode_query(payload)
        assert what == "alerts" and isinstance(query, AlertsQuery)
        self.asked.append((node, query))
        if node not in ANSWERS:
            raise Unavailable(f"node {node} did not answer within 1 s")
        data = msgspec.json.encode(ANSWERS[node]) if node != self.broken else b"{]"
        return queries.encode(AlertsReply(data, True))

    async def list(self, *, counts: bool = False, admin: bool = True) -> AlertList:
        request = AlertRequest(counts=counts)
        return await node_proxy_alerts.listed(self.replica, self.ask, request, admin=admin)


async def test_everybody_may_know_how_many_fire_and_no_node_is_asked_for_that() -> None:
    nodes = Nodes()
    found = await nodes.list(counts=True, admin=False)
    assert (found.firing, found.alerts, nodes.asked) == (4, (), [])
    assert found.unseen == 3 + node_proxy_alerts.COUNT_MAX, "no node is believed everything"


async def test_only_administrators_read_them() -> None:
    nodes = Nodes()
    with pytest.raises(Denied, match="only an administrator reads the alerts"):
        await nodes.list(admin=False)
    request = AlertAckRequest(node="n1", alerts=(12,))
    with pytest.raises(Denied):
        await node_proxy_alerts.acknowledge(nodes.replica, nodes.ask, request, "bob", admin=False)
    assert nodes.asked == []


async def test_nodes_with_alerts_are_asked_and_absent_ones_named() -> None:
    nodes = Nodes()
    found = await nodes.list()
    assert sorted(node for node, _ in nodes.asked) == ["mad", "n1", "n2"]
    assert found.absent == {"gone": "it is silent", "mad": "node mad did not answer within 1 s"}
    assert [(each.node, each.alert) for each in found.alerts] == [("n1", 12), ("n2", 4), ("n1", 11)]
    assert found.left_out == 3 and set(found.judged) == {"n1", "n2"}


async def test_an_unreadable_answer_is_a_reason_and_too_many_rows_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = Nodes()
    row = msgspec.structs.replace(HOT, reason="x" * 2000)
    monkeypatch.setitem(ANSWERS, "n1", NodeAlerts(alerts=(row,) * 300))
    nodes.broken = "n2"
    found = await nodes.list()
    assert found.absent["n2"].startswith("its answer cannot be read")
    assert 0 < len(found.alerts) < 300 and len(found.alerts) + found.left_out == 300


async def test_an_acknowledgement_goes_to_its_node_in_the_users_name() -> None:
    nodes = Nodes()
    request = AlertAckRequest(node="n1", alerts=(12,), reason="seen")
    done = await node_proxy_alerts.acknowledge(nodes.replica, nodes.ask, request, "ada", admin=True)
    assert done.changed
    assert nodes.asked == [("n1", AlertsQuery("acknowledge", (12,), "ada", "seen"))]
    request = AlertAckRequest(node="n9", alerts=(12,))
    with pytest.raises(NotFound, match="there is no node n9"):
        await node_proxy_alerts.acknowledge(nodes.replica, nodes.ask, request, "ada", admin=True)
