# SPDX-License-Identifier: Apache-2.0
"""A program of its own inside the tasks of a gang: it lets rank 0's mpirun start its daemons in the
other tasks, so that what runs there belongs to their cgroups, with their devices.

    lead PROGRAM...       rank 0: gathers the other ranks, then runs the program
    serve                 each other rank: runs what rank 0 sends, until rank 0 is done
    start RANK WORDS...   what mpirun calls in the place of ssh

It runs as the job's user with nothing but Python's standard library. Invariant: a rank runs only
what a holder of the gang's key has sent, and each message counts once, in its order.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

GATHER_S: Final = 60.0
"""The longest time until all ranks have found rank 0; their gang was released at once."""
HANDSHAKE_S: Final = 10.0
MESSAGE_BYTES_MAX: Final = 1 << 20
STARTS_MAX: Final = 256
"""The most programs that run in one rank for rank 0 at a time."""
SOCKET: Final = "STOKER_LAUNCH_SOCKET"
KEY: Final = "STOKER_LAUNCH_KEY"
SHARED: Final = "/dev/shm"
NOT_STARTED: Final = 127


class NotGenuine(Exception):
    """A message that is not from a holder of the key, or is no message."""


class Channel:
    """A connection on which both sides have shown that they know the key."""

    def __init__(self, made: socket.socket) -> None:
        self._socket = made
        self._lines = made.makefile("rb")
        self._sending = threading.Lock()
        self._session = b""
        self._sent = self._heard = 0
        self._own = self._other = b""

    def lead(self, key: bytes) -> int:
        """Be rank 0 for the other side and return its rank."""
        hello = self._plain()
        rank, mine = int(hello["rank"]), secrets.token_hex(16)
        both = f"{rank} {hello['nonce']} {mine}"
        self._write({"nonce": mine, "proof": proof(key, f"lead {both}")})
        self._check(self._plain(), key, f"rank {both}")
        self._begin(key, both, b"lead", b"rank")
        return rank

    def join(self, key: bytes, rank: int) -> None:
        """Be this rank for the other side, which must be rank 0."""
        mine = secrets.token_hex(16)
        self._write({"rank": rank, "nonce": mine})
        answer = self._plain()
        both = f"{rank} {mine} {answer['nonce']}"
        self._check(answer, key, f"lead {both}")
        self._write({"proof": proof(key, f"rank {both}")})
        self._begin(key, both, b"rank", b"lead")

    def send(self, body: dict[str, Any]) -> None:
        """Send one message; OSError if the connection is gone."""
        with self._sending:
            text = json.dumps(body)
            self._write({"body": text, "mac": self._mac(self._own, self._sent, text)})
            self._sent += 1

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, or None at the end; NotGenuine for one that is not genuine."""
        line = self._line()
        if not line:
            return None
        message = decoded(line)
        text = str(message.get("body", ""))
        expected = self._mac(self._other, self._heard, text)
        if not hmac.compare_digest(str(message.get("mac", "")), expected):
            raise NotGenuine("a message without the right mark")
        self._heard += 1
        return decoded(text.encode())

    def close(self) -> None:
        """End the connection for both sides."""
        with contextlib.suppress(OSError):  # the other side was first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _begin(self, key: bytes, both: str, own: bytes, other: bytes) -> None:
        self._session = proof(key, f"session {both}").encode()
        self._own, self._other = own, other
        self._socket.settimeout(None)

    def _mac(self, side: bytes, number: int, text: str) -> str:
        head = side + number.to_bytes(8, "little")
        return hmac.new(self._session, head + text.encode(), hashlib.sha256).hexdigest()

    @staticmethod
    def _check(message: dict[str, Any], key: bytes, text: str) -> None:
        if not hmac.compare_digest(str(message.get("proof", "")), proof(key, text)):
            raise NotGenuine("the other side does not know the key of this gang")

    def _plain(self) -> dict[str, Any]:
        return decoded(self._line())

    def _line(self) -> bytes:
        line = self._lines.readline(MESSAGE_BYTES_MAX + 1)
        if len(line) > MESSAGE_BYTES_MAX:
            raise NotGenuine(f"a message of more than {MESSAGE_BYTES_MAX} bytes")
        return line

    def _write(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")


def proof(key: bytes, text: str) -> str:
    """Return what shows that one knows the key."""
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def decoded(line: bytes) -> dict[str, Any]:
    """Return one message; NotGenuine if it is none."""
    try:
        message = json.loads(line)
    except ValueError:
        raise NotGenuine("bytes that are no message") from None
    if not isinstance(message, dict):
        raise NotGenuine("bytes that are no message")
    return message


class Ranks:
    """The other ranks as rank 0 knows them, and what it has started in each."""

    def __init__(self, key: bytes, count: int) -> None:
        self._key, self._count = key, count
        self._changed = threading.Condition()
        self._channels: dict[int, Channel] = {}
        self._answers: dict[tuple[int, int], int] = {}
        self._numbers = 0

    def gather(self, listener: socket.socket, seconds: float) -> list[int]:
        """Take ranks until all are there or the time is over; return those that are missing."""
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: len(self._channels) == self._count - 1, seconds)
            missing = [rank for rank in range(1, self._count) if rank not in self._channels]
        listener.close()
        return missing

    def run(self, rank: int, command: str) -> int:
        """Run a shell command in a rank and return its exit status."""
        channel = self._channels.get(rank)
        if channel is None:
            return NOT_STARTED
        with self._changed:
            self._numbers += 1
            number = self._numbers
        channel.send({"start": number, "command": command, "cwd": str(Path.cwd())})
        with self._changed:
            self._changed.wait_for(
                lambda: (rank, number) in self._answers or rank not in self._channels
            )
            return self._answers.pop((rank, number), NOT_STARTED)

    def end(self) -> None:
        """Tell all ranks that rank 0 is done."""
        for channel in list(self._channels.values()):
            with contextlib.suppress(OSError):  # it has ended already
                channel.send({"end": True})

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                made, _ = listener.accept()
            except OSError:
                return  # all ranks are there
            threading.Thread(target=self._serve, args=(made,), daemon=True).start()

    def _serve(self, made: socket.socket) -> None:
        made.settimeout(HANDSHAKE_S)
        channel = Channel(made)
        try:
            rank = channel.lead(self._key)
        except (NotGenuine, OSError, KeyError, ValueError, TypeError):
            made.close()
            return
        with self._changed:
            known = rank in self._channels or not 0 < rank < self._count
            if not known:
                self._channels[rank] = channel
            self._changed.notify_all()
        if known:
            channel.close()
        else:
            self._hear(rank, channel)

    def _hear(self, rank: int, channel: Channel) -> None:
        try:
            while (message := channel.receive()) is not None:
                with self._changed:
                    self._answers[rank, int(message["answer"])] = int(message["status"])
                    self._changed.notify_all()
        except (NotGenuine, OSError, KeyError, ValueError):
            pass  # the rank is lost, as at its end
        with self._changed:
            self._channels.pop(rank, None)
            self._changed.notify_all()


