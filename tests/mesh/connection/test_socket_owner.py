# SPDX-License-Identifier: Apache-2.0
"""The kernel names the owner of the other end of a connection within a host."""

from __future__ import annotations

import os
import socket

import pytest

from stoker.mesh.connection import socket_owner
from tests.fakes import squatter as squatting
from tests.fakes.ports import free_port
from tests.fakes.squatter import squatter


def connected(
    port: int,
) -> tuple[socket.socket, socket_owner.Address, socket_owner.Address]:
    near = socket.create_connection(("127.0.0.1", port), 5)
    return near, near.getsockname(), near.getpeername()


def test_the_owner_of_the_far_end_is_known_once_it_was_accepted() -> None:
    """An end that is not accepted has no owner: the kernel names root for it, whoever listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near, *ends = connected(listener.getsockname()[1])
        with near:
            assert socket_owner.owner(*ends) is None
            far, _ = listener.accept()
            assert socket_owner.owner(*ends) == os.geteuid()
            far.close()
            assert socket_owner.owner(*ends) is None


def test_an_end_that_is_not_on_this_host_has_no_owner() -> None:
    assert socket_owner.owner(("127.0.0.1", 1), ("192.0.2.1", 4222)) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_broker_of_another_user_is_refused() -> None:
    port = free_port()
    with squatter(port) as stranger:
        stranger.wait_bound()
        near, *ends = connected(port)
        with near:
            near.recv(4)
            assert socket_owner.owner(*ends) == squatting.UID
            with pytest.raises(PermissionError, match="belongs to uid 4242, not to uid 0"):
                socket_owner.check_owner((ends[0], ends[1]))
