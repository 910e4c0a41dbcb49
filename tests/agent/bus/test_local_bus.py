# SPDX-License-Identifier: Apache-2.0
"""The bus with real sockets: who hears what, what a slow or greedy subscriber costs, and losses."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from stoker.agent.bus import local_bus
from stoker.agent.bus.local_bus import DEVICES, QUEUE_BYTES_MAX, RECORDS, LocalBus, socket_path
from stoker.agent.bus.user_socket import CONNECTIONS_MAX, SUBSCRIPTIONS_MAX, UNREAD_MAX

TOPIC = "stoker.v1.records.eve.n1.7"
OTHER_UID = 65_534


@pytest.fixture
def run() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stoker-bus-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def bus(run: Path) -> Iterator[LocalBus]:
    made = LocalBus(run)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def context() -> Iterator[Any]:
    made: Any = zmq.Context()
    yield made
    made.destroy(0)


def subscribe(context: Any, run: Path, uid: int, *topics: bytes) -> Any:
    made = context.socket(zmq.SUB)
    made.setsockopt(zmq.RECONNECT_IVL, 20)
    made.setsockopt(zmq.RCVTIMEO, 20_000)
    for topic in topics:
        made.setsockopt(zmq.SUBSCRIBE, topic)
    made.connect(f"ipc://{socket_path(run, uid)}")
    return made


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, f"not within 60 s: {what}"
        time.sleep(0.01)


def connections(bus: LocalBus, uid: int) -> int:
    found = bus._sockets.get(uid)
    return found.connections if found is not None else 0


def test_nothing_is_sent_while_nobody_listens(bus: LocalBus, run: Path, context: Any) -> None:
    own = os.geteuid()
    assert not bus.listens(own)
    heard = subscribe(context, run, own, RECORDS)
    wait_until(lambda: bus.listens(own), "the subscriber is known")
    assert bus.send(own, TOPIC, b"records")
    topic, data, losses = heard.recv_multipart()
    assert (topic, data) == (TOPIC.encode(), b"records")
    assert msgspec.msgpack.decode(losses) == {"missed": 0, "dropped": 0}
    heard.close(0)
    wait_until(lambda: not bus.listens(own), "its end is known")


def test_a_subscriber_of_devices_hears_no_records(bus: LocalBus, run: Path, context: Any) -> None:
    own = os.geteuid()
    points = iter(range(10**6))
    bus.points = lambda: [("device.d", b"%d" % next(points))]
    heard = subscribe(context, run, own, DEVICES + b"d")
    first, second = heard.recv_multipart(), heard.recv_multipart()
    assert first[0] == b"device.d" and int(second[1]) == int(first[1]) + 1
    assert not bus.listens(own)


@pytest.mark.needs_root
def test_users_hear_of_their_own_jobs_and_root_of_all(
    bus: LocalBus, run: Path, context: Any
) -> None:
    bus.join(OTHER_UID)
    path = socket_path(run, OTHER_UID)
    wait_until(lambda: path.exists() and path.stat().st_uid == OTHER_UID, "the socket is there")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o711
    assert path.parent.stat().st_uid == os.geteuid()
    root = subscribe(context, run, os.geteuid(), RECORDS)
    wait_until(lambda: bus.listens(os.geteuid()), "root is known")
    assert bus.listens(OTHER_UID)  # for root hears of all
    bus.send(OTHER_UID, TOPIC, b"theirs")
    bus.send(os.geteuid(), TOPIC, b"own")
    assert [root.recv_multipart()[1] for _ in range(2)] == [b"theirs", b"own"]
    theirs = subscribe(context, run, OTHER_UID, RECORDS)
    wait_until(lambda: bus._sockets[OTHER_UID].wants(RECORDS), "the user is known")
    bus.send(os.geteuid(), TOPIC, b"own")
    bus.send(OTHER_UID, TOPIC, b"theirs")
    assert theirs.recv_multipart()[1] == b"theirs"


@pytest.mark.needs_root
def test_another_user_cannot_connect(bus: LocalBus, run: Path) -> None:
    bus.join(OTHER_UID)
    path = socket_path(run, OTHER_UID)
    wait_until(lambda: path.exists() and path.stat().st_uid == OTHER_UID, "the socket is there")
    connect = (
        "import os, socket, sys\n"
        "os.setgid(65533)\nos.setuid(65533)\n"
        "socket.socket(socket.AF_UNIX).connect(sys.argv[1])\n"
    )
    for each in (path, socket_path(run, os.geteuid())):
        done = subprocess.run(
            [sys.executable, "-c", connect, str(each)], capture_output=True, check=False
        )
        assert b"PermissionError" in done.stderr
    done = subprocess.run(
        [sys.executable, "-c", connect.replace("65533", str(OTHER_UID)), str(path)],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_slow_subscriber_misses_messages_and_learns_how_many(
    bus: LocalBus, run: Path, context: Any
) -> None:
    """One that does not read stops nobody: not the sender, and not another one of its user."""
    own = os.geteuid()
    quick = subscribe(context, run, own, RECORDS)
    slow = context.socket(zmq.SUB)
    slow.setsockopt(zmq.RCVHWM, 1)
    slow.setsockopt(zmq.RCVBUF, 4096)
    slow.setsockopt(zmq.SUBSCRIBE, RECORDS)
    slow.connect(f"ipc://{socket_path(run, own)}")
    wait_until(lambda: connections(bus, own) == 2, "both are connected")
    wait_until(lambda: bus.listens(own), "the quick one is known")
    last, data, made = {"missed": 0, "dropped": 0}, b"x" * 100_000, 0
    while not last["missed"] and made < 100 * UNREAD_MAX:
        assert bus.send(own, TOPIC, data)
        last = msgspec.msgpack.decode(quick.recv_multipart()[2])
        made += 1
    assert last["missed"] > 0
    wait_until(lambda: bus.counters["bus_missed"] >= last["missed"], "it is counted")
    assert bus.counters["bus_dropped"] == 0


def test_what_the_queue_has_no_room_for_is_dropped_and_told(run: Path, context: Any) -> None:
    bus = LocalBus(run)
    data = b"x" * (QUEUE_BYTES_MAX // 4)
    assert [bus.send(7, TOPIC, data) for _ in range(6)] == [True] * 4 + [False] * 2
    assert bus.counters["bus_dropped"] == 2 and bus._dropped[7] == 2
    own = os.geteuid()
    bus.start()
    wait_until(lambda: not bus._queue, "the queue is empty")
    heard = subscribe(context, run, own, RECORDS)
    wait_until(lambda: bus.listens(own), "the subscriber is known")
    assert bus.send(7, TOPIC, b"more")
    assert msgspec.msgpack.decode(heard.recv_multipart()[2])["dropped"] == 2
    bus.stop()


def test_who_subscribes_to_too_much_is_cut_off_for_a_while(
    bus: LocalBus, run: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_bus, "SHUT_S", 0.1)
    own = os.geteuid()
    topics = [b"stoker.v1.records.%d" % n for n in range(SUBSCRIPTIONS_MAX + 1)]
    greedy = subscribe(context, run, own, *topics)
    wait_until(lambda: bus.counters["bus_shut"] > 0, "it is cut off")
    greedy.close(0)
    modest = subscribe(context, run, own, RECORDS)
    wait_until(lambda: bus.listens(own), "another one is known again")
    wait_until(lambda: not bus._shut, "nobody is shut out")
    wait_until(lambda: bus.listens(own), "it is known")
    bus.send(own, TOPIC, b"again")
    assert modest.recv_multipart()[1] == b"again"


def test_connections_that_end_without_a_word_are_not_counted_for_ever(
    bus: LocalBus, run: Path
) -> None:
    own = os.geteuid()
    wait_until(socket_path(run, own).exists, "the socket is there")
    for number in range(3 * CONNECTIONS_MAX):
        with socket.socket(socket.AF_UNIX) as plain:
            plain.connect(str(socket_path(run, own)))
            plain.send(b"GET / HTTP/1.1\r\n\r\n" if number % 2 else b"\xff\x00")
        wait_until(lambda: connections(bus, own) == 0, "its end is known")
    assert bus.counters["bus_shut"] == 0


def test_who_connects_too_often_is_cut_off(bus: LocalBus, run: Path, context: Any) -> None:
    own = os.geteuid()
    wait_until(socket_path(run, own).exists, "the socket is there")
    many = [subscribe(context, run, own, RECORDS) for _ in range(CONNECTIONS_MAX + 1)]
    wait_until(lambda: bus.counters["bus_shut"] > 0, "they are cut off")
    for each in many:
        each.close(0)


@pytest.mark.needs_root
def test_a_socket_stays_after_the_last_job_and_goes_when_it_is_old(
    bus: LocalBus, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = 60_000
    bus.join(uid)
    path = socket_path(run, uid)
    wait_until(path.exists, "the socket is there")
    bus.leave(uid)
    bus._wake_up()
    other = uid + 1
    bus.join(other)  # the bus has looked again when this one's socket is there
    wait_until(socket_path(run, other).exists, "a later socket is there")
    assert path.exists()
    monkeypatch.setattr(local_bus, "KEPT_S", 0.0)
    bus._wake_up()
    wait_until(lambda: not path.exists(), "it is gone")


def test_a_folder_that_cannot_hold_a_socket_ends_nothing(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    bus = LocalBus(deep)
    bus.start()
    wait_until(lambda: bus.counters["bus_refused"] > 0, "it is refused")
    assert not bus.listens(os.geteuid()) and bus._thread.is_alive()
    bus.stop()
    assert not bus._thread.is_alive()
