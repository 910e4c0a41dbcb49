# SPDX-License-Identifier: Apache-2.0
"""The connections that the broker refused, as it tells of each: counted, and told as events.

Owns that a flood of them costs little: what is told of one key is a line in TELL_NS, and no more
than KEYS_MAX keys are told apart. Everything beyond is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from stoker.mesh.broker import revoked_keys
from stoker.mesh.broker.revoked_keys import RevokedKeys
from stoker.mesh.wire.telemetry import ChangeRow
from stoker.native.errors import StokerError
from stoker.native.structured_log import structlog

TELL_NS = 10_000_000_000
"""The time between two events about one key."""
KEYS_MAX = 256
HOST_CHARS_MAX = 64
OTHERS = ""
"""Stands for all keys that were not revoked. Nobody has them, or the broker read its users anew."""

log = structlog.get_logger("scheduler")


class _Client(msgspec.Struct):
    user: str = ""
    """The public key that the client showed."""
    host: str = ""


class _Refusal(msgspec.Struct):
    """The part of nats-server's advisory about a client that could not prove itself."""

    client: _Client = msgspec.field(default_factory=_Client)


_refusals = msgspec.json.Decoder(_Refusal)


class _Refused(msgspec.Struct):
    count: int = 0
    host: str = ""
    told_ns: int | None = None


class RefusedKeys:
    """The refusals since the last events, by key; `path` is the table of revoked keys."""

    def __init__(self, path: Path, count: Callable[[str], None]) -> None:
        self._path = path
        self._count = count
        self._stamp = 0
        self._revoked: RevokedKeys = {}
        self._refused: dict[str, _Refused] = {}

    def heard(self, data: bytes) -> None:
        """Take what the broker tells of one refusal."""
        try:
            client = _refusals.decode(data).client
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._count("refusal_unreadable")
            return
        self._count("connection_refused")
        self._refresh()
        key = client.user if client.user in self._revoked else OTHERS
        if key:
            self._count("revoked_key_refused")
        if key not in self._refused and len(self._refused) >= KEYS_MAX:
            self._count("refusal_untold")
            return
        of = self._refused.setdefault(key, _Refused())
        of.count += 1
        of.host = client.host[:HOST_CHARS_MAX]

    def due(self, now_ns: int, real_ns: int) -> Iterator[ChangeRow]:
        """Yield the events that are due; what is not told for a while is forgotten."""
        for key, of in list(self._refused.items()):
            if of.told_ns is not None and now_ns - of.told_ns < TELL_NS:
                continue
            if not of.count:
                del self._refused[key]
                continue
            yield self._row(key, of, real_ns)
            of.count, of.told_ns = 0, now_ns

    def _row(self, key: str, of: _Refused, real_ns: int) -> ChangeRow:
        row = self._revoked.get(key)
        whose = f"the revoked key of {row.owner}" if row else "a key that was not revoked"
        times = f"{of.count} times, last" if of.count > 1 else "once,"
        return ChangeRow(
            t_ns=real_ns,
            what="key.refused",
            node=row.name if row is not None and row.kind == "node" else "",
            reason=f"{whose} was refused {times} from {of.host or 'an unknown host'}",
        )

    def _refresh(self) -> None:
        try:
            stamp = self._path.stat().st_mtime_ns
            if stamp != self._stamp:
                self._revoked, self._stamp = revoked_keys.load(self._path), stamp
        except FileNotFoundError:
            self._revoked, self._stamp = {}, 0
        except (StokerError, OSError) as error:
            log.error("the table of revoked keys cannot be read", error=str(error))
