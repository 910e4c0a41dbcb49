# SPDX-License-Identifier: Apache-2.0
"""Faults of simulated cards (SIM) in a live node: what the table says happens, the log shows that
no job is placed on a sick card, and cards get jobs again.

The cards are two each of H200, L40S, MI300X and Max 1550, read through their vendors' own bindings.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client as Connection
from product_node import LiveNode, live_node, wait_until

from stoker.agent.health.scenarios import PROFILE, SCENARIOS, Scenario
from stoker.agent.state.state_folder import load as load_cluster
from stoker.agent.state.state_folder import read_json
from stoker.agent.supervise import pids
from stoker.mesh.connection import context
from stoker.mesh.connection.requests import Requests
from stoker.mesh.identity.identity import Verifier
from stoker.mesh.log import entry as entries
from stoker.mesh.log.genesis import Genesis, digest
from stoker.mesh.log.jetstream_log import JetStreamLog
from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.log.roster import Roster
from stoker.mesh.replica.raw_start import StartRaw
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire import schema, subjects
from stoker.native import _sim
from stoker.native.errors import StokerError
from stoker.probes.simdriver import libraries, profiles

NS = 1_000_000_000
MASKING = frozenset({"lost", "silent", "refused", "hung"})
BREAKING = frozenset({62, 79, 95, 119})
"""Xids after which a simulated card wants a reset before it answers anything."""
AGAIN_S = 5.0
"""A fault that did not lead to anything for so long is played once more: a counter that grew before
it was read for the first time tells nothing."""
PHASE_S = 60.0
COUNTERS = ("ecc_uncorrected", "ecc_corrected", "retired_pages", "remap_failed", "links")


def masks(each: Scenario) -> bool:
    """True if the fault hides every other reading of its card."""
    return each.expect in MASKING or (each.expect == "xid" and each.number in BREAKING)


def phases() -> tuple[list[Scenario], list[Scenario], list[Scenario]]:
    """The scenarios of the first waves, as many at once as do not hide one another: what leaves
    cards readable, what does not, and what leaves the node without jobs."""
    some = [each for each in SCENARIOS if each.wave <= 5 or (each.card == 1 and each.wave == 6)]
    last = [each for each in some if each.action == "drain"]
    readable = [each for each in some if not masks(each) and each not in last]
    masking = [each for each in some if each.expect == "xid" and masks(each)]
    taken = {each.card for each in masking}
    for each in some:
        if each.expect in MASKING and each.card not in {*taken, 6}:
            masking.append(each)
            taken.add(each.card)
    of_6 = [each for each in some if each.card == 6]
    return [*readable, of_6[1]], [*masking, of_6[0]], last


PHASES = phases()


class Cards:
    """The simulated node, and what its cards are called in stoker's."""

    def __init__(self, folder: Path) -> None:
        self.sim: _sim.Node = profiles.node(PROFILE, folder / "node", seed=1)
        models = [self.sim.truth(i)["model"] for i in range(self.sim.describe()["cards"])]
        self.ids = [str(model["uuid"]) for model in models]
        vendors = {model["vendor"] for model in models}
        self.environment = libraries.environment(folder / "node", vendors, {})

    def play(self, each: Scenario) -> None:
        now = self.sim.now_ns
        until = now + int(each.spread_s * NS) if each.spread_s else 0
        how = {"value": each.value, "count": each.events, "call": each.call}
        self.sim.inject(each.fault, each.card, from_ns=now, until_ns=until, **how)
        if each.load is not None:
            self.sim.set_load(each.card, *each.load)

    def heal(self) -> None:
        self.sim.heal()
        for place in range(len(self.ids)):
            self.sim.set_load(place, 0, 0, 0)
            self.sim.reset(place)

    def replace(self, *places: int) -> None:
        """A card is off the bus for a second, as in a reset."""
        for place in places:
            self.sim.inject("lost", place, until_ns=self.sim.now_ns + NS)


