# SPDX-License-Identifier: Apache-2.0
"""The access of schedulers to their broker's own services, as parts of nats-server.conf.

Pure. A scheduler may count what its broker's connections send, hear of new ones, end one, and have
the configuration read again. Owns that nobody else may: each service is exported to the one account
of schedulers and nodes, and in it no allow-list but that of schedulers names one.
"""

from __future__ import annotations

from stoker.mesh.wire.subjects import PREFIX

FIGURES, CONNECTIONS, CUT, RELOAD = "STATSZ", "CONNZ", "KICK", "RELOAD"
"""The services of nats-server: its totals, the figures of each connection, the end of one, and that
it reads its configuration again."""
ALL = "PING"
"""Stands for every server of the cluster in place of an id."""
CONNECTED = f"{PREFIX}.connected"
"""The subject on which schedulers hear of each new connection of a node, of any broker."""
_SERVICES = tuple(f"$SYS.REQ.SERVER.*.{name}" for name in (FIGURES, CONNECTIONS, CUT, RELOAD))


def service(name: str, server: str) -> str:
    """Return the subject of a service of the broker with this id, or of ALL."""
    return f"$SYS.REQ.SERVER.{server}.{name}"


def exports(account: str) -> list[str]:
    """Return what the system account exports to an account, which gets its own advisories alone."""
    rows = [f'{{ service: "{each}", accounts: [{account}] }}' for each in _SERVICES]
    return [*rows, f'{{ stream: "{_connects(account)}", accounts: [{account}] }}']


def imports(system: str, account: str) -> list[str]:
    """Return what that account imports."""
    rows = [f'{{ service: {{ account: {system}, subject: "{each}" }} }}' for each in _SERVICES]
    advice = f'{{ account: {system}, subject: "{_connects(account)}" }}'
    return [*rows, f'{{ stream: {advice}, to: "{CONNECTED}" }}']


def scheduler_may_publish() -> list[str]:
    """Return the subjects of the services that a scheduler uses."""
    return list(_SERVICES)


def _connects(account: str) -> str:
    return f"$SYS.ACCOUNT.{account}.CONNECT"
