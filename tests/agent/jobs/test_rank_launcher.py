# SPDX-License-Identifier: Apache-2.0
"""The launcher of ranks: both sides know the key or say nothing, messages count once, in order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from product_node import wait_until

from stoker.agent.jobs import rank_launcher
from stoker.agent.jobs.rank_launcher import Channel, NotGenuine
from tests.fakes.ports import free_port

KEY = b"a key of 32 characters, say"
LIMIT_S = 60.0


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    for end in (one, other):
        end.settimeout(LIMIT_S)
    yield one, other
    one.close()
    other.close()


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Run calls at once; return what each returned, or the error that it raised."""
    results: list[Any] = [None] * len(calls)

    def run(place: int, call: Callable[[], Any]) -> None:
        try:
            results[place] = call()
        except (NotGenuine, OSError) as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    return results


def joined(ends: tuple[socket.socket, socket.socket]) -> tuple[Channel, Channel]:
    leads, serves = map(Channel, ends)
    assert together(lambda: leads.lead(KEY), lambda: serves.join(KEY, 3)) == [3, None]
    return leads, serves


def test_both_sides_hear_each_other_in_order(ends: tuple[socket.socket, socket.socket]) -> None:
    leads, serves = joined(ends)
    for number in range(3):
        leads.send({"start": number})
        serves.send({"answer": number})
    assert [serves.receive() for _ in range(3)] == [{"start": n} for n in range(3)]
    assert [leads.receive() for _ in range(3)] == [{"answer": n} for n in range(3)]
    leads.close()
    assert serves.receive() is None


def test_a_lead_without_the_key_runs_nothing(ends: tuple[socket.socket, socket.socket]) -> None:
    """Whoever sits at the port first learns nothing by which it could be taken for rank 0."""
    impostor, serves = map(Channel, ends)

    def join() -> None:
        try:
            serves.join(KEY, 3)
        finally:
            serves.close()

    _, refused = together(lambda: impostor.lead(b"another key"), join)
    assert isinstance(refused, NotGenuine) and "does not know the key" in str(refused)


def test_a_rank_without_the_key_is_not_taken(ends: tuple[socket.socket, socket.socket]) -> None:
    leads, impostor = map(Channel, ends)

    def pretend() -> None:
        impostor._write({"rank": 3, "nonce": "0" * 32})
        impostor._plain()
        impostor._write({"proof": "0" * 64})

    refused, _ = together(lambda: leads.lead(KEY), pretend)
    assert isinstance(refused, NotGenuine)


@pytest.mark.parametrize("way", ["repeated", "changed", "from the other side", "no message"])
def test_a_message_that_is_not_genuine_is_refused(
    ends: tuple[socket.socket, socket.socket], way: str
) -> None:
    leads, serves = joined(ends)
    leads.send({"start": 1, "command": "true"})
    line = ends[1].recv(1 << 16)
    sent = json.loads(line)
    if way == "repeated":
        ends[0].sendall(line + line)
        assert serves.receive() == {"start": 1, "command": "true"}
    elif way == "changed":
        sent["body"] = sent["body"].replace("true", "evil")
        ends[0].sendall(json.dumps(sent).encode() + b"\n")
    elif way == "from the other side":
        ends[1].sendall(line)
        serves = leads
    else:
        ends[0].sendall(b"[1]\n")
    with pytest.raises(NotGenuine):
        serves.receive()


def test_a_message_has_a_largest_size(ends: tuple[socket.socket, socket.socket]) -> None:
    _, serves = joined(ends)
    long = b"x" * (rank_launcher.MESSAGE_BYTES_MAX + 2)
    (_, refused) = together(lambda: ends[0].sendall(long), serves.receive)
    assert isinstance(refused, NotGenuine) and "of more than" in str(refused)


SCRIPT = (sys.executable, "-I", "-S", rank_launcher.__file__)


def variables(rank: int, port: int, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "STOKER_LAUNCH_KEY": "k" * 32,
        "STOKER_RANK": str(rank),
        "STOKER_TASKS": "3",
        "STOKER_NODE_COUNT": "3",
        "STOKER_SLOTS": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        **more,
    }


