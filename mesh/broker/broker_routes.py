# SPDX-License-Identifier: Apache-2.0
"""The routes between the brokers of one cluster, as a part of nats-server.conf.

Pure. Owns how many copies of the log the brokers of a cluster keep, and that a broker is let in by
its own key alone: TLS 1.3 both ways, where each side must have one of the certificates that all of
them know. A broker is trusted with every subject, so a route is for brokers of the cluster only.
"""

from __future__ import annotations

import json

import msgspec

COPIES_MAX = 5
"""The most copies that JetStream keeps of one stream."""
TLS_S = 10
"""The longest TLS handshake of a route, as of a client."""
PING_S, PINGS_OPEN_MAX = 1, 2
"""A broker gives a route up that has answered no ping for 3 s. Until then it sends what others of
its cluster once wanted to hear into that route, and whoever asked waits in vain: a host that lost
its power closes no connection."""


class BrokerRoutes(msgspec.Struct, frozen=True):
    """The way of one broker to all brokers of its cluster, itself included."""

    cluster: str
    listen: str
    """The address, `host:port`, at which this broker takes the others."""
    brokers: tuple[str, ...]
    """Those addresses of all brokers, in any order. The certificate of each names its host."""
    key_file: str
    certificate_file: str
    """The certificate that this broker shows to the others."""
    trusted_file: str
    """The certificates of all brokers of the cluster, of which each trusts itself alone."""

    @property
    def copies(self) -> int:
        """The most copies of the log that these brokers keep."""
        return log_copies(len(self.brokers))

    def lines(self) -> list[str]:
        """Return the block of the configuration.

        Clients are not told of the other brokers: a process of a node trusts a broker by the owner
        of its socket or by a certificate, and learns the addresses from its own state folder.
        """
        routes = [f"nats-route://{address}" for address in self.brokers]
        return [
            "cluster {",
            f"  name: {json.dumps(self.cluster)}",
            f"  listen: {json.dumps(self.listen)}",
            f"  routes: {json.dumps(routes)}",
            "  no_advertise: true",
            f'  ping_interval: "{PING_S}s"',
            f"  ping_max: {PINGS_OPEN_MAX}",
            "  tls {",
            f"    cert_file: {json.dumps(self.certificate_file)}",
            f"    key_file: {json.dumps(self.key_file)}",
            f"    ca_file: {json.dumps(self.trusted_file)}",
            "    verify: true",
            '    min_version: "1.3"',
            f"    timeout: {TLS_S}",
            "  }",
            "}",
        ]


def log_copies(schedulers: int) -> int:
    """Return how many copies the log of this many schedulers has, one at the broker of each."""
    return min(schedulers, COPIES_MAX)
