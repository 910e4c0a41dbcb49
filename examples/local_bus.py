#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read the node-local bus with pyzmq: kernels of this machine's jobs, or device readings, as made.

Usage: local_bus.py RUN_FOLDER kernels|devices MESSAGES

RUN_FOLDER holds the node's endpoint.json. Users hear of their own jobs, root and the node's own
user of all (docs/operator/telemetry.md). Ends after so many messages and says what was missed.
"""

import json
import os
import sys

import msgspec
import numpy
import zmq

TOPICS = {"kernels": b"stoker.v1.records.", "devices": b"device."}
KERNEL = 16  # of the field `kind`; smaller ones are copies


def show_kernels(data, following):
    """Print a batch of records and return how many are missing before it."""
    batch = msgspec.msgpack.decode(data)
    key = batch["job"], batch["attempt"], batch["task"]
    missing = 0
    if batch["what"] == "events":
        missing = batch["first"] - following.get(key, batch["first"])
        following[key] = batch["first"] + batch["count"]
        records = numpy.frombuffer(batch["data"], [tuple(field) for field in batch["fields"]])
        kernels = records[records["kind"] == KERNEL]
        for row in numpy.unique(kernels["name"]):
            of_name = kernels[kernels["name"] == row]
            took = int((of_name["end_ns"] - of_name["start_ns"]).sum())
            print(f"job {batch['job']} {batch['names'][row]} {len(of_name)} {took}", flush=True)
    return missing


def show_points(data):
    said = json.loads(data)
    for name, points in said["points"].items():
        t_ns, value = points[-1]
        sim = " SIM" if said["sim"] else ""
        print(f"{said['device']}{sim} {name} {t_ns} {value:g} ({len(points)} new)", flush=True)


def main(folder, what, messages):
    socket = zmq.Context().socket(zmq.SUB)
    socket.setsockopt(zmq.SUBSCRIBE, TOPICS[what])
    # The socket may not be there yet: it comes with the user's first traced job.
    socket.connect(f"ipc://{folder}/bus/{os.geteuid()}.sock")
    following, missing, losses = {}, 0, {}
    for _ in range(int(messages)):
        _, data, lost = socket.recv_multipart()
        losses = msgspec.msgpack.decode(lost)
        if what == "kernels":
            missing += show_kernels(data, following)
        else:
            show_points(data)
    print(f"{missing} records missing, by the agent: {losses}", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in TOPICS:
        sys.exit(__doc__)
    main(*sys.argv[1:])
