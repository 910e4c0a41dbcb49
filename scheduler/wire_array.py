# SPDX-License-Identifier: Apache-2.0
# fmt: off
# ruff: noqa: I001
"""The core's commands about arrays as Python tuples.

Written by `make generate` from native/core/wire_array.h; change that file instead. `pack` gives the
bytes of a record, `unpack` takes exactly one.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, Self

from stoker.scheduler.wire_fields import Conditions, pack_conditions, padded, unpack_conditions
from stoker.scheduler.wire_names import RANGE_END, SUBMIT_ARRAY, Kind, Placement


_RANGE_END = Struct("<HHIQQQ")
class RangeEnd(NamedTuple):
    """A range of jobs that a pending job follows has ended. The core does not know what is in a
    range: whoever counts its ends tells each job that follows it, once."""

    job: int
    """The job that follows."""
    after: int
    """The one of its `after` that has ended."""
    unmet: bool = False
    """It ended otherwise than the job wants, which never starts."""

    def pack(self) -> bytes:
        flags = 1 if self.unmet else 0
        return _RANGE_END.pack(32, RANGE_END, flags, 0, self.job, self.after)

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _RANGE_END.unpack(raw)
        return tuple.__new__(cls, (f[4], f[5], bool(f[2] & 1)))


_SUBMIT_ARRAY = Struct("<HHIQQ16sQIIQQQQQQ8Q4Q4Q4QIIIIIhBBHHBBBB192s8QQII")
class SubmitArray(NamedTuple):
    """The next jobs of an array: `jobs` jobs that ask alike, with numbers that follow one another.
    Those of an array that begins get the next numbers, and `behind` further numbers are kept for
    the jobs that follow; a later command makes jobs of kept numbers, from `first` on. Its beginning
    has the layout of a SK_SUBMIT."""

    client: int
    key: bytes = b""
    """The key of the whole array, so a later command has none."""
    spec_hash: int = 0
    uid: int = 0
    tenant: int = 0
    priority: int = 0
    gpu_milli: int = 0
    """Milli-shares of devices of each task."""
    cpu_milli: int = 0
    memory_bytes: int = 0
    tasks: int = 1
    device_memory_bytes: int = 0
    """Memory of each device."""
    estimate_ns: int = 0
    """Expected run time; 0: not known."""
    group: int = 0
    """The group of ATTRACT and REPEL; 0: none."""
    array: int = 0
    """Shared by the jobs of one array; 0: none."""
    series: int = 0
    """Shared by jobs whose speeds compare; 0: none."""
    models: tuple[int, ...] = ()
    """Hashes of models; any will do, none: all will."""
    require: tuple[int, ...] = ()
    """Hashes of labels that the node must have."""
    avoid: tuple[int, ...] = ()
    """Hashes of labels that the node must not have."""
    tolerate: tuple[int, ...] = ()
    """Hashes of taints that do not matter."""
    after: tuple[int, ...] = ()
    """The jobs and ranges that must have ended before."""
    after_any: int = 0
    """Bit n: job n of `after` may have ended in any way."""
    after_fail: int = 0
    """Bit n: job n of `after` must have ended otherwise than well."""
    queue: int = 0
    min_run_s: int = 0
    """Not preempted before it ran for this time."""
    backoff_s: int = 0
    """Base of the pause before a retry; 0 means 1."""
    placement: int = Placement.QUEUE
    options: int = 0
    retries: int = 0
    """Attempts after the first, for failed and lost ones."""
    kinds: int = Kind.GPU
    """Kinds of devices that will do, as bits."""
    per_node: int = 0
    """Exactly so many tasks on each node of a gang; 0: as it fits."""
    conditions: Conditions = ()
    """Conditions on its devices."""
    first: int = 0
    """The number of the first of these jobs; 0: the next numbers."""
    jobs: int = 1
    """The number of these jobs."""
    behind: int = 0
    """Numbers that are kept for later jobs."""

    def pack(self) -> bytes:
        return _SUBMIT_ARRAY.pack(
            568, SUBMIT_ARRAY, 0, 0, self.client, self.key, self.spec_hash, self.uid, self.tenant,
            self.memory_bytes, self.device_memory_bytes, self.estimate_ns, self.group, self.array,
            self.series, *padded(self.models, 8), *padded(self.require, 4), *padded(self.avoid, 4),
            *padded(self.tolerate, 4), self.gpu_milli, self.cpu_milli, self.queue, self.min_run_s,
            self.backoff_s, self.priority, self.tasks, self.per_node, self.placement, self.options,
            self.retries, self.kinds, self.after_any, self.after_fail,
            pack_conditions(self.conditions), *padded(self.after, 8), self.first, self.jobs,
            self.behind,
        )

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _SUBMIT_ARRAY.unpack(raw)
        return tuple.__new__(cls, (
            f[4], f[5] if any(f[5]) else b"", f[6], f[7], f[8], f[40], f[35], f[36], f[9], f[41],
            f[10], f[11], f[12], f[13], f[14], tuple(filter(None, f[15:23])),
            tuple(filter(None, f[23:27])), tuple(filter(None, f[27:31])),
            tuple(filter(None, f[31:35])), tuple(filter(None, f[50:58])), f[47], f[48], f[37],
            f[38], f[39], f[43], f[44], f[45], f[46], f[42], unpack_conditions(f[49]), f[58],
            f[59], f[60],
        ))
