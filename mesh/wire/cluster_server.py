# SPDX-License-Identifier: Apache-2.0
"""One server of a cluster of several: a host with a broker and a scheduler, as others know it.

It travels in join messages and stays in `cluster.json`. Owns that a server is known by public
halves of keys and by certificates alone: the record holds no secret.
"""

from __future__ import annotations

import ipaddress

import msgspec

from stoker.mesh.identity import certificate, identity
from stoker.mesh.wire import subjects
from stoker.native.errors import BadRequest

ADMIN = "admin"
"""The user as whom the owner of the first server acts; those of the others are `admin-NODE`."""
COUNTS = (1, 3, 5)
"""The numbers of servers of a cluster: an even one bears no more losses than one less."""


class ClusterServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One server. `node` is its name, and that of its broker and of its node."""

    node: str
    address: str
    """The IPv4 address at which other hosts reach it."""
    port: int
    """The port of its broker for clients."""
    route_port: int
    """The port at which its broker takes other brokers."""
    scheduler: str
    """The public key of its scheduler; so are `agent`, `admin` and `registrar` those of others."""
    agent: str
    admin: str
    registrar: str
    certificate: str
    """The certificate that its broker shows to clients, as PEM."""
    route_certificate: str
    """The certificate that its broker shows to other brokers, which names `address`."""

    @property
    def url(self) -> str:
        """The address of its broker for clients."""
        return f"tls://{self.address}:{self.port}"

    @property
    def route(self) -> str:
        """The address of its broker for other brokers."""
        return f"{self.address}:{self.route_port}"

    @property
    def keys(self) -> tuple[str, ...]:
        """The public keys of its identities."""
        return self.scheduler, self.agent, self.admin, self.registrar

    @property
    def doors(self) -> tuple[str, str]:
        """The two addresses at which its broker listens."""
        return f"{self.address}:{self.port}", self.route


def admin_of(node: str) -> str:
    """Return the user as whom the owner of a server that joined acts."""
    return f"{ADMIN}-{node}"[: subjects.NAME_BYTES_MAX]


def check(server: ClusterServer) -> None:
    """Raise BadRequest for a record that names no server."""
    try:
        ipaddress.IPv4Address(server.address)
    except ValueError:
        raise BadRequest(f"{server.address[:40]!r} is not an IPv4 address") from None
    ports = server.port, server.route_port
    if not all(0 < port < 65_536 for port in ports) or ports[0] == ports[1]:
        raise BadRequest(f"{ports[0]} and {ports[1]} are not two ports")
    subjects.token(server.node)
    for public in server.keys:
        identity.Verifier(public)
    if len(set(server.keys)) != len(server.keys):
        raise BadRequest("two identities of the server have the same key")
    for pem in (server.certificate, server.route_certificate):
        certificate.check_one(pem)
