# SPDX-License-Identifier: Apache-2.0
"""Connections within a host: the kernel names the owner of the other end."""

from __future__ import annotations

import os
import socket

import nats.errors
import pytest

from stoker.mesh.connection import local_connection
from stoker.mesh.connection.local_connection import LocalConnection
from stoker.mesh.wire import subjects
from tests.fakes.ports import free_port
from tests.fakes.squatter import squatter
from tests.mesh.nats_server import Server


async def test_the_broker_of_this_user_is_trusted(server: Server) -> None:
    nc = LocalConnection()
    await nc.connect(server.url, nkeys_seed=str(server.folder / "alice.nk"))
    nc.check_proven()
    await nc.flush()
    await nc.close()


async def test_a_message_is_sent_before_anything_else_runs(server: Server) -> None:
    nc = LocalConnection()
    prefix = subjects.inbox("scheduler").encode()
    key = str(server.folder / "scheduler.nk")
    await nc.connect(server.url, nkeys_seed=key, inbox_prefix=prefix)
    inbox = nc.new_inbox()
    heard = await nc.subscribe(inbox)
    await nc.flush()
    for _ in range(2):
        await nc.publish(f"$JS.API.STREAM.INFO.{subjects.LOG_STREAM}", b"", reply=inbox)
    assert nc.pending_data_size > 0
    local_connection.send_now(nc)
    assert nc.pending_data_size == 0
    local_connection.send_now(nc)
    for _ in range(2):
        assert b"stream not found" in (await heard.next_msg(5)).data
    await nc.close()
    local_connection.send_now(nc)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
async def test_a_foreign_broker_that_greets_receives_nothing(server: Server) -> None:
    port = free_port()
    with squatter(port) as stranger:
        stranger.wait_bound()
        with socket.create_connection(("127.0.0.1", port), 5) as near:
            near.recv(4)
        with pytest.raises((nats.errors.Error, OSError), match="belongs to uid 4242, not to uid 0"):
            await LocalConnection().connect(
                f"nats://127.0.0.1:{port}",
                nkeys_seed=str(server.folder / "alice.nk"),
                allow_reconnect=False,
            )
        assert set(stranger.heard()) == {b""}
