# SPDX-License-Identifier: Apache-2.0
"""The replacement of the gossip keys, on the host where the cluster was made.

A new key is installed at all members, then all seal with it, then the former ones are removed. Owns
that each step waits for the members that live, so that none is cut off, and that a host which is no
part of the cluster gets no new key: each fetches keys by its own key, which the registrar judges.
The change is on disk before its first step, so that an interruption only delays it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from stoker.agent.link import member_list
from stoker.agent.link.member_list import MeshMember
from stoker.agent.state import gossip_files, state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import broker_setup, lock
from stoker.mesh.broker import revoked_keys
from stoker.mesh.gossip import gossip_access
from stoker.mesh.gossip.gossip_access import KEYS_MAX, GossipAccess
from stoker.mesh.gossip.membership import ALIVE, FAILED, LEFT
from stoker.mesh.identity import sealed_json
from stoker.native import durable_file
from stoker.native.errors import Refused

KeyStep = Literal["install", "use", "remove", "forget"]
_NEXT: dict[KeyStep, KeyStep] = {"install": "use", "use": "remove", "remove": "forget"}


class KeyChange(msgspec.Struct, frozen=True):
    """A replacement in progress. Its repr shows no key."""

    former: tuple[str, ...]
    new: str
    why: str
    step: KeyStep = "install"

    def __repr__(self) -> str:
        return f"KeyChange({self.step}, {self.why!r})"

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that members have in this step, the one that they seal with first."""
        if self.step == "install":
            return *self.former, self.new
        return (self.new, *self.former) if self.step == "use" else (self.new,)


class KeyProgress(NamedTuple):
    """The result of a look at the members."""

    change: KeyChange | None
    """The change from now on; None once it is over."""
    lacking: tuple[str, ...] = ()
    """The members that live and lack the keys of the step."""
    forgotten: tuple[str, ...] = ()
    """The failed members that are no part of the cluster any more."""


def judge(
    change: KeyChange, members: Sequence[MeshMember], cluster: Collection[str]
) -> KeyProgress:
    """Return how a change goes on. `cluster`: the names of the hosts that are part of it."""
    if change.step == "forget":
        strangers = [row for row in members if row.name not in cluster and row.state != LEFT]
        failed = tuple(row.name for row in strangers if row.state == FAILED)
        return KeyProgress(change if strangers else None, forgotten=failed)
    wanted = tuple(map(gossip_access.digest, change.keys))
    lacking = lacking_keys(wanted, members, cluster)
    if lacking:
        return KeyProgress(change, lacking)
    return KeyProgress(msgspec.structs.replace(change, step=_NEXT[change.step]))


def lacking_keys(
    wanted: tuple[str, ...], members: Sequence[MeshMember], cluster: Collection[str]
) -> tuple[str, ...]:
    """Return the hosts of the cluster that live in the mesh and have other keys."""
    alive = (row for row in members if row.state == ALIVE and row.name in cluster)
    return tuple(row.name for row in alive if row.keys != wanted)


def file(where: StateFolder) -> Path:
    """Return the path of the change in progress."""
    return where.keys / "gossip-change.json"


def pending(where: StateFolder) -> KeyChange | None:
    """Return the change in progress; None without one, Corrupt for a damaged file."""
    path = file(where)
    return state_folder.read_json(path, KeyChange) if path.exists() else None


def begin(where: StateFolder, why: str) -> None:
    """Have the registrar replace the keys, by yet another one if that is in progress: a host that
    was taken out meanwhile may know the newest. Nothing happens where there is no mesh. Call it
    under the lock of the folder."""
    if gossip_files.file(where).exists():
        former = gossip_files.load(where).keys[: KEYS_MAX - 1]
        _write(where, KeyChange(former, gossip_access.new_key(), why))


def _write(where: StateFolder, change: KeyChange) -> None:
    durable_file.replace(file(where), sealed_json.encode(change))


def hosts(where: StateFolder, cluster: ClusterFile) -> set[str]:
    """Return the names of the hosts that are part of the cluster and may have its gossip keys."""
    revoked = revoked_keys.load(where.revoked)
    nodes = {name: row.public_key for name, row in broker_setup.joined_nodes(where).items()}
    nodes |= {each.node: each.agent for each in cluster.servers}
    return {cluster.node, *(name for name, key in nodes.items() if key not in revoked)}


async def advance(where: StateFolder) -> KeyProgress:
    """Bring the change in progress one step further if its time has come.

    Unavailable if the Serf agent of this host does not run; OSError if the disk takes nothing.
    """
    change = pending(where)
    if change is None:
        return KeyProgress(None)
    access = gossip_files.load(where)
    if access.keys != change.keys:
        gossip_files.store(where, GossipAccess(change.keys, gossip_files.read_config(where).port))
        return KeyProgress(change)
    found = judge(change, await member_list.listed(where), hosts(where, state_folder.load(where)))
    for name in found.forgotten:
        await member_list.forget(where, name)
    with state_folder.edit_lock(where):
        if pending(where) == change and found.change != change:
            if found.change is None:
                file(where).unlink()
            else:
                _write(where, found.change)
    return found


def request(where: StateFolder, members: Sequence[MeshMember], *, despite_failed: bool) -> None:
    """Begin a replacement at an operator's word; Refused while hosts of the cluster are failed,
    which would lack the new key until they return, or while no node runs here."""
    cluster = state_folder.load_made_here(where)
    if lock.holder(where) is None:
        raise Refused("no node runs here, and its registrar replaces the keys", hint="stoker up")
    known = hosts(where, cluster)
    failed = [row.name for row in members if row.state == FAILED and row.name in known]
    if failed and not despite_failed:
        raise Refused(
            f"failed members would lack the new key: {', '.join(failed)}",
            hint="--despite-failed goes on: they fetch it once they are back",
        )
    with state_folder.edit_lock(where):
        begin(where, "on request")