class Node:
    """A live node on simulated cards."""

    def __init__(self, live: LiveNode, cards: Cards) -> None:
        self.live, self.cards = live, cards
        self.name = self.devices()[0].node

    def devices(self) -> list[schema.DeviceView]:
        return list(self.live.ask(lambda client: client.devices()).devices)

    def device(self, place: int) -> schema.DeviceView:
        return next(d for d in self.devices() if d.id == self.cards.ids[place])

    def reads(self, place: int, since_ns: int = 0) -> bool:
        """True if the current agent has read this card, and its counters since then."""
        try:
            view = self.live.ask(lambda c: c.readings(self.name, self.cards.ids[place]))
        except StokerError:
            return False
        stamps = [t_ns for name in COUNTERS if (t_ns := view.fields[name].t_ns)]
        return view.state == "ok" and all(stamp > since_ns for stamp in stamps)

    def read_anew(self) -> None:
        """Wait until every card was read with its counters: what grows later is seen to grow."""
        since_ns = time.time_ns()
        places = range(len(self.cards.ids))
        wait_until(lambda: all(self.reads(each, since_ns) for each in places), "cards are read", 60)
        time.sleep(0.5)  # the agent looks at them four times a second

    def said(self, words: str) -> list[dict[str, Any]]:
        """Lines of the agent's log about health with these words."""
        text = (self.live.state.log / "agent.log").read_text()
        return [
            json.loads(line) for line in text.splitlines() if f'"device health: {words}' in line
        ]

    def findings(self) -> list[tuple[str, str, int, str]]:
        """(device, signal, number, action) of all that the agent's log has."""
        lines = self.said("raised")
        return [(e["device"], e["signal"], e["number"], e["action"]) for e in lines]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    folder = Path(tempfile.mkdtemp(prefix="stoker-sim-", dir="/tmp"))
    folder.chmod(0o755)  # jobs of other users map the node as well
    cards = Cards(folder)
    try:
        with live_node(device_kind="gpu", **cards.environment) as live:
            found = Node(live, cards)
            found.read_anew()
            yield found
    finally:
        shutil.rmtree(folder)


def test_a_job_on_a_card_that_needs_a_reset_is_retried_elsewhere(node: Node) -> None:
    job = node.live.submit("sleep", "60", gpu_milli=1000, retries=2, trace="off", models=("H200",))
    first = node.live.wait(job, "running").decision
    assert first is not None
    place = node.cards.ids.index(first.devices[0].id)
    node.cards.sim.inject("xid", place, value=48)
    wait_until(lambda: node.live.ask(lambda c: c.get(job)).attempt == 2, "a second attempt")
    view = node.live.wait(job, "running")
    reason = f"device {first.devices[0].id}: Xid 48: double bit memory error"
    assert view.attempts[0].reason == reason and view.attempts[0].state == "failed"
    assert view.decision is not None and view.decision.devices[0].id == node.cards.ids[1 - place]
    assert node.device(place).unavailable == "needs reset: Xid 48: double bit memory error"
    shown = node.live.stoker("devices").stdout.decode()
    assert "needs reset: Xid 48" in shown and "SIM" in shown
    shown = node.live.stoker("node", node.name).stdout.decode()
    assert "Xids are heard from " in shown and "NVML's events, not from the driver's trace" in shown
    node.live.stoker("cancel", str(job))


def test_what_becomes_of_jobs_is_as_the_table_says(node: Node) -> None:
    """A job without retries ends with its card's restart; one on a cordoned card goes on."""
    ends = node.live.submit("sleep", "60", gpu_milli=1000, trace="off", models=("L40S",))
    stays = node.live.submit("sleep", "60", gpu_milli=1000, trace="off", models=("L40S",))
    on = {}
    for job in (ends, stays):
        decision = node.live.wait(job, "running").decision
        assert decision is not None
        on[job] = decision.devices[0].id
    node.cards.sim.inject("xid", node.cards.ids.index(on[stays]), value=74)
    node.cards.sim.inject("xid", node.cards.ids.index(on[ends]), value=31)
    over = node.live.wait(ends)
    assert over.state == "failed" and over.attempt == 1
    assert over.reason == f"device {on[ends]}: Xid 31: GPU memory page fault"
    place = node.cards.ids.index(on[stays])
    wait_until(lambda: "Xid 74" in node.device(place).unavailable, "the card is held")
    assert node.device(place).unavailable == "sick: Xid 74: NVLink error"
    assert node.live.ask(lambda client: client.get(stays)).state == "running"
    node.live.stoker("cancel", str(stays))


