# SPDX-License-Identifier: Apache-2.0
"""The nouns of a decision: job, device, node, and the records about them in log and commands.

All are immutable and encode as msgpack arrays, so fields are only ever appended, each with a
default. Units are in the names.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec

from stoker.scheduler import job_options, wire_names

JobState: TypeAlias = wire_names.JobState
TraceMode: TypeAlias = job_options.TraceMode
Wanted: TypeAlias = wire_names.Wanted
MILLI = wire_names.MILLI

ENDED: frozenset[str] = frozenset({"succeeded", "failed", "cancelled", "timeout", "lost"})
"""The final states."""

NOT_BEGUN: frozenset[str] = frozenset({"pending", "unlaunched"})
"""The states of an outcome by which nothing of the attempt has run, so that its job waits again."""

ARGV_BYTES_MAX = 128 * 1024
ENV_BYTES_MAX = 64 * 1024
DEVICES_PER_NODE_MAX = wire_names.NODE_DEVICES_MAX
DEVICES_PER_JOB_MAX = wire_names.TASK_DEVICES_MAX
TASKS_PER_JOB_MAX = wire_names.TASKS_MAX
LABELS_PER_REPORT_MAX = 8
PLACING_BYTES = 8
JOB_SAMPLES_MAX = 512
"""The most tasks in one Observation."""
VERDICTS_MAX = 256
"""The most tasks of which one Observation says what bounds them now."""
TROUBLE_CHARS_MAX = 160
"""The longest text on the ranks of a job in an Observation, in characters."""
TROUBLES_MAX = 32
"""The most of these in one Observation."""
RANKS_MAX = 1 << 16
"""Ranks of one communicator are numbered below this."""
GANG_SAMPLES_MAX = 64
"""The most gangs of which one Observation tells."""
MEMBER_SAMPLES_MAX = 512
"""The most ranks of communicators in one Observation."""


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The base class of all nouns: immutable, an array on the wire."""


class TaskKey(NamedTuple):
    """One start of one task of a job, as every log, node and file names it.

    Jobs and attempts count from 1, tasks from 0 to `TASKS_PER_JOB_MAX` - 1. These three are the
    start's name. A cluster that was restored from an older log gives names again, and only
    `placing` tells their starts apart.
    """

    job: int
    attempt: int
    task: int
    placing: int = 0
    """The first 64 bits of the hash of the log entry that placed it; 0 in the name of a folder or
    of a cgroup, which do not tell."""

    @property
    def name(self) -> TaskKey:
        """Return the name alone, as folders and cgroups have it."""
        return TaskKey(self.job, self.attempt, self.task)


def placing_of(entry_hash: bytes) -> int:
    """Return the `placing` of what the log entry with this hash places."""
    return int.from_bytes(entry_hash[:PLACING_BYTES], "big")


class TaskRecord(Record, frozen=True):
    """The base class of records about one start of one task."""

    job: int
    attempt: int
    task: int
    placing: int

    @property
    def key(self) -> TaskKey:
        """Return the identity of the start."""
        return tuple.__new__(TaskKey, (self.job, self.attempt, self.task, self.placing))


class Owner(Record, frozen=True):
    """The Unix identity a job runs as, resolved by the leader from the submitter's key."""

    user: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class Account(Record, frozen=True):
    """A user as all replicas know it: the key of its requests and the identity of its jobs.

    `owner` was looked up on the host of the leader that logged it; without one, `why_not` says why
    the user can submit no jobs.
    """

    public_key: str
    admin: bool
    owner: Owner | None
    why_not: str = ""


class JobSpec(job_options.JobOptions, frozen=True):
    """A job as it was requested: the options of `scheduler/job_options.toml`.

    Names are kept unchanged; `mesh/replica/works/core_request.py` turns them into the core's ids.
    """

    @property
    def may_run_again(self) -> bool:
        """Return True if an attempt may be followed by another one."""
        return self.retries > 0 or self.preemptible

    @property
    def must_fence(self) -> bool:
        """Return True if no second attempt may run beside this one, nor another job on its devices:
        it is frozen when the node's lease ends."""
        return not self.may_run_again or self.gpu_milli >= MILLI


