# SPDX-License-Identifier: Apache-2.0
# fmt: off
"""The options of a job in the public messages.

Written by `make generate` from scheduler/job_options.toml; change that file instead.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from stoker.mesh.wire.schema_cluster import Int, Message, Part
from stoker.mesh.wire.schema_trace import JobRef
from stoker.scheduler.nouns import JobSpec, TraceMode


class JobRequest(Message, frozen=True):
    """`job.submit`. Fields mean what `scheduler.nouns.JobSpec` says; argv[0] is sought in PATH."""

    argv: tuple[str, ...]
    """The program and its arguments; argv[0] is sought in PATH."""
    cwd: str = "/"
    """The folder to run in."""
    env: dict[str, str] = msgspec.field(default_factory=dict)
    """Its environment."""
    name: str = ""
    """A name to find it by."""
    gpu_milli: Int = 0
    """Milli-shares of devices: 0 none, 1-999 a part of one device, else devices x 1000."""
    cpu_milli: Int | None = None
    """CPU time at most, in thousandths of a CPU."""
    memory_bytes: Int | None = None
    """Memory at most."""
    pids: Int | None = None
    """Limit of processes and threads."""
    time_limit_s: float | None = None
    """The job is stopped when it has run for this time."""
    grace_s: float = 5.0
    """Time between the request to end (SIGTERM) and the kill."""
    priority: Int = 0
    """Higher ones go first; equal ones in the order in which they came."""
    trace: TraceMode = "governed"
    """The part of its GPU work that is recorded."""
    stdin: bool = False
    """It gets input through `job.stdin`."""
    umask: Int = 0o022
    """The bits that new files lack."""
    output_bytes_max: Int = 1 << 30
    """Output that is kept of each stream."""
    queue: str = ""
    """The queue it waits in; empty: the default queue."""
    placement: str = ""
    """The way a node is chosen; empty: as the queue says."""
    models: tuple[str, ...] = ()
    """Device models that will do: names, parts of names or patterns with * and ?, whatever the
    case; empty: any."""
    require: tuple[str, ...] = ()
    """Labels KEY=VALUE that the node must have."""
    avoid: tuple[str, ...] = ()
    """Labels KEY=VALUE that the node must not have."""
    tolerate: tuple[str, ...] = ()
    """Taints KEY=VALUE of nodes that do not matter."""
    group: str = ""
    """The jobs of one user that `company` speaks of."""
    company: Literal["", "attract", "repel"] = ""
    """attract: only a node where a job of the group runs, if any does; repel: never such a node."""
    estimate_s: float | None = None
    """Expected run time, for backfill and shortest-first."""
    after: tuple[JobRef, ...] = ()
    """It starts when these jobs of the same user have succeeded."""
    after_any: tuple[JobRef, ...] = ()
    """It starts when these jobs have ended in any way."""
    array: tuple[Int, ...] = ()
    """One job for each of these indexes, which it finds in STOKER_ARRAY_INDEX."""
    retries: Int = 0
    """Further attempts when one failed or was lost."""
    restart: Literal["", "never", "on-node-loss", "always"] = ""
    """The policy names the ends after which another attempt follows; empty: always if there are
    retries."""
    backoff_s: Int | None = None
    """Pause before the first of them, doubled each time up to the limit; 1 where it is not given.
    """
    preemptible: bool = False
    """It may be stopped to make room, and then waits again."""
    preemptor: bool = False
    """It may have preemptible jobs of lower priority stopped."""
    min_run_s: Int = 0
    """The job is not preempted before it has run for this time."""
    same_link: bool = False
    """Its devices share a fast link."""
    device_memory_bytes: Int | None = None
    """Memory of each granted device that is reserved."""
    device_kind: Literal["gpu", "cpu", "any"] = "gpu"
    """The kind of its devices; a CPU device, such as PoCL's, serves only who asks for it."""
    mix_vendors: bool = False
    """Its devices may be of several vendors, and with device_kind any of several kinds."""
    tasks: Int = 1
    """Processes of one gang, each with devices, CPU and memory of its own: placed together or not
    at all, started, stopped and tried again together."""
    tasks_per_node: Int = 0
    """Exactly so many tasks of the gang on each of its nodes; 0: as it fits."""
    nodes: Int = 0
    """Nodes among which the tasks are divided evenly; without tasks, one on each. 0: as it fits."""
    vendors: tuple[str, ...] = ()
    """Vendors of which its devices may be; empty: any one."""
    device_memory_least_bytes: Int | None = None
    """Memory that each of its devices has at least, whoever uses it."""
    compute_least: str = ""
    """The least CUDA compute capability of its devices; empty: any."""
    archs: tuple[str, ...] = ()
    """Architectures of which its devices may be, whatever the case; empty: any."""
    drivers: tuple[str, ...] = ()
    """Bounds of the version of its devices' driver, which all hold."""
    profiles: tuple[str, ...] = ()
    """Partition profiles of which its devices may be; empty: any device."""
    prefer: tuple[str, ...] = ()
    """Preferences for its devices, the most important first; the last is given up first."""
    idempotency_key: str = ""
    """A known key means the job that it made; a different request under it is refused. In a full
    table of 65,536 keys the user with most loses the oldest."""
    idempotency_since_ns: Int = 0
    """The time at which the key was first sent, in a repeat. Where the node may have forgotten a
    key of that time, the repeat is refused as `key_window` instead of making a second job."""
    after_fail: tuple[JobRef, ...] = ()
    """It starts when these jobs have ended otherwise than well."""
    mpi: bool = False
    """Rank 0 of its gang alone runs the program, and mpirun in it starts processes in the others.
    """
    device_ids: tuple[str, ...] = ()
    """Devices among which its own are: ids, or numbers on whatever node, both also after NODE:."""
    device_ids_mode: Literal["prefer", "require"] = "prefer"
    """prefer: others will do while those in device_ids are not free; require: the job waits for
    them."""
    exclusivity: Literal["", "exclusive", "shared", "mig"] = ""
    """exclusive: whole cards for it alone; shared: a part of a card; mig: partitions of cards;
    empty: as gpu_milli says."""
    topology: Literal["none", "preferred", "required"] = "none"
    """required: its devices on one node share a fast link, those of all tasks of a gang; preferred:
    while such are free; none: as they come."""
    min_link_gbps: Int | None = None
    """GB/s between each two of its devices at least, both directions together."""
    rank_trouble: Literal["none", "warn", "restart", "cordon"] = "warn"
    """The rule for a rank that keeps the others waiting: nothing, a word, another attempt, or that
    and no more jobs on its devices."""
    rank_patience_s: Int = 60
    """The seconds for which a rank may keep the others waiting before `rank_trouble` acts."""
    numa: Literal["none", "prefer", "require"] = "prefer"
    """prefer: its CPUs and memory are those beside its devices as far as that can be; require: each
    task's devices are in one NUMA node and nothing else serves it; none: as they come."""
    within: str = ""
    """The key of a node label, such as rack: all its tasks run on nodes with one value of it."""
    prefer_within: tuple[str, ...] = ()
    """It prefers nodes with one value of these keys, the widest first; the last is given up first.
    """
    checkpoint_signal: Literal["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"] = "TERM"
    """The signal that tells the job to save its work before it is moved or preempted."""
    array_list: str = ""
    """The indexes of `array` in words, instead of it: 0-9, 0-9:2 or 1,5,7-9; behind them %N, so
    that at most N of its jobs go on at once."""
    spool_output_bytes: Int | None = None
    """The bytes from the start of each stream of each task that are kept with the cluster as well,
    so that they can be read when the node is lost."""


