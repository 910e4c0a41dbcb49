# SPDX-License-Identifier: Apache-2.0
"""The table of users, `<state>/users.json`: their public keys and the Unix identity of their jobs.

Owns the rule that a job runs as root only if the table says so explicitly.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
from pathlib import Path

import msgspec

from stoker.mesh.identity import identity, sealed_json
from stoker.mesh.wire import subjects
from stoker.native import durable_file
from stoker.native.errors import BadRequest, Corrupt, Denied, NotFound
from stoker.scheduler.nouns import Account, Owner

USERS_MAX = 1024
GROUPS_MAX = 64
FILE_BYTES_MAX = 1 << 20


class User(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One user.

    Jobs run as `unix_user`, which is looked up at each submit, or as `uid` and `gid`. A user with
    neither can submit no jobs.
    """

    public_key: str
    unix_user: str | None = None
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    admin: bool = False
    """True if this user may see, cancel and read the jobs of all users."""


Users = dict[str, User]


def load(path: Path) -> Users:
    """Return the table; NotFound if there is no file, Denied or Corrupt if it is unusable."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"no table of users at {path}") from None
    except OSError as error:
        raise Denied(f"{path}: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise Corrupt(f"{path} has {len(data)} bytes, at most {FILE_BYTES_MAX}")
    try:
        users = sealed_json.decode(data, Users)
        check(users)
    except (msgspec.MsgspecError, BadRequest) as error:
        raise Corrupt(f"{path}: {error}") from None
    return users


def save(path: Path, users: Users) -> None:
    """Replace the table atomically; only its owner can read it."""
    check(users)
    durable_file.replace(path, sealed_json.encode(users))


def check(users: Users) -> None:
    """Check names, keys and identities; BadRequest names the first bad one."""
    if len(users) > USERS_MAX:
        raise BadRequest(f"{len(users)} users, at most {USERS_MAX}")
    keys: dict[str, str] = {}
    for name, user in users.items():
        subjects.token(name)
        if name == sealed_json.NAME:
            raise BadRequest(f"{name!r} cannot be a user name")
        identity.Verifier(user.public_key)
        other = keys.setdefault(user.public_key, name)
        if other != name:
            raise BadRequest(f"{name} and {other} have the same key")
        if (user.uid is None) != (user.gid is None) or (user.uid is not None and user.unix_user):
            raise BadRequest(f"{name}: give unix_user, or uid and gid")
        if not all(0 <= (number or 0) < 2**32 - 1 for number in (user.uid, user.gid, *user.groups)):
            raise BadRequest(f"{name}: not a uid or gid")


def owner(name: str, user: User) -> Owner:
    """Return the identity that jobs of this user run as; Denied if there is none."""
    if user.uid is not None and user.gid is not None:
        return Owner(name, user.uid, user.gid, user.groups)
    if user.unix_user is None:
        raise Denied(f"{name} has no Unix identity to run jobs as")
    try:
        entry = pwd.getpwnam(user.unix_user)
    except (KeyError, ValueError):
        raise Denied(
            f"{name} runs jobs as {user.unix_user!r}, whom this machine does not know"
        ) from None
    groups = tuple(sorted(os.getgrouplist(entry.pw_name, entry.pw_gid)))
    return Owner(name, entry.pw_uid, entry.pw_gid, groups[:GROUPS_MAX])


def accounts(users: Users) -> dict[str, Account]:
    """Return the table as the log has it, with identities as this machine knows them now."""
    return {name: _account(name, user) for name, user in sorted(users.items())}


def _account(name: str, user: User) -> Account:
    try:
        return Account(user.public_key, user.admin, owner(name, user))
    except Denied as error:
        return Account(user.public_key, user.admin, None, error.message)


def user_of(uid: int) -> str:
    """Return the words for a uid: `nobody (uid 65534)`, or `uid 7` where it has no name here."""
    with contextlib.suppress(KeyError):
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    return f"uid {uid}"


def describe(user: User) -> str:
    """Return the Unix identity for tables: `user`, `user:group`, numbers without names, or
    `nobody`."""
    if user.unix_user is not None:
        return user.unix_user
    if user.uid is None:
        return "nobody"
    names = [str(user.uid), str(user.gid)]
    with contextlib.suppress(KeyError):
        names[0] = pwd.getpwuid(user.uid).pw_name
        names[1] = grp.getgrgid(user.gid or 0).gr_name
    return ":".join(names)
