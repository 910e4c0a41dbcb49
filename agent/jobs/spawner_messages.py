# SPDX-License-Identifier: Apache-2.0
"""The messages between agent and spawner, with their wire form.

Pure: bytes in, bytes out. The layouts are those of native/runner/wire/wire.h;
`test_spawner_messages.py` compares both sides.
"""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from stoker.native.errors import BadRequest
from stoker.scheduler.nouns import TaskKey, TaskRecord, Usage

WIRE_VERSION = 4
FRAME_BYTES_MAX = 1 << 20
LAUNCH_BYTES_MAX = 384 * 1024
"""Bytes of one packed Launch: argv, environment and paths together."""
ARGUMENTS_MAX = 32768
"""The largest number of entries of argv and env together."""
GROUPS_MAX = 256
DEVICES_MAX = 256
PATH_BYTES_MAX = 255
"""The largest length of `folder` and `trace_folder`."""
DURATION_S_MAX = 1e9
"""Seconds to which limits and graces are cut."""
REASON_BYTES_MAX = 95
"""Bytes to which a stop's reason is cut."""

Cause: TypeAlias = Literal[
    "exited",  # exit_code is set
    "signalled",  # signal is set; reason names a memory limit that was the cause
    "timeout",  # stopped at its time limit
    "stopped",  # stopped on request; reason is that of the request
    "start_failed",  # the program never ran; reason names the step that failed
    "never_started",  # taken and nothing begun: the same attempt may be started again
    "lost",  # its shim was killed or the node rebooted; its processes are gone
]
CAUSES: tuple[Cause, ...] = (
    "exited",
    "signalled",
    "timeout",
    "stopped",
    "start_failed",
    "never_started",
    "lost",
)
"""The number on the wire (`enum sk_runner_cause`) is the position + 1."""

State: TypeAlias = Literal["starting", "running", "ended"]


class Launch(TaskRecord, frozen=True):
    """One start of a task. A limit of None is no limit; `folder` exists and belongs to the agent.

    The environment is passed exactly as given. `devices` are (major, minor) character devices that
    the job may open beside the harmless ones. `trace_folder` is created 0700 and given to `uid`; ""
    is none. Defaults apply if the job has no limit of its own and they cost nothing (cgroup v2).
    `user_processes` bounds the processes and threads of `uid` over all of its jobs, 0 is no bound.
    With `stdin` the job reads what `write_stdin` brings, else /dev/null.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    uid: int
    gid: int
    folder: str
    groups: tuple[int, ...] = ()
    umask: int = 0o022
    stdin: bool = False
    cpu_milli: int | None = None
    memory_bytes: int | None = None
    pids: int | None = None
    memory_default: int | None = None
    pids_default: int | None = None
    user_processes: int = 0
    devices: tuple[tuple[int, int], ...] = ()
    time_limit_s: float | None = None
    grace_s: float = 5.0
    output_bytes_max: int = 1 << 30
    trace_folder: str = ""
    fenced: bool = True
    """True if it is frozen when the node's lease ends."""
    gathers: bool = False
    """True if, made ready, it waits for its release: one of a gang, or a job whose threads are
    followed from its first instruction."""
    cpus: str = ""
    """The CPUs to which it is bound, as the kernel lists them: 0-3,8; empty: any."""
    memory_nodes: str = ""
    """The NUMA nodes whose memory it gets, listed likewise; empty: any."""
    numa_required: bool = False
    """True if it gets no other memory, and does not start where it cannot be bound so."""


class Prepared(TaskRecord, frozen=True):
    """All that the job's program needs is there, and it waits for its release. `t_ns` is
    CLOCK_REALTIME."""

    t_ns: int
    cgroup_id: int = 0
    """The inode of its cgroup v2 directory; 0 without cgroups."""


class Started(TaskRecord, frozen=True):
    """The job's program runs: its execve succeeded. `t_ns` is CLOCK_REALTIME."""

    pid: int
    cgroup_id: int
    """The inode of the job's cgroup v2 directory; 0 without cgroups."""
    t_ns: int


class Exited(TaskRecord, frozen=True):
    """The attempt is over: none of its processes lives, its output is in the files."""

    cause: Cause
    exit_code: int | None
    signal: int | None
    reason: str
    """A sentence for people; empty if code or signal says everything."""
    pid: int
    """0 if it never ran."""
    cgroup_id: int
    started_ns: int | None
    t_ns: int
    usage: Usage | None
    """None if nobody could measure it (lost, never started)."""
    out_bytes: int
    err_bytes: int
    cleared: bool = False
    """True if its folder of trace segments was empty and is removed."""
    of_the_node: bool = False
    """True if it could not be launched for the sake of this node, whatever the job is: no
    instruction of it has run."""


Event: TypeAlias = Prepared | Started | Exited


