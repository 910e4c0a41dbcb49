# SPDX-License-Identifier: Apache-2.0
"""Stories of terms: whose they are, and what follows when the log loses one."""

from __future__ import annotations

from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.scenario import scenario
from tests.agent.sim.stage import Stage

PEERS = "stoker.mesh.replica.peers.replica_peers"

AHEAD = Mutant(
    "node-ahead", "stoker.mesh.replica.nodes.leadership", "Leadership._is_ahead",
    "return (at.term, at.seq) > (self.channels.term, self._state.index)", "return False",
    "a term above that of every node is taken",
)  # fmt: skip
NEXT_NUMBER = Mutant(
    "next-number", PEERS, "next_term",
    "return after + 1 + (place - after) % TERMS_PER_ROUND", "return after + 1",
    "each scheduler owns a term of every round",
)  # fmt: skip
NO_ROOM = Mutant(
    "no-room", "stoker.mesh.replica.peers.candidacy", "Candidacy.lost",
    "if self._lost % TRIES == 0:", "if False:",
    "a candidate that loses again and again leaves the others room to stand",
)  # fmt: skip


@scenario(
    25,
    "A leader takes a larger term than one that a node followed and that the log lost, so that the"
    " node obeys it.",
    AHEAD,
)
def test_the_log_and_the_disk_lose_the_newest_term() -> None:
    stage = Stage(schedulers=1)
    (only,) = stage.schedulers
    stage.ready()
    kept = stage.world.stream.last
    only.crash()
    only.start()
    stage.until(lambda: stage.leaders, "the second term")
    for number in range(8):
        stage.submit(f"lost-{number}", run_s=0.1)
    stage.until(lambda: stage.end("lost-7"), "the jobs of the second term")
    stage.pass_time(2)
    stage.node.crash()
    stage.restore_log(kept)
    stage.node.start_agent()
    stage.leader()
    stage.submit("after")
    stage.taken("after")
    assert stage.comes(lambda: stage.runs("after"), 5), "the node obeys its scheduler"


@scenario(
    25,
    "A term belongs to one scheduler by its place in the roster, so that any two of three find"
    " terms to lead in.",
    NEXT_NUMBER,
)
def test_two_of_three_schedulers_find_a_term() -> None:
    stage = Stage()
    first = stage.ready()
    for gone in stage.others(first):
        left = next(each for each in stage.others(first) if each is not gone)
        for scheduler in stage.schedulers:
            scheduler.crash()
        first.start()
        left.start()
        assert stage.comes(lambda: stage.leaders, 12), "two of three lead"
        gone.start()
        stage.pass_time(3)
    assert stage.violations == [] and stage.halts == []


@scenario(
    9,
    "A candidate that loses again and again leaves the others room to stand: while it stands, the"
    " votes that it has are bound, be they the ones that another one needs.",
    NO_ROOM,
)
def test_a_candidate_that_few_hear_keeps_nobody_from_leading() -> None:
    """The friend of the one that is half cut off has the vote that all others need."""
    stage = Stage(schedulers=5)
    leader = stage.ready()
    half, friend, *others = stage.others(leader)
    friend.replica._peers._candidacy.is_over = True  # it only votes
    for each in others:
        stage.cut(half.name, each.name)
        each.pause(clock=True)
    leader.crash()
    stage.until(lambda: friend.replica.voter._holder == half.number, f"the vote for {half.name}")
    for each in others:
        each.go_on()
    assert stage.comes(lambda: stage.leaders, 15), "one of the others leads"
    assert stage.violations == [] and stage.halts == []
