# SPDX-License-Identifier: Apache-2.0
"""The replicated state: core and job book after a log entry, and how the next entry changes them.

Pure and deterministic: equal entries give equal bytes on every machine. `held_tail.py` judges which
entry is next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stoker.mesh.log import entry as entries
from stoker.mesh.log import feature_level, roster_change
from stoker.mesh.log.entry import (
    AccountBlob,
    AdminBlob,
    ArrayBlob,
    ArrayCancelBlob,
    CancelBlob,
    CordonBlob,
    DrainBlob,
    Entry,
    EvictBlob,
    FeatureLevelBlob,
    GenesisBlob,
    JobBlob,
    LimitsBlob,
    MoveBlob,
    NamesBlob,
    NodeBlob,
    NodeRemovedBlob,
    OutcomeBlob,
    RangeEndBlob,
    RosterBlob,
    SnapshotBlob,
    SnapshotPointBlob,
    TermBlob,
)
from stoker.mesh.log.feature_level import BUILD, FORMATS
from stoker.mesh.log.genesis import ClusterConfig, Genesis, digest
from stoker.mesh.replica import (
    array_steps,
    attempt_times,
    attempt_words,
    followed_jobs,
    gangs,
    moves,
    open_array,
    origin,
    snapshots,
)
from stoker.mesh.replica.changes import Applied, ToldOutcome
from stoker.mesh.replica.entry_step import EntryStep
from stoker.mesh.replica.raw_start import StartRaw
from stoker.mesh.replica.snapshots import Snapshot
from stoker.native.errors import Corrupt, StokerError
from stoker.scheduler.book import Attempt, Book, Eviction, Job, MoveOrder
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.departures import Departure
from stoker.scheduler.effects import (
    Duplicate,
    Effect,
    Forgotten,
    Ignored,
    Release,
    Start,
    StateChanged,
    Stop,
    unpack_effects,
)
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import (
    ENDED,
    NOT_BEGUN,
    Account,
    Decision,
    ForgetJob,
    Outcome,
    ReleaseJob,
    StartJob,
    TrustSchedulers,
)
from stoker.scheduler.reasons import Reason, sentence

DECISIONS_PER_ENTRY = 65_536
LEARN_FROM = 16
"""The first number of submits whose requests are taken for typical ones."""
UNFOUNDED = Limits(*(1,) * len(Limits._fields))
"""The limits of a state before its genesis, which takes nothing but the first term."""


class ReplicaState:
    """Core, book and chain after one entry.

    `seen` is the last sequence of the log that was read, `index` the last entry that was applied.
    """

    def __init__(self, cluster: str, genesis: bytes, core: Core | None = None) -> None:
        self.cluster = cluster
        self.genesis = genesis
        """The digest of the only genesis that may found this state."""
        self.config: ClusterConfig | None = None
        """The configuration of the cluster; None before the log's first entry."""
        self.core = core if core is not None else Core(UNFOUNDED)
        self.book = Book(cluster)
        self.seen = 0
        self.index = 0
        self.hash = entries.NO_HASH
        self.term = 0
        self.batch = 0
        self.trail = entries.NO_HASH
        """The digest of all effects so far; replicas that differ once differ here for ever."""
        self.snapshot_seq = 0
        self.time_ns = 0
        """The time of the last entry that counted."""
        self.refused: dict[str, int] = {}
        """The number of entries that did not count, by reason."""
        self.open_array: open_array.OpenArray | None = None
        """The array whose last jobs are in no entry yet; it follows from book and core."""
        self._names: dict[int, str] = {}
        self._counted = 0
        """The number of jobs whose requests the core has counted."""
        self._handlers: dict[type, Callable[[Any, EntryStep], None]] = {
            StateChanged: self._state_changed,
            Start: self._start,
            Stop: self._stop,
            Release: self._release,
            Forgotten: self._forgotten,
            Ignored: self._ignored,
            Duplicate: self._duplicate,
        }

    # --- configuration ----------------------------------------------------------------------------

    @property
    def limits(self) -> Limits:
        """The limits of the state now."""
        return self.config.limits if self.config is not None else UNFOUNDED

    @property
    def restored_ns(self) -> int:
        """The time at which a restored cluster began; 0 for any other one."""
        return self.config.restored_ns if self.config is not None else 0

    @property
    def schedulers(self) -> roster_change.Members:
        """The roster; nobody before the genesis."""
        return self.config.schedulers if self.config is not None else ()

    @property
    def level(self) -> int:
        """The feature level, by which all replicas judge; the oldest one before the genesis."""
        return self.config.level if self.config is not None else BUILD.oldest

    @property
    def accounts(self) -> Mapping[str, Account]:
        """The accounts of users by name; none before the genesis."""
        return self.config.accounts if self.config is not None else {}

    def _configured(self) -> ClusterConfig:
        if self.config is None:
            raise Corrupt("a state without a genesis has no snapshot")
        return self.config

    @property
    def is_founded(self) -> bool:
        """True behind the genesis; before it, a restored cluster has the state of its backup."""
        return self.config is not None and self.config.genesis == self.genesis

    def is_founding(self, entry: Entry) -> bool:
        """True if the entry states the genesis of this cluster."""
        stated = entries.genesis_of(entry)
        return stated is not None and digest(stated) == self.genesis

    def _found(self, genesis: Genesis, now_ns: int) -> None:
        """Begin with this genesis, whose digest `judge` has compared."""
        if genesis.origin is None:
            self.core = Core(genesis.limits)
        self.config = origin.first_config(genesis, self.config, now_ns)

    # --- snapshots --------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the whole state; equal states give equal snapshots."""
        return Snapshot(
            FORMATS[self.level].snapshot,
            self.cluster,
            self.seen,
            self.index,
            self.hash,
            self.term,
            self.batch,
            self.snapshot_seq,
            self.core.snapshot(),
            self.book.snapshot(),
            self._configured(),
            self.time_ns,
            self.trail,
        )

    @classmethod
    def restore(cls, snapshot: Snapshot) -> ReplicaState:
        """Return the state of a snapshot; Corrupt if core or book cannot be restored."""
        core = Core.restore(snapshot.core)
        state = cls(snapshot.cluster, snapshot.config.genesis, core)
        state.config = snapshot.config
        state.book = Book.restore(snapshot.book, snapshot.cluster)
        state.seen, state.index = snapshot.seq, snapshot.index
        state.hash = snapshot.hash
        state.term, state.batch = snapshot.term, snapshot.batch
        state.snapshot_seq = snapshot.snapshot_seq
        state.time_ns = snapshot.time_ns
        state.trail = snapshot.trail
        state._names = {name_id(name): name for name in state.book.nodes}
        state._learn_anew()
        state.open_array = open_array.newest(state.book, core)
        return state

    def digest(self) -> bytes:
        """Return a digest of the whole state, equal in all replicas after one entry."""
        return snapshots.encode(self.snapshot()).digest

    def node_name(self, node: int) -> str:
        """Return the name of a node by its id in the core."""
        return self._names.get(node, str(node))

    # --- entries ----------------------------------------------------------------------------------

    def refuse(self, counter: str) -> None:
        """Count an entry that does not count."""
        self.refused[counter] = self.refused.get(counter, 0) + 1

    def pass_over(self, seq: int) -> None:
        """Pass over all entries up to `seq`."""
        self.seen = seq

    def apply(self, entry: Entry, digest: bytes) -> Applied:
        """Apply the entry that follows; `digest` is its hash. Return its changes."""
        step = EntryStep(entry, digest)
        effects: list[Effect] = []
        commands, blobs = entry.commands, entry.blobs
        if (stated := entries.genesis_of(entry)) is not None:
            self._found(stated, entry.now_ns)
            commands, blobs = origin.consequences(stated, self, entry)
        raw = b""
        if commands:
            raw = self.core.apply_packed(commands, entry.now_ns)
            effects = unpack_effects(raw)
        for blob in blobs:
            self._take_blob(blob, step)
        self._note_ranks(step, effects)
        for effect in effects:
            self._handlers[type(effect)](effect, step)
        for removed in step.removed:  # last: the effects still name the node
            self._remove(removed, step)
        if step.applied.submitted:
            self.open_array = open_array.newest(self.book, self.core)
        self._learn(len(step.applied.submitted))
        self.index = step.index
        self.hash = digest
        self.trail = entries.chained(self.trail + digest, raw)
        self.term = entry.term
        self.batch = entry.batch
        self.time_ns = max(self.time_ns, entry.now_ns)
        return step.applied

    def _learn(self, submits: int) -> None:
        """Have the core expect what was submitted so far whenever that has doubled.

        The core itself looks only after every 1,024 submits, and the placements best and fgd
        cannot tell what is typical before it did. This is a hint and no part of the state.
        """
        before, self._counted = self._counted, self._counted + submits
        if self._counted >= LEARN_FROM and before.bit_length() < self._counted.bit_length():
            self.core.workload_learn()

    def _learn_anew(self) -> None:
        """Have a core that was made of a snapshot expect what its jobs requested."""
        counters = self.core.counters()
        self._counted = 0
        self._learn(counters["submitted"] - counters["forgotten"])

    def _take_blob(self, blob: entries.Blob, step: EntryStep) -> None:
        if isinstance(blob, JobBlob):
            step.jobs[blob.command] = blob
        elif isinstance(blob, ArrayBlob | ArrayCancelBlob | RangeEndBlob):
            array_steps.take(self.book, blob, step)
        elif isinstance(blob, OutcomeBlob):
            step.outcomes[blob.command] = blob.outcome
        elif isinstance(blob, CancelBlob):
            step.cancels[blob.command] = blob.reason
            self.open_array = open_array.noted(self.open_array, blob)
        elif isinstance(blob, NodeBlob):
            self.book.join(blob.report)
            self._names[name_id(blob.report.node)] = blob.report.node
        elif isinstance(blob, EvictBlob):
            self._evict(blob, step)
        elif isinstance(blob, NodeRemovedBlob):
            step.evicted[name_id(blob.node)] = blob.why
            step.removed.append(blob)
        elif isinstance(blob, SnapshotBlob):
            step.applied.snapshot = blob
            step.applied.trim_to, self.snapshot_seq = self.snapshot_seq, blob.seq
        elif isinstance(blob, SnapshotPointBlob):
            step.applied.is_snapshot_point = True
        elif isinstance(blob, RosterBlob):
            self._change_roster(step)
        elif isinstance(blob, FeatureLevelBlob):
            self._raise_level(blob.level)
        elif not isinstance(blob, GenesisBlob | TermBlob | AdminBlob):
            self._take_setting(blob, step)

    def _evict(self, blob: EvictBlob, step: EntryStep) -> None:
        boot_id = self.book.nodes[blob.node].boot_id
        self.book.evicted[blob.node] = Eviction(boot_id, step.index, blob.why)
        step.evicted[name_id(blob.node)] = blob.why

    def _remove(self, blob: NodeRemovedBlob, step: EntryStep) -> None:
        """Forget a node that the core has let go."""
        number = name_id(blob.node)
        if self.core.node(number) is not None:
            return
        at = (step.index, step.entry.now_ns)
        self.book.depart(Departure(blob.node, blob.key, blob.instance, *at, blob.why))
        self._names.pop(number, None)
        step.applied.departed.append(blob.node)
        step.applied.actions.pop(blob.node, None)

    def _take_setting(self, blob: entries.Setting, step: EntryStep) -> None:
        """Record the names of what this entry's commands have set."""
        if isinstance(blob, NamesBlob):
            self.book.named(blob.names)
        elif isinstance(blob, DrainBlob):
            self.book.drain(blob.node, blob.why)
        elif isinstance(blob, MoveBlob):
            self.book.moves[blob.node] = MoveOrder(blob.grace_s, blob.by)
        elif isinstance(blob, CordonBlob):
            self.book.cordoned.pop((blob.node, blob.device), None)
            if blob.why:
                self.book.cordoned[blob.node, blob.device] = blob.why
        elif isinstance(blob, LimitsBlob):
            self._resize(blob.limits)
        elif isinstance(blob, AccountBlob):
            self._set_account(blob)
        elif self.core.queue(blob.queue, step.entry.now_ns) is not None:
            self.book.queues[blob.queue] = blob.name
        else:
            self.book.queues.pop(blob.queue, None)

    def _resize(self, limits: Limits) -> None:
        """Take other limits; they do nothing, in every replica alike, if the state is too large."""
        try:
            self.core = self.core.resized(limits)
        except StokerError:
            self.refused["limits"] = self.refused.get("limits", 0) + 1
        else:
            self.config = msgspec.structs.replace(self._configured(), limits=limits)
            self._learn_anew()

    def _change_roster(self, step: EntryStep) -> None:
        """Take the roster behind this entry; a change that may not be does nothing anywhere."""
        config = self._configured()
        kept = roster_change.kept_min(config)
        schedulers = roster_change.following(config.schedulers, step.entry, kept)
        if schedulers is config.schedulers:
            self.refuse("roster")
        else:
            self.config = msgspec.structs.replace(config, schedulers=schedulers)
            told = TrustSchedulers(roster_change.keys(schedulers))
            for node in self.book.nodes:
                step.act(node, told)

    def _raise_level(self, level: int) -> None:
        """Take a higher feature level; a lower one does nothing anywhere."""
        feature_level.check(level, BUILD, "the log raises the feature level to")
        if level <= self.level:
            self.refuse("feature_level")
        else:
            made, config = FORMATS[level], self._configured()
            self.config = msgspec.structs.replace(config, level=level, formats=made)

    def _set_account(self, blob: AccountBlob) -> None:
        config = self._configured()
        accounts = {name: each for name, each in config.accounts.items() if name != blob.user}
        if blob.account is not None:
            accounts[blob.user] = blob.account
        ordered = dict(sorted(accounts.items()))
        self.config = msgspec.structs.replace(config, accounts=ordered)

    # --- effects of the core ----------------------------------------------------------------------

    def _state_changed(self, effect: StateChanged, step: EntryStep) -> None:
        if effect.state == "pending" and not effect.attempt:
            self._submitted(effect, step)
            return
        record = self.book.live(effect.job)
        if record is None:
            raise Corrupt(f"log entry {step.index}: the book does not know job {effect.job}")
        if effect.state != "starting":
            self.book.gathering.discard(effect.job)
        if effect.state == "pending":
            self._waits_again(effect, record, step)
            return
        was_stopping = record.state == "stopping"
        record.state = effect.state
        record.attempt = effect.attempt
        outcome = step.outcomes.get(effect.command)
        if not (was_stopping and record.ranks and effect.state in ENDED):
            record.reason = self._why(effect, outcome, record, step)
        attempt_times.note_start(record, outcome)
        attempt_times.note(record, step.entry.now_ns if outcome is None else outcome.t_ns)
        step.changed(record)
        self.book.arrays.note(effect.job, effect.state)
        if effect.state in ENDED:
            self._end(record, effect, outcome)
            array_steps.doomed(self.book, effect, step)
            return
        if effect.state == "stopping" and record.ranks:
            gangs.judge(record, effect, outcome)
        if effect.state == "stopping" and was_stopping:
            for node, stop in moves.cut_short(record, effect.reason, self):
                step.act(node, stop)

    def _end(self, record: Job, effect: StateChanged, outcome: Outcome | None) -> None:
        """Record the end of a job."""
        if record.ranks:
            gangs.lose(record, None)
            record.exit_code, record.signal = effect.exit_code, effect.signal
            record.usage = gangs.usage(record)
        elif outcome is not None:  # else the figures belong to an earlier attempt
            record.exit_code, record.signal = outcome.exit_code, outcome.signal
            record.usage = outcome.usage
        array_steps.end(self.book, record, self.level)

    def _note_ranks(self, step: EntryStep, effects: list[Effect]) -> None:
        """Record what this entry says of single ranks; most of it changes no job."""
        if not step.outcomes:
            return
        ignored = {each.command for each in effects if isinstance(each, Ignored)}
        for command, outcome in step.outcomes.items():
            record = self.book.live(outcome.job)
            if record is None or command in ignored:
                continue
            step.applied.changes.outcomes.append(ToldOutcome(record, outcome))
            if record.ranks:
                gangs.note(record, outcome)

    def _waits_again(self, effect: StateChanged, record: Job, step: EntryStep) -> None:
        """Record an attempt that is over, since another one will follow."""
        outcome = step.outcomes.get(effect.command)
        retried = effect.reason in (Reason.RETRIED, Reason.NOT_BEGUN, Reason.NOT_LAUNCHED)
        why = record.reason
        if retried and not (record.ranks and record.state == "stopping"):
            reported = outcome is not None
            lost = attempt_words.lost_with_node(effect, step, self.level)
            why = self._why(effect, outcome, record, step) if reported else lost
        attempt_times.note_start(record, outcome)
        ended = Attempt(
            record.attempt,
            attempt_words.end_of(outcome) if outcome is not None else "lost",
            why,
            record.decision,
            record.placed_ns,
            record.started_ns,
            step.entry.now_ns if outcome is None else outcome.t_ns,
            outcome.exit_code if outcome is not None else None,
            outcome.signal if outcome is not None else None,
            outcome.usage if outcome is not None else None,
        )
        self.book.leave(record)
        record.waits_again(gangs.ended(record, effect, ended) if record.ranks else ended)
        record.state = "pending"
        again = sentence(effect.reason if retried else Reason.PREEMPTED)
        if effect.reason == Reason.MOVED:
            record.reason = moves.waits(record)
        else:
            record.reason = f"{again}: {why}" if retried and why != again else again
        self.book.arrays.note(record.job, "pending")
        step.changed(record)

    def _submitted(self, effect: StateChanged, step: EntryStep) -> None:
        blob = step.jobs.get(effect.command)
        if blob is None:
            job = array_steps.submitted(self.book, effect, step)
        else:
            why = sentence(effect.reason)
            job = self.book.submit(effect.job, blob.owner, bytes(blob.spec), step.entry.now_ns, why)
            followed_jobs.follow(self.book, job.job, job.spec)
        self.book.arrays.note(effect.job, "pending")
        step.applied.changes.changed(job)
        step.applied.submitted.setdefault(effect.command, effect.job)

    def _why(
        self, effect: StateChanged, outcome: Outcome | None, record: Job, step: EntryStep
    ) -> str:
        if effect.command in step.cancels:
            record.stopped_for = step.cancels[effect.command]
        if effect.state == "stopping" and effect.reason in (Reason.PREEMPTED, Reason.RECLAIMED):
            return attempt_words.preempted(effect, step.entry)
        if effect.state == "stopping" and effect.reason == Reason.MOVED:
            return moves.begun(self.book, record)
        if effect.reason == Reason.AFTER_FAILED:
            unmet = followed_jobs.unmet_text(self.core, self.book, effect.job)
            return unmet or sentence(effect.reason)
        detail = attempt_words.asked_for(effect, record, step)
        text = (
            f"{sentence(effect.reason)}: {detail}"
            if detail
            else attempt_words.said(effect, outcome)
        )
        if effect.reason == Reason.NOT_LAUNCHED and effect.state == "failed" and not record.ranks:
            text = attempt_words.unlaunched(record, text)
        return self._of_gang(effect, outcome, record, text) if record.ranks else text

    def _of_gang(
        self, effect: StateChanged, outcome: Outcome | None, record: Job, text: str
    ) -> str:
        """Return the words about a gang with the ranks that they are about."""
        if effect.reason == Reason.NOT_READY:
            tasks = self.core.job_tasks(effect.job)
            return gangs.not_ready(record, (task.task for task in tasks if task.ready), text)
        if outcome is not None and outcome.state in (ENDED | NOT_BEGUN) - {"succeeded"}:
            return gangs.whose(record, outcome, text)
        return gangs.lost_with(record, effect, self.node_name(effect.node), text)

    def _start(self, effect: Start, step: EntryStep) -> None:
        record = self.book.live(effect.job)
        info = self.core.job_figures(effect.job)
        if record is None or info is None:
            raise Corrupt(f"log entry {step.index}: job {effect.job} starts but is not known")
        why = sentence(effect.reason, asked=info.gpu_milli, count=info.candidates)
        decision = Decision(
            step.index * DECISIONS_PER_ENTRY + effect.command,
            self.node_name(effect.node),
            effect.shares,
            why,
            effect.latency_ns,
            effect.observations,
            step.placing,
        )
        record.reason = why
        step.applied.changes.decided(record, effect.task, decision)
        if effect.tasks > 1:
            self._start_rank(record, decision, effect, step)
            return
        record.decision = decision
        step.act(decision.node, self.start_action(record, effect.task))

    def _start_rank(self, record: Job, decision: Decision, effect: Start, step: EntryStep) -> None:
        """Record the place of one rank; the last one's completes the gang, which then starts."""
        decisions = step.gangs.setdefault(effect.job, [])
        decisions.append(decision)
        if len(decisions) < effect.tasks:
            return
        self.book.place_gang(record, decisions)
        for task, each in enumerate(decisions):
            step.act(each.node, self.start_action(record, task))

    def start_action(self, record: Job, task: int) -> StartJob:
        """Return the command that starts a task of a placed job, as its receiver decodes it."""
        decision = record.ranks[task].decision if record.ranks else record.decision
        assert decision is not None
        return StartRaw(  # type: ignore[return-value]
            *(record.job, record.attempt, task, decision.placing),
            decision,
            record.owner,
            msgspec.Raw(record.spec),
            gangs.gang_of(record, self.book.nodes),
        )

    def _release(self, effect: Release, step: EntryStep) -> None:
        node = self.node_name(effect.node)
        step.act(node, ReleaseJob(*self.book.key(effect.job, effect.attempt, effect.task)))

    def _stop(self, effect: Stop, step: EntryStep) -> None:
        record = self.book.live(effect.job)
        why = record.reason if record is not None and record.reason else sentence(effect.reason)
        key = self.book.key(effect.job, effect.attempt, effect.task)
        step.act(self.node_name(effect.node), moves.stop_of(self.book, key, why, effect.reason))

    def _forgotten(self, effect: Forgotten, step: EntryStep) -> None:
        nodes = self.book.where(effect.job)
        self.book.forget(effect.job, step.cancels.get(effect.command, ""))
        step.applied.changed.append(effect.job)
        if effect.node and not nodes:
            nodes = [self.node_name(effect.node)]
        for node in nodes:
            if node in self.book.nodes:
                step.act(node, ForgetJob(effect.job))

    @staticmethod
    def _ignored(effect: Ignored, step: EntryStep) -> None:
        step.applied.ignored[effect.command] = effect.reason

    @staticmethod
    def _duplicate(effect: Duplicate, step: EntryStep) -> None:
        step.applied.submitted[effect.command] = effect.job
