# SPDX-License-Identifier: Apache-2.0
"""The bytes of every command, each field with a value of its own: the log keeps them for ever.

A field that changes its place or its width, or two that are swapped, change the golden bytes. A
diff there is a new format of the log and must be refused as one.
"""

from __future__ import annotations

import os
from pathlib import Path

from stoker.scheduler import records as rec
from stoker.scheduler.nouns import DeviceShare

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "records" / "commands.txt"
SHARES = (DeviceShare(0x0101, 0x0202), DeviceShare(0x0303, 0x0404))


def wide(byte: int) -> int:
    """A 64-bit number that no other field has."""
    return int.from_bytes(bytes([byte]) * 8, "little")


def short(byte: int) -> int:
    """A 32-bit number that no other field has."""
    return int.from_bytes(bytes([byte]) * 4, "little")


SUBMIT = rec.Submit(
    client=wide(1), key=bytes(range(1, 17)), spec_hash=wide(2), uid=short(3), tenant=short(4),
    priority=-5, gpu_milli=short(6), cpu_milli=short(7), memory_bytes=wide(8), tasks=9,
    device_memory_bytes=wide(10), estimate_ns=wide(11), group=wide(13),
    array=wide(14), series=wide(48), models=tuple(map(wide, range(20, 28))),
    require=tuple(map(wide, range(30, 34))), avoid=tuple(map(wide, range(34, 38))),
    tolerate=(wide(38), wide(39)), after=tuple(map(wide, range(40, 48))), queue=short(15),
    min_run_s=short(16), backoff_s=short(17),
    placement=18, options=0x1301, retries=0x14, kinds=0x15, after_any=0x16, after_fail=0x17,
)  # fmt: skip
CONDITIONS = (rec.Condition(4, 2, wide(1)), rec.Condition(2, 1, wide(2), 3))

COMMANDS: list[rec.Command] = [
    rec.Term(wide(1), wide(2)),
    rec.NodeUp(
        node=wide(1), boot=wide(2), incarnation=wide(3), cpu_milli=short(4), memory_bytes=wide(5),
        devices=6, domain=wide(7),
    ),
    rec.NodeDown(wide(1), evict=True, reason=2),
    rec.NodeDown(wide(1), remove=True),
    rec.DeviceSet(
        node=wide(1), device=2, capacity_milli=3, memory_bytes=wide(4), available=True,
        owner=wide(5), reason=6, model=wide(7), link=8, bus=9, numa=10, kind=2, vendor=12,
    ),
    SUBMIT,
    rec.Submit(1),
    rec.Submit(1, gpu_milli=1000, conditions=CONDITIONS),
    rec.Place(
        job=wide(1), attempt=short(2), task=3, tasks=4, node=wide(5), shares=SHARES, reason=6,
        latency_ns=wide(7), observations=(wide(8), wide(9)), candidates=short(10),
    ),
    rec.Prefer(
        job=wide(1), attempt=short(2), node=wide(3), shares=SHARES, task=4, tasks=5,
        observations=(wide(6),), candidates=short(7),
    ),
    rec.TaskOutcome(
        job=wide(1), attempt=short(2), node=wide(3), state=6, exit_code=-5, signal=7, reason=8,
        task=9, device_ns=wide(10), run_ns=wide(11), launch_ns=wide(12),
    ),
    rec.TaskOutcome(job=1, attempt=1, node=1, state=3, signal=0),
    rec.Cancel(wide(1), 2),
    rec.Forget(wide(1)),
    rec.RefusedRequests(wide(1), short(2), 3),
    rec.NodeLabel(wide(1), wide(2), wide(3), taint=True),
    rec.NodeLabel(wide(1), wide(2), cost=True),
    rec.NodeLabel(wide(1), wide(2), clear=True),
    rec.NodeReserve(node=wide(1), queue=short(2), from_ns=wide(3), until_ns=wide(4)),
    rec.QueueSet(queue=short(1), parent=short(2), weight=short(3), order=4, placement=5),
    rec.QueueSet(queue=short(1), remove=True),
    rec.QuotaSet(queue=short(1), model=wide(2), guaranteed_milli=wide(3), limit_milli=wide(4)),
    rec.DeviceUsage(job=wide(1), attempt=short(2), device_ns=wide(3)),
    rec.DeviceTraits(
        node=wide(1), device=2, compute=short(3), arch=wide(4), profile=wide(5), driver=wide(6)
    ),
    rec.Preempt(job=wide(1), attempt=short(2), beneficiary=wide(3), reason=4, move=True),
    rec.GiveUp(job=wide(1), attempt=short(2), reason=3),
    rec.SubmitArray(*SUBMIT, first=wide(50), jobs=short(51), behind=short(52)),
    rec.RangeEnd(job=wide(1), after=wide(2), unmet=True),
]  # fmt: skip


def line(command: rec.Command) -> str:
    return f"{type(command).__name__} {command.pack().hex(' ', -8)}"


def test_golden_commands_are_the_bytes_that_the_log_keeps() -> None:
    text = "".join(f"{line(command)}\n" for command in COMMANDS)
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), f"{GOLDEN}: the bytes of a command changed"


def test_every_command_has_golden_bytes_and_comes_back() -> None:
    assert {command.pack()[2] for command in COMMANDS} == set(rec.SIZES)
    for command in COMMANDS:
        assert list(rec.unpack_commands(command.pack())) == [command]