class Spec(Part, frozen=True):
    """A job as it was requested. Only `job.get` shows `env`; `short` says that a list cut argv."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] | None
    gpu_milli: int
    cpu_milli: int | None
    memory_bytes: int | None
    pids: int | None
    time_limit_s: float | None
    grace_s: float
    priority: int
    trace: TraceMode
    stdin: bool
    output_bytes_max: int
    short: bool = False
    queue: str = ""
    placement: str = ""
    models: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    tolerate: tuple[str, ...] = ()
    group: str = ""
    company: str = ""
    estimate_s: float | None = None
    after: tuple[int, ...] = ()
    after_any: tuple[int, ...] = ()
    retries: int = 0
    restart: str = ""
    backoff_s: int | None = None
    preemptible: bool = False
    preemptor: bool = False
    min_run_s: int = 0
    same_link: bool = False
    device_memory_bytes: int | None = None
    device_kind: str = "gpu"
    mix_vendors: bool = False
    tasks: int = 1
    tasks_per_node: int = 0
    vendors: tuple[str, ...] = ()
    device_memory_least_bytes: int | None = None
    compute_least: str = ""
    archs: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    after_fail: tuple[int, ...] = ()
    mpi: bool = False
    device_ids: tuple[str, ...] = ()
    device_ids_mode: str = "prefer"
    exclusivity: str = ""
    topology: str = "none"
    min_link_gbps: int | None = None
    rank_trouble: str = "warn"
    rank_patience_s: int = 60
    numa: str = "prefer"
    within: str = ""
    prefer_within: tuple[str, ...] = ()
    checkpoint_signal: str = "TERM"
    spool_output_bytes: int | None = None


class Afters(NamedTuple):
    """The numbers of the jobs that a request names, by option."""

    after: tuple[int, ...] = ()
    after_any: tuple[int, ...] = ()
    after_fail: tuple[int, ...] = ()


def job_spec(request: JobRequest, afters: Afters) -> JobSpec:
    """The spec of a request, with the numbers of the jobs that it names."""
    return JobSpec(
        argv=request.argv,
        cwd=request.cwd,
        env=request.env,
        name=request.name,
        gpu_milli=request.gpu_milli,
        cpu_milli=request.cpu_milli,
        memory_bytes=request.memory_bytes,
        pids=request.pids,
        time_limit_s=request.time_limit_s,
        grace_s=request.grace_s,
        priority=request.priority,
        trace=request.trace,
        stdin=request.stdin,
        umask=request.umask,
        output_bytes_max=request.output_bytes_max,
        queue=request.queue,
        placement=request.placement,
        models=request.models,
        require=request.require,
        avoid=request.avoid,
        tolerate=request.tolerate,
        group=request.group,
        company=request.company,
        estimate_s=request.estimate_s,
        after=afters.after,
        after_any=afters.after_any,
        retries=request.retries,
        restart=request.restart,
        backoff_s=request.backoff_s,
        preemptible=request.preemptible,
        preemptor=request.preemptor,
        min_run_s=request.min_run_s,
        same_link=request.same_link,
        device_memory_bytes=request.device_memory_bytes,
        device_kind=request.device_kind,
        mix_vendors=request.mix_vendors,
        tasks=request.tasks,
        tasks_per_node=request.tasks_per_node,
        vendors=request.vendors,
        device_memory_least_bytes=request.device_memory_least_bytes,
        compute_least=request.compute_least,
        archs=request.archs,
        drivers=request.drivers,
        profiles=request.profiles,
        prefer=request.prefer,
        after_fail=afters.after_fail,
        mpi=request.mpi,
        device_ids=request.device_ids,
        device_ids_mode=request.device_ids_mode,
        exclusivity=request.exclusivity,
        topology=request.topology,
        min_link_gbps=request.min_link_gbps,
        rank_trouble=request.rank_trouble,
        rank_patience_s=request.rank_patience_s,
        numa=request.numa,
        within=request.within,
        prefer_within=request.prefer_within,
        checkpoint_signal=request.checkpoint_signal,
    )


def shown_spec(
    spec: JobSpec,
    *,
    argv: tuple[str, ...],
    env: dict[str, str] | None,
    short: bool,
    queue: str,
    spool_output_bytes: int | None,
) -> Spec:
    """The spec for its user; the caller says what is not shown as it is."""
    return Spec(
        argv=argv,
        cwd=spec.cwd,
        env=env,
        gpu_milli=spec.gpu_milli,
        cpu_milli=spec.cpu_milli,
        memory_bytes=spec.memory_bytes,
        pids=spec.pids,
        time_limit_s=spec.time_limit_s,
        grace_s=spec.grace_s,
        priority=spec.priority,
        trace=spec.trace,
        stdin=spec.stdin,
        output_bytes_max=spec.output_bytes_max,
        short=short,
        queue=queue,
        placement=spec.placement,
        models=spec.models,
        require=spec.require,
        avoid=spec.avoid,
        tolerate=spec.tolerate,
        group=spec.group,
        company=spec.company,
        estimate_s=spec.estimate_s,
        after=spec.after,
        after_any=spec.after_any,
        retries=spec.retries,
        restart=spec.restart,
        backoff_s=spec.backoff_s,
        preemptible=spec.preemptible,
        preemptor=spec.preemptor,
        min_run_s=spec.min_run_s,
        same_link=spec.same_link,
        device_memory_bytes=spec.device_memory_bytes,
        device_kind=spec.device_kind,
        mix_vendors=spec.mix_vendors,
        tasks=spec.tasks,
        tasks_per_node=spec.tasks_per_node,
        vendors=spec.vendors,
        device_memory_least_bytes=spec.device_memory_least_bytes,
        compute_least=spec.compute_least,
        archs=spec.archs,
        drivers=spec.drivers,
        profiles=spec.profiles,
        prefer=spec.prefer,
        after_fail=spec.after_fail,
        mpi=spec.mpi,
        device_ids=spec.device_ids,
        device_ids_mode=spec.device_ids_mode,
        exclusivity=spec.exclusivity,
        topology=spec.topology,
        min_link_gbps=spec.min_link_gbps,
        rank_trouble=spec.rank_trouble,
        rank_patience_s=spec.rank_patience_s,
        numa=spec.numa,
        within=spec.within,
        prefer_within=spec.prefer_within,
        checkpoint_signal=spec.checkpoint_signal,
        spool_output_bytes=spool_output_bytes,
    )