class DeviceShare(Record, frozen=True):
    """Part of one device given to a job."""

    index: int
    """The position in the node's device list, by which the core identifies the device."""
    milli: int


class DeviceInfo(Record, frozen=True):
    """One device as its node reports it. `nodes` are (major, minor) character devices to admit."""

    id: str
    vendor: str
    model: str
    kind: Literal["gpu", "cpu", "declared"] = "gpu"
    memory_bytes: int | None = None
    nodes: tuple[tuple[int, int], ...] = ()
    visible: dict[str, str] = {}
    """The environment that makes only this device visible to runtimes: {"CUDA_VISIBLE_DEVICES":
    uuid}.
    """
    unavailable: str = ""
    """The reason why it must not be allocated ("held by pid 812 (python3)"), or empty."""
    sim: bool = False
    numa: int | None = None
    """The NUMA node it is attached to, by the kernel's number."""
    link: int = 0
    """Devices of a node with the same number share a fast link; 0: not known, or none."""
    bus: int = 0
    """Devices of a node with the same number share a PCIe switch."""
    warning: str = ""
    """A fault that does not prevent jobs on it, or empty."""
    gone: bool = False
    """True if the device vanished in this boot; its index is kept, so that no other device gets it.
    """
    arch: str = ""
    """The generation of the chip in lower case, for example "hopper" or "gfx942"; empty: not known.
    """
    compute: str = ""
    """The CUDA compute capability, for example "9.0"; empty: it has none, or it is not known."""
    driver: str = ""
    """The version of its driver, as the driver tells it; empty: not known."""
    profile: str = ""
    """The partition profile, for example "1g.10gb" of MIG; empty: it is no partition."""
    link_gbps: int = 0
    """GB/s to each device with the same `link`, in both directions, at least; 0: not known."""
    near_cpus: str = ""
    """The CPUs of its NUMA node that jobs may have, as the kernel lists them; empty: `numa_why`."""
    near_memory: bool = False
    """True if its NUMA node has memory on this machine."""
    numa_why: str = ""
    """The reason why jobs on it are not bound to its NUMA node, or empty."""


class NodeReport(Record, frozen=True):
    """A node's description of itself, sent when its agent starts and after any change."""

    node: str
    boot_id: str
    incarnation: int
    """The start of the agent (CLOCK_REALTIME ns), which distinguishes reports of one boot."""
    cpu_milli: int
    memory_bytes: int
    devices: tuple[DeviceInfo, ...] = ()
    missing: tuple[str, ...] = ()
    """Features that do not work on this node, one sentence each, shown by `nodes` and the report.
    """
    labels: tuple[str, ...] = ()
    """Labels "key=value" from the node's settings."""
    drain: str = ""
    """The reason why the node itself refuses new jobs, or empty."""
    unfenced: str = ""
    """The reason why the node cannot freeze jobs whose lease has ended, or empty."""
    instance: int = 0
    """A random number that the node draws in each boot, and after the loss of its state folder. Two
    nodes of one name, or one node in two boots, differ in it."""
    settled: int = 0
    """The log index of the node's last eviction of which nothing is left here: no attempt that it
    ended runs or holds a device. 0 if there was none."""
    ping: str = ""
    """The address "host:port" at which the node answers UDP pings; empty if it answers none."""
    key: str = ""
    """The public key of the node's agent, by which it is known as removed."""


