# SPDX-License-Identifier: Apache-2.0
"""A fourth server enters a cluster of three that runs, whose jobs notice nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.three_hosts import ServerHost, three_hosts
from product_node import PATIENCE_S, wait_until

from stoker.agent.supervise import pids
from stoker.mesh.wire.scheduler_figures import OUT_OF_ROSTER
from tests.product.test_cluster_of_servers import (
    doctor,
    in_step,
    job,
    join,
    listed,
    placed,
    run,
    status,
)

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[ServerHost]]:
    """Three servers that are founded and in step, and two hosts with nothing."""
    with three_hosts("ghost", "fourth") as found:
        first, *others = found[:3]
        first.stoker("cluster", "init", "--address", first.address, "--name", first.name,
                     "--servers", "3")  # fmt: skip
        first.stoker("up")
        for host in others:
            join(first, host)
            host.stoker("up")
        wait_until(lambda: in_step(found[:3]), "all three are in step", PATIENCE_S)
        yield found


def copies(host: ServerHost) -> dict[str, bool]:
    """Return the hosts that keep the log, each with whether its copy is current."""
    log = host.json("cluster", "--json")["log"]
    return {each["server"]: each["current"] for each in log["copies"]} if log else {}


def kept_by(hosts: list[ServerHost]) -> bool:
    """True if these hosts and no others have a copy of the log, which is current."""
    return copies(hosts[0]) == {host.name: True for host in hosts}


def refusal(host: ServerHost, *words: str) -> str:
    """Have a command refused, and return the one line that it says, with what to do."""
    done = host.stoker(*words, check=False)
    assert done.returncode in (1, 2) and done.stderr.count(b"\n") <= 2, host.told(done)
    return done.stderr.decode()


def test_a_server_that_dies_half_way_gives_its_place_back(hosts: list[ServerHost]) -> None:
    """It has a copy of the log already, and its host is lost before it counts for anything."""
    first, second, third, ghost, _ = hosts
    join(first, ghost)
    told = "server ghost has no current copy of the log"
    wait_until(lambda: told in refusal(second, "cluster", "admit", "ghost"), "it is known")
    ghost.stoker("up")
    wait_until(lambda: kept_by(hosts[:4]), "it has a copy of the log", PATIENCE_S)
    die(ghost)
    assert goes_on(second)
    assert "is revoked" in first.stoker("cluster", "revoke", "ghost").stdout.decode()
    wait_until(lambda: kept_by(hosts[:3]), "its copy counts no more", PATIENCE_S)
    first.stoker("node", "remove", "ghost", "--force")
    wait_until(lambda: in_step(hosts[:3]), "each of the three may be lost", PATIENCE_S)
    assert "has no server 'ghost'" in refusal(third, "cluster", "admit", "ghost")


def die(host: ServerHost) -> None:
    """Let a host lose its power; jobs that avoid its label are not given to it meanwhile."""
    host.stoker("node", "label", host.name, "place=lost")
    host.lose_power()


def goes_on(host: ServerHost) -> bool:
    """True if a job runs that may not be given to the host which has died."""
    done = host.stoker("run", "--avoid", "place=lost", "--", "echo", "on")
    return done.stdout == b"on\n"


def pids_of(host: ServerHost, job_number: int) -> list[int]:
    """The processes of a job on its host, which its environment names."""
    mark = f"STOKER_JOB_ID={job_number}\0".encode()
    return [pid for pid in host.processes() if mark in Path(f"/proc/{pid}/environ").read_bytes()]


def test_a_fourth_server_enters_while_a_job_runs(hosts: list[ServerHost]) -> None:
    first, second, third, _, fourth = hosts
    all_four = [first, second, third, fourth]
    number = job(first)
    wait_until(lambda: placed(first, number) != "", "a job runs", PATIENCE_S)
    runs_on = next(host for host in all_four if host.name == placed(first, number))
    started = pids_of(runs_on, number)
    assert started
    join(first, fourth)
    fourth.stoker("up")
    wait_until(lambda: OUT_OF_ROSTER in doctor(fourth), "it follows, and counts not yet")
    wait_until(lambda: kept_by(all_four), "it has a copy of the log", PATIENCE_S)
    assert listed(second) == ["first", "second", "third"]
    wait_until(lambda: admitted(second, "fourth"), "it has read the log")
    wait_until(lambda: in_step(all_four), "each of the four may be lost", PATIENCE_S)
    assert listed(third) == ["first", "second", "third", "fourth"]
    assert pids_of(runs_on, number) == started, "the job noticed nothing"
    assert first.json("job", str(number), "-o", "json")["attempt"] == 1
    assert run(fourth, "echo", "its owner") == "its owner"
    goes_on_without_a_founder(all_four, runs_on)
    assert pids_of(runs_on, number) == started, "nor of the death of a server"
    first.stoker("cancel", str(number))


def admitted(host: ServerHost, server: str) -> bool:
    """True once the leader has taken a server in; what it says before is a refusal."""
    done = host.stoker("cluster", "admit", server, check=False)
    assert done.returncode in (0, 2), host.told(done)
    return done.returncode == 0


def goes_on_without_a_founder(hosts: list[ServerHost], kept: ServerHost) -> None:
    """Kill a server of the founding, the leading one unless that one is to stay; it comes back."""
    *founders, fourth = hosts
    leader = (status(fourth) or {})["leader"]
    may_die = [host for host in founders if host is not kept]
    lost = next((host for host in may_die if host.name == leader), may_die[0])
    die(lost)
    assert goes_on(fourth)
    assert listed(fourth) == [host.name for host in hosts]
    lost.plug_in()
    lost.stoker("up")
    wait_until(lambda: in_step(hosts), "it is back and in step", PATIENCE_S)


@pytest.mark.soak
def test_a_server_is_taken_out_for_good(hosts: list[ServerHost]) -> None:
    first, second, third, _, fourth = hosts
    told = refusal(first, "cluster", "revoke", "fourth")
    assert "is a server of the cluster that counts" in told
    rest = [first, second, third]
    wait_until(lambda: rest_leads(rest, fourth), "another one leads", PATIENCE_S)
    second.stoker("cluster", "remove", "fourth")
    fourth.stoker("down")
    first.stoker("cluster", "revoke", "fourth")
    wait_until(lambda: kept_by(rest), "three copies", PATIENCE_S)
    first.stoker("node", "remove", "fourth", "--force")
    wait_until(lambda: in_step(rest), "three servers", PATIENCE_S)
    assert "has no server 'fourth'" in refusal(third, "cluster", "admit", "fourth")


def rest_leads(hosts: list[ServerHost], server: ServerHost) -> bool:
    """True once another server leads than this one, which is stopped in order if it leads."""
    leader = (status(hosts[0]) or {})["leader"]
    if leader == server.name and pids.find(server.state):
        server.stoker("down")
    return leader not in ("", server.name)
