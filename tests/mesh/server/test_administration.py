# SPDX-License-Identifier: Apache-2.0
"""Queues, quotas, labels, reservations and drained nodes, from the request to what is shown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.replica.works.work import AdminApplied, AdminWork, HelloWork
from stoker.mesh.replica.works.work_queue import WorkQueue
from stoker.mesh.server import administration, cluster_views, explanation
from stoker.mesh.server.service import Service
from stoker.mesh.wire import schema
from stoker.mesh.wire.schema import (
    DeviceCordonRequest,
    DeviceUncordonRequest,
    NodeDrainRequest,
    NodeLabelRequest,
    NodeReserveRequest,
    QueueQuotaRequest,
    QueueRemoveRequest,
    QueueSetRequest,
)
from stoker.mesh.wire.subjects import UserRequest
from stoker.native.errors import BadRequest, Denied, NotFound, Refused, StokerError
from stoker.scheduler import records
from stoker.scheduler.book import Eviction
from stoker.scheduler.names import name_id, queue_id
from stoker.scheduler.nouns import Account, Owner
from stoker.scheduler.reasons import Reason
from tests.mesh.bench import Bench

VERBS = {
    QueueSetRequest: ("queue", "set"),
    QueueRemoveRequest: ("queue", "remove"),
    QueueQuotaRequest: ("queue", "quota"),
    NodeLabelRequest: ("node", "label"),
    NodeReserveRequest: ("node", "reserve"),
    NodeDrainRequest: ("node", "drain"),
    DeviceCordonRequest: ("device", "cordon"),
    DeviceUncordonRequest: ("device", "uncordon"),
}


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return Bench(signer).lead().hello()


def settle(bench: Bench, request: Any) -> Any:
    """Return True if the request changed anything, or the error that it met."""
    handler: Any = administration.HANDLERS[VERBS[type(request)]]
    token = ("admin", len(bench.replies))
    bench.feed(handler(token, request, bench.replica.state, bench.now))
    reply = bench.replies[token]
    return reply.changed if isinstance(reply, AdminApplied) else reply


def queue(bench: Bench, name: str) -> schema.QueueView | None:
    rows = cluster_views.queue_list(bench.replica, bench.now).queues
    return next((row for row in rows if row.queue == name), None)


def node(bench: Bench) -> schema.NodeView:
    return cluster_views.node_list(bench.replica, bench.now).nodes[0]


def test_a_new_cluster_and_a_queue_made_without_an_order_backfill(bench: Bench) -> None:
    """A job that can never start delays no other job."""
    settle(bench, schema.QueueSetRequest("q"))
    shown = [queue(bench, name) for name in ("default", "q")]
    assert [view.order for view in shown if view] == ["backfill", "backfill"]


def test_a_queue_is_fair_where_its_level_lets(bench: Bench) -> None:
    assert settle(bench, QueueSetRequest("default", order="fair")) is True
    assert settle(bench, QueueSetRequest("default", order="backfill")) is True
    state = bench.replica.state
    state.config = msgspec.structs.replace(state.config, level=3)
    with pytest.raises(Refused, match="no queue has the order fair at feature level 3") as refused:
        administration.queue_set(None, QueueSetRequest("default", order="fair"), state, 0)
    assert "stoker cluster upgrade" in refused.value.hint


def test_a_queue_is_made_once_changed_in_part_and_removed(bench: Bench) -> None:
    made = QueueSetRequest(queue="a", weight=3, order="least-attained", placement="power")
    assert settle(bench, made) is True
    assert settle(bench, made) is False
    assert settle(bench, QueueSetRequest(queue="a", weight=4)) is True
    row = queue(bench, "a")
    assert row is not None
    assert (row.weight, row.order, row.placement) == (4, "least-attained", "power")
    assert settle(bench, QueueRemoveRequest(queue="a")) is True
    assert settle(bench, QueueRemoveRequest(queue="a")) is False
    assert queue(bench, "a") is None
    assert bench.replica.state.book.queues == {}


def test_queues_are_listed_below_their_parents(bench: Bench) -> None:
    for name, parent in (("b", ""), ("a", ""), ("z", "a"), ("y", "b"), ("x", "z")):
        assert settle(bench, QueueSetRequest(queue=name, parent=parent)) is True
    rows = cluster_views.queue_list(bench.replica, bench.now).queues
    assert [(row.queue, row.parent) for row in rows] == [
        ("default", ""), ("a", ""), ("z", "a"), ("x", "z"), ("b", ""), ("y", "b"),
    ]  # fmt: skip
    bench.submit("s", queue="a")
    assert "a" in str(bench.replies["s"]) and isinstance(bench.replies["s"], StokerError)
    refused = settle(bench, QueueRemoveRequest(queue="a"))
    assert isinstance(refused, StokerError) and "queues below" in str(refused)


def test_what_a_queue_cannot_be_is_refused(bench: Bench) -> None:
    state = bench.replica.state
    for request, error in (
        (QueueSetRequest(queue="A b"), BadRequest),
        (QueueSetRequest(queue="a", parent="nowhere"), NotFound),
        (QueueSetRequest(queue="a", weight=0), BadRequest),
        (QueueRemoveRequest(queue="default"), BadRequest),
        (QueueQuotaRequest(queue="nowhere"), NotFound),
        (QueueQuotaRequest(queue="default", limit_milli=-1), BadRequest),
        (QueueQuotaRequest(queue="default", model="none such"), BadRequest),
        (NodeLabelRequest(node="nowhere", labels=("a=b",)), NotFound),
        (NodeLabelRequest(node="n1", labels=("ab",)), BadRequest),
        (NodeLabelRequest(node="n1", labels=tuple(f"k{n}=v" for n in range(33))), BadRequest),
        (NodeReserveRequest(node="n1", until_ns=5), BadRequest),
        (NodeReserveRequest(node="n1", from_ns=9, until_ns=9), BadRequest),
        (NodeReserveRequest(node="n1", queue="nowhere", until_ns=1 << 62), NotFound),
        (NodeDrainRequest(node="n1", reason="x" * 201), BadRequest),
    ):
        with pytest.raises(error):
            administration.HANDLERS[VERBS[type(request)]](0, request, state, bench.now)  # type: ignore[operator]


def test_two_names_with_one_id_are_not_mixed_up(bench: Bench) -> None:
    bench.replica.state.book.queues[queue_id("a")] = "somebody else"
    with pytest.raises(Refused, match="the same id"):
        administration.known_name("a", bench.replica.state)


def test_a_quota_of_a_model_is_set_shown_and_dropped(bench: Bench) -> None:
    settle(bench, QueueSetRequest(queue="a"))
    wanted = QueueQuotaRequest(queue="a", model="M", guaranteed_milli=500, limit_milli=700)
    assert settle(bench, wanted) is True
    assert settle(bench, wanted) is False
    row = queue(bench, "a")
    assert row is not None
    assert row.quotas == (
        schema.QuotaView(model="m", guaranteed_milli=500, limit_milli=700, used_milli=0),
    )
    bench.submit("s", queue="a", gpu_milli=800)
    assert bench.replies["s"].state == "pending"
    assert settle(bench, QueueQuotaRequest(queue="a", model="m")) is True
    row = queue(bench, "a")
    assert row is not None and row.quotas == ()
    assert bench.replica.state.book.get(1).state == "starting"


def test_a_label_gives_way_to_another_value_of_its_key(bench: Bench) -> None:
    assert settle(bench, NodeLabelRequest(node="n1", labels=("zone=a", "x=1"), cost=12)) is True
    assert settle(bench, NodeLabelRequest(node="n1", labels=("zone=a",))) is False
    assert settle(bench, NodeLabelRequest(node="n1", labels=("zone=b",), taints=("t=1",))) is True
    view = node(bench)
    assert (view.labels, view.taints, view.cost) == (("x=1", "zone=b"), ("t=1",), 12)
    assert settle(bench, NodeLabelRequest(node="n1", remove=("zone", "t=1"))) is True
    assert settle(bench, NodeLabelRequest(node="n1", remove=("zone", "t=1"))) is False
    assert (node(bench).labels, node(bench).taints) == (("x=1",), ())


def test_a_label_of_the_nodes_own_is_shown_and_gives_way_as_well(bench: Bench) -> None:
    report = bench.replica.state.book.nodes["n1"]
    labelled = msgspec.structs.replace(report, incarnation=2, labels=("zone=a",))
    bench.feed(events.NodeReported("h", labelled))
    assert node(bench).labels == ("zone=a",)
    assert settle(bench, NodeLabelRequest(node="n1", labels=("zone=b",))) is True
    assert node(bench).labels == ("zone=b",)


def test_a_reservation_keeps_others_out_until_it_is_over(bench: Bench) -> None:
    settle(bench, QueueSetRequest(queue="a"))
    until = bench.now + 60_000_000_000
    assert settle(bench, NodeReserveRequest(node="n1", queue="a", until_ns=until)) is True
    reserved = node(bench).reserved
    assert reserved is not None and (reserved.queue, reserved.until_ns) == ("a", until)
    bench.submit("in", queue="a")
    bench.submit("out")
    assert bench.replies["in"].state == "starting"
    assert bench.replies["out"].state == "pending"
    bench.tick(61)
    assert bench.replica.state.book.get(2).state == "starting"
    assert settle(bench, NodeReserveRequest(node="n1")) is True
    assert node(bench).reserved is None


def test_a_drain_moves_jobs_where_its_level_lets_and_its_grace_can_be(bench: Bench) -> None:
    over = settle(bench, NodeDrainRequest(node="n1", move=True, grace_s=1.0)), node(bench).moving
    assert over == (True, 0)
    state = bench.replica.state
    for request, says in (
        (NodeDrainRequest(node="n1", move=True, grace_s=3601.0), "grace_s is 3601, from 0 to 3600"),
        (NodeDrainRequest(node="n1", move=True, grace_s=float("nan")), "grace_s is nan"),
        (NodeDrainRequest(node="n1", grace_s=3.0), "a grace is that of a drain that moves jobs"),
        (NodeDrainRequest(node="n1", drain=False, move=True), "a grace is that of a drain"),
    ):
        with pytest.raises(BadRequest, match=says):
            administration.node_drain("t", request, state, bench.now)
    assert state.config is not None
    state.config = msgspec.structs.replace(state.config, level=2)
    with pytest.raises(Refused, match="no drain moves jobs at feature level 2") as refused:
        administration.node_drain("t", NodeDrainRequest(node="n1", move=True), state, bench.now)
    assert "from 3 on it does" in refused.value.hint


def test_a_drained_node_stays_drained_through_hellos_and_reboots(bench: Bench) -> None:
    assert settle(bench, NodeDrainRequest(node="n1", reason="new disk")) is True
    assert settle(bench, NodeDrainRequest(node="n1", reason="new disk")) is False
    bench.submit("s")
    bench.hello("n1", "boot-1", 2).hello("n1", "boot-2", 3)
    bench.tick(2)
    assert bench.replica.state.book.get(1).state == "pending"
    view = node(bench)
    assert view.drained == "new disk" and view.state in ("drained", "silent")
    assert settle(bench, NodeDrainRequest(node="n1", drain=False)) is True
    assert settle(bench, NodeDrainRequest(node="n1", drain=False)) is False
    assert bench.replica.state.book.get(1).state == "starting"
    assert node(bench).drained == ""


def test_the_end_of_a_drain_brings_up_no_node_that_is_gone(bench: Bench, signer: Identity) -> None:
    """It may have been given up, or removed while the request waited."""
    settle(bench, NodeDrainRequest(node="n1"))
    end = NodeDrainRequest(node="n1", drain=False)
    state = bench.replica.state
    asked = administration.node_drain("t", end, state, bench.now)
    removed = Bench(signer).lead().replica.state
    assert asked.again is not None
    assert asked.requests and asked.again(removed) == ()
    state.book.evicted["n1"] = Eviction(state.book.nodes["n1"].boot_id, 9, "silent")
    downs = [each for each in asked.again(state) if isinstance(each, records.NodeDown)]
    assert [each.reason for each in downs] == [Reason.NODE_EVICTED]


def device(bench: Bench) -> schema.DeviceView:
    return cluster_views.device_list(bench.replica, None).devices[0]


def available(bench: Bench) -> bool:
    return bench.replica.state.core.devices(name_id("n1"))[0].available


def cordon(device: str = "gpu-0", reason: str = "a fan") -> DeviceCordonRequest:
    return DeviceCordonRequest(node="n1", device=device, reason=reason)


def uncordon(device: str = "gpu-0") -> DeviceUncordonRequest:
    return DeviceUncordonRequest(node="n1", device=device)


def test_a_cordoned_device_stays_so_through_hellos_and_reboots(bench: Bench) -> None:
    assert settle(bench, cordon()) is True
    assert settle(bench, cordon()) is False
    assert settle(bench, cordon(reason="two fans")) is True
    assert settle(bench, cordon(reason="")) is False  # the reason stays as well
    assert device(bench).cordoned == "two fans" and device(bench).unavailable == ""
    bench.hello("n1", "boot-1", 2).hello("n1", "boot-2", 3)
    assert not available(bench)
    assert settle(bench, uncordon()) is True
    assert settle(bench, uncordon()) is False
    assert available(bench) and device(bench).cordoned == ""


def test_cordon_and_health_are_two_reasons(bench: Bench) -> None:
    report = bench.replica.state.book.nodes["n1"]
    sick = msgspec.structs.replace(report.devices[0], unavailable="sick: a link", warning="w")
    ill = msgspec.structs.replace(report, devices=(sick,))
    bench.feed(events.NodeReported("h1", ill))
    assert settle(bench, cordon()) is True  # it is unavailable already
    bench.feed(events.NodeReported("h2", report))
    assert not available(bench)
    bench.feed(events.NodeReported("h3", ill))
    assert settle(bench, uncordon()) is True
    assert not available(bench)
    assert (device(bench).unavailable, device(bench).warning) == ("sick: a link", "w")
    bench.feed(events.NodeReported("h4", report))
    assert available(bench)


def test_a_cordon_by_index_and_what_cannot_be_cordoned(bench: Bench) -> None:
    assert settle(bench, cordon("0")) is True
    assert bench.replica.state.book.cordoned == {("n1", "gpu-0"): "a fan"}
    for request in (cordon("gpu-9"), uncordon("gpu-9"), cordon("-1"), cordon("1"), cordon("")):
        with pytest.raises(NotFound, match="no device"):
            settle(bench, request)
    with pytest.raises(NotFound, match="no node 'n9'"):
        settle(bench, DeviceCordonRequest(node="n9", device="gpu-0"))
    with pytest.raises(BadRequest, match="printable"):
        settle(bench, cordon(reason="a\nb"))
    assert len(bench.replica.state.book.cordoned) == 1


def test_a_device_that_is_gone_can_be_uncordoned(bench: Bench) -> None:
    settle(bench, cordon())
    report = bench.replica.state.book.nodes["n1"]
    bench.feed(events.NodeReported("h", msgspec.structs.replace(report, devices=())))
    assert settle(bench, uncordon()) is True
    assert bench.replica.state.book.cordoned == {}


def test_explain_says_which_device_is_cordoned(bench: Bench) -> None:
    settle(bench, cordon(reason="in use by the vendor"))
    bench.submit("s", gpu_milli=1000)
    job = bench.replica.state.book.get(1)
    assert job.state == "pending"
    said = [r.text for r in explanation.explain_view(bench.replica, job, bench.now).reasons]
    assert any("(gpu-0: cordoned: in use by the vendor)" in text for text in said), said
    settle(bench, uncordon("0"))
    assert bench.replica.state.book.get(1).state == "starting"


@pytest.mark.parametrize("cordon_first", [True, False])
def test_a_cordon_and_a_hello_that_wait_together_do_not_undo_each_other(
    bench: Bench, cordon_first: bool
) -> None:
    """Two requests made of one state: the second one must see the effect of the first."""
    state = bench.replica.state
    hello = events.NodeReported("h", msgspec.structs.replace(state.book.nodes["n1"], incarnation=9))
    admin = administration.device_cordon("c", cordon(), state, bench.now)
    bench.answering = False
    bench.submit("in flight")
    first, second = (admin, hello) if cordon_first else (hello, admin)
    bench.feed(first, second)
    bench.answering = True
    bench.feed(bench.land())
    assert bench.replica.state.book.cordoned and not available(bench)


def test_a_queue_takes_one_work_of_a_nodes_availability_an_entry(bench: Bench) -> None:
    state = bench.replica.state
    admin = AdminWork(*administration.device_cordon("c", cordon(), state, bench.now))
    hello = HelloWork("h", state.book.nodes["n1"], state)
    waiting = WorkQueue()
    for work in (admin, hello):
        waiting.push(work)
    assert waiting.take() == [admin] and waiting.take() == [hello] and not waiting


def test_a_node_that_wants_no_jobs_gets_none_until_it_wants_some(bench: Bench) -> None:
    report = bench.replica.state.book.nodes["n1"]
    ill = msgspec.structs.replace(report, drain="device gpu-0: restart the node")
    bench.feed(events.NodeReported("h1", ill))
    bench.submit("s")
    assert bench.replica.state.book.get(1).state == "pending"
    assert node(bench).drained == "device gpu-0: restart the node"
    settle(bench, NodeDrainRequest(node="n1", reason="x"))
    assert node(bench).drained == "x; device gpu-0: restart the node"
    settle(bench, NodeDrainRequest(node="n1", drain=False))
    assert bench.replica.state.book.get(1).state == "pending"  # the node's own reason is left
    bench.feed(events.NodeReported("h2", report))
    assert bench.replica.state.book.get(1).state == "starting"


def test_only_an_administrator_may(signer: Identity) -> None:
    accounts = {
        "alice": Account("x", False, Owner("alice", 1, 1)),
        "root": Account("y", True, Owner("root", 0, 0)),
    }
    service = Service(Bench(signer, accounts=accounts).lead().hello().replica)
    for kind, (noun, verb) in VERBS.items():
        fields = {"queue": "a"} if noun == "queue" else {"node": "n1"}
        fields |= {"device": "gpu-0"} if noun == "device" else {}
        data = schema.encode(kind(**fields))
        with pytest.raises(Denied, match="administrator"):
            service.take(UserRequest("alice", noun, verb), "token", data, 0)
        if (noun, verb) != ("queue", "quota"):  # there is no such queue
            taken = service.take(UserRequest("root", noun, verb), "token", data, 0)
            assert isinstance(taken, events.Admin)
