# SPDX-License-Identifier: Apache-2.0
"""The messages of nodes, decoded and checked.

Owns the ranges: a number that the core cannot hold, a name that is not the sender's, or more than a
node may send is refused here, so that no message can stop the scheduler.
"""

from __future__ import annotations

import math
import re
from typing import TypeVar

import msgspec

from stoker.mesh.wire import bottleneck
from stoker.mesh.wire.command import HAVE_MAX, StateRequest
from stoker.native.errors import BadRequest
from stoker.scheduler.names import check_label
from stoker.scheduler.nouns import (
    DEVICES_PER_NODE_MAX,
    GANG_SAMPLES_MAX,
    JOB_SAMPLES_MAX,
    LABELS_PER_REPORT_MAX,
    MEMBER_SAMPLES_MAX,
    MILLI,
    RANKS_MAX,
    TASKS_PER_JOB_MAX,
    TROUBLE_CHARS_MAX,
    TROUBLES_MAX,
    VERDICTS_MAX,
    DeviceInfo,
    DeviceSample,
    GangSample,
    JobVerdict,
    MemberSample,
    NodeReport,
    Observation,
    Outcome,
    TaskKey,
    TroubleSample,
)
from stoker.scheduler.numa_plan import CPUS_MAX, LIST_BYTES_MAX, cpu_numbers
from stoker.scheduler.records import BATCH_REQUESTS_MAX

OUTCOMES_MAX = 512
"""The most outcomes in one message; an agent that has more sends several."""
REPORT_BYTES_MAX = 128 * 1024
OBSERVATION_BYTES_MAX = 64 * 1024
REASON_BYTES_MAX = 512
PING_CHARS_MAX = 80
"""The longest address at which a node answers pings."""
KEY_CHARS_MAX = 64
READING_MAX = 1e12
"""No reading of a device is as large, in any unit."""
_U16, _U32, _U63, _U64 = 1 << 16, 1 << 32, 1 << 63, 1 << 64
_I32 = range(-(1 << 31), 1 << 31)
_LIST = re.compile(r"(\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*)?", re.ASCII)

_outcomes = msgspec.msgpack.Decoder(tuple[Outcome, ...])
_reports = msgspec.msgpack.Decoder(NodeReport)
_observations = msgspec.msgpack.Decoder(Observation)
_ranges = msgspec.msgpack.Decoder(StateRequest)

T = TypeVar("T")


def outcomes(data: bytes) -> tuple[Outcome, ...]:
    """Return outcomes whose numbers the core can hold; long reasons are cut."""
    found = _decode(_outcomes, data, "outcomes")
    if not 0 < len(found) <= min(OUTCOMES_MAX, BATCH_REQUESTS_MAX):
        raise BadRequest(f"{len(found)} outcomes, from 1 to {OUTCOMES_MAX}")
    return tuple(_checked(outcome) for outcome in found)


def _checked(outcome: Outcome) -> Outcome:
    good = (
        _is_key(outcome.key)
        and 0 <= outcome.t_ns < _U63
        and (outcome.exit_code is None or outcome.exit_code in _I32)
        and (outcome.signal is None or outcome.signal in _I32)
        and (outcome.device_ns is None or 0 <= outcome.device_ns < _U63)
        and (outcome.started_ns is None or 0 <= outcome.started_ns < _U63)
        and (outcome.launch_ns is None or 0 < outcome.launch_ns < _U63)
    )
    if not good:
        raise BadRequest(f"an outcome of job {outcome.job} has a number out of range")
    reason = outcome.reason.encode(errors="replace")
    if len(reason) <= REASON_BYTES_MAX:
        return outcome
    cut = reason[:REASON_BYTES_MAX].decode(errors="ignore")
    return msgspec.structs.replace(outcome, reason=cut)


def _is_key(key: TaskKey) -> bool:
    """Return True if the core can hold the numbers, and a job may have so many tasks."""
    job, attempt, task, placing = key
    named = 0 < job < _U63 and 0 < attempt < _U32 and 0 <= task < TASKS_PER_JOB_MAX
    return named and 0 <= placing < _U64


def report(data: bytes, node: str) -> NodeReport:
    """Return a report of this node; BadRequest if it is another's or out of range."""
    if len(data) > REPORT_BYTES_MAX:
        raise BadRequest(f"a report of {len(data)} bytes, at most {REPORT_BYTES_MAX}")
    found = _decode(_reports, data, "report")
    if found.node != node:
        raise BadRequest(f"{node} reports as {found.node[:80]}")
    if len(found.devices) > DEVICES_PER_NODE_MAX:
        raise BadRequest(f"{len(found.devices)} devices, at most {DEVICES_PER_NODE_MAX}")
    if len(found.labels) > LABELS_PER_REPORT_MAX:
        raise BadRequest(f"{len(found.labels)} labels, at most {LABELS_PER_REPORT_MAX}")
    for label in found.labels:
        check_label(label)
    sizes = [found.memory_bytes, *(device.memory_bytes or 0 for device in found.devices)]
    good = (
        all(0 <= number < _U63 for number in (found.incarnation, found.instance, found.settled))
        and len(found.ping) <= PING_CHARS_MAX
        and len(found.key) <= KEY_CHARS_MAX
        and 0 <= found.cpu_milli < _U32
        and all(0 <= size < _U63 for size in sizes)
        and all(0 <= place < _U16 for device in found.devices for place in _places(device))
        and all(_is_list(device.near_cpus) for device in found.devices)
    )
    if not good:
        raise BadRequest(f"the report of {node} has a number out of range")
    return found


