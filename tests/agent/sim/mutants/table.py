# SPDX-License-Identifier: Apache-2.0
"""The faults: each removes one guard of the shipped scheduler, agent or messages.

A mutant that is caught by an import error or by every seed at once proves little; each of these
leaves a product that starts, runs jobs and ends them while nothing goes wrong.
"""

from __future__ import annotations

from tests.agent.sim.mutants.planting import Mutant

ATTEMPTS = "stoker.agent.jobs.attempts"
CORE = "stoker.agent.jobs.node_core"
OUTCOMES = "stoker.agent.jobs.outcome_queue"
COMMAND = "stoker.mesh.wire.command"
PIPELINE = "stoker.mesh.replica.log.append_pipeline"
STATE = "stoker.mesh.replica.state"
TAIL = "stoker.mesh.replica.log.held_tail"
PEERS = "stoker.mesh.replica.peers.replica_peers"
CONFIRMATIONS = "stoker.mesh.replica.peers.confirmations"
DELAY = "stoker.mesh.replica.peers.confirmation_delay"
VOTER = "stoker.mesh.replica.peers.voter"
PLEDGES = "stoker.mesh.replica.peers.pledges"
FETCHES = "stoker.mesh.replica.peers.chain_fetches"
FLOOR = "stoker.mesh.replica.peers.vote_floor"
WORD = "stoker.mesh.replica.peers.durable_word"
RECOLLECTION = "stoker.mesh.replica.peers.recollection"
AGREEMENT = "stoker.mesh.replica.peers.state_agreement"
ROSTER = "stoker.mesh.replica.log.roster"
PROPOSALS = "stoker.mesh.replica.peers.roster_proposals"
WITNESSES = "stoker.mesh.replica.peers.witnesses"
READ_INDEX = "stoker.mesh.replica.peers.read_index"
FOLLOWER_READS = "stoker.mesh.replica.peers.follower_reads"
ANSWERS = "stoker.mesh.replica.nodes.lease_answers"
CHANNEL = "stoker.mesh.replica.nodes.node_channel"
WORK = "stoker.mesh.replica.works.work"
JUDGE = "stoker.agent.jobs.lease_judge"

