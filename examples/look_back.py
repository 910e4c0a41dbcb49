#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Look back on telemetry in JetStream with nothing but nats-py, then follow it, without a gap.

Usage: look_back.py URL CERTIFICATE SEED_FILE KIND BACK_S FOLLOW_S

KIND is events, decisions, outcomes or kernels. The key is an administrator's: others read what is
about their own jobs through `telemetry.read` (docs/operator/telemetry.md). Prints a line a message.
"""

import asyncio
import contextlib
import json
import ssl
import sys
from datetime import UTC, datetime, timedelta

import nats

LIVE = {
    "events": "stoker.v1.events.>",
    "decisions": "stoker.v1.decisions.*",
    "outcomes": "stoker.v1.outcomes.*",
    "kernels": "stoker.v1.kernels.*.*.*",
}


async def read(connection, kind, start):
    """Yield (sequence, message) from `start` to the present end of the stream."""
    while True:
        inbox = connection.new_inbox()
        answers = await connection.subscribe(inbox)
        request = {**start, "batch": 100, "next_by_subj": LIVE[kind]}
        await connection.publish(
            f"$JS.API.DIRECT.GET.TELEMETRY_{kind}", json.dumps(request).encode(), reply=inbox
        )
        while "Status" not in (message := await answers.next_msg(timeout=5)).headers:
            sequence = int(message.headers["Nats-Sequence"])
            yield sequence, message
            start = {"seq": sequence + 1}
        await answers.unsubscribe()
        if message.headers["Status"] not in ("204", "404"):
            sys.exit(f"reading {kind}: {message.headers}")
        if not int(message.headers.get("Nats-Num-Pending", "0")):
            return


def show(sequence, message):
    said = json.loads(message.data)
    for row in said.get("rows", [said]):
        print(sequence, message.headers["Nats-Time-Stamp"], said["user"], json.dumps(row))


async def main(*arguments):
    url, certificate, seed_file, kind, back_s, follow_s = arguments
    # Whoever listens must show this certificate: a program that took the port learns nothing.
    pinned = ssl.create_default_context(cafile=certificate)
    connection = await nats.connect(url, tls=pinned, tls_handshake_first=True, nkeys_seed=seed_file)
    news = asyncio.Event()

    async def live(message):
        news.set()  # only a hint: what is shown comes from the stream, by its number

    await connection.subscribe(LIVE[kind], cb=live)
    await connection.flush()
    since = datetime.now(UTC) - timedelta(seconds=float(back_s))
    start = {"start_time": since.isoformat().replace("+00:00", "Z")}
    ends = asyncio.get_running_loop().time() + float(follow_s)
    while True:
        news.clear()
        async for sequence, message in read(connection, kind, start):
            show(sequence, message)
            start = {"seq": sequence + 1}
        if (left_s := ends - asyncio.get_running_loop().time()) <= 0:
            break
        # The hint may be quicker than the stream, so this looks once a second in any case.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), min(left_s, 1))
    await connection.close()


if __name__ == "__main__":
    if len(sys.argv) != 7 or sys.argv[4] not in LIVE:
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