class KnownAttempt(TaskRecord, frozen=True):
    """One attempt of the spawner; an ended one stays until its Exited is acknowledged."""

    state: State
    event: Event | None
    """The newest event: Prepared if it waits for its release, Started if it runs, or Exited."""


class Refusal(TaskRecord, frozen=True):
    """A launch that was refused; nothing of it exists."""

    errno: int
    reason: str


class Feature(msgspec.Struct, frozen=True, gc=False):
    """One feature of the spawner: `works` on this machine, or `detail` says why it does not."""

    works: bool
    detail: str


# --- frames: size, kind, count, request number -------------------------------------------------
FRAME = struct.Struct("<IHHQ")
HELLO, START, STOP, STDIN, ACKNOWLEDGE, KNOWN, RELEASE = 1, 2, 3, 4, 5, 6, 7
FEATURES, TAKEN, DONE, SLOT, SLOTS_END = 17, 18, 19, 20, 21
EVENT = 32

_LAUNCH = struct.Struct("<IIQIIQIIIIIIQQQQHHIII")
_KEY = struct.Struct("<QIIQ")
_EVENT = struct.Struct("<QIIQIHHiiIIQQQQQQQQ")
_STOP = struct.Struct("<QIIQIIQ")
_STDIN = struct.Struct("<QIIQIIQ")
_ACKNOWLEDGE = struct.Struct("<QIIQII")
_REFUSAL = struct.Struct("<IiI")
_DONE = struct.Struct("<iIQ")

_FLAG_STDIN, _FLAG_MEMORY, _FLAG_PIDS, _FLAG_CPU, _FLAG_TIME = 1, 2, 4, 8, 16
_FLAG_PIDS_DEFAULT, _FLAG_MEMORY_DEFAULT, _FLAG_FENCED = 32, 64, 128
_FLAG_GATHER, _FLAG_NUMA = 256, 512
_STARTED_BIT, _EXITED_BIT, _CODE_BIT, _SIGNAL_BIT, _USAGE_BIT = 1, 2, 4, 8, 16
_READY_BIT, _CLEARED_BIT, _NODE_BIT = 32, 64, 128
_BIT_OF: Mapping[type, int] = {
    Prepared: _READY_BIT,
    Started: _STARTED_BIT,
    Exited: _EXITED_BIT,
}
_STATES: tuple[State, ...] = ("starting", "running", "ended")


def pack_frame(kind: int, request: int, payload: bytes = b"", count: int = 0) -> bytes:
    """Return header and payload as one frame; the caller has bounded the payload's size."""
    return FRAME.pack(FRAME.size + len(payload), kind, count, request) + payload


def pack_launch(launch: Launch) -> bytes:
    """Pack a Launch as `struct sk_runner_launch` with its arrays and strings, padded to 8 bytes."""
    try:
        return _pack(launch)
    except (struct.error, OverflowError, UnicodeEncodeError) as error:
        raise BadRequest(f"job {launch.job}: a value is out of range: {error}") from None


def _pack(launch: Launch) -> bytes:
    strings = _strings(launch)
    numbers = launch.groups + tuple(n for device in launch.devices for n in device)
    arrays = struct.pack(f"<{len(numbers)}I", *numbers)
    size = _LAUNCH.size + len(arrays) + len(strings)
    padding = -size % 8
    if size + padding > LAUNCH_BYTES_MAX:
        raise BadRequest(
            f"job {launch.job}: arguments and environment are {size} bytes, "
            f"at most {LAUNCH_BYTES_MAX} can be started"
        )
    return _pack_fixed(launch, size + padding) + arrays + strings + b"\0" * padding


def _strings(launch: Launch) -> bytes:
    parts = [launch.cwd, launch.folder, launch.trace_folder, launch.cpus, launch.memory_nodes]
    parts += launch.argv
    parts += [f"{name}={value}" for name, value in launch.env.items()]
    if len(parts) > ARGUMENTS_MAX:
        raise BadRequest(f"job {launch.job}: more than {ARGUMENTS_MAX} arguments and variables")
    joined = os.fsencode("\0".join(parts)) + b"\0"
    if joined.count(b"\0") != len(parts):
        raise BadRequest(f"job {launch.job}: a NUL byte in an argument, variable or path")
    return joined


def _pack_fixed(launch: Launch, size: int) -> bytes:
    flags = _FLAG_STDIN if launch.stdin else 0
    if launch.pids is None and launch.pids_default is not None:
        flags |= _FLAG_PIDS_DEFAULT
    if launch.memory_bytes is None and launch.memory_default is not None:
        flags |= _FLAG_MEMORY_DEFAULT
    flags |= _FLAG_FENCED if launch.fenced else 0
    flags |= _FLAG_GATHER if launch.gathers else 0
    flags |= _FLAG_NUMA if launch.numa_required else 0
    for flag, limit in (
        (_FLAG_MEMORY, launch.memory_bytes),
        (_FLAG_PIDS, launch.pids),
        (_FLAG_CPU, launch.cpu_milli),
        (_FLAG_TIME, launch.time_limit_s),
    ):
        flags |= flag if limit is not None else 0
    return _LAUNCH.pack(
        size,
        flags,
        *launch.key,
        launch.uid,
        launch.gid,
        launch.umask,
        launch.cpu_milli or 0,
        launch.pids or launch.pids_default or 0,
        launch.user_processes,
        launch.memory_bytes or launch.memory_default or 0,
        _ns(launch.time_limit_s or 0),
        _ns(launch.grace_s),
        launch.output_bytes_max,
        len(launch.groups),
        len(launch.devices),
        len(launch.argv),
        len(launch.env),
        0,
    )


