# SPDX-License-Identifier: Apache-2.0
"""A cluster of one server becomes one of three by its backup, and outlives any one of them."""

from __future__ import annotations

import pytest
from fakes.three_hosts import ServerHost, three_hosts
from product_node import PATIENCE_S, wait_until

from tests.product.test_cluster_of_servers import in_step, job, join, placed, status

pytestmark = [pytest.mark.needs_root, pytest.mark.slow, pytest.mark.soak]


def test_one_server_becomes_three_with_the_jobs_it_has() -> None:
    with three_hosts() as hosts:
        alone = hosts[0]
        folder = alone.root.parent / "grown"
        folder.mkdir(mode=0o711)
        grown = [ServerHost(host.name, place, folder) for place, host in enumerate(hosts, 1)]
        number = begin_alone(alone, str(folder / "kept"))
        try:
            grow(grown, str(folder / "kept"))
            wait_until(lambda: in_step(grown), "all three are in step", PATIENCE_S)
            wait_until(lambda: bool(placed(grown[0], number)), "the job runs again", PATIENCE_S)
            found = status(grown[0])
            assert found is not None
            leads = next(row["server"] for row in found["servers"] if row["leads"])
            rest = [host for host in grown if host.name != leads]
            next(host for host in grown if host.name == leads).lose_power()
            wait_until(
                lambda: placed(rest[0], number) in {host.name for host in rest},
                "the job runs at one of the others",
                PATIENCE_S,
            )
        finally:
            for host in reversed(grown):
                if host.root.exists():
                    host.stoker("down", check=False)


def begin_alone(host: ServerHost, kept: str) -> int:
    """Have one server with a job and a queue, and end it behind a backup."""
    host.stoker("cluster", "init", "--address", host.address, "--name", host.name)
    host.stoker("up")
    host.stoker("queue", "set", "night", "--weight", "3")
    number = job(host)
    wait_until(lambda: placed(host, number) == host.name, "the job runs", PATIENCE_S)
    host.stoker("cluster", "backup", kept)
    host.stoker("down")
    return number


def grow(hosts: list[ServerHost], kept: str) -> None:
    """Restore the backup on the first of three servers; the others get it from there."""
    first, *others = hosts
    first.stoker("cluster", "restore", kept, "--name", first.name)
    first.stoker("cluster", "init", "--address", first.address, "--servers", str(len(hosts)))
    first.stoker("up")
    for host in others:
        join(first, host)
        host.stoker("up")
