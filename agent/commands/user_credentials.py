# SPDX-License-Identifier: Apache-2.0
"""The delivery of a key and a context into another user's home.

Root never follows a path that another user controls: while the files are written this process has
that user's ids, and each folder is opened from its parent with O_NOFOLLOW.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec

from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.mesh.connection.context import CERTIFICATE, SavedContext
from stoker.mesh.identity import certificate
from stoker.native.errors import Refused

FOLDERS = (".config", "stoker")
CONTEXT = "context.json"
FORMER = "context.json.old"


@contextlib.contextmanager
def as_user(entry: pwd.struct_passwd) -> Iterator[None]:
    """Access files with the rights of that user only; root alone can become another user."""
    if os.geteuid() == entry.pw_uid:
        yield
        return
    uid, gid, groups = os.geteuid(), os.getegid(), os.getgroups()
    os.setgroups(os.getgrouplist(entry.pw_name, entry.pw_gid))
    os.setegid(entry.pw_gid)
    os.seteuid(entry.pw_uid)
    try:
        yield
    finally:
        os.seteuid(uid)
        os.setegid(gid)
        os.setgroups(groups)


def seed_name(user: str) -> str:
    return f"user-{user}.nk"


def deliver(
    entry: pwd.struct_passwd, user: str, where: StateFolder, cluster: ClusterFile, seed: bytes
) -> Path:
    """Write the seed, the broker's certificate and the context that names both; return the
    context's path.

    An earlier context is kept as `context.json.old`. Refused if a part of the path is a link or
    belongs to another user.
    """
    folder = Path(entry.pw_dir).joinpath(*FOLDERS)
    pinned = certificate.read(where.broker_certificate)
    context = SavedContext(
        cluster.url,
        str(folder / seed_name(user)),
        user,
        str(where.root),
        str(folder / CERTIFICATE),
    )
    with as_user(entry):
        try:
            handle = _open_folder(entry)
        except OSError as error:
            raise Refused(
                f"{folder} cannot be written as {entry.pw_name}: {error.strerror}",
                hint="Write the key elsewhere with --key-out",
            ) from None
        try:
            write_private(handle, seed_name(user), seed)
            write_private(handle, CERTIFICATE, pinned)
            with contextlib.suppress(FileNotFoundError):
                os.rename(CONTEXT, FORMER, src_dir_fd=handle, dst_dir_fd=handle)
            write_private(handle, CONTEXT, msgspec.json.encode(context) + b"\n")
        finally:
            os.close(handle)
    return folder / CONTEXT


def _open_folder(entry: pwd.struct_passwd) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    handle = os.open(entry.pw_dir, flags)
    for name in FOLDERS:
        try:
            _check_owner(handle, entry)
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=handle)
            below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=handle)
        finally:
            os.close(handle)
        handle = below
    _check_owner(handle, entry)
    return handle


def _check_owner(handle: int, entry: pwd.struct_passwd) -> None:
    if os.fstat(handle).st_uid != entry.pw_uid:
        raise PermissionError(1, f"a folder on the way does not belong to {entry.pw_name}")


def write_private(folder: int, name: str, data: bytes) -> None:
    """Write a new 0600 file in an open folder, in one step; it replaces an older one."""
    partial = f".{name}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(partial, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial, dir_fd=folder)
        raise