def lead(argv: list[str]) -> int:
    """Gather the ranks and run the program; return its exit status."""
    ranks = Ranks(key(), int(os.environ["STOKER_TASKS"]))
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    with listening(place, GATHER_S) as listener:
        missing = ranks.gather(listener, GATHER_S)
    if missing:
        return said(f"ranks {missing} have not come to {place[0]}:{place[1]} in {GATHER_S:.0f} s")
    folder = tempfile.mkdtemp(prefix="stoker-ranks-")
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(f"{folder}/door")
            door.listen(64)
            threading.Thread(target=take_starts, args=(door, ranks), daemon=True).start()
            status = run_program(argv, environment(folder))
        ranks.end()
        return status
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def listening(place: tuple[str, int], seconds: float) -> socket.socket:
    """Listen at a place, which another program may still have for a while."""
    until = time.monotonic() + seconds
    while True:
        try:
            return socket.create_server(place, backlog=64)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                sys.exit(said(f"cannot listen at {place[0]}:{place[1]}: {error.strerror}"))
            time.sleep(0.02)


def run_program(argv: list[str], variables: dict[str, str]) -> int:
    """Run the job's program to its end, and hand on what asks it to stop."""
    try:
        program = subprocess.Popen(argv, env=variables)
    except OSError as error:
        return said(f"cannot start {argv[0]}: {error.strerror}")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _: program.send_signal(number))
    return status_of(program.wait())


