# SPDX-License-Identifier: Apache-2.0
"""The signed messages of the scheduler to a node: commands and the desired state.

Owns the rule of `CommandChain`: a node obeys a command only if the owner of its term signed it, and
if it names this cluster and node, has no older term, and is the next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from stoker.mesh.identity.identity import SIGNATURE_BYTES, Checks, Signs
from stoker.mesh.wire.known_schedulers import KnownSchedulers
from stoker.mesh.wire.term_owner import term_owner
from stoker.native.errors import BadRequest, Denied
from stoker.scheduler.nouns import Action, Record, StartJob, StopJob, TaskKey

FORMAT = 7
HASH_BYTES = 32
NO_HASH = bytes(HASH_BYTES)
COMMAND_BYTES_MAX = 384 * 1024
"""The largest sealed record, below the broker's max_payload of 512 KB; more actions take several
records."""
HAVE_MAX = 16_384
"""The most attempts in one StateRequest."""


class Position(Record, frozen=True):
    """The last command that a node has accepted; the agent stores it durably."""

    term: int = 0
    seq: int = 0
    """The log sequence of the last command that was accepted."""
    hash: bytes = NO_HASH
    """The blake2b-256 of that command's body; NO_HASH at the start of a term."""


class NodeCommand(Record, tag="command", frozen=True):
    """The actions of one log entry for one node; (prev_seq, prev_hash) name the command before."""

    format: int
    cluster: str
    node: str
    term: int
    seq: int
    prev_seq: int
    prev_hash: bytes
    now_ns: int
    """The CLOCK_REALTIME of the entry."""
    actions: tuple[Action, ...]


class DesiredState(Record, tag="desired", frozen=True):
    """The state that a node should be in now; the answer to a StateRequest. It is idempotent.

    `wanted` names every attempt that the node should have, and `starts` has those that the request
    did not name. An attempt of the node beyond `wanted` is in `stops`, with the reason, unless the
    log does not know it. `more` is true if the starts did not fit: the node then requests again.
    """

    format: int
    cluster: str
    node: str
    term: int
    seq: int
    hash: bytes
    nonce: int
    now_ns: int
    wanted: tuple[TaskKey, ...] = ()
    starts: tuple[StartJob, ...] = ()
    stops: tuple[StopJob, ...] = ()
    more: bool = False
    forgets: tuple[int, ...] = ()
    """Jobs of the request that the log has forgotten; the node deletes what it keeps of them."""
    settle: int = 0
    """The log index of the node's last eviction, which it has to report as settled; 0 if none."""
    releases: tuple[TaskKey, ...] = ()
    """Tasks of gangs that may run, because all of their gang were ready, and are not known to."""
    schedulers: tuple[str, ...] = ()
    """The roster: public keys by place, empty where a scheduler has left."""
    vouchers: tuple[bytes, ...] = ()
    """The newest pledges of the other schedulers, by which a node gets to know this leader."""


class StateRequest(Record, frozen=True):
    """A node's position and its attempts, running or ended, on `subjects.log_range`."""

    nonce: int
    position: Position = Position()
    have: tuple[TaskKey, ...] = ()


class NodeReply(Record, frozen=True):
    """The answer to a hello or an outcome: committed, or the error after which to try again."""

    ok: bool
    code: str = ""
    message: str = ""
    term: int = 0
    """The term of the leader that says so; 0: it does not tell."""


Sealable = NodeCommand | DesiredState

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Sealable] = msgspec.msgpack.Decoder(Sealable)
_DOMAIN = b"stoker.v1.sealed\0"
"""A prefix that is signed with the body, so that no other signature of the key fits a record."""


def seal(record: Sealable, signer: Signs) -> bytes:
    """Return the signature followed by the body; the next command's prev_hash is the body's."""
    return seal_body(_encoder.encode(record), signer)


def seal_body(body: bytes, signer: Signs) -> bytes:
    """Return the signature followed by the body, for a caller that has encoded the body."""
    return signer.sign(_DOMAIN + body) + body


def encode(record: Sealable) -> bytes:
    """Return the body of a record, unsigned."""
    return _encoder.encode(record)


def body_hash(body: bytes) -> bytes:
    """Return the blake2b-256 of a body, by which the chain is linked."""
    return hashlib.blake2b(body, digest_size=HASH_BYTES).digest()


def open_sealed(data: bytes, members: Sequence[Checks | None]) -> Sealable:
    """Return a record that the owner of its term signed.

    `members` are the keys of the roster by position. Denied if another key signed it, BadRequest if
    it is no record of this version.
    """
    record = _read(data)
    body = data[SIGNATURE_BYTES:]
    owner = term_owner(record.term, members)
    if owner is None or not owner.verify(_DOMAIN + body, data[:SIGNATURE_BYTES]):
        raise Denied(f"the owner of term {record.term} did not sign this")
    if record.format != FORMAT:
        raise BadRequest(f"format {record.format}, this agent reads {FORMAT}")
    return record


def _read(data: bytes) -> Sealable:
    """Return a record before the check of its signature."""
    if not SIGNATURE_BYTES < len(data) <= COMMAND_BYTES_MAX + SIGNATURE_BYTES:
        raise BadRequest(f"{len(data)} bytes are not a sealed record")
    try:
        return _decoder.decode(data[SIGNATURE_BYTES:])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequest(f"not a record of this version: {error}") from None


