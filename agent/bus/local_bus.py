# SPDX-License-Identifier: Apache-2.0
"""The thread of the node-local bus: it takes messages of other threads and sends them on.

Owns that nobody waits for a subscriber: `send` puts a message into a bounded queue or drops and
counts it, and nothing at all is made while nobody listens. A user who opens too much is cut off for
SHUT_S, which no other user notices.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from pathlib import Path

import zmq

from stoker.agent.bus.user_socket import UserSocket
from stoker.native.structured_log import structlog

FOLDER = "bus"
QUEUE_BYTES_MAX = 16 << 20
"""The most bytes that wait for the thread; what comes then is dropped."""
USERS_MAX = 32
"""The most users with a socket at the same time."""
KEPT_S = 600.0
"""A user's socket stays for this long after the last job, so that subscribers wait for the next."""
LOOK_S = 60.0
"""Seconds between two looks for sockets that nobody needs."""
SHUT_S = 1.0
POINTS_EVERY_S = 0.2
"""Seconds between two looks at the devices while somebody subscribes to them."""
RECORDS, DEVICES = b"stoker.v1.records.", b"device."
"""The beginnings of all topics."""
STOP_S = 0.5

_log = structlog.get_logger("bus")

Points = Callable[[], Iterable[tuple[str, bytes]]]
"""Returns (topic, message) with what devices have read since the call before."""


def socket_path(folder: Path, uid: int) -> Path:
    """Return the socket of a user in the run folder of a node."""
    return folder / FOLDER / f"{uid}.sock"


