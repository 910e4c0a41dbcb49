# SPDX-License-Identifier: Apache-2.0
"""The check of a node's stored state before anything is started.

Invariant: a missing, damaged or foreign file is refused by name, and nothing is changed. Exempt are
files that the node can make again without loss: logs, caches of one boot, and files with two
copies. The scheduler checks the command log itself and the spawner its journal; both end with the
same exit code.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from stoker.agent.devices import order
from stoker.agent.health import journal as health
from stoker.agent.power import rules_file
from stoker.agent.state import node_labels
from stoker.agent.state.state_folder import AGENT, IDENTITIES, StateFolder, user_name
from stoker.mesh.broker.users import Users
from stoker.mesh.identity import identity, sealed_json
from stoker.mesh.wire.cluster_server import ADMIN
from stoker.native.errors import BadRequest, Corrupt, NotFound

ALERTS = "alerts.json"
"""The file of the alerts that this node has (`agent/alerts/alert_files.py`)."""
RESTORE = "Restore it from a backup"
FILES_MAX = 100_000
"""The largest number of files, command log and snapshots included, that are checked."""


def check(where: StateFolder, users: Users | None, admin: str = ADMIN) -> None:
    """Raise Corrupt for the first damaged file. Call `check_owners` first. A node that joined has
    no table of users. `admin`: the user as whom the owner of this host acts."""
    if users is None:
        _seed(where.key(AGENT))
    else:
        check_keys(where, users, admin)
    for path in {where.broker_certificate, where.broker_pins}:
        _check_certificates(path)
    _check_journal(where)
    for path, read in _readers(where).items():
        if path.exists():
            _check_read(path, read)


def check_keys(where: StateFolder, users: Users, admin: str = ADMIN) -> None:
    """Check every key of the folder, and users' keys against the table."""
    for name in IDENTITIES:
        _seed(where.key(name))
    own = {path.stem.removeprefix("user-"): path for path in where.keys.glob("user-*.nk")}
    own[admin] = where.key("admin")
    if (me := _me()) in users and admin == ADMIN:  # a server that joined has its admin alone
        own.setdefault(me, where.key(f"user-{me}"))
    for name, path in own.items():
        public = _seed(path).public
        if name not in users or users[name].public_key != public:
            raise Corrupt(f"{path} is not the key of {name} in {where.users}", hint=RESTORE)


def _me() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _seed(path: Path) -> identity.Identity:
    try:
        return identity.load(path)
    except NotFound:
        raise Corrupt(f"key file {path} is missing", hint=RESTORE) from None


def check_owners(where: StateFolder) -> None:
    """Refuse files of other users, who could change them; the broker, which runs without root's
    rights, could not even read them."""
    me = os.geteuid()
    for count, path in enumerate(_kept(where)):
        if count >= FILES_MAX:
            return
        found = path.lstat()
        if found.st_uid not in (me, 0):
            raise Corrupt(
                f"{path} belongs to {user_name(found.st_uid)}, not to {user_name(me)}",
                hint="Find out who changed it; if it is whole, set its owner back",
            )


def _kept(where: StateFolder) -> Iterator[Path]:
    """Yield all files except logs and the output of jobs."""
    for folder in (where.root, where.keys, where.scheduler, where.agent):
        yield from folder.iterdir()
    yield from where.nats.rglob("*")


def _check_certificates(path: Path) -> None:
    """Check signatures: each certificate signs itself, and copies elsewhere must equal it."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        for found in x509.load_pem_x509_certificates(path.read_bytes()):
            found.verify_directly_issued_by(found)
    except (OSError, ValueError, TypeError, InvalidSignature) as error:
        why = str(error) or "its signature is not its own"
        raise Corrupt(f"{path} is not the certificate that was made: {why}", hint=RESTORE) from None


def _check_journal(where: StateFolder) -> None:
    """Check that the journal exists: it is made with the locks of its slots and never removed."""
    journal, locks = where.agent / "journal", where.agent / "keepers.lock"
    if locks.exists() and not journal.exists():
        raise Corrupt(
            f"{journal} is missing",
            hint=f"{RESTORE}; if there is none, remove {locks} as well: jobs of that time are lost",
        )


def _readers(where: StateFolder) -> dict[Path, Callable[[Path], object]]:
    """Return the agent's files that no other check reads, with their readers."""
    return {
        node_labels.file(where): lambda path: sealed_json.decode(
            path.read_bytes(), node_labels.GivenLabels
        ),
        where.agent / rules_file.NAME: rules_file.read,
        where.agent / health.NAME: lambda path: health.read(path.parent),
        where.agent / ALERTS: _read_alerts,
        where.agent / order.NAME: order.read,
    }


def _read_alerts(path: Path) -> object:
    from stoker.agent.alerts import alert_files  # a node without alerts never loads their rules

    return alert_files.read_book(path.parent)


def _check_read(path: Path, read: Callable[[Path], object]) -> None:
    try:
        read(path)
    except (OSError, msgspec.MsgspecError, BadRequest) as error:
        text = getattr(error, "message", str(error))
        named = text if str(path) in text else f"{path}: {text}"
        raise Corrupt(named, hint=f"{RESTORE}, or remove it if you do not need it") from None
