# SPDX-License-Identifier: Apache-2.0
"""The leader's side of reads: who proves a position, and how often pledges are requested."""

from __future__ import annotations

from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica.peers.pledges import Pledges
from stoker.mesh.replica.peers.read_index import ReadIndexes
from stoker.mesh.replica.peers.voter import PLEDGE_NS, Voter
from stoker.mesh.wire.peer_messages import Message, Pledge, ReadIndexReply, ReadIndexRequest
from tests.mesh.replica.peers.rosters import quorum

MS = 1_000_000
BEGIN = 10 * PLEDGE_NS
TERM = 8
"""The term of the leader 1."""


class State:
    """The last entry of a leader's state."""

    index = 40


class Leadership:
    """The role of a replica."""

    leads, role, why = True, "leading", ""


class Leader:
    """The leader 1 of five, whose voters pledge when the test says so."""

    def __init__(self) -> None:
        self.pledges = Pledges(1, quorum(1, 2, 3, 4, 5))
        self.pledges.begin(TERM)
        self.voter = Voter("c", 1, TERM)
        self.state, self.leadership = State(), Leadership()
        self.sent: list[tuple[int, Message]] = []
        self.rounds: list[int] = []
        self.indexes = ReadIndexes(
            self.state, self.leadership, self.pledges, self.voter,  # type: ignore[arg-type]
            number=1, send=self._send, request_pledges=self._request,
        )  # fmt: skip
        self._request(Instant(0, BEGIN))
        self.pledged(BEGIN, 1, 2, 3, 4, 5)

    def _send(self, to: int, message: Message) -> None:
        self.sent.append((to, message))

    def _request(self, now: Instant) -> None:
        self.pledges.requested_ns = now.boot_ns
        self.rounds.append(now.boot_ns)

    def pledged(self, stamp_ns: int, *voters: int) -> None:
        """These voters answer the request of this stamp."""
        for voter in voters:
            self.pledges.take(Pledge("c", voter, 1, TERM, stamp_ns), b"", stamp_ns + 1)

    def request(self, sender: int, number: int, at_ns: int, term: int = TERM) -> None:
        self.indexes.requested(sender, ReadIndexRequest(number, term), Instant(0, BEGIN + at_ns))

    def look(self, at_ns: int) -> list[tuple[int, Message]]:
        """Look, and return what was sent since the last time."""
        self.indexes.look(Instant(0, BEGIN + at_ns))
        sent, self.sent = self.sent, []
        return sent


def test_leader_follower_and_one_more_prove_a_position() -> None:
    leader = Leader()
    leader.request(2, 5, 10 * MS)
    leader.state.index = 44
    assert leader.look(11 * MS) == [], "the pledges that it has are older"
    leader.pledged(leader.rounds[-1], 3)
    assert leader.look(12 * MS) == [(2, ReadIndexReply(5, 40))], "as it was when the read came"
    assert leader.look(13 * MS) == []


def test_a_follower_of_another_term_proves_nothing() -> None:
    leader = Leader()
    leader.request(2, 5, 10 * MS, TERM + 1)
    leader.pledged(leader.rounds[-1], 3)
    assert leader.look(11 * MS) == []
    leader.pledged(leader.rounds[-1], 4)
    assert leader.look(12 * MS) == [(2, ReadIndexReply(5, 40))]


def test_a_leader_that_promised_a_newer_term_does_not_count_itself() -> None:
    leader = Leader()
    leader.voter.promise(TERM + 1)
    leader.request(2, 5, 10 * MS)
    leader.pledged(leader.rounds[-1], 3)
    assert leader.look(11 * MS) == []
    leader.pledged(leader.rounds[-1], 4)
    assert leader.look(12 * MS) == [(2, ReadIndexReply(5, 40))]


def test_a_clock_that_stands_still_proves_nothing() -> None:
    leader = Leader()
    leader.request(2, 5, 0)
    leader.pledged(leader.rounds[-1], 3)
    assert leader.look(0) == [], "this pledge may be older than the request"
    leader.look(100 * MS)
    leader.pledged(leader.rounds[-1], 3)
    assert leader.look(101 * MS) == [(2, ReadIndexReply(5, 40))]


def test_one_round_at_a_time_serves_all_that_came_before_it() -> None:
    leader = Leader()
    leader.request(2, 5, 10 * MS)
    for sender in (3, 4):
        leader.request(sender, 1, 11 * MS)
    assert len(leader.rounds) == 2
    leader.pledged(leader.rounds[-1], 5)
    assert [to for to, _ in leader.look(12 * MS)] == [2]
    assert len(leader.rounds) == 3, "the next one is for those that came meanwhile"
    leader.pledged(leader.rounds[-1], 5)
    assert [to for to, _ in leader.look(13 * MS)] == [3, 4]
    assert leader.look(500 * MS) == [] and len(leader.rounds) == 3


def test_a_newer_request_of_a_scheduler_takes_the_place_of_the_one_before() -> None:
    leader = Leader()
    leader.request(2, 5, 10 * MS)
    leader.request(2, 6, 11 * MS)
    leader.look(120 * MS)
    leader.pledged(leader.rounds[-1], 3)
    assert leader.look(121 * MS) == [(2, ReadIndexReply(6, 40))]


def test_pledges_that_were_lost_are_requested_again() -> None:
    leader = Leader()
    leader.request(2, 5, 10 * MS)
    assert leader.look(100 * MS) == [] and len(leader.rounds) == 2
    assert leader.look(111 * MS) == [] and len(leader.rounds) == 3


def test_a_replica_that_leads_no_more_says_why() -> None:
    leader = Leader()
    leader.request(2, 5, 10 * MS)
    leader.leadership.leads, leader.leadership.role = False, "waiting"
    leader.pledged(leader.rounds[-1], 3)
    assert leader.look(11 * MS) == [
        (2, ReadIndexReply(5, 0, "it does not lead: its role is waiting"))
    ]
    leader.leadership.why = "no majority pledged"
    leader.request(3, 9, 12 * MS)
    assert leader.look(13 * MS) == [
        (3, ReadIndexReply(9, 0, "it does not lead: no majority pledged"))
    ]


def test_a_leader_of_another_term_answers_nothing_of_the_one_before() -> None:
    leader = Leader()
    leader.request(2, 5, 10 * MS)
    leader.pledges.begin(2 * TERM)
    ((to, refused),) = leader.look(11 * MS)
    assert to == 2 and isinstance(refused, ReadIndexReply) and refused.why