class LocalBus:
    """The bus of one node. Its own user's socket carries what is for any user."""

    def __init__(self, run: Path) -> None:
        self.counters: Counter[str] = Counter()
        self._run = run
        self._own_uid = os.geteuid()
        self.points: Points = tuple
        """Returns the points that devices have read; set by the daemon."""
        self._listened: frozenset[int] = frozenset()
        self._queue: deque[tuple[int, bytes, bytes]] = deque()
        self._queued = 0
        self._dropped: Counter[int] = Counter()
        self._jobs: Counter[int] = Counter()
        """Jobs of each user who needs a socket."""
        self._left_s: dict[int, float] = {}
        """The times at which the last job of each other user ended."""
        self._lock = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closing = False
        self._thread = threading.Thread(target=self._run_guarded, name="local bus", daemon=True)
        self._sockets: dict[int, UserSocket] = {}
        self._shut: dict[int, float] = {}

    # --- for any thread ---------------------------------------------------------------------------

    def start(self) -> None:
        """Make the folder and start the thread."""
        folder = self._run / FOLDER
        folder.mkdir(mode=0o711, exist_ok=True)
        folder.chmod(0o711)
        self._jobs[self._own_uid] += 1
        self._thread.start()

    def join(self, uid: int) -> None:
        """Have a socket for this user, for as many calls of `leave` and KEPT_S longer."""
        with self._lock:
            self._jobs[uid] += 1
            self._left_s.pop(uid, None)
        if uid not in self._sockets:
            self._wake_up()

    def leave(self, uid: int) -> None:
        """Note that this user has one job less."""
        with self._lock:
            self._jobs[uid] -= 1
            if self._jobs[uid] <= 0:
                del self._jobs[uid]
                self._left_s[uid] = time.monotonic()

    def listens(self, uid: int) -> bool:
        """True if somebody hears records of this user's jobs."""
        listened = self._listened
        return bool(listened) and (uid in listened or self._own_uid in listened)

    def send(self, uid: int, topic: str, data: bytes) -> bool:
        """Queue a message about a job of this user; False, and counted, if there is no room."""
        with self._lock:
            if self._queued + len(data) > QUEUE_BYTES_MAX:
                self._dropped[uid] += 1
                self.counters["bus_dropped"] += 1
                return False
            self._queued += len(data)
            self._queue.append((uid, topic.encode(), data))
        self._wake_up()
        return True

    def stop(self) -> None:
        """End the thread; subscribers reconnect to the next agent by themselves."""
        self._closing = True
        self._wake_up()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _wake_up(self) -> None:
        os.eventfd_write(self._wake, 1)

    # --- in the thread ----------------------------------------------------------------------------

    def _run_guarded(self) -> None:
        """Serve until `stop`; a failure ends the bus alone, and the log file says why."""
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        try:
            self._serve(context)
        except Exception as error:
            self.counters["bus_failed"] += 1
            _log.exception("the local bus has ended", error=str(error))
        finally:
            self._listened = frozenset()
            for socket in self._sockets.values():
                socket.close()
            context.destroy(0)

    def _serve(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        while not self._closing:
            self._settle(context)
            self._wait()
            for uid in list(self._sockets):
                if not self._sockets[uid].hear():
                    self._shut_out(uid)
            self._note_listened()
            self._send_queued()
            if any(socket.wants(DEVICES) for socket in self._sockets.values()):
                self._send_points()

    def _wait(self) -> None:
        poller = zmq.Poller()
        poller.register(self._wake, zmq.POLLIN)
        for socket in self._sockets.values():
            poller.register(socket.socket, zmq.POLLIN)
            poller.register(socket.monitor, zmq.POLLIN)
        watched = any(socket.wants(DEVICES) for socket in self._sockets.values())
        poller.poll(int(1000 * (POINTS_EVERY_S if watched else SHUT_S if self._shut else LOOK_S)))
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def _settle(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        """Open the sockets of users who came, and close those of users who left."""
        now_s = time.monotonic()
        self._shut = {uid: until for uid, until in self._shut.items() if until > now_s}
        wanted = self._wanted(now_s) - self._shut.keys()
        for uid in self._sockets.keys() - wanted:
            self._sockets.pop(uid).close()
        for uid in wanted - self._sockets.keys():
            try:
                self._sockets[uid] = UserSocket(context, socket_path(self._run, uid), uid)
            except (zmq.ZMQError, OSError) as error:
                self.counters["bus_refused"] += 1
                self._shut[uid] = now_s + 60 * SHUT_S
                _log.warning("no local bus for a user", uid=uid, error=str(error))

    def _wanted(self, now_s: float) -> set[int]:
        """Return the users who have a socket: those with jobs first, then who left last."""
        with self._lock:
            left = {uid: at for uid, at in self._left_s.items() if at > now_s - KEPT_S}
            self._left_s = left
            ranked = [*self._jobs, *sorted(left, key=lambda uid: -left[uid])]
        self.counters["bus_users_refused"] = max(len(self._jobs) - USERS_MAX, 0)
        return set(ranked[:USERS_MAX])

    def _shut_out(self, uid: int) -> None:
        """Close the socket of a user who opened too much, for a while."""
        self.counters["bus_shut"] += 1
        self._sockets.pop(uid).close()
        self._shut[uid] = time.monotonic() + SHUT_S

    def _note_listened(self) -> None:
        wanting = (uid for uid, socket in self._sockets.items() if socket.wants(RECORDS))
        self._listened = frozenset(wanting)

    def _send_queued(self) -> None:
        with self._lock:
            queue, self._queue, self._queued = self._queue, deque(), 0
        for uid, topic, data in queue:
            for owner in {uid, self._own_uid}:
                if (socket := self._sockets.get(owner)) is not None:
                    self._send(socket, topic, data, self._dropped[uid])

    def _send_points(self) -> None:
        for topic, data in self.points():
            for socket in self._sockets.values():
                self._send(socket, topic.encode(), data, 0)

    def _send(self, socket: UserSocket, topic: bytes, data: bytes, dropped: int) -> None:
        before = socket.missed
        socket.send(topic, data, dropped)
        self.counters["bus_sent"] += 1
        self.counters["bus_missed"] += socket.missed - before