class Observation(Record, frozen=True):
    """One telemetry sample of a node.

    Ids grow by one per node; an absent value is None with a reason.
    """

    id: int
    node: str
    t_ns: int
    """CLOCK_REALTIME ns."""
    load_milli: int
    memory_free_bytes: int
    devices: tuple[DeviceSample, ...] = ()
    jobs: tuple[JobSample, ...] = ()
    gangs: tuple[GangSample, ...] = ()
    """The ranks of its jobs, as far as something of them is to be told."""
    verdicts: tuple[JobVerdict, ...] = ()
    """The bottlenecks of tasks that hold devices and run, at most VERDICTS_MAX."""
    alerts: AlertCounts | None = None
    """The alerts of its rules; None if it has no rules."""


class AlertCounts(Record, frozen=True):
    """The alerts of one node, by number: all that fire, those of them that nobody has seen, and
    those that are kept after they were resolved."""

    firing: int
    unseen: int
    resolved: int


class JobVerdict(TaskRecord, frozen=True):
    """The bottleneck of a running task in the newest stretch of its time."""

    bottleneck: str
    """A name of `mesh/wire/bottleneck.py`."""
    share_milli: int
    """Its part of the time of the task's devices, in thousandths."""
    window_ns: int
    """The length of the stretch."""


class GangSample(TaskRecord, frozen=True):
    """Ranks of one job on this node, whose tasks here are all meant: its task is one of them."""

    communicators: tuple[CommunicatorSample, ...] = ()
    """Those with ranks on other nodes as well."""
    troubles: tuple[TroubleSample, ...] = ()
    """The troubles that the node finds by itself: among ranks that are all here."""
    told_ns: int = 0
    """The node's clock when all of this was so (CLOCK_BOOTTIME), which only it can read; 0: not
    told."""
    resumed_ns: int = 0
    """The time by that clock at which the tasks were frozen last; 0: they never were."""


class CommunicatorSample(Record, frozen=True):
    """The ranks that are on this node of a communicator, or of all that one call made of it."""

    key: int
    """A number that it has on all nodes."""
    size: int
    """All of its ranks."""
    call: str
    """The newest call on it here."""
    members: tuple[MemberSample, ...]


class MemberSample(Record, frozen=True):
    """One rank. Counts and times grow from its beginning."""

    rank: int
    """Its number in the communicator of all ranks."""
    task: int
    entered: int
    """The operations of the communicator that it has entered."""
    own_ns: int
    """The time between its calls in which it had a CPU."""
    queued_ns: int
    """The time between its calls in which it waited for a CPU."""
    waits_ns: int | None = None
    """The time for which it has waited in the newest operation; None: it is not in one."""
    from_start: bool = True
    """False if its first operations were not seen."""
    part: int = 0
    """Ranks with the same number are in one communicator: one call has made several of all ranks.
    """


class TroubleSample(Record, frozen=True):
    """A rank that keeps others waiting."""

    rank: int
    kind: Literal["slow", "hung"]
    text: str
    task: int | None = None
    """The task that it is in; None: it is not known."""
    longer: float | None = None
    """The part by which the own work of a slow one takes longer."""
    since_ns: int = 0
    """The time from which on it is known to be so (CLOCK_REALTIME)."""
    named_ns: int = 0
    """The time of the judgement (CLOCK_REALTIME)."""
    lag_ns: int = 0
    """The part of the time between these two in which whoever judges had no CPU to do so."""
    lasts_ns: int = 0
    """The time for which it was so when this was told; 0: not told."""


class JobSample(TaskRecord, frozen=True):
    """Device time of a running attempt so far, as its trace measured it."""

    device_ns: int
    trouble: str = ""
    """The trouble of its ranks now; empty if there is none."""


class DeviceSample(Record, frozen=True):
    """One device in an Observation."""

    id: str
    busy_ratio: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    absent: dict[str, str] = {}
    """The reason for each field without a value, by name."""
    limit_c: float | None = None
    """The temperature at which the device begins to slow down."""
    power_limit_w: float | None = None
    """The power limit in force."""
    clock_ratio: float | None = None
    """The highest clock that is allowed now, as part of the highest there is; of a driver that does
    not tell it, the clock of a device at work."""
    memory_free_bytes: int | None = None
    throttle: tuple[str, ...] | None = None
    """The reasons why the clock is below the highest: words of `agent/devices/fields.py`."""