MUTANTS = [
    Mutant(
        "reap-early", ATTEMPTS, "Attempts._over",
        "self._outcomes.put(outcome)", "pass",
        "an outcome is sent",
    ),
    Mutant(
        "batch-dropped", OUTCOMES, "OutcomeQueue.refused",
        "self._waiting = returned | self._waiting", "pass",
        "outcomes that were not committed are sent again",
    ),
    Mutant(
        "batch-any", OUTCOMES, "OutcomeQueue.refused",
        "returned | self._waiting", "self._waiting | returned",
        "an older outcome never replaces a newer one",
    ),
    Mutant(
        "gap-accepted", COMMAND, "CommandChain.offer",
        "if (command.prev_seq, command.prev_hash) != (at.seq, at.hash):", "if False:",
        "a node notices that commands are missing",
    ),
    Mutant(
        "hello-once", CORE, "NodeCore._not_greeted",
        "self._hello.failed(now_s)", "pass",
        "a hello that was not answered is repeated",
    ),
    Mutant(
        "answer-early", PIPELINE, "AppendPipeline._append",
        "self._appends += 1",
        "self._appends += 1; [self.answer(w, NodeReply(True)) for w in batch.works"
        " if isinstance(w, OutcomeWork)]",
        "an outcome is answered after it is in the log",
    ),
    Mutant(
        "hole-waits", "stoker.mesh.log.unreadable_entry", "UnreadableEntry.passes",
        "return last", "return None",
        "a number that cannot be read is passed over",
    ),
    Mutant(
        "key-forgotten", "stoker.mesh.replica.works.core_request", "submit",
        "key=key,", "key=b'',",
        "a repeated request is the same job",
    ),
    Mutant(
        "snapshot-trail", STATE, "ReplicaState.restore",
        "state.trail = snapshot.trail", "pass",
        "a snapshot has the digest of all effects before it",
    ),
    Mutant(
        "confirm-alone", CONFIRMATIONS, "Confirmations.index",
        "self._quorum.reached(self._held)", "max(self._held.values(), default=0)",
        "an entry is confirmed by a majority",
    ),
    Mutant(
        "confirm-any-hash", PEERS, "ReplicaPeers._told",
        "if held == digest:", "if True:",
        "a confirmation counts for the entry of its hash alone",
    ),
    Mutant(
        "no-repair", TAIL, "HeldTail.missing",
        "return found", "return None",
        "what the log lost is appended again",
    ),
    Mutant(
        "unconfirmed-waits", DELAY, "ConfirmationDelay.is_too_long",
        ">= UNCONFIRMED_NS", ">= 10**30",
        "a leader whose entries nobody confirms reads the log again",
    ),
    Mutant(
        "confirm-other-term", PEERS, "ReplicaPeers.confirm",
        "own = held is not None and held.place.term == self._confirmations.term",
        "own = held is not None",
        "a leader confirms entries of earlier terms only with one of its own",
    ),
    Mutant(
        "held-any-hash", PEERS, "ReplicaPeers._count_held",
        " and self._tail.hash_at(index) == digest", "",
        "an acknowledgement counts for the leader's own chain alone",
    ),
    Mutant(
        "pledge-twice", VOTER, "Voter.grant",
        "if term < self.promised or wait_ns:", "if term < self.promised:",
        "a voter pledges to another only after its last pledge ran out",
    ),
    Mutant(
        "pledge-older", VOTER, "Voter.grant",
        "if term < self.promised or wait_ns:", "if wait_ns:",
        "a voter pledges to no older term than it promised",
    ),
    Mutant(
        "no-abstention", VOTER, "Voter.wait_ns",
        "self._free_ns = now_ns + PLEDGE_NS + DRIFT_NS", "self._free_ns = now_ns",
        "a voter that has just started abstains for one pledge",
    ),
    Mutant(
        "vote-forgets", FLOOR, "VoteFloor.admits",
        "if self.is_reached or candidate >= self.rank:", "if True:",
        "who has forgotten entries pledges only to one that has them",
    ),
    Mutant(
        "floor-lost", FLOOR, "VoteFloor.forget",
        "self.rank = max(self.rank, self._tail.end.rank, reached)", "pass",
        "what a replica is to forget is recorded before",
    ),
    Mutant(
        "floor-unsaid", WORD, "DurableWord.install",
        "self.store_promise()", "pass",
        "the record of what is forgotten is durable before it is forgotten",
    ),
    Mutant(
        "stands-forgetful", PEERS, "ReplicaPeers._is_due",
        "self.is_member and self.floor.is_reached", "self.is_member",
        "who has forgotten entries leads only when it has them again",
    ),
    Mutant(
        "recalls-early", RECOLLECTION, "Recollection.recalled",
        "if len(self._answers.keys() & self._others()) < self._needed:", "if not self._answers:",
        "who has lost its memory asks as many as any majority must have one of",
    ),
    Mutant(
        "forgets-all", PEERS, "ReplicaPeers.receive",
        "if self._recollection.is_due and not isinstance(message, wire.Recalled):", "if False:",
        "who has lost its memory takes no part",
    ),
    Mutant(
        "promise-forgotten", RECOLLECTION, "Recollection.recalled",
        "self._voter.promise(max(each.promised for each in self._answers.values()))", "pass",
        "who has lost its memory follows the newest term that the others know",
    ),
    Mutant(
        "pledge-forever", PLEDGES, "Pledges.take",
        "until_ns = pledge.stamp_ns + PLEDGE_NS", "until_ns = pledge.stamp_ns + 10 * PLEDGE_NS",
        "a pledge ends",
    ),
    Mutant(
        "resigns-acting", PEERS, "ReplicaPeers.resign",
        'self._actions.step_down("this scheduler is to end", now)', "pass",
        "a leader that resigns has stopped to act before the others hear of it",
    ),
    Mutant(
        "freed-by-anybody", PEERS, "ReplicaPeers._resigned",
        "self.voter.free(sender, message.term, now.boot_ns)",
        "self.voter._free_ns = now.boot_ns",
        "a word that resigns frees only the votes for its sender in that term",
    ),
    Mutant(
        "no-step-down", PEERS, "ReplicaPeers.check",
        'self._actions.step_down("a majority\'s pledges ran out", now)', "pass",
        "a leader whose pledges ran out stops before it does anything else",
    ),
    Mutant(
        "no-fetch", PLEDGES, "Pledges.best",
        "end.rank > rank", "False",
        "a candidate fetches what a voter holds beyond it",
    ),
    Mutant(
        "fetch-for-ever", PEERS, "ReplicaPeers._part",
        'if not good and self._leadership.role == "fetching":', "if False:",
        "a candidate that cannot get what it lacks lets another one stand",
    ),
    Mutant(
        "fetch-once", FETCHES, "ChainFetches.again",
        "now.boot_ns - self._fetched_ns >= FETCH_NS", "False",
        "what was requested and did not come is requested again",
    ),
    Mutant(
        "term-unchecked", ROSTER, "Roster.may_begin",
        "return len(voters - {0, entry.leader}) >= needed", "return True",
        "a term begins with the pledges of a majority",
    ),
    Mutant(
        "pledge-any-term", ROSTER, "Roster._voter",
        "meant != (entry.cluster, entry.leader, entry.term) or key is None", "key is None",
        "pledges of one term begin no other",
    ),
    Mutant(
        "signature-unchecked", ROSTER, "Roster.signed",
        "return key is not None and entries.signed_by(opened, key)", "return key is not None",
        "an entry counts with its leader's signature alone",
    ),
    Mutant(
        "owner-unchecked", ROSTER, "Roster.owned",
        "self.owner(entry.term, state, entry.prev_index) == entry.leader", "True",
        "only the owner of a term signs for it",
    ),
    Mutant(
        "roster-applied", ROSTER, "Roster.members",
        "for change in self._changes:", "for change in ():",
        "the roster of the newest held entry counts, confirmed or not",
    ),
    Mutant(
        "places-move", "stoker.mesh.log.roster_change", "changed",
        "return tuple(filled)", "return tuple(each for each in filled if each != VACANT)",
        "who stays in the roster keeps his place",
    ),
    Mutant(
        "self-leave", PROPOSALS, "RosterProposals._refusal",
        "if self._number not in quorum.numbers:", "if False:",
        "a leader does not let itself go",
    ),
    Mutant(
        "promise-lost", WORD, "DurableWord.store_promise",
        "self._store(self._tail.end.index)", "pass",
        "a promise is durable before anybody hears of it",
    ),
    Mutant(
        "store-nothing", WORD, "DurableWord._store",
        "tuple((each.index, each.data) for each in self._tail.after(after))", "()",
        "an entry is durable before it is acknowledged",
    ),
    Mutant(
        "older-term", TAIL, "HeldTail._older",
        'return "entry_term" if entry.term < self.end.term else ""', 'return ""',
        "an entry of an older term than the end of the chain counts for nothing",
    ),
    Mutant(
        "campaign-older", PEERS, "ReplicaPeers._campaign",
        "max(self.voter.promised, self._newest, self._tail.end.term",
        "max(self._newest, self._tail.end.term",
        "a candidate takes a newer term than it ever promised",
    ),
    Mutant(
        "unknown-again", PIPELINE, "AppendPipeline.settle_unknown",
        "sent.entry.term == term and follows", "False",
        "an append whose outcome is unknown is sent again with the same bytes",
    ),
    Mutant(
        "snapshot-alone", AGREEMENT, "StateAgreement._taken",
        "if not self._quorum.has(each for each, found in votes.items() if found == agreed):",
        "if False:",
        "the log is trimmed behind a snapshot that a majority has",
    ),
    Mutant(
        "lease-from-arrival", JUDGE, "LeaseJudge._judge",
        "expiry_ns = stamp_ns + answer.lease_ms * 1_000_000",
        "expiry_ns = now_ns + answer.lease_ms * 1_000_000",
        "a lease counts from the stamp of the request",
    ),
    Mutant(
        "candidate-thaws", JUDGE, "LeaseJudge._worthless",
        "if answer.extend_only and", "if False and",
        "a candidate only extends leases that have not run out",
    ),
    Mutant(
        "read-unproven", READ_INDEX, "ReadIndexes._is_proven",
        "return self._pledges.quorum.has(voters)", "return True",
        "a read is confirmed by a majority that follows no later leader",
    ),
    Mutant(
        "read-early", FOLLOWER_READS, "FollowerReads.applied",
        "if index > self._state.index:", "if False:",
        "a follower answers a read once it has applied the position",
    ),
    Mutant(
        "read-joins", FOLLOWER_READS, "FollowerReads.want",
        "self._new.append(", "(self._requested.reads if self._requested else self._new).append(",
        "a read index serves only the reads that came before it was requested",
    ),
    Mutant(
        "lease-unpledged", ANSWERS, "LeaseAnswers.due",
        "if now_ns >= self._ends_ns(authority):", "if False:",
        "no lease is renewed when the pledges ran out",
    ),
    Mutant(
        "gang-in-parts", STATE, "ReplicaState._start_rank",
        "if len(decisions) < effect.tasks:", "if False:",
        "a gang starts when all of its tasks have places",
    ),
    Mutant(
        "gang-unready", CHANNEL, "_may_run",
        "task.released and task.state", "task.state",
        "a task of a gang runs only after all were ready",
    ),
    Mutant(
        "release-unsaid", CHANNEL, "_may_run",
        "return task.released", "return False",
        "the desired state repeats the release of a gang",
    ),
    Mutant(
        "ready-unheard", ATTEMPTS, "Attempts._adopt",
        "self.gathered(has.event, effects)", "pass",
        "a new agent reports the tasks that are ready",
    ),
    Mutant(
        "holds-beyond", TAIL, "HeldTail._superseded",
        "feature_level.check(level, self._supports, what)", "pass",
        "a replica holds no entry beyond the levels of its build",
    ),
    Mutant(
        "drain-forgotten", WORK, "hello_requests",
        "bool(report.drain) or report.node in state.book.drained", "bool(report.drain)",
        "a drained node stays drained when it reports itself again",
    ),
]  # fmt: skip

COVERED = [
    Mutant(
        "witness-alone", WITNESSES, "Witnesses._agreed",
        "if count >= self._quorum.majority", "if count >= 1",
        "a majority of those that a replica knows has told it the state of a snapshot",
    ),
    Mutant(
        "witness-untaken", WITNESSES, "Witnesses._agreed",
        "if count >= self._quorum.majority", "if False",
        "a replica takes a snapshot that a majority of those that it knows has alike",
    ),
    Mutant(
        "not-caught-up", CORE, "NodeCore._command_received",
        "if not self._caught_up:", "if False:",
        "a new agent obeys no command before it read its desired state",
    ),
]  # fmt: skip
"""Guards without which no seed finds anything. Behind the first one another one stands: nothing
starts before the desired state was read under the present lease. A story takes both away
(`test_a_machine_that_lost_its_newest_position_repeats_no_start`). No seed has a thief of keys, or
a replica that needs the witnesses of a snapshot: `test_scenarios_witnesses.py` has both."""
