# SPDX-License-Identifier: Apache-2.0
"""Whether what a node keeps is whole, looked at before anything of it is started.

Owns the rule that a missing, damaged or foreign file is refused by name with nothing changed,
unless the node loses nothing by making it anew: logs, caches of one boot, and files with two copies
of what they hold. The command log is the scheduler's to judge, the journal the spawner's; both end
with the same exit code.
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
from stoker.agent.state.state_folder import IDENTITIES, StateFolder, user_name
from stoker.mesh.broker.users import Users
from stoker.mesh.identity import identity, sealed_json
from stoker.native.errors import BadRequest, Corrupt, NotFound

RESTORE = "Restore it from a backup"
FILES_MAX = 100_000
"""Files of the command log and its snapshots that are looked at."""


def check(where: StateFolder, users: Users) -> None:
    """Corrupt for the first file that is not whole. Before anything is read: `check_owners`."""
    check_keys(where, users)
    _check_certificate(where.broker_certificate)
    _check_journal(where)
    for path, read in _readers(where).items():
        if path.exists():
            _check_read(path, read)


def check_keys(where: StateFolder, users: Users) -> None:
    """Every key of the folder is one, and users' keys are those of the table."""
    for name in IDENTITIES:
        _seed(where.key(name))
    own = {path.stem.removeprefix("user-"): path for path in where.keys.glob("user-*.nk")}
    own["admin"] = where.key("admin")
    if (me := _me()) in users:
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
    """What this user does not own could be changed by who does; the broker, which has no rights of
    root, could not even read it."""
    me = os.geteuid()
    for count, path in enumerate(_kept(where)):
        if count >= FILES_MAX:
            return
        found = path.lstat()
        if found.st_uid not in (me, 0):
            raise Corrupt(
                f"{path} belongs to {user_name(found.st_uid)}, not to {user_name(me)}",
                hint="Find out who changed it; if it is whole, its owner is to be set back",
            )


def _kept(where: StateFolder) -> Iterator[Path]:
    """Everything but logs and what jobs wrote."""
    for folder in (where.root, where.keys, where.scheduler, where.agent):
        yield from folder.iterdir()
    yield from where.nats.rglob("*")


def _check_certificate(path: Path) -> None:
    """It signs itself: a changed bit breaks that, and copies of it elsewhere would be refused."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
        found.verify_directly_issued_by(found)
    except (OSError, ValueError, TypeError, InvalidSignature) as error:
        why = str(error) or "its signature is not its own"
        raise Corrupt(f"{path} is not the certificate that was made: {why}", hint=RESTORE) from None


def _check_journal(where: StateFolder) -> None:
    """It is made with the locks of its slots, and never taken away."""
    journal, locks = where.agent / "journal", where.agent / "keepers.lock"
    if locks.exists() and not journal.exists():
        raise Corrupt(
            f"{journal} is missing",
            hint=f"{RESTORE}; if there is none, remove {locks} as well: what ran then is lost",
        )


def _readers(where: StateFolder) -> dict[Path, Callable[[Path], object]]:
    """Files of the agent that nothing else would miss, and how each is read."""
    return {
        node_labels.file(where): lambda path: sealed_json.decode(
            path.read_bytes(), node_labels.GivenLabels
        ),
        where.agent / rules_file.NAME: rules_file.read,
        where.agent / health.NAME: lambda path: health.read(path.parent),
        where.agent / order.NAME: order.read,
    }


def _check_read(path: Path, read: Callable[[Path], object]) -> None:
    try:
        read(path)
    except (OSError, msgspec.MsgspecError, BadRequest) as error:
        text = getattr(error, "message", str(error))
        said = text if str(path) in text else f"{path}: {text}"
        raise Corrupt(said, hint=f"{RESTORE}, or remove it if you can do without") from None
