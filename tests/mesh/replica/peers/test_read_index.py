# SPDX-License-Identifier: Apache-2.0
"""The leader's side of reads: rounds of pledges, one for all that wait, and none too many."""

from __future__ import annotations

from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica.peers.pledges import Pledges
from stoker.mesh.replica.peers.read_index import ReadIndexes
from stoker.mesh.replica.peers.voter import PLEDGE_NS
from stoker.mesh.wire.peer_messages import Message, Pledge, ReadIndexReply, ReadIndexRequest

MS = 1_000_000
BEGIN = 10 * PLEDGE_NS


class State:
    """The last entry of a leader's state."""

    term, index = 7, 40


class Leadership:
    """The role of a replica."""

    leads, role, why = True, "leading", ""


class Leader:
    """The leader 1 of three, whose voters pledge when the test says so."""

    def __init__(self) -> None:
        self.pledges = Pledges(2)
        self.pledges.begin(7)
        self.state, self.leadership = State(), Leadership()
        self.sent: list[tuple[int, Message]] = []
        self.rounds: list[int] = []
        self.indexes = ReadIndexes(
            self.state, self.leadership, self.pledges, self._send, self._request  # type: ignore[arg-type]
        )  # fmt: skip
        self._request(Instant(0, BEGIN))
        self.pledged(BEGIN)

    def _send(self, to: int, message: Message) -> None:
        self.sent.append((to, message))

    def _request(self, now: Instant) -> None:
        self.pledges.requested_ns = now.boot_ns
        self.rounds.append(now.boot_ns)

    def pledged(self, stamp_ns: int) -> None:
        """Both voters answer the request of this stamp."""
        for voter in (1, 2):
            self.pledges.take(Pledge("c", voter, 1, 7, stamp_ns), b"", stamp_ns + 1)

    def request(self, sender: int, number: int, at_ns: int) -> None:
        self.indexes.requested(sender, ReadIndexRequest(number), Instant(0, BEGIN + at_ns))

    def look(self, at_ns: int) -> list[tuple[int, Message]]:
        """Look, and return what was sent by that."""
        self.sent.clear()
        self.indexes.look(Instant(0, BEGIN + at_ns))
        return self.sent


def test_a_position_is_told_after_the_pledges_of_a_later_request() -> None:
    leader = Leader()
    leader.request(2, 5, 10 * MS)
    leader.state.index = 44
    assert leader.look(11 * MS) == [], "the pledges that it has are older"
    leader.pledged(leader.rounds[-1])
    assert leader.look(12 * MS) == [(2, ReadIndexReply(5, 7, 40))], "as it was when the read came"
    assert leader.look(13 * MS) == []


def test_a_clock_that_stands_still_proves_nothing() -> None:
    leader = Leader()
    leader.request(2, 5, 0)
    leader.pledged(leader.rounds[-1])
    assert leader.look(0) == []
    assert leader.look(1 * MS) == [] and len(leader.rounds) > 2
    leader.pledged(leader.rounds[-1])
    assert leader.look(2 * MS) == [(2, ReadIndexReply(5, 7, 40))]


def test_one_round_at_a_time_serves_all_that_came_before_it() -> None:
    leader = Leader()
    leader.request(2, 5, 10 * MS)
    for sender in (3, 4, 5):
        leader.request(sender, 1, 11 * MS)
    assert len(leader.rounds) == 2
    leader.pledged(leader.rounds[-1])
    assert [to for to, _ in leader.look(12 * MS)] == [2]
    assert len(leader.rounds) == 3, "the next one is for those that came meanwhile"
    leader.pledged(leader.rounds[-1])
    assert [to for to, _ in leader.look(13 * MS)] == [3, 4, 5]
    assert leader.look(500 * MS) == [] and len(leader.rounds) == 3


def test_a_newer_request_of_a_scheduler_takes_the_place_of_the_one_before() -> None:
    leader = Leader()
    leader.request(2, 5, 10 * MS)
    leader.request(2, 6, 10 * MS + 1)
    leader.pledged(leader.rounds[-1])
    leader.look(11 * MS)
    leader.pledged(leader.rounds[-1])
    assert leader.look(12 * MS) == [(2, ReadIndexReply(6, 7, 40))]


def test_pledges_that_were_lost_are_requested_again() -> None:
    leader = Leader()
    leader.request(2, 5, 10 * MS)
    assert leader.look(100 * MS) == [] and len(leader.rounds) == 2
    assert leader.look(111 * MS) == [] and len(leader.rounds) == 3


def test_a_replica_that_leads_no_more_says_why() -> None:
    leader = Leader()
    leader.request(2, 5, 10 * MS)
    leader.leadership.leads, leader.leadership.role = False, "waiting"
    leader.pledged(leader.rounds[-1])
    (refused,) = leader.look(11 * MS)
    assert refused == (2, ReadIndexReply(5, 0, 0, "it does not lead: its role is waiting"))
    leader.sent.clear()
    leader.leadership.why = "no majority pledged"
    leader.request(3, 9, 12 * MS)
    assert leader.sent == [(3, ReadIndexReply(9, 0, 0, "it does not lead: no majority pledged"))]
