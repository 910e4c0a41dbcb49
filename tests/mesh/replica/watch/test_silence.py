# SPDX-License-Identifier: Apache-2.0
"""The evidence that a node is gone, and what undoes it."""

from __future__ import annotations

from stoker.mesh.replica.watch.silence import (
    EVIDENCE_NS,
    PING_EVERY_NS,
    PINGERS,
    SILENT_NS,
    NodeSilence,
    PingEvidence,
    is_mass,
    pingers,
)

T0 = 10**12
OTHERS = 3
"""The number of other nodes that are heard."""


def test_two_nodes_must_have_pinged_in_vain() -> None:
    silence = NodeSilence(T0)
    now = T0 + SILENT_NS
    silence.pinged("n2", answered=False, now_ns=now)
    silence.pinged("n2", answered=False, now_ns=now)
    assert silence.evidence(now, OTHERS) is None
    silence.pinged("n3", answered=False, now_ns=now)
    assert silence.evidence(now, OTHERS) == PingEvidence(("n2", "n3"), by_gossip=False)


def test_gossip_stands_for_the_second_pinger_where_there_is_none() -> None:
    silence = NodeSilence(T0)
    now = T0 + SILENT_NS
    silence.pinged("n2", answered=False, now_ns=now)
    assert silence.evidence(now, 1) is None
    silence.pinged("n2", answered=False, failed=True, now_ns=now)
    assert silence.evidence(now, 1) == PingEvidence(("n2",), by_gossip=True)
    assert silence.evidence(now, PINGERS) is None  # another node is heard and may contradict it
    silence.pinged("n2", answered=False, now_ns=now + 1)  # the member is back in the gossip
    assert silence.evidence(now + 1, 1) is None


def test_gossip_is_no_evidence_without_a_ping_of_ones_own() -> None:
    silence = NodeSilence(T0)
    now = T0 + SILENT_NS
    silence.pinged("n2", answered=False, failed=True, now_ns=now)
    silence.pinged("n2", answered=True, failed=True, now_ns=now + 1)
    assert silence.evidence(now + 1, 1) is None
    silence.pinged("n2", answered=False, failed=True, now_ns=now + 1 + EVIDENCE_NS)
    assert silence.evidence(now + 1 + EVIDENCE_NS, 1) is not None
    silence.heard(now + 2 + EVIDENCE_NS)
    assert silence.evidence(now + 2 + EVIDENCE_NS + SILENT_NS, 1) is None


def test_pings_alone_are_no_evidence_against_a_node_that_is_heard() -> None:
    silence = NodeSilence(T0)
    for pinger in ("n2", "n3"):
        silence.pinged(pinger, answered=False, now_ns=T0)
    assert silence.evidence(T0, OTHERS) is None


def test_a_reply_to_anybody_and_a_new_request_undo_the_evidence() -> None:
    now = T0 + SILENT_NS
    replied, heard = NodeSilence(T0), NodeSilence(T0)
    for silence in (replied, heard):
        for pinger in ("n2", "n3"):
            silence.pinged(pinger, answered=False, now_ns=now)
    replied.pinged("n4", answered=True, now_ns=now + 1)
    for pinger in ("n2", "n3"):
        replied.pinged(pinger, answered=False, now_ns=now + 2)
    assert replied.evidence(now + 2, OTHERS) is None
    late = now + 2 + EVIDENCE_NS  # by then the pings are old as well
    assert replied.evidence(late, OTHERS) is None
    heard.heard(now + 1)
    assert heard.evidence(now + 1 + SILENT_NS, OTHERS) is None


def test_evidence_grows_old() -> None:
    silence = NodeSilence(T0)
    now = T0 + SILENT_NS
    for pinger in ("n2", "n3"):
        silence.pinged(pinger, answered=False, now_ns=now)
    assert silence.evidence(now + EVIDENCE_NS - 1, OTHERS)
    assert not silence.evidence(now + EVIDENCE_NS, OTHERS)


def test_a_silent_node_is_pinged_once_a_second_by_others_in_turn() -> None:
    names = ["n1", "n2", "n3", "n4", "n5", "n6"]
    silences = {name: NodeSilence(T0 + SILENT_NS) for name in names}
    silences["n1"] = target = NodeSilence(T0)
    silences["n3"] = NodeSilence(T0)
    now = T0 + SILENT_NS
    assert not target.is_due(now - 1)
    asked = []
    for _ in range(4):
        assert target.is_due(now) and not target.is_due(now)
        asked.append(pingers("n1", names, silences, now))
        now += PING_EVERY_NS
        for name in ("n2", "n4", "n5", "n6"):
            silences[name].heard(now)
    assert asked[0] == ("n4", "n5", "n6")
    assert asked[1] == ("n5", "n6", "n2")
    assert all("n1" not in each and "n3" not in each for each in asked)


def test_many_silent_nodes_are_a_mass() -> None:
    assert not is_mass(2, 8)
    assert is_mass(3, 8)
    assert not is_mass(3, 15)
    assert is_mass(4, 15)
