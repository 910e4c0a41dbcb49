# SPDX-License-Identifier: Apache-2.0
"""One replica's dealings with the other replicas: pledges, the end of the chain, confirmations.

Without I/O. Owns two rules: a candidate reads, fetches and repairs before its TERM entry, so that
nothing that a majority held is lost; and a replica acknowledges entries to the leader of the newest
term that it promised, and to no other. With one scheduler that is alone nothing here is used.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from stoker.mesh.identity.identity import Signs
from stoker.mesh.log import entry as entries
from stoker.mesh.log.entry import SnapshotBlob
from stoker.mesh.log.feature_level import FeatureRange
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.log.held_entry import ChainPlace
from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.log.roster import Roster
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.applicants import Applicants
from stoker.mesh.replica.peers.candidacy import NEXT_NS, Candidacy
from stoker.mesh.replica.peers.chain_fetches import ChainFetches
from stoker.mesh.replica.peers.confirmation_delay import ConfirmationDelay
from stoker.mesh.replica.peers.confirmations import Confirmations
from stoker.mesh.replica.peers.durable_word import DurableWord
from stoker.mesh.replica.peers.follower_reads import FollowerReads
from stoker.mesh.replica.peers.peer_ranges import PeerRanges
from stoker.mesh.replica.peers.pledges import Pledges
from stoker.mesh.replica.peers.quorum import Quorum
from stoker.mesh.replica.peers.read_index import ReadIndexes
from stoker.mesh.replica.peers.recollection import Recollection
from stoker.mesh.replica.peers.replica_actions import ReplicaActions
from stoker.mesh.replica.peers.sender_check import ReadEnvelope, SenderCheck
from stoker.mesh.replica.peers.snapshot_exchange import SnapshotExchange
from stoker.mesh.replica.peers.state_agreement import StateAgreement
from stoker.mesh.replica.peers.vote_floor import VoteFloor
from stoker.mesh.replica.peers.voter import PLEDGE_NS, Voter
from stoker.mesh.replica.peers.witnesses import Witnesses
from stoker.mesh.replica.replica_settings import ReplicaSettings
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire import peer_messages as wire
from stoker.mesh.wire.peer_messages import (
    Held,
    Message,
    NotPledged,
    Pledge,
    PledgeRequest,
    Promised,
)
from stoker.mesh.wire.term_owner import next_term
from stoker.native.errors import StokerError

RENEW_NS = 500_000_000
"""Pledges are renewed this often, four times within the length of one."""
FOLLOW_NS = 500_000_000
"""A follower that is told nothing reads the log this often."""
PLEDGING_NS = 400_000_000
"""A candidate without a majority gives up after this time, and tries again later."""


class ReplicaPeers:
    """The other replicas, as one replica knows them."""

    def __init__(
        self,
        settings: ReplicaSettings,
        signer: Signs,
        state: ReplicaState,
        *,
        roster: Roster,
        tail: HeldTail,
        leadership: Leadership,
        outbox: Outbox,
        actions: ReplicaActions,
        read_envelope: ReadEnvelope = wire.read_envelope,
    ) -> None:
        self.number = settings.leader
        self.alone = settings.genesis.alone
        self.quorum = quorum = Quorum(lambda: roster.members(state))
        self.voter = Voter(settings.cluster, self.number, settings.promised)
        self.floor = VoteFloor(settings.vote_floor, tail, outbox)
        self._word = word = DurableWord(tail, self.voter, self.floor, outbox)
        self.pledges = Pledges(self.number, quorum)
        self.ranges = PeerRanges(settings, self.pledges, leadership, outbox)
        self._confirmations = Confirmations(quorum)
        self._cluster, self._signer = settings.cluster, signer
        self._state = state
        self._roster, self._tail = roster, tail
        self._leadership = leadership
        self._outbox, self._actions = outbox, actions
        carried = self.send, outbox, tail.covers, word.install
        self.exchange = SnapshotExchange(*carried, settings.supports)
        self._agreement = StateAgreement(
            self.number, quorum, state, send=self.send, outbox=outbox, install=word.install
        )
        self.reads_here = FollowerReads(
            state,
            leadership,
            self.voter,
            outbox,
            self.send,
            each=settings.budgets.waiters,
            first=random.Random(f"reads {settings.seed}").getrandbits(48),
        )
        self._read_indexes = ReadIndexes(
            state,
            leadership,
            self.pledges,
            self.voter,
            number=self.number,
            send=self.send,
            request_pledges=self._request_pledges,
        )
        self._recollection = self._make_recollection(settings)
        self.witnesses = self._make_witnesses(settings)
        self.fetches = self._make_fetches()
        self.applicants = applicants = Applicants(
            settings.seed, own=self.number, roster=roster, quorum=quorum, tail=tail, send=self.send
        )
        self._senders = SenderCheck(
            settings, roster, applicants, state, outbox=outbox, read_envelope=read_envelope
        )
        self._candidacy = Candidacy(settings.seed, self.number, self.voter)
        self._newest = 0
        """The newest term that a voter named."""
        self._begun_ns = self._read_ns = 0
        self._read_again = False
        self.delay = ConfirmationDelay(tail, leadership)
        leadership.channels.vouchers = self.pledges.vouchers
        self._handlers = self._message_handlers()

    def _make_recollection(self, settings: ReplicaSettings) -> Recollection:
        """Return what asks the others if this replica has lost its memory."""
        return Recollection(
            random.Random(f"recall {settings.seed}").getrandbits(48),
            own=self.number,
            roster=self._roster,
            state=self._state,
            tail=self._tail,
            voter=self.voter,
            floor=self.floor,
            word=self._word,
            outbox=self._outbox,
            send=self.send,
            known=lambda: self.applicants.known,
        )

    def _make_fetches(self) -> ChainFetches:
        """Return what requests entries of others, and sends them."""
        return ChainFetches(
            self._state,
            roster=self._roster,
            tail=self._tail,
            voter=self.voter,
            pledges=self.pledges,
            leadership=self._leadership,
            exchange=self.exchange,
            witnesses=self.witnesses,
            outbox=self._outbox,
            actions=self._actions,
            send=self.send,
            acknowledge=self.acknowledge,
        )

    def _make_witnesses(self, settings: ReplicaSettings) -> Witnesses:
        """Return what asks the others if no leader helps this replica over a gap."""
        return Witnesses(
            random.Random(f"witnesses {settings.seed}").getrandbits(48),
            own=self.number,
            quorum=self.quorum,
            state=self._state,
            tail=self._tail,
            exchange=self.exchange,
            outbox=self._outbox,
            send=self.send,
        )

    def _message_handlers(self) -> dict[type, Callable[[int, Any, Instant], None]]:
        """Return what handles each kind of message."""
        return {
            PledgeRequest: self._pledge_requested,
            Promised: self._promised,
            NotPledged: self._not_pledged,
            wire.Resigned: self._resigned,
            wire.FetchRequest: self.fetches.requested,
            wire.Fetched: self.fetches.came,
            wire.Appended: self._appended,
            Held: self._held,
            wire.Confirmed: self._confirmed,
            wire.SnapshotRequest: self.exchange.requested,
            wire.SnapshotPart: self._part,
            wire.SnapshotTaken: lambda at, it, now: self._agreement.count(at, it.index, it.digest),
            wire.Diverged: self._diverged,
            wire.ReadIndexRequest: self._read_indexes.requested,
            wire.ReadIndexReply: self.reads_here.answered,
            wire.RecallRequest: self._recollection.requested,
            wire.Recalled: self._recollection.recalled,
            wire.WitnessRequest: self.witnesses.requested,
            wire.Witnessed: self._witnessed,
        }

    @property
    def is_member(self) -> bool:
        """True if this scheduler is in the roster at the end of its chain."""
        return self.alone or self.number in self.quorum.numbers

    def _witnessed(self, sender: int, message: wire.Witnessed, now: Instant) -> None:
        if not self.applicants.told(sender, message, now):
            self.witnesses.told(sender, message, now)

    # --- time -------------------------------------------------------------------------------------

    def check(self, now: Instant) -> None:
        """Step down before anything else is done without a majority's pledges."""
        if self.alone:
            return
        leadership, pledges = self._leadership, self.pledges
        if now.boot_ns >= pledges.until_ns and leadership.stands:
            self._actions.step_down("a majority's pledges ran out", now)
        leadership.until_ns = until_ns = pledges.right_ns(self._tail.end)
        leadership.pledged_ns = until_ns - PLEDGE_NS
        leadership.pledged_term = pledges.term

    def tick(self, now: Instant) -> None:
        """Renew pledges, stand for leadership, or read what the leader appended."""
        if self.alone:
            return
        self.reads_here.tick(now)
        self.applicants.tick(now, leads=self._leadership.leads)
        self._read_indexes.look(now)
        if self._leadership.halted:
            return
        if self._recollection.is_due:
            self._recollection.tick(now)
            return
        if self._leadership.stands:
            if now.boot_ns - self.pledges.requested_ns >= RENEW_NS:
                self._request_pledges(now)
            self.fetches.again(now)
        elif self._leadership.role == "pledging":
            if now.boot_ns - self._begun_ns >= PLEDGING_NS:
                self._actions.step_down("no majority pledged", now)
                self._candidacy.lost(now.boot_ns)
        elif self._is_due(now):
            self._campaign(now)
        elif now.boot_ns - self._read_ns >= FOLLOW_NS:
            again, self._read_again = self._read_again, False
            self._actions.read_log(again=again)

    def reads(self, now: Instant) -> None:
        """Note that the log is being read."""
        self._read_ns = now.boot_ns

    def rest(self, now: Instant) -> None:
        """Stand again only after a random time."""
        self.pledges.end()
        self._confirmations.begin(0)
        self._candidacy.rest(now.boot_ns)

    def hurry(self, now: Instant) -> None:
        """Stand again at once."""
        self._candidacy.stand_at(now.boot_ns)

    def _is_due(self, now: Instant) -> bool:
        """True if this replica may stand for leadership now."""
        fit = self.is_member and self.floor.is_reached and not self._leadership.beyond
        return self._candidacy.is_due(now.boot_ns, fit=fit)

    def resign(self, now: Instant) -> None:
        """Stand down for good. Those who pledged to a leader hear that they are free; a candidate
        has not promised its term and could win it once it is back, so it tells nobody."""
        self._candidacy.is_over, term = True, self.pledges.term
        if (won := self._leadership.stands) or self._leadership.role == "pledging":
            self._actions.step_down("this scheduler is to end", now)
        if won:
            self.voter.free(self.number, term, now.boot_ns)
            self.broadcast(wire.Resigned(term))

    def _resigned(self, sender: int, message: wire.Resigned, now: Instant) -> None:
        """Stand at once if this is the first of those that can, and else a little later."""
        if self._roster.owner(message.term, self._state) != sender:
            self._outbox.count("peer_term")
            return
        self.voter.free(sender, message.term, now.boot_ns)
        if self._leadership.role != "following" or message.term < self.voter.promised:
            return
        self._leadership.leader, self._leadership.why = 0, f"scheduler {sender} resigned"
        before = sum(each < self.number for each in self.quorum.numbers - {sender})
        self._candidacy.stand_at(now.boot_ns + before * NEXT_NS)
        if self._is_due(now):
            self._campaign(now)

    # --- pledges ----------------------------------------------------------------------------------

    def _campaign(self, now: Instant) -> None:
        """Stand for the next own term: request the pledges of all."""
        after = max(self.voter.promised, self._newest, self._tail.end.term, self._state.term)
        place = self._roster.place(self.number, self._state)
        self.pledges.begin(next_term(max(after, self._leadership.newest_lost), place))
        self._begun_ns = now.boot_ns
        self._leadership.role = "pledging"
        self._outbox.count("campaigns")
        self._request_pledges(now)
        if self.quorum.majority == 1:
            self._win(now)

    def _request_pledges(self, now: Instant) -> None:
        term, stamp_ns = self.pledges.term, now.boot_ns
        if self._leadership.stands:
            self._pledge_to_itself(now)
        self.pledges.requested_ns = now.boot_ns
        index = self._state.index
        confirmed = index, self._tail.hash_at(index) or b""
        chain = (*self._tail.end.rank, self._state.level)
        leads = self._leadership.leads
        beside = self.applicants.pledging(now.boot_ns, leads=leads)
        self.broadcast(PledgeRequest(term, stamp_ns, leads, *confirmed, *chain), beside)

    def _pledge_to_itself(self, now: Instant) -> None:
        """Add the own pledge, as the last one, so that a try that fails changes nothing here."""
        own = self._grant(self.number, self.pledges.term, now.boot_ns, now)
        if isinstance(own, Pledge):
            self.pledges.take(own, b"", now.boot_ns, early=self.voter.is_early(now.boot_ns))

    def _grant(self, candidate: int, term: int, stamp_ns: int, now: Instant) -> Pledge | NotPledged:
        """Vote; a promise of a newer term is durable before anybody hears of it."""
        before = self.voter.promised
        roster = self._roster.digest(self._state)
        answer = self.voter.grant(candidate, term, stamp_ns, roster, now.boot_ns)
        if self.voter.promised != before:
            self._word.store_promise()
        return answer

    def _pledge_requested(self, sender: int, message: PledgeRequest, now: Instant) -> None:
        if self._roster.owner(message.term, self._state) != sender:
            self._outbox.count("peer_term")
            return
        reaches = self.floor.admits((message.end_term, message.end_index))
        if self.ranges.goes_beyond(message.level) or not reaches:
            self.send(sender, NotPledged(self.voter.promised, PLEDGE_NS))
            return
        rival = self._leadership.role == "pledging" and not message.leads
        if rival and message.term < self.pledges.term:  # else each binds its vote to the other
            self.send(sender, NotPledged(self.voter.promised, PLEDGING_NS))
            return
        answer = self._grant(sender, message.term, message.stamp_ns, now)
        if isinstance(answer, NotPledged):
            self.send(sender, answer)
            return
        if self._leadership.role != "following" and message.term > self.pledges.term:
            self._actions.step_down(f"scheduler {sender} has a newer term", now)
        self._candidacy.put_off()
        self._leadership.leader = sender if message.leads else self._leadership.leader
        end = self._tail.end
        sealed = wire.seal_pledge(answer, self._signer)
        early = self.voter.is_early(now.boot_ns)
        self.send(sender, Promised(sealed, end.term, end.index, end.hash, early, *self.ranges.own))
        if message.leads:
            if self.witnesses.is_missing(message.index):
                self.fetches.want(sender, now)
            self._told(sender, message.index, message.hash, now)

    def _promised(self, sender: int, message: Promised, now: Instant) -> None:
        key = self.applicants.voter_key(sender, self._state)
        try:
            pledge = wire.read_pledge(message.pledge)
        except StokerError:
            self._outbox.count("pledge_refused")
            return
        meant = pledge.voter == sender and pledge.candidate == self.number
        good = key is not None and meant and wire.is_signed(message.pledge, key)
        taken = message.pledge, now.boot_ns
        if not good or not self.pledges.take(pledge, *taken, early=message.early):
            self._outbox.count("pledge_refused")
            return
        if sender in self.applicants.requested:  # it counts from the change on
            return
        self.ranges.said(sender, FeatureRange(message.oldest, message.newest))
        end = ChainPlace(message.end_term, message.end_index, message.end_hash)
        self.pledges.names_end(sender, end)
        self._read_indexes.look(now)
        if self._leadership.role == "pledging" and self.pledges.count == self.quorum.majority - 1:
            self._win(now)
        self._count_held(sender, pledge.term, message.end_index, message.end_hash, now)

    def _win(self, now: Instant) -> None:
        """Pledge to itself as the last one of a majority, and read the log."""
        self._pledge_to_itself(now)
        if self.pledges.hold(now.boot_ns):
            self._candidacy.won()
            self._leadership.role = "reading"
            self._actions.read_log(again=True)

    def _not_pledged(self, sender: int, message: NotPledged, now: Instant) -> None:
        if self.applicants.voter_key(sender, self._state) is None:
            return
        self._newest = max(self._newest, message.term)
        if self._leadership.leads and message.term > self.pledges.term and not message.wait_ns:
            # The voter promised a term in which nobody came to lead, and follows no older one.
            self._actions.step_down(f"scheduler {sender} follows a newer term", now)
            self.hurry(now)

    # --- the end of the chain ---------------------------------------------------------------------

    def best(self) -> tuple[int, ChainPlace] | None:
        """Return the voter that holds a longer chain of a newer or equal term than this replica."""
        return self.pledges.best(self._tail.end)

    def has_right(self, now_ns: int) -> bool:
        """True while no other scheduler can lead, since this one has all that its voters have."""
        return self.alone or now_ns < self.pledges.right_ns(self._tail.end)

    def _part(self, sender: int, part: wire.SnapshotPart, now: Instant) -> None:
        good = self.exchange.part(sender, part, now.boot_ns)
        if not good and self._leadership.role == "fetching":  # another can lead without that file
            self._actions.step_down(f"scheduler {sender} has no good snapshot", now)
            self._candidacy.stand_at(now.boot_ns + 2 * PLEDGE_NS)

    def applied(self) -> None:
        """Note that the state has the next entry."""
        if not self.alone:
            self._agreement.applied()
            self.reads_here.applied()

    def saved(self, blob: SnapshotBlob) -> None:
        """Tell the leader of a snapshot of this replica, which is durable."""
        self._agreement.own = blob
        self.witnesses.has(blob.index, blob.agreed)
        owner = self._roster.owner(self.voter.promised, self._state)
        if owner == self.number:
            self._agreement.count(self.number, blob.index, blob.agreed)
        elif owner:
            self.send(owner, wire.SnapshotTaken(blob.index, blob.agreed))

    def take_agreed(self) -> SnapshotBlob | None:
        """Return the own snapshot that a majority was found to have, once; else None."""
        agreed, self._agreement.agreed = self._agreement.agreed, None
        return agreed

    def _diverged(self, sender: int, message: wire.Diverged, now: Instant) -> None:
        if self._roster.owner(self.voter.promised, self._state) == sender:
            self._agreement.begin_again()

    # --- entries ----------------------------------------------------------------------------------

    def begin_term(self, term: int) -> None:
        """Count acknowledgements for the term of this replica's TERM entry."""
        self._confirmations.begin(term)

    def appended(self, seq: int, now: Instant) -> None:
        """Tell the others that this replica appended the end of its chain as `seq`."""
        end = self._tail.end
        self._word.store_new()
        self._confirmations.held(self.number, end.index)
        self.broadcast(wire.Appended(self._confirmations.term, end.index, seq))
        self.confirm(now)

    def repeat(self, now: Instant) -> None:
        """Tell the others again of what is not confirmed; they may not have heard of it."""
        if self._tail.end.index > self._tail.confirmed:
            self.appended(self._state.seen, now)

    def confirm(self, now: Instant) -> None:
        """Confirm what a majority holds, if it ends with an entry of this leader's own term."""
        index = self._confirmations.index
        held = self._tail.at(index)
        own = held is not None and held.place.term == self._confirmations.term
        if held is None or not own or index <= self._tail.confirmed:
            return
        self._tail.confirm(index)
        self._actions.apply_ready(now)
        self.broadcast(wire.Confirmed(self._confirmations.term, index, held.opened.hash))

    def acknowledge(self) -> None:
        """Make what was read durable, then tell the leader of the promised term."""
        if self.alone or not self._word.store_new():
            return
        owner = self._roster.owner(self.voter.promised, self._state)
        if owner and owner != self.number:
            self.send(owner, self._holding())

    def _holding(self) -> Held:
        end = self._tail.end
        return Held(self.voter.promised, end.index, end.hash, self._state.index, self._state.trail)

    def _appended(self, sender: int, message: wire.Appended, now: Instant) -> None:
        if not self._follows(sender, message.term):
            return
        end, is_behind = self._tail.end, message.seq <= self._state.seen
        beyond = message.index - end.index
        if beyond > 0:
            if is_behind:  # the log began again before what was read here
                self._state.pass_over(max(0, message.seq - beyond))
            self._actions.read_log(again=False)
        elif end.term < message.term:  # the log shows another entry there than it did before
            self._actions.read_log(again=is_behind)
        else:
            self.send(sender, self._holding())

    def _held(self, sender: int, message: Held, now: Instant) -> None:
        self._count_held(sender, message.term, message.index, message.hash, now)
        if message.term == self._confirmations.term:
            self._agreement.compare(sender, message)

    def _count_held(self, sender: int, term: int, index: int, digest: bytes, now: Instant) -> None:
        """Count what a replica holds, if it is this leader's chain."""
        if term == self._confirmations.term and self._tail.hash_at(index) == digest:
            self._confirmations.held(sender, index)
            self.confirm(now)

    def _confirmed(self, sender: int, message: wire.Confirmed, now: Instant) -> None:
        if self._follows(sender, message.term):
            self._told(sender, message.index, message.hash, now)

    def _told(self, sender: int, index: int, digest: bytes, now: Instant) -> None:
        """The leader said that this entry is confirmed."""
        held = self._tail.hash_at(index)
        if held == digest:
            self._tail.confirm(index)
            self._actions.apply_ready(now)
        elif index > self._tail.end.index:
            self._actions.read_log(again=False)
        elif index > self._state.index:
            self.fetches.want(sender, now)

    def _follows(self, sender: int, term: int) -> bool:
        """True if a message is of the leader whom this replica follows."""
        if self._roster.owner(term, self._state) != sender or term < self.voter.promised:
            self._outbox.count("peer_term")
            return False
        if term > self.voter.promised:
            self.voter.promise(term)
            self._word.store_promise()
        self._leadership.leader = sender
        return self._leadership.role == "following"

    def gap(self, now: Instant) -> None:
        """An entry is missing in the log as this replica's server shows it.

        The leader may have it, and the next reading begins at the oldest entry that is held.
        """
        self._read_again = True
        self._outbox.count("log_gap")
        if not any(held.seq for held in self._tail.after(0)):
            self._state.pass_over(0)  # the state is of another replica, which had read further
        self.witnesses.gap(now)
        owner = self._roster.owner(self.voter.promised, self._state)
        if owner not in (0, self.number):
            self.fetches.want(owner, now)

    # --- the disk ---------------------------------------------------------------------------------

    def remember(self, held: tuple[tuple[int, bytes], ...], snapshot: Snapshot | None) -> None:
        """Hold again what the disk has beyond the state. What does not follow the state, because a
        damaged snapshot had it, is forgotten: the floor is there at once.
        """
        if snapshot is not None:
            self.witnesses.has(snapshot.index, snapshots.agreement(snapshot))
        self._actions.adopt(tuple(data for index, data in held if index > self._state.index))
        if held and held[-1][0] > self._tail.end.index:
            last = entries.unseal(0, held[-1][1]).entry
            self.floor.forget((last.term, last.prev_index + 1))
        self._remember_vote()

    def _remember_vote(self) -> None:
        """Know that the last vote was its own, if so: all pledges to others were over by then."""
        promised, alone = self.voter.promised, self.quorum.numbers == {self.number}
        is_own = not promised or self._roster.owner(promised, self._state) == self.number
        if is_own and alone and not self.floor.is_unknown:
            self.voter.voted_for_itself()

    # --- messages ---------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Instant) -> None:
        """Handle a message; one that is not of the roster, nor of a reader, is counted."""
        opened = self._senders.opened(data)
        if opened is None:
            return
        sender, message = opened
        if self._recollection.is_due and not isinstance(message, wire.Recalled):
            self._outbox.count("peer_unheard")  # nobody may count on a word that is not remembered
            return
        self._handlers[type(message)](sender, message, now)

    def broadcast(self, message: Message, beside: frozenset[int] = frozenset()) -> None:
        """Send a message to every other scheduler of the roster, and to those beside it."""
        for number in sorted((self.quorum.numbers | beside) - {self.number}):
            self.send(number, message)

    def send(self, to: int, message: Message) -> None:
        """Send a sealed message to one scheduler."""
        envelope = wire.PeerEnvelope(wire.FORMAT, self._cluster, self.number, to, message)
        self._outbox.put(events.SendPeer(to, wire.seal(envelope, self._signer)))
