# SPDX-License-Identifier: Apache-2.0
# fmt: off
"""The options of a job as the log keeps them, and the limits of each.

Written by `make generate` from scheduler/job_options.toml; change that file instead. They encode as
a msgpack array, so options are only ever appended, each with a default.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

TraceMode = Literal["off", "governed", "full", "dormant"]


class JobOptions(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job as it was asked for. Names are kept as they were given."""

    argv: tuple[str, ...]
    """The program and its arguments; argv[0] is sought in PATH."""
    cwd: str = "/"
    """The folder to run in."""
    env: dict[str, str] = {}
    """Its environment."""
    name: str = ""
    """A name to find it by."""
    gpu_milli: int = 0
    """Milli-shares of devices: 0 none, 1-999 a part of one device, else devices x 1000."""
    cpu_milli: int | None = None
    """CPU time at most, in thousandths of a CPU."""
    memory_bytes: int | None = None
    """Memory at most."""
    pids: int | None = None
    """Limit of processes and threads."""
    time_limit_s: float | None = None
    """The job is stopped when it has run for this time."""
    grace_s: float = 5.0
    """Time between the request to end (SIGTERM) and the kill."""
    priority: int = 0
    """Higher ones go first; equal ones in the order in which they came."""
    trace: TraceMode = "governed"
    """The part of its GPU work that is recorded."""
    stdin: bool = False
    """It gets input through `job.stdin`."""
    umask: int = 0o022
    """The bits that new files lack."""
    output_bytes_max: int = 1 << 30
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
    after: tuple[int, ...] = ()
    """It starts when these jobs of the same user have succeeded."""
    after_any: tuple[int, ...] = ()
    """It starts when these jobs have ended in any way."""
    retries: int = 0
    """Further attempts when one failed or was lost."""
    restart: Literal["", "never", "on-node-loss", "always"] = ""
    """The policy names the ends after which another attempt follows; empty: always if there are
    retries."""
    backoff_s: int | None = None
    """Pause before the first of them, doubled each time up to the limit; 1 where it is not given.
    """
    preemptible: bool = False
    """It may be stopped to make room, and then waits again."""
    preemptor: bool = False
    """It may have preemptible jobs of lower priority stopped."""
    min_run_s: int = 0
    """The job is not preempted before it has run for this time."""
    same_link: bool = False
    """Its devices share a fast link."""
    device_memory_bytes: int | None = None
    """Memory of each granted device that is reserved."""
    array_size: int = 0
    """Jobs of the array it belongs to, numbered one after the other; 0: none."""
    array_index: int = 0
    """The user's index of this one, in its STOKER_ARRAY_INDEX."""
    array_place: int = 0
    """Its place among them, from 0: job - array_place is the first one's number."""
    device_kind: Literal["gpu", "cpu", "any"] = "gpu"
    """The kind of its devices; a CPU device, such as PoCL's, serves only who asks for it."""
    mix_vendors: bool = False
    """Its devices may be of several vendors, and with device_kind any of several kinds."""
    tasks: int = 1
    """Processes of one gang, each with devices, CPU and memory of its own: placed together or not
    at all, started, stopped and tried again together."""
    tasks_per_node: int = 0
    """Exactly so many tasks of the gang on each of its nodes; 0: as it fits."""
    vendors: tuple[str, ...] = ()
    """Vendors of which its devices may be; empty: any one."""
    device_memory_least_bytes: int | None = None
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
    after_fail: tuple[int, ...] = ()
    """It starts when these jobs have ended otherwise than well."""
    mpi: bool = False
    """Rank 0 of its gang alone runs the program, and mpirun in it starts processes in the others.
    """
    launch_key: str = ""
    """The secret by which the ranks of an mpi gang know each other."""
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
    min_link_gbps: int | None = None
    """GB/s between each two of its devices at least, both directions together."""
    rank_trouble: Literal["none", "warn", "restart", "cordon"] = "warn"
    """The rule for a rank that keeps the others waiting: nothing, a word, another attempt, or that
    and no more jobs on its devices."""
    rank_patience_s: int = 60
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


class OptionLimit(NamedTuple):
    """The least and the most of one option; `unit` is one of `figures`, or empty."""

    option: str
    least: float
    most: float
    unit: str = ""


LIMITS: Final = (
    OptionLimit("cpu_milli", 1, 4_096_000, "cpus"),
    OptionLimit("memory_bytes", 1_048_576, 1_125_899_906_842_624, "bytes"),
    OptionLimit("pids", 1, 4_194_304),
    OptionLimit("time_limit_s", 0.001, 315360000.0),
    OptionLimit("grace_s", 0.0, 3600.0),
    OptionLimit("priority", -100, 100),
    OptionLimit("umask", 0, 511),
    OptionLimit("output_bytes_max", 0, 1_099_511_627_776),
    OptionLimit("estimate_s", 0.001, 315360000.0),
    OptionLimit("retries", 0, 10),
    OptionLimit("backoff_s", 1, 300),
    OptionLimit("min_run_s", 0, 604_800),
    OptionLimit("device_memory_bytes", 1_048_576, 1_125_899_906_842_624, "bytes"),
    OptionLimit("tasks", 1, 64),
    OptionLimit("tasks_per_node", 0, 64),
    OptionLimit("nodes", 0, 64),
    OptionLimit("device_memory_least_bytes", 1_048_576, 1_125_899_906_842_624, "bytes"),
    OptionLimit("min_link_gbps", 1, 65_535),
    OptionLimit("rank_patience_s", 3, 86_400),
    OptionLimit("spool_output_bytes", 1_024, 67_108_864, "bytes"),
)
"""Limits that hold at every door."""
