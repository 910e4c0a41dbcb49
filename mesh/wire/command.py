# SPDX-License-Identifier: Apache-2.0
"""What the scheduler tells a node: committed actions, the wanted state, the heartbeat; signed.

Owns the rule of `CommandChain`: a node acts on a command only if it is signed, for this cluster and
node, of no older term, and the very next one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from stoker.mesh.identity.identity import SIGNATURE_BYTES, Checks, Signs
from stoker.native.errors import BadRequest, Denied
from stoker.scheduler.nouns import Action, Record, StartJob, StopJob

FORMAT = 1
HASH_BYTES = 32
NO_HASH = bytes(HASH_BYTES)
COMMAND_BYTES_MAX = 384 * 1024
"""Largest sealed record; below the broker's max_payload of 512 KB. More actions: several parts."""
HAVE_MAX = 16_384
"""Most attempts a RangeAsk may name."""


class Position(Record, frozen=True):
    """How far a node has followed its commands; durable at the agent."""

    term: int = 0
    seq: int = 0
    """Log sequence of the last command taken in."""
    hash: bytes = NO_HASH
    """blake2b-256 of that command's body; NO_HASH at the start of a term."""


class NodeCommand(Record, tag="command", frozen=True):
    """The actions one log entry means for one node; (prev_seq, prev_hash) is the one before."""

    format: int
    cluster: str
    node: str
    term: int
    seq: int
    prev_seq: int
    prev_hash: bytes
    now_ns: int
    """CLOCK_REALTIME ns of the entry."""
    actions: tuple[Action, ...]


class DesiredState(Record, tag="desired", frozen=True):
    """All that should be at a node now; the answer to RangeAsk. Acting on it twice is acting once.

    `wanted` names every attempt the node should have; `starts` holds those of them that the request
    did not name; what the node has beyond `wanted` is in `stops`, with the reason, or the log does
    not know it.
    `more`: the starts did not fit, take these and request again; the last answer has a position.
    """

    format: int
    cluster: str
    node: str
    term: int
    seq: int
    hash: bytes
    nonce: int
    now_ns: int
    wanted: tuple[tuple[int, int], ...] = ()
    """(job, attempt)."""
    starts: tuple[StartJob, ...] = ()
    stops: tuple[StopJob, ...] = ()
    more: bool = False
    forgets: tuple[int, ...] = ()
    """Jobs of the ask that the log has forgotten: delete what is kept of them."""
    lease_ms: int = 0
    """Renews the lease for so long, counted on CLOCK_BOOTTIME from when the node asked."""


class Heartbeat(Record, tag="heartbeat", frozen=True):
    """Renews the lease of one node for `lease_ms` of CLOCK_BOOTTIME from its arrival."""

    format: int
    cluster: str
    node: str
    term: int
    seq: int
    """Of the last command for this node: a node that is behind it asks."""
    hash: bytes
    beat: int
    """Grows by one per heartbeat of a term: an old one, sent again, renews nothing."""
    lease_ms: int
    now_ns: int


class StateRequest(Record, frozen=True):
    """Payload of `subjects.log_range`: where the agent is and what it has, running or ended."""

    nonce: int
    position: Position = Position()
    have: tuple[tuple[int, int], ...] = ()
    """(job, attempt)."""


class NodeReply(Record, frozen=True):
    """Answer to hello and outcome: committed, or the error to log and to try again after."""

    ok: bool
    code: str = ""
    message: str = ""


Sealable = NodeCommand | DesiredState | Heartbeat

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Sealable] = msgspec.msgpack.Decoder(Sealable)
_DOMAIN = b"stoker.v1.sealed\0"
"""Signed in front of the body, so no other signature of the same key can be passed off as one."""


def seal(record: Sealable, signer: Signs) -> bytes:
    """Signature, then body. The body's hash is what the next command's prev_hash names."""
    return seal_body(_encoder.encode(record), signer)


def seal_body(body: bytes, signer: Signs) -> bytes:
    """`seal` for a caller that needs the body for its hash as well."""
    return signer.sign(_DOMAIN + body) + body


def encode(record: Sealable) -> bytes:
    """The body of a record, unsigned."""
    return _encoder.encode(record)


def body_hash(body: bytes) -> bytes:
    """blake2b-256 of a body: the link of the chain."""
    return hashlib.blake2b(body, digest_size=HASH_BYTES).digest()


def open_sealed(data: bytes, verifier: Checks) -> Sealable:
    """Check the signature, decode; Denied if badly signed, BadRequest for what is no record."""
    if not SIGNATURE_BYTES < len(data) <= COMMAND_BYTES_MAX + SIGNATURE_BYTES:
        raise BadRequest(f"{len(data)} bytes are no sealed record")
    body = data[SIGNATURE_BYTES:]
    if not verifier.verify(_DOMAIN + body, data[:SIGNATURE_BYTES]):
        raise Denied("the scheduler did not sign this")
    try:
        record = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"signed, but not a record of this version: {error}") from None
    if record.format != FORMAT:
        raise BadRequest(f"format {record.format}, this agent reads {FORMAT}")
    return record


_T = TypeVar("_T", bound=Sealable)


def _open_as(kind: type[_T], data: bytes, verifier: Checks) -> _T:
    record = open_sealed(data, verifier)
    if not isinstance(record, kind):
        raise BadRequest(f"a {type(record).__name__} where a {kind.__name__} belongs")
    return record


def open_command(data: bytes, verifier: Checks) -> NodeCommand:
    """A NodeCommand, checked; place in the chain is CommandChain's business."""
    return _open_as(NodeCommand, data, verifier)


