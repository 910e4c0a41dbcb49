# SPDX-License-Identifier: Apache-2.0
"""Lease requests and answers: what is forged, foreign, too long or out of range is refused."""

from __future__ import annotations

import msgspec
import pytest
from fakes.orders import Seal

from stoker.mesh.wire import command, lease_messages
from stoker.mesh.wire.command import DesiredState
from stoker.mesh.wire.lease_messages import (
    ANSWER_BYTES_MAX,
    FORMAT,
    GRANTS_MAX,
    LEASE_MS_MAX,
    REQUEST_BYTES_MAX,
    LeaseAnswer,
    LeaseGrant,
    LeaseRequest,
    encode_request,
    open_answer,
    open_request,
    seal_answer,
)
from stoker.mesh.wire.subjects import NAME_BYTES_MAX
from stoker.native.errors import BadRequest, Denied

REQUEST = LeaseRequest(FORMAT, "n1", 7, 1000, 5)
ANSWER = LeaseAnswer(FORMAT, "c1", 10, False, 5000, 3, (LeaseGrant("n1", 7, 1000, 5),))


class Key(Seal):
    """A signature of one of several schedulers."""

    def __init__(self, number: int) -> None:
        self.number = number

    def sign(self, data: bytes) -> bytes:
        return super().sign(data + bytes([self.number]))


def test_a_request_passes_under_its_own_name_only() -> None:
    data = encode_request(REQUEST)
    assert open_request(data, "n1") == REQUEST
    with pytest.raises(BadRequest, match="n2 requests the lease of n1"):
        open_request(data, "n2")


@pytest.mark.parametrize(
    "changes",
    [
        {"format": FORMAT + 1},
        {"stamp_ns": -1},
        {"nonce": 1 << 63},
        {"instance": -3},
        {"node": "n" * REQUEST_BYTES_MAX},
    ],
)
def test_a_request_out_of_range_is_refused(changes: dict[str, object]) -> None:
    bad = msgspec.structs.replace(REQUEST, **changes)
    with pytest.raises(BadRequest):
        open_request(encode_request(bad), bad.node)
    with pytest.raises(BadRequest):
        open_request(b"\xc1", "n1")


def test_only_the_owner_of_the_term_can_sign() -> None:
    members = [Key(0), Key(1), Key(2)]
    assert open_answer(seal_answer(ANSWER, Key(1)), members) == ANSWER  # 10 is 8 + 1 + 1
    with pytest.raises(Denied):
        open_answer(seal_answer(ANSWER, Key(2)), members)
    nobody = msgspec.structs.replace(ANSWER, term=8 + 6)
    with pytest.raises(Denied):
        open_answer(seal_answer(nobody, Key(1)), members)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": FORMAT + 1},
        {"lease_ms": 0},
        {"lease_ms": LEASE_MS_MAX + 1},
        {"term": -7},
        {"grants": ANSWER.grants * (GRANTS_MAX + 1)},
    ],
)
def test_an_answer_out_of_range_is_refused(changes: dict[str, object]) -> None:
    bad = msgspec.structs.replace(ANSWER, **changes)
    with pytest.raises(BadRequest):
        open_answer(seal_answer(bad, Seal()), [Seal()])


def test_no_change_of_one_bit_passes() -> None:
    data = seal_answer(ANSWER, Seal())
    for at in range(len(data)):
        forged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises((Denied, BadRequest)):
            open_answer(forged, [Seal()])
    for short in (data[:-1], data[:64], b""):
        with pytest.raises((Denied, BadRequest)):
            open_answer(short, [Seal()])


def test_no_other_record_of_the_scheduler_passes_for_an_answer() -> None:
    desired = DesiredState(command.FORMAT, "c1", "n1", 10, 1, command.NO_HASH, 5, 5)
    with pytest.raises(BadRequest):
        open_answer(command.seal(desired, Seal()), [Seal()])
    with pytest.raises(Denied):  # its signature lacks the prefix of lease answers
        open_answer(command.seal_body(seal_answer(ANSWER, Seal())[64:], Seal()), [Seal()])


def test_the_largest_answer_fits() -> None:
    top = (1 << 63) - 1
    grant = LeaseGrant("n" * NAME_BYTES_MAX, top, top, top, top, b"h" * 32)
    largest = LeaseAnswer(
        FORMAT, "c" * 36, top, True, LEASE_MS_MAX, top, (grant,) * GRANTS_MAX, (b"p" * 256,) * 4
    )
    data = seal_answer(largest, Seal())
    assert len(data) <= ANSWER_BYTES_MAX
    assert lease_messages.open_answer(data, [Seal()]) == largest