def test_rank_0_starts_programs_in_the_others_and_is_told_how_they_end(tmp_path: Path) -> None:
    """The program stands for mpirun: it finds the hosts, and calls what mpirun would call."""
    port = free_port()
    ranks = [
        subprocess.Popen(
            (*SCRIPT, "serve"), env=variables(rank, port, WHO=f"rank {rank}"),
            stdout=subprocess.PIPE, text=True,
        )
        for rank in (1, 2)
    ]  # fmt: skip
    program = (
        "cat $OMPI_MCA_orte_default_hostfile; $OMPI_MCA_plm_rsh_agent rank2 'echo $WHO; exit 7';"
        " echo $?; $OMPI_MCA_plm_rsh_agent rank1 echo '$WHO' '>&2;' 'kill -9 $$'; echo $?;"
        " $OMPI_MCA_plm_rsh_agent rank3 true; echo $?; $OMPI_MCA_plm_rsh_agent host true; echo $?;"
        " echo ${STOKER_LAUNCH_KEY:-no key} $OMPI_MCA_oob_tcp_if_include; exit 5"
    )
    lead = subprocess.run(
        (*SCRIPT, "lead", "sh", "-c", program), env=variables(0, port), timeout=LIMIT_S,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    hosts = ["localhost slots=2", "rank1 slots=2", "rank2 slots=2"]
    assert lead.stdout.splitlines() == [*hosts, "7", "137", "127", "255", "no key lo"], lead.stderr
    assert lead.returncode == 5
    assert [rank.wait(LIMIT_S) for rank in ranks] == [0, 0], "rank 0 has said that it is done"
    assert [rank.communicate()[0] for rank in ranks] == ["", "rank 2\n"]


@pytest.mark.parametrize(
    ("place", "nodes", "told"),
    [("127.0.0.1", "3", "lo ^han"), ("192.0.2.7", "2", "- ^han"), ("192.0.2.7", "3", "- -")],
)
def test_open_mpi_is_told_where_tasks_share_a_machine(
    monkeypatch: pytest.MonkeyPatch, place: str, nodes: str, told: str
) -> None:
    for name, value in (
        ("MASTER_ADDR", place),
        ("STOKER_NODE_COUNT", nodes),
        ("STOKER_TASKS", "3"),
    ):
        monkeypatch.setenv(name, value)
    found = rank_launcher.launching("/hosts", "/agent start")
    shared = [found.get(f"OMPI_MCA_{name}", "-") for name in ("btl_tcp_if_include", "coll")]
    assert " ".join(shared) == told
    # Open MPI 4 and 5 have names of their own for who starts processes, and where.
    assert found["OMPI_MCA_plm_rsh_agent"] == found["PRTE_MCA_plm_ssh_agent"] == "/agent start"
    hosts = "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"
    assert [found[name] for name in hosts] == ["/hosts", "/hosts"]


def test_ranks_end_when_rank_0_is_gone(tmp_path: Path) -> None:
    port = free_port()
    ranks = [
        subprocess.Popen((*SCRIPT, "serve"), env=variables(rank, port), stderr=subprocess.PIPE)
        for rank in (1, 2)
    ]
    ready = tmp_path / "ready"
    lead = subprocess.Popen(
        (*SCRIPT, "lead", "sh", "-c", f"touch {ready}; exec sleep 600"),
        env=variables(0, port, TMPDIR=str(tmp_path)), start_new_session=True,
    )  # fmt: skip
    wait_until(ready.exists, "the program of rank 0 runs", LIMIT_S)
    os.killpg(lead.pid, signal.SIGKILL)
    lead.wait(LIMIT_S)
    for rank in ranks:
        assert b"rank 0 is gone" in rank.communicate(timeout=LIMIT_S)[1]
        assert rank.returncode == 1


def test_words_that_mean_nothing_are_refused() -> None:
    done = subprocess.run((*SCRIPT, "begin"), capture_output=True, check=False)
    assert done.returncode == 2 and b"usage: lead PROGRAM" in done.stderr


def test_a_port_that_somebody_else_has_first_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another gang listens where rank 0 will: its rank is left, and rank 0 takes the place."""
    other = socket.create_server(("127.0.0.1", 0))
    place: tuple[str, int] = other.getsockname()
    variables = {"MASTER_ADDR": place[0], "MASTER_PORT": str(place[1]), "STOKER_RANK": "1"}
    for name, value in (variables | {rank_launcher.KEY: KEY.decode()}).items():
        monkeypatch.setenv(name, value)
    found: list[Channel] = []
    joins = threading.Thread(target=lambda: found.append(rank_launcher.found_lead(60)))
    joins.start()
    stranger = Channel(other.accept()[0])
    with pytest.raises((NotGenuine, OSError)):
        stranger.lead(b"the key of another gang")
    threading.Timer(0.1, other.close).start()
    with rank_launcher.listening(place, 60) as listener:
        while True:
            leads = Channel(listener.accept()[0])
            with contextlib.suppress(NotGenuine, OSError):  # one that the stranger had still
                assert leads.lead(KEY) == 1
                break
    joins.join()
    leads.send({"end": True})
    assert found[0].receive() == {"end": True}


def test_a_place_that_stays_taken_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        with pytest.raises(SystemExit):
            rank_launcher.listening(other.getsockname(), 0)
        assert f"cannot listen at 127.0.0.1:{other.getsockname()[1]}" in capfd.readouterr().err
