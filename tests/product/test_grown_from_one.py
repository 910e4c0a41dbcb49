# SPDX-License-Identifier: Apache-2.0
"""A cluster of one server becomes one of three while a job runs, and outlives its first server."""

from __future__ import annotations

import os

import pytest
from fakes.three_hosts import ServerHost, three_hosts
from product_node import PATIENCE_S, wait_until

from stoker.agent.state import state_folder
from stoker.mesh.log import kept_log
from tests.product.test_cluster_of_servers import in_step, job, join, listed, placed, run
from tests.product.test_grown_online import admitted, die, goes_on, kept_by, pids_of

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]


def begin(first: ServerHost) -> int:
    """Have one server with a job that runs; return its number."""
    first.stoker("cluster", "init", "--address", first.address, "--name", first.name)
    first.stoker("up")
    number = job(first)
    wait_until(lambda: placed(first, number) == "first", "the job runs", PATIENCE_S)
    return number


def answers(host: ServerHost) -> bool:
    return host.stoker("cluster", "--json", check=False).returncode == 0


def come(first: ServerHost, host: ServerHost) -> None:
    join(first, host)
    host.stoker("up")


def count_all(hosts: list[ServerHost]) -> None:
    """Take those that joined into the roster, as soon as they have the log."""
    wait_until(lambda: kept_by(hosts), "the log has a copy at each broker", PATIENCE_S)
    for host in hosts[1:]:
        name = host.name
        wait_until(lambda name=name: admitted(hosts[0], name), "it has read the log", PATIENCE_S)
    wait_until(lambda: in_step(hosts), "each of them may be lost", PATIENCE_S)


def test_one_server_becomes_three_while_a_job_runs() -> None:
    with three_hosts() as hosts:
        first, second, third = hosts
        number = begin(first)
        started = pids_of(first, number)
        assert started
        come(first, second)
        come(first, third)
        count_all(hosts)
        assert listed(third) == ["first", "second", "third"]
        assert not kept_log.is_kept(first.state.nats), "the copy of its log was given up"
        assert pids_of(first, number) == started, "the job noticed nothing"
        assert first.json("job", str(number), "-o", "json")["attempt"] == 1
        die(first)
        assert goes_on(second) and goes_on(third)


@pytest.mark.soak
def test_an_only_server_whose_others_die_half_way_is_one_again_with_all_entries() -> None:
    """All three lose their power at the moment for which they were waited; two stay away."""
    with three_hosts() as hosts:
        first, second, third = hosts
        begin(first)
        run(first, "echo", "done")
        come(first, second)
        come(first, third)
        wait_until(lambda: state_folder.load(first.state).several, "it begins again", PATIENCE_S)
        for host in hosts:
            host.lose_power()
        first.plug_in()
        first.stoker("up")
        wait_until(lambda: answers(first), "it is an only server again", PATIENCE_S)
        assert state_folder.load(first.state).may_grow
        assert first.json("job", "2", "-o", "json")["state"] == "succeeded"
        assert run(first, "echo", "again") == "again"
        os.utime(first.state.route_pins, (0, 0))  # the pause before another try is over
        for host in (second, third):
            host.plug_in()
            host.stoker("up")
        wait_until(lambda: state_folder.load(first.state).several, "it tries again", PATIENCE_S)
        wait_until(lambda: answers(first), "its log is that of three brokers", PATIENCE_S)
        count_all(hosts)
        be_one_of_one_again(hosts)


def be_one_of_one_again(hosts: list[ServerHost]) -> None:
    """The roster shrinks to the first scheduler by entries, and has all of them again."""
    first, second, third = hosts
    for host in (third, second):
        first.stoker("cluster", "remove", host.name)
    wait_until(lambda: listed(first) == ["first"], "one counts", PATIENCE_S)
    die(third)  # two of three brokers are enough for the log
    assert goes_on(second)
    third.plug_in()
    third.stoker("up")
    count_all(hosts)