def environment(folder: str) -> dict[str, str]:
    """Return the program's variables: by these Open MPI finds the ranks and starts in them."""
    here = f"{sys.executable} -I -S {Path(__file__).absolute()} start"
    tasks, slots = int(os.environ["STOKER_TASKS"]), os.environ["STOKER_SLOTS"]
    hosts = ["localhost", *map(host_of, range(1, tasks))]
    Path(folder, "hosts").write_text("".join(f"{host} slots={slots}\n" for host in hosts))
    found = {name: value for name, value in os.environ.items() if name != KEY}
    for name, value in launching(f"{folder}/hosts", here).items():
        found.setdefault(name, value)
    found[SOCKET] = f"{folder}/door"
    return found


def launching(hosts: str, agent: str) -> dict[str, str]:
    """Return what mpirun reads, of Open MPI 4 and, by its PRRTE, of 5. `agent` is called as ssh
    is."""
    wanted = {
        "orte_default_hostfile": hosts,
        "plm_rsh_agent": agent,
        "plm_rsh_no_tree_spawn": "1",
        "orte_leave_session_attached": "1",
        "orte_do_not_resolve": "1",
        **communicating(),
    }
    prrte = {
        "prte_default_hostfile": hosts,
        "plm_ssh_agent": agent,
        "plm_ssh_no_tree_spawn": "1",
        "prte_leave_session_attached": "1",
    }
    found = {f"OMPI_MCA_{name}": value for name, value in wanted.items()}
    return found | {f"PRTE_MCA_{name}": value for name, value in prrte.items()}


def communicating() -> dict[str, str]:
    """Return how processes talk where several tasks share a machine. Its collectives by hosts
    (coll_han) take such tasks for one host and for several at once, and then wait for ever."""
    local = os.environ["MASTER_ADDR"].startswith("127.")
    found = {"oob_tcp_if_include": "lo", "btl_tcp_if_include": "lo"} if local else {}
    if local or int(os.environ["STOKER_TASKS"]) > int(os.environ["STOKER_NODE_COUNT"]):
        found["coll"] = "^han"
    return found


def host_of(rank: int) -> str:
    """Return the name under which mpirun knows a rank."""
    return f"rank{rank}"


def take_starts(door: socket.socket, ranks: Ranks) -> None:
    """Serve what mpirun has called in the place of ssh."""
    while True:
        try:
            made, _ = door.accept()
        except OSError:
            return
        threading.Thread(target=take_start, args=(made, ranks), daemon=True).start()


def take_start(made: socket.socket, ranks: Ranks) -> None:
    """Serve one start: its line names the rank and the command, the answer is the exit status."""
    with made, made.makefile("rb") as lines:
        try:
            wanted = decoded(lines.readline(MESSAGE_BYTES_MAX))
            status = ranks.run(int(wanted["rank"]), str(wanted["command"]))
            made.sendall(b"%d\n" % status)
        except (NotGenuine, OSError, KeyError, ValueError):
            pass  # it is told by the end of its connection


def start(host: str, words: list[str]) -> int:
    """Run a command in the rank of this host, as `ssh HOST WORDS...` would; its exit status."""
    if host_of(int(host[4:]) if host[4:].isdigit() else 0) != host:
        return said(f"{host} is no rank of this gang: rank1, rank2 and so on", 255)
    wanted = json.dumps({"rank": int(host[4:]), "command": " ".join(words)}).encode()
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(os.environ[SOCKET])
        door.sendall(wanted + b"\n")
        answer = door.makefile("rb").readline(32)
    return int(answer) if answer else said(f"{host} is gone", 255)