def test_a_storm_neither_floods_nor_hides_the_first(node: Node) -> None:
    (place,) = [each for each in (0, 1) if not node.device(each).unavailable]
    id = node.cards.ids[place]
    job = node.live.submit("sleep", "60", gpu_milli=1000, trace="off", models=("H200",))
    node.live.wait(job, "running")
    agent = pids.find(node.live.state)["agent"].pid
    before, memory = len(node.said("")), rss_mib(agent)
    now = node.cards.sim.now_ns
    node.cards.sim.inject("xid", place, from_ns=now, until_ns=now + NS, value=31, count=10_000)
    over = node.live.wait(job)
    assert over.reason == f"device {id}: Xid 31: GPU memory page fault"
    wait_until(lambda: "again and again" in node.device(place).unavailable, "it is held", 60)

    def counted() -> int:
        return sum(line["count"] for line in node.said("Xids without a line each"))

    wait_until(lambda: node.cards.sim.now_ns > now + NS, "the storm is over", 60)
    wait_until(lambda: counted() > 250, "they are counted", 60)
    assert len(node.said("")) - before < 40
    assert rss_mib(agent) - memory < 16


def rss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def test_an_administrator_cordons_a_card(node: Node) -> None:
    assert [node.device(place).unavailable[:11] for place in (0, 1)].count("needs reset") == 1
    amd = [node.devices().index(node.device(place)) for place in (4, 5)]
    for index in amd:
        done = node.live.stoker("cordon", f"{node.name}:{index}", "--reason", "a new fan").stdout
        assert done.endswith(b": cordoned\n")
    again = node.live.stoker("cordon", f"{node.name}:{amd[0]}", "--reason", "a new fan").stdout
    assert again.endswith(b": cordoned already\n")
    job = node.live.submit("true", gpu_milli=1000, models=("MI300X",), trace="off")
    killed = {process: node.live.kill(process) for process in ("agent", "scheduler")}
    for process, old in killed.items():
        node.live.wait_for_new(process, old)
    said = node.live.explained(job)
    assert "cordoned: a new fan" in said, said
    assert node.live.ask(lambda client: client.get(job)).state == "pending"
    assert "cordoned: a new fan" in node.live.stoker("devices").stdout.decode()
    index = node.cards.ids[5][:12]
    assert node.live.stoker("uncordon", f"{node.name}:{index}").stdout.endswith(b"not cordoned\n")
    assert node.live.wait(job).state == "succeeded"
    node.live.stoker("uncordon", f"{node.name}:{amd[0]}")
    wait_until(lambda: node.reads(0) and node.reads(1), "the new agent reads them")
    assert [node.device(place).unavailable[:11] for place in (0, 1)].count("needs reset") == 1
    node.cards.replace(0, 1)  # noticed before the next test is over
    for words, told in (
        (("cordon", f"{node.name}:99"), b"has no device '99'"),
        (("cordon", "nowhere:0"), b"no node 'nowhere'"),
        (("cordon", "nothing"), b"is no NODE:DEVICE"),
        (("uncordon", f"{node.name}:zzz"), b"has no device 'zzz'"),
    ):
        done = node.live.stoker(*words, check=False)
        assert done.returncode in (1, 2) and told in done.stderr, done.stderr
    twice = node.live.stoker("uncordon", f"{node.name}:{amd[0]}").stdout
    assert twice.endswith(b": not cordoned already\n")


