# SPDX-License-Identifier: Apache-2.0
"""Keys of other local users: handing them out and taking them back.

The user can read the key before the broker knows it, and the table changes before the broker, so an
interrupted command can be repeated.
"""

from __future__ import annotations

import os
import pwd
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from stoker.agent.commands import user_credentials
from stoker.agent.join import key_revocation
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import broker_setup, own_users, pids
from stoker.mesh.broker import users
from stoker.mesh.broker.broker_program import BROKER
from stoker.mesh.broker.users import User, Users
from stoker.mesh.identity import identity
from stoker.mesh.wire import subjects
from stoker.native.errors import BadRequest, NotFound, NotSupported, Refused


@dataclass(frozen=True)
class AddedUser:
    """The result of `user add`. `context` is None if the key went to a file."""

    name: str
    unix_user: str
    key: Path
    context: Path | None
    live: bool
    """True if the running broker knows the key; else the next `up` will."""


@state_folder.disk_errors()
def add(where: StateFolder, name: str, unix_user: str | None, key_out: Path | None) -> AddedUser:
    """Make a key for `name`, whose jobs run as `unix_user` (default: the user of that name)."""
    _check_name(name)
    cluster = state_folder.load_made_here(where)
    entry = _unix_user(unix_user or name)
    with state_folder.edit_lock(where):
        table = own_users.load(where)
        if name in table:
            raise Refused(f"{name} has a key already", hint=f"`stoker user remove {name}` first")
        with tempfile.TemporaryDirectory(dir=where.keys, prefix=".new-") as folder:
            seed_file = Path(folder, user_credentials.seed_name(name))
            public = identity.create(seed_file).public
            seed = seed_file.read_bytes()
            if key_out is not None:
                key, context = _write_out(key_out.absolute(), entry, seed), None
            else:
                context = user_credentials.deliver(entry, name, where, cluster, seed)
                key = context.with_name(user_credentials.seed_name(name))
            row = User(public_key=public, unix_user=entry.pw_name)
            _change(where, cluster, {**table, name: row})
            live = _reload(where)
    return AddedUser(name, entry.pw_name, key, context, live)


@state_folder.disk_errors()
def remove(where: StateFolder, name: str) -> bool:
    """Remove a user's access; True if a running broker has dropped their connections."""
    state_folder.load_made_here(where)
    if name not in own_users.load(where):
        raise NotFound(f"no user {name!r}", hint="`stoker user list` names them")
    holder = key_revocation.holder(where, name, "user")
    return key_revocation.revoke(where, holder, "the user was removed", int(time.time()))


@state_folder.disk_errors()
def listed(where: StateFolder) -> list[dict[str, object]]:
    """Return every user as a row: name, unix_user, admin, key."""
    state_folder.load_made_here(where)
    return [
        {"name": name, "unix_user": users.describe(row), "admin": row.admin, "key": row.public_key}
        for name, row in sorted(own_users.load(where).items())
    ]


def _check_name(name: str) -> None:
    subjects.token(name)
    if "/" in name or name.startswith((".", "-")) or not name.isprintable() or len(name) > 32:
        raise BadRequest(f"{name!r} cannot be a user name", hint="At most 32 letters and digits")


def _unix_user(name: str) -> pwd.struct_passwd:
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise NotFound(
            f"this machine knows no user {name!r}", hint="Name one with --unix-user"
        ) from None
    if entry.pw_uid == 0:
        raise BadRequest(
            "no key is given out whose jobs run as root",
            hint="For root's own jobs: `stoker up --root-jobs-as root`",
        )
    if os.geteuid() not in (0, entry.pw_uid):
        raise NotSupported(
            f"a node that does not run as root cannot run jobs as {name}",
            hint="Start it as root: sudo stoker up",
        )
    return entry


def _write_out(target: Path, entry: pwd.struct_passwd, seed: bytes) -> Path:
    """Write the seed to a new file that only its user can read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(target, flags, 0o600)
    except OSError as error:
        raise Refused(f"{target} cannot be created: {error.strerror}") from None
    with os.fdopen(handle, "wb") as file:
        if os.geteuid() == 0:
            os.fchown(file.fileno(), entry.pw_uid, entry.pw_gid)
        file.write(seed)
    return target


def _change(where: StateFolder, cluster: ClusterFile, table: Users) -> None:
    broker_setup.text(where, cluster, table)  # raises before anything is changed
    users.save(where.users, table)
    broker_setup.write_config(where, cluster, table)


def _reload(where: StateFolder) -> bool:
    running = pids.find(where).get(BROKER)
    if running is None:
        return False
    from stoker.mesh.broker import broker_reload

    broker_reload.add_account(running.pid, where.log / f"{BROKER}.log")
    return True