class Decision(Record, frozen=True):
    """The place of a job and the reason. `id` is log sequence x 65536 + position in the entry."""

    id: int
    node: str
    devices: tuple[DeviceShare, ...]
    reason: str
    latency_ns: int
    """The time in the core from the request to the decision, without the log."""
    observations: tuple[int, ...] = ()
    placing: int = 0
    """The `placing` of its attempt, as `TaskKey` has it."""


class Gang(Record, frozen=True):
    """The places of the tasks of a gang. The rank of a task is its number."""

    nodes: tuple[str, ...]
    """Their nodes, each once, in the order of its first rank."""
    places: tuple[int, ...]
    """The node of each rank, by its position in `nodes`."""
    master_addr: str
    """The address of the node of rank 0."""
    master_port: int
    """A port on that node that no other gang has."""


class StartJob(TaskRecord, tag="start", frozen=True):
    """Command to a node: run this attempt of this task, once. A task of a gang is made ready, and
    runs once it is released."""

    decision: Decision
    owner: Owner
    spec: JobSpec
    gang: Gang | None = None
    """None for a job of one task."""


class ReleaseJob(TaskRecord, tag="release", frozen=True):
    """Command to a node: all tasks of the gang are ready, so this one may run."""


class StopJob(TaskRecord, tag="stop", frozen=True):
    """Command to a node: end this task; `state` is what it becomes."""

    reason: str
    state: Literal["cancelled", "lost", "failed"] = "cancelled"
    """`failed`: ended by the node itself, because of a device."""
    signal: str = ""
    """The signal to save its work before it ends, such as `USR1`; empty: it gets none."""
    grace_s: float | None = None
    """Seconds that it has for that; None: the grace of its spec."""


class ForgetJob(Record, tag="forget", frozen=True):
    """Command to a node: retention has passed, delete logs and traces of this job."""

    job: int


class TrustSchedulers(Record, tag="schedulers", frozen=True):
    """Command to a node: the roster is this one; public keys by place, empty for a vacant place."""

    keys: tuple[str, ...]


Action = StartJob | StopJob | ForgetJob | ReleaseJob | TrustSchedulers


class Usage(Record, frozen=True):
    """Resources that an ended attempt used, from the kernel's accounting."""

    cpu_ns: int = 0
    memory_peak_bytes: int = 0
    output_bytes: int = 0
    output_dropped_bytes: int = 0


class Outcome(TaskRecord, frozen=True):
    """The result of a command, reported again until the log has it; a repeat changes nothing."""

    decision: int
    """The id of the Decision of this attempt."""
    state: Literal[
        "ready",
        "running",
        "succeeded",
        "failed",
        "cancelled",
        "timeout",
        "lost",
        "pending",
        "unlaunched",
    ]
    """Running, final, `ready`: a task of a gang waits for the others, `pending`: the node began
    nothing, and the job waits again, or `unlaunched`: the node could not launch it, whatever the
    job is, so that it waits again unless too many launches in a row have failed."""
    t_ns: int
    """CLOCK_REALTIME ns."""
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    usage: Usage | None = None
    device_ns: int | None = None
    """The measured device time of the attempt; None if unmeasured, then its shares are charged."""
    started_ns: int | None = None
    """CLOCK_REALTIME ns at which the program of an ended attempt began; None if it never did."""
    launch_ns: int | None = None
    """The mean device time of a launch in an ended attempt; None if too few were measured."""

    @property
    def job_state(self) -> JobState:
        """Return the state as jobs and the core have it: a task that is ready starts still, and one
        that was not launched waits again."""
        if self.state == "unlaunched":
            return "pending"
        return "starting" if self.state == "ready" else self.state

    @property
    def is_over(self) -> bool:
        """True if nothing of the attempt runs or will: it has ended, or it was not begun."""
        return self.state in ENDED or self.state in NOT_BEGUN
