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
        "not-caught-up", CORE, "NodeCore._command_received",
        "if not self._caught_up:", "if False:",
        "a new agent obeys no command before it read its desired state",
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
        "ends[self._majority - 1] if len(ends) >= self._majority", "ends[0] if ends",
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
        "unconfirmed-waits", PEERS, "ReplicaPeers.is_unconfirmed",
        ">= UNCONFIRMED_NS", ">= 10**30",
        "a leader whose entries nobody confirms reads the log again",
    ),
]  # fmt: skip
