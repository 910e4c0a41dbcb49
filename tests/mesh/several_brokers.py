# SPDX-License-Identifier: Apache-2.0
"""Brokers of one cluster on loopback, each with a folder, a certificate and a port of its own."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from stoker.mesh.broker.broker_routes import BrokerRoutes
from tests.fakes import pinned
from tests.fakes.ports import free_ports
from tests.mesh.nats_server import Server


def joined(first: Server, count: int) -> list[Server]:
    """Return `first` and more brokers with the same keys, `count` in all, that know each other."""
    ports = free_ports(2 * count - 1)
    servers = [first, *(_beside(first, each, ports.pop()) for each in range(2, count + 1))]
    places = tuple(f"127.0.0.1:{port}" for port in ports)
    trusted = first.folder / "routes.crt"
    trusted.write_bytes(
        b"".join(Path(each.settings.certificate_file).read_bytes() for each in servers)
    )
    for server, place in zip(servers, places, strict=True):
        own = server.settings
        files = own.key_file, own.certificate_file, str(trusted)
        server.settings = replace(own, routes=BrokerRoutes("test", place, places, *files))
    return servers


def _beside(first: Server, number: int, port: int) -> Server:
    folder = first.folder / f"broker{number}"
    folder.mkdir(mode=0o700)
    for name in first.identities:
        os.link(first.folder / f"{name}.nk", folder / f"{name}.nk")
    key, certificate = pinned.pair(folder)
    settings = replace(
        first.settings,
        server_name=f"test{number}",
        port=port,
        store_dir=str(folder / "jetstream"),
        key_file=key,
        certificate_file=certificate,
    )
    return Server(folder, settings, first.keys, dict(first.identities))