def _ns(seconds: float) -> int:
    """Return nanoseconds, at most about thirty years so that adding to any clock is safe."""
    if not seconds >= 0:
        raise BadRequest(f"{seconds} is no number of seconds")
    return int(min(seconds, DURATION_S_MAX) * 1e9)


def pack_stop(key: TaskKey, reason: str, grace_s: float, name: str = "") -> bytes:
    """Return the payload of a STOP frame; a signal that this host does not know is SIGTERM."""
    text = reason.encode(errors="replace")[:REASON_BYTES_MAX]
    number = getattr(signal, f"SIG{name}", signal.SIGTERM) if name else 0
    return _STOP.pack(*key, len(text), number, _ns(grace_s)) + text


def pack_release(keys: Sequence[TaskKey]) -> bytes:
    """Return the payload of a RELEASE frame, which counts the keys."""
    return b"".join([_KEY.pack(*key) for key in keys])


def pack_stdin(key: TaskKey, offset: int, data: bytes, eof: bool) -> bytes:
    """Return the payload of a STDIN frame: `data` belongs at `offset` of the job's input."""
    return _STDIN.pack(*key, int(eof), 0, offset) + data


def pack_acknowledge(event: Event) -> bytes:
    """Return one entry of an ACKNOWLEDGE frame."""
    return _ACKNOWLEDGE.pack(*event.key, _BIT_OF[type(event)], 0)


def unpack_done(payload: memoryview) -> tuple[int, int, str]:
    """Return (negative errno or 0, value, text) of a DONE frame."""
    status, length, value = _DONE.unpack_from(payload)
    return status, value, _text(payload, _DONE.size, length)


def unpack_refusals(payload: memoryview, count: int) -> Iterator[tuple[int, int, str]]:
    """Yield (position in the request, errno, text) for each refused launch."""
    at = 0
    for _ in range(count):
        index, number, length = _REFUSAL.unpack_from(payload, at)
        yield index, number, _text(payload, at + _REFUSAL.size, length)
        at += _REFUSAL.size + length


def unpack_events(payload: memoryview, count: int) -> Iterator[Event]:
    """Yield the events of one EVENT frame, in order for each job."""
    at = 0
    for _ in range(count):
        _, event, size = _unpack(payload, at)
        at += size
        if event is not None:
            yield event


def unpack_known(payload: memoryview) -> KnownAttempt:
    """Return the one attempt of a SLOT frame."""
    state, event, _ = _unpack(payload, 0)
    key = TaskKey(*_KEY.unpack_from(payload))
    return KnownAttempt(*key, _STATES[state - 1], event)


def _unpack(payload: memoryview, at: int) -> tuple[int, Event | None, int]:
    """Return (state, event, bytes used) of one `struct sk_runner_event`."""
    (job, attempt, task, placing, pid, bits, cause, code, signal, state, length, *numbers) = (
        _EVENT.unpack_from(payload, at)
    )
    cgroup_id, started_ns, t_ns, cpu_ns, peak, out, err, dropped = numbers
    event: Event | None = None
    if bits & _EXITED_BIT:
        event = Exited(
            job=job,
            attempt=attempt,
            task=task,
            placing=placing,
            cause=CAUSES[cause - 1],
            exit_code=code if bits & _CODE_BIT else None,
            signal=signal if bits & _SIGNAL_BIT else None,
            reason=_text(payload, at + _EVENT.size, length),
            pid=pid,
            cgroup_id=cgroup_id,
            started_ns=started_ns or None,
            t_ns=t_ns,
            usage=Usage(cpu_ns, peak, out + err, dropped) if bits & _USAGE_BIT else None,
            out_bytes=out,
            err_bytes=err,
            cleared=bool(bits & _CLEARED_BIT),
            of_the_node=bool(bits & _NODE_BIT),
        )
    elif bits & _STARTED_BIT:
        event = Started(job, attempt, task, placing, pid, cgroup_id, started_ns)
    elif bits & _READY_BIT:
        event = Prepared(job, attempt, task, placing, t_ns, cgroup_id)
    return state, event, _EVENT.size + length


def _text(payload: memoryview, at: int, length: int) -> str:
    return bytes(payload[at : at + length]).decode(errors="replace")