def open_desired(data: bytes, verifier: Checks) -> DesiredState:
    """A DesiredState, checked."""
    return _open_as(DesiredState, data, verifier)


def open_heartbeat(data: bytes, verifier: Checks) -> Heartbeat:
    """A Heartbeat, checked."""
    return _open_as(Heartbeat, data, verifier)


@dataclass(frozen=True)
class CommandAccepted:
    """The next command: carry out its actions, then store `CommandChain.position`."""

    command: NodeCommand


@dataclass(frozen=True)
class CommandRepeat:
    """A command already taken in; nothing to do."""


@dataclass(frozen=True)
class CommandGap:
    """Commands are missing, or a new term began: ask `subjects.log_range`, then `reconcile`."""

    why: str


@dataclass(frozen=True)
class CommandRefused:
    """Not obeyed and not a reason to ask; `counter` is its name in the loss counters."""

    counter: str
    why: str


@dataclass(frozen=True)
class LeaseRenewal:
    """A heartbeat that renews the lease."""

    heartbeat: Heartbeat


class CommandChain:
    """The agent's side: pure, fed with bytes from the network and with the stored Position.

    `nonce`: where its requests begin to count; the agent's start time, so that an answer once given
    to an earlier process of it fits none of them.
    """

    def __init__(
        self, cluster: str, node: str, verifier: Checks, at: Position, nonce: int = 0
    ) -> None:
        self.cluster = cluster
        self.node = node
        self.position = at
        self._verifier = verifier
        self._beats = HeartbeatJudge(cluster, node, verifier)
        self._nonce = nonce

    def offer(self, data: bytes) -> CommandAccepted | CommandRepeat | CommandGap | CommandRefused:
        """Judge one NodeCommand. Only Accepted moves the position."""
        try:
            command = open_command(data, self._verifier)
        except (Denied, BadRequest) as error:
            return _refusal(error)
        refused = _foreign(self, command, self.position)
        if refused is not None:
            return refused
        at = self.position
        if command.term > at.term:
            return CommandGap(f"term {command.term} began, this node follows {at.term}")
        digest = body_hash(data[SIGNATURE_BYTES:])
        if command.seq < at.seq or digest == at.hash:
            return CommandRepeat()
        if (command.prev_seq, command.prev_hash) != (at.seq, at.hash):
            return CommandGap(
                f"command {command.seq} follows {command.prev_seq}, this node is at {at.seq}"
            )
        self.position = Position(command.term, command.seq, digest)
        return CommandAccepted(command)

    def beat(self, data: bytes) -> LeaseRenewal | CommandGap | CommandRefused:
        """Judge one Heartbeat. A Gap does not renew the lease: the node must catch up first."""
        return self._beats.judge(data, self.position)

    def state_request(self, have: tuple[tuple[int, int], ...]) -> StateRequest:
        """A new StateRequest; only the answer to the latest one is taken by `reconcile`."""
        self._nonce += 1
        return StateRequest(self._nonce, self.position, have[:HAVE_MAX])

    def reconcile(self, data: bytes) -> DesiredState | CommandRefused:
        """Judge the answer to the newest request; the position moves with its last part only."""
        try:
            desired = open_desired(data, self._verifier)
        except (Denied, BadRequest) as error:
            return _refusal(error)
        refused = _foreign(self, desired, self.position)
        if refused is not None:
            return refused
        at = self.position
        if desired.nonce != self._nonce:
            return CommandRefused(
                "desired_stale", f"answers request {desired.nonce}, not {self._nonce}"
            )
        if desired.term == at.term and desired.seq < at.seq:
            return CommandRefused(
                "desired_stale", f"is of log {desired.seq}, this node is at {at.seq}"
            )
        if not desired.more:
            self.position = Position(desired.term, desired.seq, desired.hash)
        return desired


class HeartbeatJudge:
    """Heartbeats alone: for a thread that hears nothing else, and so is never behind a request."""

    def __init__(self, cluster: str, node: str, verifier: Checks) -> None:
        self.cluster = cluster
        self.node = node
        self._verifier = verifier
        self._last = (0, -1)

    def judge(self, data: bytes, at: Position) -> LeaseRenewal | CommandGap | CommandRefused:
        """What a Heartbeat means for a node that has followed its commands up to `at`."""
        try:
            heartbeat = open_heartbeat(data, self._verifier)
        except (Denied, BadRequest) as error:
            return _refusal(error)
        refused = _foreign(self, heartbeat, at)
        if refused is not None:
            return refused
        if (heartbeat.term, heartbeat.beat) <= self._last:
            return CommandRefused("heartbeat_old", f"beat {heartbeat.beat} was seen before")
        if heartbeat.term > at.term or heartbeat.seq > at.seq:
            return CommandGap(
                f"the log has commands up to {heartbeat.seq}, this node up to {at.seq}"
            )
        if heartbeat.seq == at.seq and heartbeat.hash != at.hash:
            return CommandGap(f"command {at.seq} has parts this node has not seen")
        self._last = (heartbeat.term, heartbeat.beat)
        return LeaseRenewal(heartbeat)


def _foreign(
    judge: CommandChain | HeartbeatJudge, record: Sealable, at: Position
) -> CommandRefused | None:
    if record.cluster != judge.cluster:
        return CommandRefused("command_cluster", f"is for cluster {record.cluster}")
    if record.node != judge.node:
        return CommandRefused("command_node", f"is for node {record.node}")
    if record.term < at.term:
        return CommandRefused("command_term", f"is of term {record.term} < {at.term}")
    return None


def _refusal(error: Denied | BadRequest) -> CommandRefused:
    counter = "command_signature" if isinstance(error, Denied) else "command_format"
    return CommandRefused(counter, error.message)
