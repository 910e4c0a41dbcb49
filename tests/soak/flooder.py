# SPDX-License-Identifier: Apache-2.0
"""A user who asks for too much, in a process of their own: one kind of flood against one node.

`python -m tests.soak.flooder KIND SECONDS URL SEED CERTIFICATE` prints what became of it as JSON.
It has an ordinary key and does nothing that the broker forbids to it by name.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nats
import nats.errors
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from stoker.mesh.identity import certificate

LIST, SUBMIT, LOGS, CANCEL = (
    f"stoker.v1.job.{verb}" for verb in ("list", "submit", "logs", "cancel")
)
CONNECTIONS = 4
POLITE = 160
SUBSCRIPTIONS = 60_000
SUBSCRIBED_REQUESTS = 20
SILENT_CONNECTIONS, SILENT_REQUESTS = 60, 80
KEYLESS = 4000
SPINNING = 2
AT_ONCE = 64

Connect = Callable[[], Awaitable[Connection]]
ANSWER_S = 3.0
"""The longest wait of a polite user for an answer; no answer is one of the refusals."""
TAKEN_S = 60.0
"""The longest time in which a single request is sent again."""
ENDED_S = 10
"""The longest wait for the broker to end a connection with too many subscriptions."""


def code(message: Msg) -> str:
    """The kind of an answer, by its error code."""
    data = message.data
    if not data:
        return "not heard"
    if not data.startswith(b'{"error"'):
        return "answered"
    return str(json.loads(data)["error"]["code"])


async def lists(connect: Connect, seconds: float) -> Counter[str]:
    """Send as many requests as four connections can write, answered or not."""
    found: Counter[str] = Counter()

    async def one() -> None:
        nc = await connect()

        async def hear(message: Msg) -> None:
            found[code(message)] += 1

        inbox = nc.new_inbox()
        await nc.subscribe(inbox, cb=hear)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not nc.is_closed:
            for _ in range(AT_ONCE):
                await nc.publish(LIST, b"{}", reply=inbox)
                found["asked"] += 1
            await asyncio.sleep(0)

    await _all(found, (one() for _ in range(CONNECTIONS)))
    return found


async def polite(connect: Connect, seconds: float) -> Counter[str]:
    """Many who each wait for their answer before they ask again."""
    return await _waiting(await connect(), LIST, {}, seconds)


async def submits(connect: Connect, seconds: float) -> Counter[str]:
    """Many submit jobs of all CPUs, so that one runs and the others wait for it."""
    nc = await connect()
    job = {"argv": ["sleep", "600"], "cpu_milli": 1000 * (os.cpu_count() or 1)}
    try:
        return await _waiting(nc, SUBMIT, job, seconds)
    finally:
        await _answer(nc, CANCEL, {"select": "all"})


async def output(connect: Connect, seconds: float) -> Counter[str]:
    """Many read the output of a job from its beginning."""
    nc = await connect()
    job = await _answer(nc, SUBMIT, {"argv": ["head", "-c", "200000", "/dev/zero"]})
    return await _waiting(nc, LOGS, {"job": job["job"], "wait_s": 1.0}, seconds)


async def _answer(nc: Connection, subject: str, request: dict[str, Any]) -> Any:
    """Send one request until it is taken, since a flood before it may still be in the way."""
    data = json.dumps(request).encode()
    deadline = time.monotonic() + TAKEN_S
    while True:
        answer = json.loads((await nc.request(subject, data, timeout=TAKEN_S)).data)
        if "error" not in answer or time.monotonic() > deadline:
            return answer
        await asyncio.sleep(0.1)


async def _waiting(
    nc: Connection, subject: str, request: dict[str, Any], seconds: float
) -> Counter[str]:
    """Send one request from many sides at once, each after the answer to its last one."""
    found: Counter[str] = Counter()
    data = json.dumps(request).encode()

    async def one() -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found["asked"] += 1
            try:
                found[code(await nc.request(subject, data, timeout=ANSWER_S))] += 1
            except (nats.errors.Error, TimeoutError) as error:
                found[type(error).__name__] += 1

    await _all(found, (one() for _ in range(POLITE)))
    return found


async def subscriptions(connect: Connect, seconds: float) -> Counter[str]:
    """Every reply to be copied sixty thousand times."""
    found: Counter[str] = Counter()

    async def one(nc: Connection) -> None:
        inbox = nc.new_inbox()
        with contextlib.suppress(nats.errors.Error, OSError):
            for number in range(SUBSCRIPTIONS):
                await nc.subscribe(inbox)
                found["subscribed"] += 1
                if number % 500 == 0:
                    await _flushed(nc)
        found["ended" if await _ends(nc) else "open"] += 1
        for _ in range(SUBSCRIBED_REQUESTS):
            with contextlib.suppress(nats.errors.Error, OSError):
                await nc.publish(LIST, b'{"limit":1000}', reply=inbox)
                found["asked"] += 1

    # All are connected first: the broker ends a handshake that a busy flooder is slow in.
    connected = [await connect() for _ in range(CONNECTIONS)]
    await _all(found, (one(nc) for nc in connected))
    await asyncio.sleep(seconds)
    return found


async def silent(connect: Connect, seconds: float) -> Counter[str]:
    """Connections that ask for long answers and read none."""
    found: Counter[str] = Counter()

    async def one() -> None:
        nc = await connect()
        inbox = nc.new_inbox()
        await nc.subscribe(inbox)
        await nc.flush()
        reading: Any = nc._reading_task
        reading.cancel()
        for _ in range(SILENT_REQUESTS):
            with contextlib.suppress(nats.errors.Error, OSError):
                await nc.publish(LIST, b'{"limit":1000}', reply=inbox)
                found["asked"] += 1
        with contextlib.suppress(Exception):
            await nc._flush_pending()

    await _all(found, (one() for _ in range(SILENT_CONNECTIONS)))
    await asyncio.sleep(seconds)
    return found


async def keyless(url: str, seconds: float) -> Counter[str]:
    """Four thousand connections that never say who they are, made again as they are ended."""
    found: Counter[str] = Counter()
    address = urlsplit(url)
    deadline = time.monotonic() + seconds
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2 * KEYLESS), hard), hard))

    async def one() -> None:
        while (left_s := deadline - time.monotonic()) > 0:
            found["asked"] += 1
            try:
                async with asyncio.timeout(left_s):
                    reader, writer = await asyncio.open_connection(address.hostname, address.port)
                    try:
                        await reader.read()
                        found["ended"] += 1
                    finally:
                        writer.close()
            except (OSError, TimeoutError) as error:
                found[type(error).__name__] += 1

    await _all(found, (one() for _ in range(KEYLESS)))
    return found


async def spin(url: str, seconds: float) -> Counter[str]:
    """Run two programs that compute and ask for nothing, for comparison."""
    argv = [sys.executable, "-c", "while True: pass"]
    spinning = [await asyncio.create_subprocess_exec(*argv) for _ in range(SPINNING)]
    await asyncio.sleep(seconds)
    for process in spinning:
        process.kill()
        await process.wait()
    return Counter(spinning=SPINNING)


async def _flushed(nc: Connection) -> None:
    """Wait until the broker has taken what was sent, or has ended the connection."""
    flushed = asyncio.create_task(nc.flush(ENDED_S))
    while not flushed.done() and not nc.is_closed:
        await asyncio.wait((flushed,), timeout=0.01)
    if not flushed.done():
        flushed.cancel()  # no answer comes on a closed connection
        return
    await flushed


async def _ends(nc: Connection) -> bool:
    """True if the broker ends the connection; a busy machine gets time for that."""
    deadline = time.monotonic() + ENDED_S
    while not nc.is_closed and time.monotonic() < deadline:  # noqa: ASYNC110  no callback here
        await asyncio.sleep(0.05)
    return nc.is_closed


async def _all(found: Counter[str], calls: Any) -> None:
    """Wait for all calls; what the broker refused is counted by the name of its error."""
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, nats.errors.Error | OSError):
            found[type(result).__name__] += 1
        elif isinstance(result, Exception):
            raise result


KINDS = {each.__name__: each for each in (lists, polite, submits, output, subscriptions, silent)}


WITHOUT_KEY = {each.__name__: each for each in (keyless, spin)}


async def flood(kind: str, seconds: float, url: str, seed: str, pinned: str) -> Counter[str]:
    """Carry one out; what became of it, by name."""
    connections: list[Connection] = []
    one_by_one = asyncio.Lock()

    async def ignore(error: Exception) -> None:
        """Ignores the broker's errors, since their effect shows in the counters."""

    async def connect() -> Connection:
        async with one_by_one:  # sixty handshakes at once are each too slow for the broker
            nc = await nats.connect(
                url,
                nkeys_seed=seed,
                allow_reconnect=False,
                error_cb=ignore,
                connect_timeout=10,
                **certificate.connecting(Path(pinned)),
            )
        connections.append(nc)
        return nc

    try:
        return await KINDS[kind](connect, seconds)
    finally:
        for nc in connections:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(nc.close(), 1)


def main() -> None:
    """The command line."""
    kind, seconds, *where = sys.argv[1:]
    if kind in WITHOUT_KEY:
        became = asyncio.run(WITHOUT_KEY[kind](where[0], float(seconds)))
    else:
        became = asyncio.run(flood(kind, float(seconds), *where))
    print(json.dumps(became))


if __name__ == "__main__":
    main()
