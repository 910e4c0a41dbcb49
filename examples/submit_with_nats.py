#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Submit a job with nothing but nats-py, wait for its end, print its output.

Usage: submit_with_nats.py URL CERTIFICATE SEED_FILE PROGRAM [ARGS]

URL is in the node's endpoint.json, SEED_FILE is the user's key (docs/user/submitting-over-nats.md).
"""

import asyncio
import base64
import json
import ssl
import sys
import uuid

import nats


async def ask(connection, subject, **fields):
    message = await connection.request(
        f"stoker.v1.{subject}", json.dumps(fields).encode(), timeout=35
    )
    reply = json.loads(message.data)
    if "error" in reply:
        sys.exit(f"{subject}: {reply['error']['message']}. {reply['error']['hint']}")
    return reply


async def main(url, certificate, seed_file, *argv):
    # Whoever listens must show this certificate: a program that took the port learns nothing.
    pinned = ssl.create_default_context(cafile=certificate)
    connection = await nats.connect(url, tls=pinned, tls_handshake_first=True, nkeys_seed=seed_file)
    # A repeated key names one job, so this request may be sent again after a timeout.
    job = await ask(connection, "job.submit", argv=argv, idempotency_key=uuid.uuid4().hex)
    while job["times"]["ended_ns"] is None:
        job = await ask(connection, "job.get", job=job["job"], until="ended", wait_s=30)
    offset, eof = 0, False
    while not eof:
        logs = await ask(connection, "job.logs", job=job["job"], offset=offset, wait_s=5)
        sys.stdout.buffer.write(base64.b64decode(logs["data"]))
        offset, eof = logs["next_offset"], logs["eof"]
    sys.stdout.flush()
    print(f"job {job['job']} {job['state']}", file=sys.stderr)
    await connection.close()
    return 0 if job["state"] == "succeeded" else 1


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    sys.exit(asyncio.run(main(*sys.argv[1:])))