def _places(device: DeviceInfo) -> tuple[int, int, int]:
    return device.link, device.bus, 0 if device.numa is None else device.numa + 1


def _is_list(cpus: str) -> bool:
    """Return True if it is a list of CPUs as the kernel writes it."""
    if len(cpus) > LIST_BYTES_MAX or not _LIST.fullmatch(cpus):
        return False
    try:
        return len(cpu_numbers(cpus)) <= CPUS_MAX
    except ValueError:
        return False


def observation(data: bytes, node: str) -> Observation:
    """Return a sample of this node; BadRequest if it is another's or out of range."""
    if len(data) > OBSERVATION_BYTES_MAX:
        raise BadRequest(f"a sample of {len(data)} bytes, at most {OBSERVATION_BYTES_MAX}")
    found = _decode(_observations, data, "observation")
    if found.node != node:
        raise BadRequest(f"{node} observes as {found.node[:80]}")
    if not (0 < found.id < _U63 and 0 <= found.load_milli < _U32):
        raise BadRequest(f"the sample of {node} has a number out of range")
    if len(found.jobs) > JOB_SAMPLES_MAX:
        raise BadRequest(f"{len(found.jobs)} jobs in a sample, at most {JOB_SAMPLES_MAX}")
    if not all(_is_key(each.key) and 0 <= each.device_ns < _U63 for each in found.jobs):
        raise BadRequest(f"the sample of {node} has a task or a device time out of range")
    if any(len(each.trouble) > TROUBLE_CHARS_MAX for each in found.jobs):
        raise BadRequest(f"the sample of {node} has a trouble of too many characters")
    if len(found.verdicts) > VERDICTS_MAX or not all(map(_is_verdict, found.verdicts)):
        raise BadRequest(f"the sample of {node} has a verdict too many or out of range")
    if found.gangs:
        _check_gangs(found, node)
    if not all(map(_has_numbers, found.devices)):
        raise BadRequest(f"the sample of {node} has a reading that is not a number")
    return found


def _check_gangs(found: Observation, node: str) -> None:
    """Raise BadRequest if what is told of ranks is too much or out of range."""
    gangs = found.gangs
    members = [m for gang in gangs for row in gang.communicators for m in row.members]
    troubles = [each for gang in gangs for each in gang.troubles]
    for count, most, what in (
        (len(gangs), GANG_SAMPLES_MAX, "gangs"),
        (len(members), MEMBER_SAMPLES_MAX, "ranks"),
        (len(troubles), TROUBLES_MAX, "troubles of ranks"),
    ):
        if count > most:
            raise BadRequest(f"{count} {what} in a sample, at most {most}")
    good = (
        all(map(_is_gang, gangs))
        and all(
            0 <= row.key < _U64 and len(row.call) <= TROUBLE_CHARS_MAX and 0 < row.size <= RANKS_MAX
            for gang in gangs
            for row in gang.communicators
        )
        and all(map(_is_member, members))
        and all(map(_is_trouble, troubles))
    )
    if not good:
        raise BadRequest(f"the sample of {node} has a rank with a number out of range")


def _is_verdict(verdict: JobVerdict) -> bool:
    return (
        _is_key(verdict.key)
        and verdict.bottleneck in bottleneck.NAMES
        and 0 <= verdict.share_milli <= MILLI
        and 0 < verdict.window_ns < _U63
    )


def _is_gang(gang: GangSample) -> bool:
    return _is_key(gang.key) and 0 <= gang.resumed_ns <= gang.told_ns < _U63


def _is_member(member: MemberSample) -> bool:
    counts = member.entered, member.own_ns, member.queued_ns, member.waits_ns or 0
    return (
        0 <= member.rank < RANKS_MAX
        and 0 <= member.task < TASKS_PER_JOB_MAX
        and all(0 <= count < _U63 for count in counts)
        and 0 <= member.part < 1 << 32
    )


def _is_trouble(trouble: TroubleSample) -> bool:
    times = trouble.since_ns, trouble.named_ns, trouble.lag_ns, trouble.lasts_ns
    return (
        0 <= trouble.rank < RANKS_MAX
        and 0 <= (trouble.task or 0) < TASKS_PER_JOB_MAX
        and len(trouble.text) <= TROUBLE_CHARS_MAX
        and (trouble.longer is None or math.isfinite(trouble.longer))
        and all(0 <= time < _U63 for time in times)
    )


def _has_numbers(sample: DeviceSample) -> bool:
    """Return True if every reading is a number that a device may have; NaN is in no range."""
    for reading in (
        sample.busy_ratio,
        sample.power_w,
        sample.temperature_c,
        sample.limit_c,
        sample.power_limit_w,
        sample.clock_ratio,
    ):
        if reading is not None and not -READING_MAX < reading < READING_MAX:
            return False
    return True


def state_request(data: bytes) -> StateRequest:
    """Return a node's StateRequest; BadRequest if a number is out of range."""
    found = _decode(_ranges, data, "range")
    if len(found.have) > HAVE_MAX:
        raise BadRequest(f"{len(found.have)} attempts, at most {HAVE_MAX}")
    if not all(map(_is_key, found.have)):
        raise BadRequest("an attempt has a number out of range")
    return found


def _decode(decoder: msgspec.msgpack.Decoder[T], data: bytes, what: str) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"{what}: {error}") from None
