# SPDX-License-Identifier: Apache-2.0
"""Three hosts become the servers of one cluster by a few commands, and it outlives any one of them.

The hosts are network namespaces; everything else is as on three machines: the verbs, the join by
token, TLS between them, three brokers, schedulers and agents, and a log of three copies.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.three_hosts import ServerHost, three_hosts
from product_node import PATIENCE_S, STOKER, wait_until

from stoker.agent.state import gossip_files
from stoker.agent.state.gossip_files import SERF
from stoker.agent.supervise import pids
from stoker.mesh.connection.context import SavedContext
from stoker.mesh.wire.scheduler_figures import OUT_OF_ROSTER
from tests.rounds import rounds

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
OTHERS = ("second", "third")


@pytest.fixture(scope="module")
def servers() -> Iterator[list[ServerHost]]:
    """Three servers that are founded and in step. The order of `up` is that of a person who has
    not read on: the third is up only after the cluster was founded."""
    with three_hosts() as hosts:
        first, second, third = hosts
        said = first.stoker("cluster", "init", "--address", first.address, "--name", "first",
                            "--servers", "3").stdout  # fmt: skip
        assert b"for each of the 2 other servers" in said
        assert b"waits for the 3 servers" in first.stoker("up").stdout
        join(first, second)
        assert b"waits for the 3 servers" in second.stoker("up").stdout
        refuse_a_second_one_of_a_name(first, third)
        join(first, third)
        third.stoker("up")
        wait_until(lambda: in_step(hosts), "all three are in step", PATIENCE_S)
        yield hosts


def join(first: ServerHost, host: ServerHost) -> None:
    token = first.stoker("cluster", "token", "--server", "--expires", "10m").stdout
    assert token.startswith(b"stoker-server-1-")
    said = host.stoker("cluster", "join", "--name", host.name, stdin=token).stdout
    assert f"others reach it at tls://{host.address}:" in said.decode()


def refuse_a_second_one_of_a_name(first: ServerHost, host: ServerHost) -> None:
    token = first.stoker("cluster", "token", "--server").stdout
    done = host.stoker("cluster", "join", "--name", "second", stdin=token, check=False)
    assert done.returncode == 1 and done.stderr.count(b"\n") <= 2
    assert b"a server or node is called second already" in done.stderr
    assert not host.root.exists()


def status(host: ServerHost) -> dict[str, Any] | None:
    """The cluster as one host shows it; None while it cannot."""
    done = host.stoker("cluster", "status", "--json", check=False)
    found: dict[str, Any] | None = json.loads(done.stdout) if done.stdout else None
    return found


def in_step(hosts: list[ServerHost]) -> bool:
    found = status(hosts[0])
    if found is None or not found["leader"] or not found["log_leader"]:
        return False
    ready = found["nodes"] and all(
        found["nodes"].get(host.name) in ("ready", "evicted") for host in hosts
    )
    apart = found["leader"] != found["log_leader"]  # as the leading scheduler sees to
    return bool(ready) and apart and all(row["may_go"] for row in found["servers"])


def run(host: ServerHost, *words: str) -> str:
    return host.stoker("run", "--", *words).stdout.decode().strip()


def test_the_trail_of_each_scheduler_leads_to_one_state(servers: list[ServerHost]) -> None:
    """Each is audited for itself, from its own files, whether it leads or not."""
    schedulers = [f"{each['number']:016x}" for each in _cluster(servers[0])["schedulers"]]

    def ends() -> set[tuple[int, str, str]]:
        found = [
            json.loads(servers[0].stoker("audit", "verify", "--at", at, "-o", "json").stdout)
            for at in schedulers
        ]
        assert len({each["source"] for each in found}) == len(schedulers)
        assert all(sum(each["signed"].values()) == each["index"] for each in found)
        return {(each["index"], each["hash"], each["trail"]) for each in found}

    wait_until(lambda: len(ends()) == 1, "all have read the newest entry", PATIENCE_S)


def _cluster(host: ServerHost) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.stoker("cluster", "--json").stdout)
    return found


def test_each_host_has_a_broker_a_scheduler_an_agent_and_a_copy_of_the_log(
    servers: list[ServerHost],
) -> None:
    common = {pids.SUPERVISOR, "nats-server", "spawner", "watchdog", "scheduler", "agent"}
    for host in servers:
        own = "registrar" if host.name == "first" else "copier"
        gossip = {SERF} if gossip_files.program() else set()
        assert set(pids.find(host.state)) == common | gossip | {own}
        assert any(host.state.nats.rglob("SCHED_LOG")), "its broker keeps the log"
    found = status(servers[2])
    assert found is not None
    assert [row["server"] for row in found["servers"]] == ["first", *OTHERS]
    assert sorted(row["log"] for row in found["servers"]) == ["current", "current", "leads"]
    assert [row["leads"] for row in found["servers"]].count(True) == 1
    screen = servers[1].stoker("cluster", "status").stdout.decode()
    assert screen.count("may go down now") == 3
    assert screen.count("\n") < 20, "one screen"


def test_the_owner_of_each_host_runs_jobs(servers: list[ServerHost]) -> None:
    for host in servers:
        assert run(host, "echo", host.name) == host.name


def test_no_private_key_left_its_host(servers: list[ServerHost]) -> None:
    """Hosts have different keys: the agent's, the scheduler's, the broker's, the route's."""
    for name in ("agent.nk", "scheduler.nk", "admin.nk", "registrar.nk", "broker.key", "route.key"):
        assert len({(host.state.keys / name).read_bytes() for host in servers}) == 3
    assert not (servers[1].state.keys / "guest.nk").exists()


def test_a_user_of_the_first_host_is_let_in_at_the_others_and_taken_out(
    servers: list[ServerHost], tmp_path: Path
) -> None:
    first, _, third = servers
    key = tmp_path / "far.nk"
    first.stoker("user", "add", "far", "--unix-user", "daemon", "--key-out", str(key))
    os.chown(key, 0, 0)
    pinned = tmp_path / "broker.crt"
    pinned.write_bytes(third.state.broker_certificate.read_bytes())
    url = json.loads(third.state.cluster.read_bytes())
    saved = SavedContext(
        f"tls://{third.address}:{url['port']}", str(key), "far", certificate_file=str(pinned)
    )
    context = tmp_path / "stoker/context.json"
    context.parent.mkdir()
    context.write_text(json.dumps({name: getattr(saved, name) for name in saved.__struct_fields__}))

    def who() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["nsenter", f"--net=/run/netns/{third.namespace}", STOKER, "run", "--", "id", "-un"],
            env={**{k: v for k, v in os.environ.items() if k != "STOKER_STATE"},
                 "XDG_CONFIG_HOME": str(tmp_path)},
            cwd="/", capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    wait_until(lambda: who().stdout == b"daemon\n", "the third broker lets far in", PATIENCE_S)
    first.stoker("user", "remove", "far")
    wait_until(lambda: who().returncode != 0, "and lets far out", PATIENCE_S)


@pytest.mark.parametrize("name", ["second", "first"])
def test_tables_are_changed_on_the_first_host_alone(servers: list[ServerHost], name: str) -> None:
    second = servers[1]
    for words in (("user", "add", "x"), ("cluster", "token"), ("cluster", "keys")):
        done = second.stoker(*words, check=False)
        assert done.returncode == 2, second.told(done)
        assert b"joined a cluster that was made elsewhere" in done.stderr
    removed = second.stoker("node", "remove", name, check=False)
    assert b"has a scheduler and a broker of the cluster" in removed.stderr


@pytest.mark.rounds
def test_the_host_of_the_leader_dies_and_the_cluster_goes_on(servers: list[ServerHost]) -> None:
    for _ in range(rounds(1, 6)):
        lose_the_leaders_host(servers)


def lose_the_leaders_host(servers: list[ServerHost]) -> None:
    """One round: another scheduler leads on, jobs elsewhere never notice, those of the lost host
    run elsewhere, and the host comes back."""
    before = status(servers[0])
    assert before is not None
    lost = next(host for host in servers if host.name == before["leader"])
    rest = [host for host in servers if host is not lost]
    lost.stoker("node", "label", lost.name, "place=leader", "may=run")
    stays = job(rest[0], "--avoid", "place=leader")
    moves = job(rest[0], "--constraint", "may=run")
    wait_until(lambda: placed(rest[0], moves) == lost.name, "a job runs beside the leader")
    wait_until(lambda: placed(rest[0], stays) != "", "another one runs elsewhere")
    told = number_of(lost.stoker("submit", "--constraint", "may=run", "--", "echo", "lost"))
    assert rest[0].stoker("logs", "-f", str(told)).stdout == b"lost\n"
    rest[0].stoker("node", "label", rest[1].name, "may=run")
    killed_ns = time.time_ns()
    lost.lose_power()
    assert run(rest[1], "echo", "goes on") == "goes on"
    wait_until(lambda: placed(rest[0], moves) in {host.name for host in rest}, "it moved")
    view = rest[0].json("job", str(stays), "-o", "json")
    assert (view["state"], view["attempt"]) == ("running", 1), "it never noticed"
    assert rest[0].json("job", str(moves), "-o", "json")["times"]["started_ns"] > killed_ns
    alone = status(rest[0])
    assert alone is not None
    assert alone["leader"] in {host.name for host in rest}
    assert not any(row["may_go"] for row in alone["servers"])
    screen = rest[0].stoker("cluster", "status", check=False)
    assert screen.returncode == 1 and b"must stay" in screen.stdout
    assert f"{lost.name} does not answer".encode() in screen.stdout
    unread = rest[0].stoker("logs", str(told), check=False)
    assert (unread.returncode, unread.stdout) == (1, b"")
    assert f"node {lost.name} is given up".encode() in unread.stderr, unread.stderr
    assert b"--spool-output" in unread.stderr, unread.stderr
    lost.plug_in()
    lost.stoker("up")
    wait_until(lambda: in_step(servers), "it is back and in step", PATIENCE_S)
    assert rest[0].stoker("logs", str(told)).stdout == b"lost\n", "the disk of the host has it"
    for number in (stays, moves):
        rest[0].stoker("cancel", str(number))
    lost.stoker("node", "label", lost.name, "place-", "may-")
    lost.stoker("node", "label", rest[1].name, "may-")


@pytest.mark.soak
def test_a_lost_server_counts_no_more_and_comes_back(servers: list[ServerHost]) -> None:
    """One that does not lead is lost and removed; the others know no majority with it. Its host
    returns and counts for nothing before it is admitted, and then it may lead."""
    before = status(servers[0])
    assert before is not None
    lost = next(host for host in servers if host.name not in ("first", before["leader"]))
    rest = [host for host in servers if host is not lost]
    refuse_roster_changes(rest[0], before["leader"])
    lost.lose_power()
    # Where the lost host led the log, its reply may be late, and the request is repeated.
    rest[0].stoker("cluster", "remove", lost.name)
    assert b"nothing to change" in rest[1].stoker("cluster", "remove", lost.name).stdout
    refused = rest[0].stoker("cluster", "remove", other_than(before["leader"], rest), check=False)
    assert refused.returncode == 2 and b"several schedulers keeps 2" in refused.stderr
    assert listed(rest[1]) == [host.name for host in rest]
    for host in rest:
        wait_until(lambda host=host: obeyed(host).count("") == 1, "its agent obeys it no more")
    lost.plug_in()
    lost.stoker("up")
    wait_until(lambda: listed(lost) == [host.name for host in rest], "its own host sees it")
    wait_until(lambda: OUT_OF_ROSTER in doctor(lost), "its doctor says what it is")
    assert b"done" in rest[0].stoker("cluster", "admit", lost.name).stdout
    wait_until(lambda: in_step(servers), "each host may be lost again", PATIENCE_S)
    assert [len(obeyed(host)) for host in servers] == [4] * 3, "at a place that nobody had"
    leader = next(host for host in servers if host.name == (status(rest[0]) or {})["leader"])
    leader.lose_power()
    others = [host for host in servers if host is not leader]
    assert run(others[0], "echo", "on") == "on"
    leader.plug_in()
    leader.stoker("up")
    wait_until(lambda: in_step(servers), "it is back", PATIENCE_S)


def doctor(host: ServerHost) -> str:
    return host.stoker("doctor", check=False).stdout.decode()


def refuse_roster_changes(host: ServerHost, leader: str) -> None:
    """Requests for what may not be get one line, and change nothing."""
    for words, code, why in (
        (("remove", leader), 2, b"no scheduler that leads lets itself go"),
        (("remove", "fourth"), 1, b"the cluster has no server 'fourth'"),
    ):
        refused = host.stoker("cluster", *words, check=False)
        assert refused.returncode == code and why in refused.stderr
        assert refused.stderr.count(b"\n") <= 2
    assert b"nothing to change" in host.stoker("cluster", "admit", leader).stdout


def listed(host: ServerHost) -> list[str]:
    """The servers of the roster as one host shows them."""
    found = status(host)
    return [row["server"] for row in found["servers"]] if found is not None else []


def other_than(name: str, hosts: list[ServerHost]) -> str:
    return next(host.name for host in hosts if host.name != name)


def obeyed(host: ServerHost) -> list[str]:
    """The schedulers that the agent of a host obeys, by place; empty before it was told."""
    try:
        told = json.loads((host.state.agent / "schedulers.json").read_bytes())
    except FileNotFoundError:
        return []
    return list(told["schedulers"])


@pytest.mark.soak
def test_another_host_takes_the_place_of_a_server_that_is_lost(
    servers: list[ServerHost], tmp_path: Path
) -> None:
    """Its disk is gone but for one file that its owner kept elsewhere; then another host with its
    address has its place, and the cluster bears the loss of any one again."""
    first, second, third = servers
    kept = tmp_path / "third.server"
    third.stoker("cluster", "export", str(kept))
    assert kept.stat().st_mode & 0o777 == 0o600
    refused = third.stoker("cluster", "export", str(kept), check=False)
    assert refused.returncode == 2 and b"exists already" in refused.stderr
    third.lose_power()
    shutil.rmtree(third.root)
    wait_until(lambda: state_of(first, "third") == "evicted", "it is given up")
    assert run(first, "echo", "on") == "on"
    third.plug_in()
    refused = second.stoker("cluster", "replace", str(kept), check=False)
    assert refused.returncode == 2 and b"is that of node second already" in refused.stderr
    said = third.stoker("cluster", "replace", str(kept)).stdout.decode()
    assert "this host is server third of cluster" in said
    third.stoker("up")
    wait_until(lambda: state_of(first, "third") == "ready", "its node is back", PATIENCE_S)
    wait_until(lambda: in_step(servers), "each host may be lost again", PATIENCE_S)
    assert any(third.state.nats.rglob("SCHED_LOG")), "its broker keeps the log"
    assert run(third, "echo", "back") == "back"
    refused = first.stoker("cluster", "replace", str(kept), "--state", str(tmp_path / "no"),
                           check=False)  # fmt: skip
    assert refused.returncode == 2 and b"this host has no address" in refused.stderr
    assert not (tmp_path / "no").exists()


def state_of(host: ServerHost, node: str) -> str:
    """The state of a node as one host shows it; empty while nobody leads."""
    found = status(host)
    return found["nodes"].get(node, "") if found is not None and found["nodes"] else ""


def job(host: ServerHost, *words: str) -> int:
    restart = ("--restart", "on-node-loss")
    return number_of(host.stoker("submit", *restart, *words, "--", "sleep", "600"))


def placed(host: ServerHost, number: int) -> str:
    """The node on which a job runs; empty while it runs nowhere."""
    view = host.json("job", str(number), "-o", "json")
    return str(view["decision"]["node"]) if view["state"] == "running" else ""


@pytest.mark.rounds
def test_two_of_three_servers_are_lost_for_good(servers: list[ServerHost]) -> None:
    """It is the last one here. The third host begins a cluster again with what it holds. In a long
    round the first host joins that, and the second comes back too late and is nothing to it."""
    first, second, third = servers
    jobs = submit_to_the_others(*servers)
    wait_until(lambda: in_step(servers), "the third holds what was acknowledged", PATIENCE_S)
    folder = first.root.parent / "again"
    folder.mkdir(mode=0o711)
    kept, aside = folder / "kept", second.root.with_name("aside")
    refuse_while_a_majority_is_there(third, kept)
    second.stoker("cluster", "backup", str(folder / "plain"))
    for host in (first, second):
        host.lose_power()
    shutil.rmtree(first.root)
    second.root.rename(aside)
    entry = back_up_what_survived(third, kept)
    again = [ServerHost(name, place, folder) for place, name in ((3, "third"), (1, "first"))]
    try:
        begin_again(again[0], kept)
        wait_until(lambda: bool(placed(again[0], jobs["running"])), "it runs again", PATIENCE_S)
        for state, number in jobs.items():
            assert again[0].json("job", str(number), "-o", "json")["state"] == state
        assert run(again[0], "echo", "goes on") == "goes on"
        found = again[0].json("audit", "verify", "--backup", str(kept), "-o", "json")
        assert found["behind"] == entry and not found["passed"]
        if rounds(0, 1):
            first.plug_in()
            join_again(*again)
            aside.rename(second.root)
            come_back_alone(second)
            assert nodes_of(again[0]) == {"first": "ready", "third": "ready"}
    finally:
        for host in reversed(again):
            if host.root.exists():
                host.stoker("down", check=False)


def submit_to_the_others(
    first: ServerHost, second: ServerHost, third: ServerHost
) -> dict[str, int]:
    """Submit jobs of which none runs on the third host; return each by the state that it shall have
    when the others are lost."""
    third.stoker("node", "label", "third", "place=survivor")
    avoid = ("--avoid", "place=survivor")
    jobs = {
        "succeeded": number_of(first.stoker("submit", *avoid, "--", "true")),
        "running": job(first, *avoid),
        "lost": number_of(first.stoker("submit", *avoid, "--", "sleep", "600")),
    }
    jobs["pending"] = job(first, "--after", str(jobs["running"]))
    for state in ("running", "lost"):
        assert placed_soon(first, jobs[state]) in {first.name, second.name}
    wait_until(lambda: ended(first, jobs["succeeded"]), "one job has ended", PATIENCE_S)
    return jobs


def number_of(submitted: subprocess.CompletedProcess[bytes]) -> int:
    return int(submitted.stdout.split()[-1])


def placed_soon(host: ServerHost, number: int) -> str:
    wait_until(lambda: bool(placed(host, number)), f"job {number} runs", PATIENCE_S)
    return placed(host, number)


def ended(host: ServerHost, number: int) -> bool:
    return bool(host.json("job", str(number), "-o", "json")["state"] == "succeeded")


def refuse_while_a_majority_is_there(host: ServerHost, kept: Path) -> None:
    refused = host.stoker("cluster", "backup", "--survivor", str(kept), check=False)
    assert refused.returncode == 2 and refused.stderr.count(b"\n") <= 2
    assert b"first and second answer: with third" in refused.stderr and not kept.exists()


def back_up_what_survived(host: ServerHost, kept: Path) -> int:
    """Take the backup while the scheduler waits for the others, end the host for good, and take it
    again; return the entry that both reach."""
    screen = host.stoker("cluster", "status", check=False).stdout.decode()
    assert "answer: start first, second." in screen and "cluster backup --survivor" in screen
    said = host.stoker("cluster", "backup", "--survivor", str(kept)).stdout.decode()
    assert "entries that only first and second held may be missing" in said
    assert "left out" not in said and "forgotten" not in said
    there = str(kept.with_name("no"))
    refused = host.stoker("cluster", "restore", str(kept), "--state", there, check=False)
    assert refused.returncode == 2 and b"it is not lost" in refused.stderr
    host.stoker("down")
    again = kept.with_name("again")
    told = host.stoker("cluster", "backup", "--survivor", str(again)).stdout.decode()
    assert told.partition(", as server")[0] == said.partition(", as server")[0], "nothing runs now"
    refused = host.stoker("up", check=False)
    assert refused.returncode == 2 and b"is retired: its state up to entry" in refused.stderr
    return int(said.split(" at entry ")[1].split(",")[0])


def come_back_alone(host: ServerHost) -> None:
    """Start a server of the former cluster whose others are gone: its log has no majority, so its
    scheduler leads nobody."""
    told = host.state.log / "scheduler.log"
    before = told.stat().st_size
    host.plug_in()
    host.stoker("up", check=False)
    wait_until(lambda: b"no log yet" in told.read_bytes()[before:], "it needs others", PATIENCE_S)
    assert {"nats-server", "scheduler", "agent"} <= set(pids.find(host.state))
    assert status(host) is None, "there is no scheduler that answers"


def nodes_of(host: ServerHost) -> dict[str, str]:
    listed = host.json("nodes", "-o", "json")["nodes"]
    return {row["node"]: row["state"] for row in listed}


def begin_again(server: ServerHost, kept: Path) -> None:
    """Restore the backup on one host, which others can reach then."""
    server.stoker("cluster", "restore", str(kept), "--name", server.name)
    server.stoker("cluster", "init", "--address", server.address)
    server.stoker("up")


def join_again(server: ServerHost, node: ServerHost) -> None:
    """Have another host join the cluster by a new folder, under its former name."""
    token = server.stoker("cluster", "token").stdout
    node.stoker("cluster", "join", "--name", node.name, stdin=token)
    node.stoker("up")
    both = {server.name: "ready", node.name: "ready"}
    wait_until(lambda: nodes_of(server) == both, "both are ready", PATIENCE_S)
