# SPDX-License-Identifier: Apache-2.0
"""The one family of operating errors; every folder raises these and only the edges catch them.

A message says what is wrong and where; a hint says what to do. Programmer errors are not here:
they are assertions and crash by name.
"""

from __future__ import annotations

import errno


class StokerError(Exception):
    """Something the operator or the user can act on."""

    title = "error"
    code = "error"
    """Stable machine-readable name, part of the public reply schema."""
    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message}. {hint}" if hint else message)
        self.message = message
        self.hint = hint


class BadRequest(StokerError):
    """The request itself is wrong; nothing was changed."""

    title, code, exit_code = "bad request", "bad_request", 2


class NotFound(StokerError):
    """The thing asked for does not exist, or not for this user."""

    title, code = "not found", "not_found"


class Denied(StokerError):
    """This identity may not do that."""

    title, code = "denied", "denied"


class Unsigned(StokerError):
    """The request needs its user's own signature; nothing was changed."""

    title, code = "not signed", "unsigned"


class Refused(StokerError):
    """The request is right but cannot be taken now: a named limit, a full disk, a held lock."""

    title, code, exit_code = "refused", "refused", 2


class Busy(StokerError):
    """One user's share of something that passes is used up: the same again soon may be taken."""

    title, code, exit_code = "busy", "busy", 2


class Internal(StokerError):
    """A defect of stoker met this request, and this request alone; the daemon's log has it."""

    title, code, exit_code = "internal error", "internal", 70


class KeyWindow(StokerError):
    """An idempotency key may have been forgotten: whether its job exists is not known any more."""

    title, code, exit_code = "key too old", "key_window", 2


class Unavailable(StokerError):
    """The other side did not answer; whether it acted is stated in the message."""

    title, code = "unavailable", "unavailable"


class NotLeader(Unavailable):
    """This scheduler does not lead; nothing was done. The message names the one that does."""

    title, code = "not the leader", "not_leader"


class NotSupported(StokerError):
    """This machine, kernel or build cannot do it, for the reason in the message."""

    title, code = "not supported", "not_supported"


class Corrupt(StokerError):
    """Stored state contradicts itself; nothing is guessed and nothing is overwritten."""

    title, code, exit_code = "corrupt state", "corrupt", 3


_BY_ERRNO: dict[int, type[StokerError]] = {
    errno.ENOENT: NotFound,
    errno.EPERM: Denied,
    errno.EACCES: Denied,
    errno.EINVAL: BadRequest,
    errno.ENOSPC: Refused,
    errno.EBUSY: Refused,
    errno.EAGAIN: Refused,
    errno.EOPNOTSUPP: NotSupported,
    errno.ENOSYS: NotSupported,
    errno.EBADMSG: Corrupt,
}


def from_errno(negative_errno: int, what: str) -> StokerError:
    """The C side's -errno as this family's exception; `what` names the call and its object."""
    number = -negative_errno
    name = errno.errorcode.get(number, str(number))
    return _BY_ERRNO.get(number, StokerError)(f"{what}: {name}")