def serve() -> int:
    """Run what rank 0 sends until it is done; 0 if it said so, 1 if it is gone."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    channel = found_lead(GATHER_S)
    shared = tempfile.mkdtemp(
        prefix="stoker-ranks-", dir=SHARED if os.access(SHARED, os.W_OK) else None
    )
    try:
        return serve_lead(channel, shared)
    finally:
        shutil.rmtree(shared, ignore_errors=True)


def serve_lead(channel: Channel, shared: str) -> int:
    """Run what rank 0 sends. `shared` is this rank's folder of shared memory: those of two ranks on
    one host would have the same names in one folder."""
    for component in ("vader", "sm"):  # Open MPI 4 and 5
        os.environ.setdefault(f"OMPI_MCA_btl_{component}_backing_directory", shared)
    try:
        running = threading.Semaphore(STARTS_MAX)
        while (message := channel.receive()) is not None:
            if message.get("end"):
                return 0
            if not running.acquire(blocking=False):
                channel.send({"answer": message["start"], "status": NOT_STARTED})
                continue
            work = (channel, message, running.release)
            threading.Thread(target=run_start, args=work, daemon=True).start()
    except (NotGenuine, OSError, KeyError, ValueError) as error:
        return said(f"rank 0 is lost: {error}")
    return said("rank 0 is gone")


def found_lead(seconds: float) -> Channel:
    """Connect to rank 0, which may be a little later than this rank, and be known to it.

    Whoever has the port before rank 0 does not know the key, and is left again.
    """
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    until = time.monotonic() + seconds
    while True:
        channel = None
        try:
            channel = Channel(socket.create_connection(place, timeout=HANDSHAKE_S))
            channel.join(key(), int(os.environ["STOKER_RANK"]))
            return channel
        except (NotGenuine, OSError, KeyError, ValueError) as error:
            if channel is not None:
                channel.close()
            if time.monotonic() > until:
                sys.exit(said(f"rank 0 is not at {place[0]}:{place[1]}: {error}"))
            time.sleep(0.02)


def run_start(channel: Channel, message: dict[str, Any], done: Callable[[], None]) -> None:
    """Run one command for rank 0; its output is that of this rank."""
    cwd = Path(str(message["cwd"]))
    program = ["/bin/sh", "-c", str(message["command"])]
    variables = {name: value for name, value in os.environ.items() if name != KEY}
    try:
        status = subprocess.run(
            program, cwd=cwd if cwd.is_dir() else None, env=variables, check=False,
            stdin=subprocess.DEVNULL,
        ).returncode  # fmt: skip
    except OSError as error:
        status = said(f"cannot start a shell: {error.strerror}", NOT_STARTED)
    try:
        channel.send({"answer": message["start"], "status": status_of(status)})
    except OSError:
        pass  # rank 0 has ended
    finally:
        done()


def key() -> bytes:
    """Return the key of this gang."""
    return os.environ[KEY].encode()


def status_of(code: int) -> int:
    """Return an exit status, as a shell gives it for a program that a signal ended."""
    return 128 - code if code < 0 else code


def said(text: str, status: int = 1) -> int:
    """Say what is wrong and return the exit status for it."""
    print(f"stoker: {text}", file=sys.stderr, flush=True)
    return status


def main(words: list[str]) -> NoReturn:
    """Be what the first word says."""
    if words[:1] == ["lead"] and len(words) > 1:
        status = lead(words[1:])
    elif words == ["serve"]:
        status = serve()
    elif words[:1] == ["start"] and len(words) > 2:
        status = start(words[1], words[2:])
    else:
        status = said("usage: lead PROGRAM... | serve | start RANK WORDS...", 2)
    sys.stdout.flush()
    os._exit(status)  # threads that still wait for somebody are of no use any more


if __name__ == "__main__":
    main(sys.argv[1:])
