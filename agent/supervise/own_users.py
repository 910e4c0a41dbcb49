# SPDX-License-Identifier: Apache-2.0
"""The table of users of this host's own folder: who they are at first, and as whom their jobs run.

For the start of a node and the commands that change users. Owns the rule that nobody's jobs run as
root unless somebody said so.
"""

from __future__ import annotations

import contextlib
import os
import pwd

from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise.start_options import StartOptions
from stoker.mesh.broker import users
from stoker.mesh.broker.users import User, Users
from stoker.native.errors import BadRequest, Corrupt, NotFound, StokerError


def load(where: StateFolder) -> Users:
    """Return the users of a complete folder, where a missing table is damage."""
    try:
        return users.load(where.users)
    except NotFound:
        raise Corrupt(f"{where.users} is missing", hint="Restore it from a backup") from None


def map_caller(where: StateFolder, root_jobs_as: str) -> Users:
    """Write `--root-jobs-as` into the table of users and return the table."""
    table = load(where)
    for name in ("admin", caller()):
        if name in table:
            table[name] = user(table[name].public_key, root_jobs_as, admin=True)
    users.save(where.users, table)
    return table


def is_mapped(table: Users, options: StartOptions) -> bool:
    """True if the file says what the table has already, so that no scheduler is started again."""
    rows = [table[name] for name in ("admin", caller()) if name in table]
    is_so = all(users.describe(row) == options.root_jobs_as for row in rows)
    return "root_jobs_as" in options.from_file and is_so


def jobs_as(table: Users) -> str:
    """Return a sentence if the caller's jobs run as another user, or as root; else empty."""
    own = caller()
    if own not in table:
        return ""
    name = users.describe(table[own])
    if name == own and name != "root":
        return ""
    return f"jobs of {own} run as {name} (--root-jobs-as changes it)"


def any_root(table: Users) -> bool:
    """True if the jobs of some user run as root."""
    return any(map(_is_root, table.values()))


def _is_root(row: User) -> bool:
    with contextlib.suppress(StokerError):
        return users.owner("x", row).uid == 0
    return False


def caller() -> str:
    """Return the name of who runs this command; the number where the machine has no name for it."""
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())


def default_mapping() -> str:
    """Return the Unix user of the caller's jobs: the caller, but never root by default."""
    if os.geteuid() != 0:
        return caller()
    sudo = os.environ.get("SUDO_USER", "")
    return sudo if sudo and sudo != "root" else "nobody"


def user(public: str, unix_user: str, *, admin: bool = False) -> User:
    """Return the row of a key whose jobs run as this Unix user; BadRequest for one that the machine
    does not know."""
    try:
        pwd.getpwnam(unix_user)
    except KeyError:
        if unix_user == "nobody":  # a bare container: the overflow ids of the kernel
            return User(public_key=public, uid=65534, gid=65534, admin=admin)
        if unix_user == str(os.geteuid()):
            return User(public_key=public, uid=os.geteuid(), gid=os.getegid(), admin=admin)
        raise BadRequest(f"this machine knows no user {unix_user!r}") from None
    return User(public_key=public, unix_user=unix_user, admin=admin)
