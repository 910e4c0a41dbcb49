# SPDX-License-Identifier: Apache-2.0
"""The sentences of reasons, with names of queues and labels."""

from __future__ import annotations

import msgspec
import pytest

from stoker.mesh.replica.works import reason_text
from stoker.mesh.server import explanation
from stoker.scheduler.book import Book
from stoker.scheduler.names import name_id, queue_id, vendor_number
from stoker.scheduler.nouns import DeviceInfo, NodeReport
from stoker.scheduler.policies import Kind
from stoker.scheduler.reasons import Reason
from stoker.scheduler.remedies import Remedy
from stoker.scheduler.wire_names import Property, Relation

NS = 1_000_000_000


@pytest.mark.parametrize(
    ("ns", "says"),
    [
        (-5, "0 s"),
        (1, "1 s"),
        (59 * NS, "59 s"),
        (185 * NS, "3 min 5 s"),
        (7810 * NS, "2 h 10 min"),
    ],
)
def test_spans(ns: int, says: str) -> None:
    assert reason_text.span(ns) == says


def test_a_queue_is_named() -> None:
    book = Book()
    book.queues[queue_id("prod")] = "prod"
    said = reason_text.words(book, Reason.QUEUE_AT_LIMIT, job=queue_id("prod"), asked=700, have=500)
    assert "prod" in said and str(queue_id("prod")) not in said
    assert "default" in reason_text.words(book, Reason.OVER_LIMIT, job=0, asked=7, have=5)
    gone = reason_text.words(book, Reason.QUEUE_NOT_LEAF, asked=queue_id("gone"))
    assert f"queue-{queue_id('gone'):x}" in gone


def test_a_taint_in_the_way_is_named() -> None:
    book = Book()
    book.named(["team=x"])
    taint = name_id("team=x")
    said = reason_text.words(book, Reason.NEEDS_TOLERATION, asked=taint, count=2)
    assert said.endswith("does not tolerate: 2 (team=x)")
    assert reason_text.words(book, Reason.NEEDS_TOLERATION, asked=5, count=2).endswith(": 2")


def test_a_moment_to_come_is_a_span() -> None:
    said = reason_text.words(Book(), Reason.WAITS_UNTIL, have=1_000 * NS, now_ns=995 * NS)
    assert said == "waits 5 s until its next attempt"


def test_every_remedy_has_words() -> None:
    assert set(explanation.HELPS) == set(Remedy)


def _book(*devices: DeviceInfo) -> Book:
    book = Book()
    book.nodes["n1"] = NodeReport("n1", "b", 1, 1000, 1 << 30, devices)
    return book


def test_what_is_there_instead_is_of_the_kinds_that_are_requested() -> None:
    gpu = DeviceInfo(id="g0", vendor="nvidia", model="a100")
    cpu = DeviceInfo(id="pocl-0", vendor="arm", model="pocl", kind="cpu")
    condition = Property.VENDOR << 8 | Relation.IS
    nvidia = vendor_number("nvidia")

    def said(kinds: int, *devices: DeviceInfo) -> str:
        name = kinds << 16 | condition
        return reason_text.words(_book(*devices), Reason.NO_DEVICE_MEETS, job=name, asked=nvidia)

    assert said(Kind.CPU, gpu, cpu) == "no CPU device has vendor nvidia; there are: arm"
    assert said(Kind.CPU, gpu) == "no CPU device has vendor nvidia"
    assert said(Kind.GPU, msgspec.structs.replace(gpu, gone=True)) == "no device has vendor nvidia"
    elsewhere = "no device has vendor nvidia on the nodes that it accepts"
    assert said(Kind.GPU | Kind.CPU, gpu, cpu) == elsewhere


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (Reason.NO_NODE_HAS_DEVICES, "asks for 4 devices, the largest node has 2 of one vendor"),
        (
            Reason.GANG_TOO_LARGE,
            "asks for 4 tasks at once, the nodes can hold 2 with devices of one vendor",
        ),
    ],
)
def test_devices_of_other_vendors_are_hinted_at_where_they_would_do(
    reason: Reason, says: str
) -> None:
    assert reason_text.words(Book(), reason, asked=4, have=2, job=4) == says
    assert reason_text.words(Book(), reason, asked=4, have=2) == says.partition("2")[0] + "2"
    assert "--mix-vendors" in reason_text.hint(Book(), reason, 4, 2, 4)
    assert not reason_text.hint(Book(), reason, 4, 2, 3)
    assert not reason_text.hint(Book(), reason, 4, 2)


def test_who_is_next_of_users_who_hold_the_same_is_told_as_well() -> None:
    said = reason_text.words(Book(), Reason.USER_TURN, job=7, asked=250, have=0)
    assert said.endswith("job 7 is next: it holds 0 % of the cluster in this queue, this one 25 %")
    same = reason_text.words(Book(), Reason.USER_TURN, job=7, asked=250, have=250, detail=1)
    assert same.endswith("this one 25 %, and had its last start longer ago, or is older")
