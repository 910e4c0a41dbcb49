# SPDX-License-Identifier: Apache-2.0
"""Leadership: the roles of a replica, the terms that it takes, and the leases that it renews."""

from __future__ import annotations

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.wire.command import Position, StateRequest
from stoker.native.errors import Corrupt, Unavailable
from stoker.scheduler.nouns import NodeReport
from tests.mesh.bench import CLUSTER, LIMITS
from tests.mesh.founding import founded

NOW = Instant(1, 1)


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("keys") / "scheduler.nk")


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


@pytest.fixture
def leader(signer: Identity, outbox: Outbox) -> Leadership:
    """A leader in term 1, with one node that has followed it."""
    state = founded(CLUSTER, LIMITS)
    state.book.join(NodeReport("n1", "boot-1", 1, 8000, 1 << 34, ()))
    leader = Leadership(state, signer, outbox)
    state.term = leader.elect()
    leader.lead(state.term)
    outbox.take()
    return leader


def ahead(term: int) -> events.StateRequested:
    return events.StateRequested("t", "n1", StateRequest(1, Position(term, 5, b"h" * 32)))


def test_a_replica_that_never_led_renews_nothing(signer: Identity, outbox: Outbox) -> None:
    Leadership(founded(CLUSTER, LIMITS), signer, outbox).renew()
    assert outbox.take() == []


def test_a_leader_renews_also_after_a_halt(leader: Leadership, outbox: Outbox) -> None:
    leader.halt("a gap")
    outbox.take()
    leader.renew()
    (effect,) = outbox.take()
    assert isinstance(effect, events.RenewLeases)
    assert effect.authority is not None
    assert (effect.authority.term, [place.node for place in effect.authority.places]) == (1, ["n1"])


def test_a_deposed_leader_ends_its_leases(leader: Leadership, outbox: Outbox) -> None:
    with pytest.raises(Corrupt, match="another scheduler took the lead with log entry 9"):
        leader.read_other(9, 2)
    leader.renew()
    assert outbox.take() == [events.RenewLeases(None)]


def test_a_node_ahead_of_the_log_makes_it_take_a_larger_term(leader: Leadership) -> None:
    assert isinstance(leader.desired(ahead(4), NOW, idle=True), Unavailable)
    assert (leader.role, leader.may_resume) == ("waiting", False)
    assert leader.elect() == 9


def test_a_term_is_not_given_up_while_an_append_is_in_flight(leader: Leadership) -> None:
    assert isinstance(leader.desired(ahead(4), NOW, idle=False), Unavailable)
    assert leader.leads
    assert leader.may_resume


def test_a_node_that_claims_too_much_is_not_believed(leader: Leadership) -> None:
    assert isinstance(leader.desired(ahead(1 << 40), NOW, idle=True), Unavailable)
    assert leader.leads
