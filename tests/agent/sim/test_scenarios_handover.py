# SPDX-License-Identifier: Apache-2.0
"""Stories of a leader that is stopped in order: its word frees votes, and neither too many nor too
early."""

from __future__ import annotations

from typing import Any

from stoker.mesh.replica.events import PeerMessage
from stoker.mesh.sim.scheduler_process import SchedulerProcess
from stoker.mesh.wire.peer_messages import Resigned, read_envelope
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.scenario import scenario
from tests.agent.sim.stage import BOB, Gate, Stage
from tests.agent.sim.test_scenarios_eviction import begun, ends_behind_an_answer, starts

PEERS = "stoker.mesh.replica.peers.replica_peers"
VOTER = "stoker.mesh.replica.peers.voter"

KEEPS_VOTES = Mutant(
    "keeps-votes", VOTER, "Voter.free",
    "self._free_ns = min(self._free_ns, now_ns)", "pass",
    "the votes of a leader that has resigned are free",
)  # fmt: skip
SOON_S = 1.0
"""Half the length of a pledge."""


@scenario(
    39,
    "The votes of a leader that is stopped in order are free at once, and the first of the others"
    " stands without a pause.",
    KEEPS_VOTES,
)
def test_a_leader_is_stopped_in_order() -> None:
    stage = Stage(nodes=3)
    first = stage.ready()
    node = begun(stage, "job")
    first.stop()
    assert stage.comes(lambda: any(each is not first for each in stage.leaders), SOON_S)
    stage.submit("next", user=BOB)
    assert stage.comes(lambda: stage.end("next") == "succeeded"), "work goes on"
    assert not node.lease.frozen and starts(stage, "job") == 1, "nothing moved or froze"
    first.start()
    stage.pass_time(4)
    assert stage.violations == [] and stage.halts == []


EARLY_AS_LATE = Mutant(
    "early-as-late", "stoker.mesh.replica.peers.pledges", "Pledges.others_ns",
    "self.won_ns if self._is_early else ", "",
    "leases that a leader gave until it resigned are waited for",
)  # fmt: skip


@scenario(
    39,
    "A majority won by votes that were set free shows only that the leader before had resigned by"
    " then: leases that it gave until that moment are waited for.",
    EARLY_AS_LATE,
)
def test_a_node_that_only_the_stopped_leader_had_answered() -> None:
    ends_behind_an_answer(SchedulerProcess.stop)


ANY_TERM = Mutant(
    "freed-from-any-term", VOTER, "Voter.free",
    "(candidate, term) == (self._holder, self._term)", "candidate == self._holder",
    "a late word that resigns frees no vote for a newer term",
)  # fmt: skip


def _resigns(event: Any) -> bool:
    is_message = isinstance(event, PeerMessage)
    return is_message and isinstance(read_envelope(event.data).message, Resigned)


@scenario(
    39,
    "The word of a scheduler that resigns frees votes for the term that it names, and not for a"
    " later one in which it leads again.",
    ANY_TERM,
)
def test_the_word_of_an_earlier_term_comes_late() -> None:
    stage = Stage()
    first = stage.ready()
    voter, third = stage.others(first)
    words = Gate(voter, "take_event", _resigns)
    first.stop()
    stage.until(lambda: words.seen and not first.alive, "the end of the leader")
    stage.until(lambda: third.leads or voter.leads, "the next leader")
    third.crash()
    first.start()
    stage.let_lead(first, voter)
    stage.until(lambda: first.leads, "the first leader once more")
    stage.cut(third.name, first.name)
    third.start()
    stage.pass_time(3)
    first.pause(clock=True)
    words.deliver(words.seen[0])
    free = stage.comes(lambda: third.leads or voter.leads)
    assert free, "the votes are free after a pledge"
    assert stage.violations == [] and stage.halts == []
