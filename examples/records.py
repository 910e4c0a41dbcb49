#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trace a running job fully for a while and add up its kernels, from the records themselves.

Usage: records.py URL CERTIFICATE SEED_FILE JOB SECONDS

Records come as batches over NATS while the window is open: one msgpack map each, whose `data` are
packed records with the NumPy dtype in `fields` (docs/operator/tracing.md, "Records as they come").
"""

import asyncio
import json
import secrets
import ssl
import sys

import msgspec
import nats
import numpy

KERNEL = 16  # of the field `kind`; smaller ones are copies


async def ask(connection, **fields):
    message = await connection.request(
        "stoker.v1.job.tracing", json.dumps(fields).encode(), timeout=35
    )
    reply = json.loads(message.data)
    if "error" in reply:
        sys.exit(f"{reply['error']['message']}. {reply['error']['hint']}")
    return reply


def decode(message):
    """The batch's header and its records, a structured array over the same bytes."""
    batch = msgspec.msgpack.decode(message)
    dtype = numpy.dtype([tuple(field) for field in batch["fields"]] or "V1")
    return batch, numpy.frombuffer(batch["data"], dtype)


async def main(url, certificate, seed_file, job, seconds):
    # Whoever listens must show this certificate: a program that took the port learns nothing.
    pinned = ssl.create_default_context(cafile=certificate)
    connection = await nats.connect(url, tls=pinned, tls_handshake_first=True, nkeys_seed=seed_file)
    subject = (await ask(connection, job=int(job)))["subject"]
    batches = await connection.subscribe(subject)
    await connection.flush()
    window = secrets.randbelow(1 << 48) + 1
    await ask(
        connection, job=int(job), do="open", window=window, seconds=float(seconds), records=True
    )
    totals, seen, expected, missed, dropped = {}, 0, None, 0, 0
    while True:
        batch, records = decode((await batches.next_msg(timeout=float(seconds) + 30)).data)
        if batch["window"] != window:
            continue
        dropped = batch["dropped"]
        if batch["what"] == "end":
            break
        if batch["what"] != "events":
            continue
        if expected is not None:
            missed += batch["first"] - expected
        expected = batch["first"] + batch["count"]
        seen += batch["count"]
        kernels = records[records["kind"] == KERNEL]
        for row in numpy.unique(kernels["name"]):
            of_name = kernels[kernels["name"] == row]
            count, ns = totals.get(batch["names"][row], (0, 0))
            took = int((of_name["end_ns"] - of_name["start_ns"]).sum())
            totals[batch["names"][row]] = count + len(of_name), ns + took
    for name, (count, ns) in sorted(totals.items(), key=lambda item: -item[1][1]):
        print(f"{name} {count} {ns}")
    print(f"{seen} records, {missed} missed, {dropped} of them not published", file=sys.stderr)
    await connection.close()


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