_T = TypeVar("_T", bound=Sealable)


def _open_as(kind: type[_T], data: bytes, members: Sequence[Checks | None]) -> _T:
    record = open_sealed(data, members)
    if not isinstance(record, kind):
        raise BadRequest(f"expected a {kind.__name__}, got a {type(record).__name__}")
    return record


def open_command(data: bytes, members: Sequence[Checks | None]) -> NodeCommand:
    """Open a NodeCommand; `CommandChain` checks its position in the chain."""
    return _open_as(NodeCommand, data, members)


def open_desired(data: bytes, members: Sequence[Checks | None]) -> DesiredState:
    """Open a DesiredState."""
    return _open_as(DesiredState, data, members)


class CommandAccepted(msgspec.Struct, frozen=True):
    """The next command; carry out its actions, then store `CommandChain.position`."""

    command: NodeCommand


class CommandRepeat(msgspec.Struct, frozen=True):
    """A command that was accepted before; nothing to do."""


class CommandGap(msgspec.Struct, frozen=True):
    """Commands are missing, or a new term began: send a StateRequest, then `reconcile`."""

    why: str


class CommandRefused(msgspec.Struct, frozen=True):
    """A record that is not obeyed and needs no StateRequest; `counter` counts it."""

    counter: str
    why: str


class CommandChain:
    """The agent's side of the chain. Pure: bytes and the stored Position come in.

    `members` are the keys of the schedulers by position in the roster; a node whose roster may
    change has `KnownSchedulers`. Its requests are numbered from `nonce`, the agent's start time, so
    that no answer to an earlier process fits them.
    """

    def __init__(
        self,
        cluster: str,
        node: str,
        members: Sequence[Checks | None],
        at: Position,
        nonce: int = 0,
    ) -> None:
        self.cluster = cluster
        self.node = node
        self.position = at
        self._members = members
        self._nonce = nonce

    def offer(self, data: bytes) -> CommandAccepted | CommandRepeat | CommandGap | CommandRefused:
        """Judge one NodeCommand; only CommandAccepted moves the position."""
        command = self._read(data)
        if not isinstance(command, NodeCommand):
            return command
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

    def _read(self, data: bytes) -> NodeCommand | CommandGap | CommandRefused:
        """Return a command of a scheduler that is known here, for this node."""
        try:
            command = open_command(data, self._members)
        except Denied as error:
            if self._may_be_of_another(data):
                return CommandGap(f"{error.message}: perhaps a scheduler that is not known here")
            return _refusal(error)
        except BadRequest as error:
            return _refusal(error)
        return _foreign(self, command) or command

    def is_past(self, term: int) -> bool:
        """Return True for the answer of a leader of an earlier term, whose log may lack what a
        later one has decided; it may not know, since its clock stood still."""
        return 0 < term < self.position.term

    def is_behind(self, at: Position) -> bool:
        """Return True if the leader has sent commands up to `at` and this node lacks some."""
        own = self.position
        if (at.term, at.seq) == (own.term, own.seq):
            return at.hash != own.hash
        return (at.term, at.seq) > (own.term, own.seq)

    def state_request(self, have: tuple[TaskKey, ...]) -> StateRequest:
        """Return a new StateRequest; `reconcile` accepts only the answer to the latest one."""
        self._nonce += 1
        return StateRequest(self._nonce, self.position, have[:HAVE_MAX])

    def learn(self, keys: tuple[str, ...]) -> bool:
        """Know this roster from now on, which a scheduler has stated; False if it is no news."""
        return isinstance(self._members, KnownSchedulers) and self._members.learn(keys)

    def _may_be_of_another(self, data: bytes) -> bool:
        """True if a record that no scheduler signed who is known here is of a newer term."""
        return isinstance(self._members, KnownSchedulers) and _read(data).term > self.position.term

    def _open_desired(self, data: bytes) -> DesiredState:
        """Open a desired state, be it that of a leader whom the schedulers introduce that are known
        here."""
        try:
            return open_desired(data, self._members)
        except Denied:
            stated, known = _read(data), self._members
            if not isinstance(stated, DesiredState) or not isinstance(known, KnownSchedulers):
                raise
            members = known.introduced(
                stated.schedulers, stated.vouchers, stated.cluster, stated.term
            )
            if members is None:
                raise
            return open_desired(data, members)

    def reconcile(self, data: bytes) -> DesiredState | CommandRefused:
        """Judge an answer to the newest request; only its last part moves the position."""
        try:
            desired = self._open_desired(data)
        except (Denied, BadRequest) as error:
            return _refusal(error)
        refused = _foreign(self, desired)
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


def _foreign(chain: CommandChain, record: Sealable) -> CommandRefused | None:
    if record.cluster != chain.cluster:
        return CommandRefused("command_cluster", f"is for cluster {record.cluster}")
    if record.node != chain.node:
        return CommandRefused("command_node", f"is for node {record.node}")
    if record.term < chain.position.term:
        why = f"is of term {record.term} < {chain.position.term}"
        return CommandRefused("command_term", why)
    return None


def _refusal(error: Denied | BadRequest) -> CommandRefused:
    counter = "command_signature" if isinstance(error, Denied) else "command_format"
    return CommandRefused(counter, error.message)