def test_faults_lead_to_what_the_table_says_and_the_log_shows_it(node: Node) -> None:
    churn = node.live.submit(
        "sleep", "0.3", gpu_milli=1000, retries=8, trace="off", array=tuple(range(200))
    )
    assert sum(map(len, PHASES)) >= 30
    for phase in PHASES:
        node.read_anew()
        begun = played = time.monotonic()
        for each in phase:
            node.cards.play(each)
        while (left := missing(node, phase)) and time.monotonic() - begun < PHASE_S:
            time.sleep(0.05)
            if time.monotonic() - played > AGAIN_S:
                played = time.monotonic()
                for each in left:
                    node.cards.play(each)
        assert [each.name for each in missing(node, phase)] == []
        if phase is PHASES[-1]:
            wait_until(lambda: node.live.ask(lambda c: c.nodes()).nodes[0].drained, "a drain")
        node.cards.heal()
    node.live.stoker("cancel", f"{churn}-{churn + 199}")
    wait_until(lambda: not node.device(6).unavailable, "a card that fell off is well again", 60)
    wait_until(lambda: not node.device(7).unavailable, "a card that hung is well again", 60)
    assert node.device(3).unavailable.startswith("needs reset")
    for place in (0, 1):
        wait_until(
            lambda p=place: "Xid 48" not in node.device(p).unavailable,  # type: ignore[misc]
            "its reset was noticed",
            60,
        )
    model = node.device(6).model
    jobs = [
        node.live.submit("sleep", "60", gpu_milli=1000, trace="off", models=(model,)) for _ in "67"
    ]
    found = [node.live.wait(job, "running").decision for job in jobs]
    assert {d.devices[0].id for d in found if d} == set(node.cards.ids[6:])
    for job in jobs:
        node.live.stoker("cancel", str(job))
    starts, held, wrong = asyncio.run(replay(node.live))
    assert wrong == []
    assert starts > 20 and held >= 8


def missing(node: Node, wanted: list[Scenario]) -> list[Scenario]:
    """Scenarios of which the agent has not said what the table says."""
    found = set(node.findings())
    return [
        each
        for each in wanted
        if each.action != "ignore"
        and (node.cards.ids[each.card], each.expect, each.number, each.action) not in found
    ]


async def replay(live: LiveNode) -> tuple[int, int, list[str]]:
    """The log from its first entry, applied anew: starts on devices, devices that were ever held,
    and starts on a device that the log held at that moment."""
    url, seed = context.find(str(live.root)).url, str(live.state.key("scheduler"))
    requests = Requests(Connection())
    inbox = subjects.inbox("scheduler").encode()
    await requests.connection.connect(url, nkeys_seed=seed, inbox_prefix=inbox)
    cluster = load_cluster(live.state).cluster
    genesis = read_json(live.state.genesis, Genesis)
    state, starts, wrong = ReplicaState(cluster, digest(genesis)), 0, []
    tail = HeldTail(state, Roster(Verifier, genesis.schedulers), keeps=False)
    held: set[str] = set()
    async for batch in JetStreamLog(requests, cluster).read_from(1):
        for seq, data in batch:
            counter = tail.offer(seq, data, entries.unseal(seq, data))
            if counter or (ready := tail.ready()) is None:
                continue
            opened = ready.opened
            applied = state.apply(opened.entry, opened.hash)
            reports = state.book.nodes.values()
            held |= {d.id for report in reports for d in report.devices if d.unavailable}
            for action in (a for several in applied.actions.values() for a in several):
                if isinstance(action, StartRaw):
                    starts += bool(action.decision.devices)
                    wrong += _held(state, action)
    await requests.connection.close()
    return starts, len(held), wrong


def _held(state: ReplicaState, start: StartRaw) -> list[str]:
    devices = state.book.nodes[start.decision.node].devices
    chosen = [devices[share.index] for share in start.decision.devices]
    cordoned = state.book.cordoned
    return [
        f"job {start.job} on {device.id}: {device.unavailable}"
        for device in chosen
        if device.unavailable or (start.decision.node, device.id) in cordoned
    ]
