# SPDX-License-Identifier: Apache-2.0
"""Lines of the kernel's log, as drivers write them, and a log that is followed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from stoker.agent.health import kmsg
from stoker.agent.health.kernel_log import KernelLogLine, bus_of, parse, parse_text
from stoker.agent.health.log_place import LogPlace

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("text", "bus", "kind", "number"),
    [
        (XID, "0000:3b:00", "xid", 79),
        ("NVRM: Xid (PCI:0000:C1:00): 31, pid=77, Ch 00000010", "0000:c1:00", "xid", 31),
        ("NVRM: Xid (PCI:00:06): 13, Graphics Exception", "0000:00:06", "xid", 13),
        ("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "0000:03:00", "reset_begun", 0),
        ("amdgpu 0000:03:00.0: amdgpu: GPU reset(4) succeeded!", "0000:03:00", "reset_seen", 0),
        (
            "amdgpu 0000:03:00.0: amdgpu: GPU reset end with ret = -110, GPU reset(4) failed",
            "0000:03:00",
            "reset_failed",
            0,
        ),
        (
            "amdgpu 0000:83:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block",
            "0000:83:00",
            "ecc_uncorrected",
            0,
        ),
        (
            "amdgpu 0000:83:00.0: amdgpu: [gfxhub0] page fault",
            "0000:83:00",
            "app_fault",
            0,
        ),
        ("amdgpu 0000:83:00.0: amdgpu: ring comp_1.0.0 timeout", "0000:83:00", "engine_hang", 0),
        ("amdgpu 0000:03:00.0: amdgpu: device lost from bus!", "0000:03:00", "lost", 0),
        ("i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb", "0000:00:02", "engine_hang", 0),
        ("xe 0000:03:00.0: [drm] GT0: Timedout job: seqno=429", "0000:03:00", "engine_hang", 0),
        (
            "xe 0000:4d:00.0: [drm] CRITICAL: Xe has declared device 0000:4d:00.0 as wedged.",
            "0000:4d:00",
            "wedged",
            0,
        ),
    ],
)
def test_what_drivers_say(text: str, bus: str, kind: str, number: int) -> None:
    line = parse_text(text)
    assert line is not None
    assert (line.bus, line.kind, line.number) == (bus, kind, number)


@pytest.mark.parametrize(
    "record",
    [
        "14,1,2,-;" + XID,  # facility 1: a program wrote it
        "12,1,2,-;" + XID,
        "x,1,2,-;" + XID,
        "4,1,2,-",
        "",
        "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): many",
        "4,1,2,-;usb 1-1: new device",
        "4,1,2,-;amdgpu 0000:03:00.0: amdgpu: SMU is initialized successfully!",
        # Names of files are their owner's: these were a library's.
        "6,1,2,-;job[7]: segfault at 0 ip 00007f sp 00007f error 6 in " + XID + "[1102,7f+1000]",
        "6,1,2,-;job[7]: segfault at 0 error 6 in amdgpu 0000:03:00.0: device lost from bus[11+2]",
    ],
)
def test_what_is_no_news_of_a_card(record: str) -> None:
    assert parse(record) is None


def test_a_record_of_the_kernel_counts_with_its_continuation_left_out() -> None:
    line = parse("4,339,5140900,-;" + XID + "\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n")
    assert line is not None and line.number == 79
    assert "SUBSYSTEM" not in line.text


@pytest.mark.parametrize("address", ["0000:3b:00.0", "00000000:3B:00.0", "3b:00.0", "0000:3b:00"])
def test_one_card_whatever_its_address_looks_like(address: str) -> None:
    assert bus_of(address) == "0000:3b:00"


def test_nothing_of_an_address_is_no_card() -> None:
    assert bus_of("") not in ("0000:3b:00", "")


async def test_a_log_is_followed_record_by_record(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    lines: list[KernelLogLine] = []
    keep = os.open(path, os.O_RDWR)
    log = kmsg.KernelLog(lines.append, path)
    log.begin()
    assert log.why == ""
    for sequence, number in enumerate((79, 31)):
        os.write(keep, f"4,{sequence},2,-;NVRM: Xid (PCI:0000:3b:00): {number}, x\n".encode())
        await until(lambda n=number: bool(lines) and lines[-1].number == n)
    log.close()
    os.write(keep, b"4,2,2,-;NVRM: Xid (PCI:0000:3b:00): 48, x\n")
    await asyncio.sleep(0.02)
    assert [line.number for line in lines] == [79, 31]
    assert log.counters["kernel_log_lines"] == 2
    os.close(keep)


async def test_the_real_log_is_followed_and_what_programs_write_there_is_not_believed() -> None:
    lines: list[KernelLogLine] = []
    log = kmsg.KernelLog(lines.append)
    log.begin()
    assert log.why == "" or os.geteuid() != 0
    if not log.why:
        with kmsg.PATH.open("w") as out:
            out.write(f"<4>{XID}")
        await asyncio.sleep(0.1)
    log.close()
    assert lines == []


async def test_a_log_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    log = kmsg.KernelLog(lambda line: None, tmp_path / "none")
    log.begin()
    assert log.why == f"{tmp_path / 'none'}: No such file or directory"
    log.close()


async def test_a_log_that_could_not_be_opened_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kmsg, "AGAIN_S", 0.01)
    lines: list[KernelLogLine] = []
    log = kmsg.KernelLog(lines.append, tmp_path / "kmsg")
    log.begin()
    assert "No such file" in log.why
    os.mkfifo(tmp_path / "kmsg")
    keep = os.open(tmp_path / "kmsg", os.O_RDWR)
    await until(lambda: not log.why)
    os.write(keep, b"4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, x\n")
    await until(lambda: lines)
    log.close()
    os.close(keep)
    assert [line.number for line in lines] == [79]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write to the kernel's log")
async def test_what_the_log_said_between_two_agents_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"stoker-test-{os.urandom(8).hex()}"

    def ours(record: str) -> KernelLogLine | None:
        told = record.partition(";")[2].strip()
        return (
            KernelLogLine("", "xid", 0, told.removeprefix(mark)) if told.startswith(mark) else None
        )

    monkeypatch.setattr(kmsg, "parse", ours)

    def say(what: str) -> None:
        with kmsg.PATH.open("w") as out:
            out.write(f"<6>{mark}{what}\n")

    async def agent(boot_id: str, *while_it_runs: str) -> list[str]:
        lines: list[KernelLogLine] = []
        log = kmsg.KernelLog(lines.append, place=LogPlace(tmp_path, boot_id))
        log.begin()
        for each in while_it_runs:
            say(each)
        await until(lambda: len(lines) >= len(while_it_runs))
        await asyncio.sleep(0.1)
        log.close()
        return [line.text for line in lines]

    say("before")
    assert await agent("boot") == []
    say("between")
    assert await agent("boot", "while") == ["between", "while"]
    assert await agent("boot") == []
    say("of another boot")
    assert await agent("another") == []


async def until(true: object) -> None:
    for _ in range(6000):
        if true():  # type: ignore[operator]
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within 60 s")
