# SPDX-License-Identifier: Apache-2.0
"""The record of a server is whole and names public halves of keys, or it is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.mesh.identity import certificate, identity
from stoker.mesh.wire import cluster_server, subjects
from stoker.mesh.wire.cluster_server import ClusterServer, admin_of
from stoker.native.errors import BadRequest

KEYS = [identity.of_raw(bytes([number]) * 32) for number in range(1, 5)]
PEM = certificate.make("test", "10.0.0.5")[1].decode()


def server(**changed: Any) -> ClusterServer:
    made = ClusterServer("a", "10.0.0.5", 21000, 21001, *(key.public for key in KEYS), PEM, PEM)
    return msgspec.structs.replace(made, **changed)


def test_it_names_the_doors_of_its_broker() -> None:
    made = server()
    cluster_server.check(made)
    assert made.url == "tls://10.0.0.5:21000" and made.route == "10.0.0.5:21001"
    assert made.doors == ("10.0.0.5:21000", "10.0.0.5:21001")
    assert made.keys == tuple(key.public for key in KEYS)


@pytest.mark.parametrize(
    "changed",
    [
        {"address": "host.example"},
        {"address": "::1"},
        {"port": 0},
        {"route_port": 65536},
        {"route_port": 21000},
        {"node": ""},
        {"agent": "UABC"},
        {"agent": KEYS[0].public},
        {"scheduler": "S" * 56},
        {"certificate": ""},
        {"certificate": PEM + PEM},
        {"route_certificate": "cert_file: x"},
        {"route_certificate": PEM.replace("M", "N", 1)},
    ],
)
def test_what_names_no_server_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        cluster_server.check(server(**changed))


def test_the_user_of_a_server_has_a_name_that_subjects_take() -> None:
    assert admin_of("second") == "admin-second"
    assert len(admin_of("n" * 63)) <= subjects.NAME_BYTES_MAX
