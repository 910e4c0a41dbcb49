# SPDX-License-Identifier: Apache-2.0
"""The routes between the brokers of one cluster, as a part of nats-server.conf.

Pure. Owns how many copies of the log the brokers of a cluster keep. Routes are neither encrypted
nor limited to some subjects, so they belong on loopback or on a network of the brokers alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

COPIES_MAX = 5
"""The most copies that JetStream keeps of one stream."""
AUTHENTICATE_S = 5
"""A broker closes a route that has not shown the secret after this time."""


@dataclass(frozen=True)
class BrokerRoutes:
    """The way of one broker to all brokers of its cluster, itself included."""

    cluster: str
    secret: str
    """The password that brokers show to each other, of letters and digits."""
    listen: str
    """The address, `host:port`, at which this broker takes the others."""
    brokers: tuple[str, ...]
    """Those addresses of all brokers, in any order."""

    @property
    def copies(self) -> int:
        """The most copies of the log that these brokers keep."""
        return log_copies(len(self.brokers))

    def lines(self) -> list[str]:
        """Return the block of the configuration.

        Clients are not told of the other brokers: a process of a node trusts a broker by the owner
        of its socket, and learns the addresses of others from its own state folder.
        """
        routes = [f"nats-route://stoker:{self.secret}@{address}" for address in self.brokers]
        return [
            "cluster {",
            f"  name: {json.dumps(self.cluster)}",
            f"  listen: {json.dumps(self.listen)}",
            f"  authorization {{ user: stoker, password: {json.dumps(self.secret)},"
            f" timeout: {AUTHENTICATE_S} }}",
            f"  routes: {json.dumps(routes)}",
            "  no_advertise: true",
            "}",
        ]


def log_copies(schedulers: int) -> int:
    """Return how many copies the log of this many schedulers has, one at the broker of each."""
    return min(schedulers, COPIES_MAX)
