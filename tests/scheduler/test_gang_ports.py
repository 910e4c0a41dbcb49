# SPDX-License-Identifier: Apache-2.0
"""The ports at which gangs meet: no two have one port of a node at a time."""

from __future__ import annotations

from random import Random

from stoker.scheduler import gang_ports
from stoker.scheduler.gang_ports import FIRST_PORT, PORTS, GangPorts


def test_a_port_has_one_gang_until_it_is_given_back() -> None:
    random, ports = Random(5), GangPorts()
    held: dict[tuple[str, int], int] = {}
    for job in range(1, 3000):
        node = random.choice("abc")
        port = ports.take(node, job, 1 + job % 3)
        assert FIRST_PORT <= port < FIRST_PORT + PORTS and (node, port) not in held
        held[node, port] = job
        if random.random() < 0.9:
            (where, number), owner = random.choice(list(held.items()))
            ports.give(where, number, owner + 1)  # another job's is not given back
            ports.give(where, number, owner)
            del held[where, number]


def test_the_next_attempt_looks_elsewhere_first() -> None:
    ports = GangPorts()
    first = ports.take("a", 7, 1)
    ports.give("a", first, 7)
    assert ports.take("a", 7, 2) != first


def test_two_clusters_on_one_host_begin_at_other_ports() -> None:
    first, other = (GangPorts(name).take("a", 1, 1) for name in ("8f1c2a70", "03d94e55"))
    assert first != other
    assert first == GangPorts("8f1c2a70").take("a", 1, 1), "all replicas agree"


def test_a_node_without_a_port_left_gives_none() -> None:
    ports = GangPorts()
    for job in range(PORTS):
        ports.hold("a", FIRST_PORT + job, job)
    assert ports.take("a", 1, 1) == 0
    assert gang_ports.FIRST_PORT + PORTS <= 1 << 16
