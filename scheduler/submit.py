# SPDX-License-Identifier: Apache-2.0
"""What a job asks for, as the core takes and keeps it.

Mirrors `struct sk_submit` and `struct sk_ask` of `native/core/wire.h` field by field; sizes are
compared with the module's at import.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from stoker.scheduler.policies import Kind, Placement

SUBMIT: Final = 5
MODELS_PER_JOB_MAX = 8
LABELS_PER_JOB_MAX = 4
"""Labels of each sort (required, avoided, tolerated) that a job may name."""

_SUBMIT = Struct("<HHIQQ16sQII240s")
_ASK = Struct("<6Q8Q4Q4Q4Q5IhHHHHH")
SUBMIT_BYTES: Final = _SUBMIT.size


class Submit(NamedTuple):
    """A job asks in. CPU and memory are reserved where not 0; devices are per task."""

    client: int
    """64-bit id of who submits; keys are per client."""
    key: bytes = b""
    """Idempotency key, up to 16 bytes; empty for none."""
    spec_hash: int = 0
    """The same key with another hash is refused."""
    uid: int = 0
    tenant: int = 0
    priority: int = 0
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    tasks: int = 1
    device_memory_bytes: int = 0
    """Of each device."""
    estimate_ns: int = 0
    """Expected run time; 0: not known."""
    after: int = 0
    """A job that must have ended well before (Option.AFTER_ANY: in any way)."""
    group: int = 0
    """Of Option.ATTRACT and REPEL."""
    array: int = 0
    """Shared by the jobs of one array."""
    models: tuple[int, ...] = ()
    """Hashes of the device models that will do; empty for any."""
    require: tuple[int, ...] = ()
    """Hashes of labels that the node must have."""
    avoid: tuple[int, ...] = ()
    tolerate: tuple[int, ...] = ()
    """Hashes of taints that do not matter."""
    queue: int = 0
    min_run_s: int = 0
    """Not preempted before it ran so long."""
    backoff_s: int = 0
    """Base of the pause before a retry; 0 means 1."""
    placement: int = Placement.QUEUE
    options: int = 0
    retries: int = 0
    """Attempts after the first, for failed and lost ones."""
    kinds: int = Kind.GPU
    """Of devices that will do, as bits."""

    def pack(self) -> bytes:
        return _SUBMIT.pack(
            _SUBMIT.size, SUBMIT, 0, 0, self.client, self.key, self.spec_hash, self.uid,
            self.tenant, pack_ask(self),
        )  # fmt: skip


def pack_ask(ask: Submit) -> bytes:
    """The part of a Submit that says what is asked for, `struct sk_ask`."""
    return _ASK.pack(
        ask.memory_bytes, ask.device_memory_bytes, ask.estimate_ns, ask.after, ask.group,
        ask.array, *_padded(ask.models, MODELS_PER_JOB_MAX),
        *_padded(ask.require, LABELS_PER_JOB_MAX), *_padded(ask.avoid, LABELS_PER_JOB_MAX),
        *_padded(ask.tolerate, LABELS_PER_JOB_MAX), ask.gpu_milli, ask.cpu_milli, ask.queue,
        ask.min_run_s, ask.backoff_s, ask.priority, ask.tasks, ask.placement, ask.options,
        ask.retries, ask.kinds,
    )  # fmt: skip


def _padded(names: tuple[int, ...], count: int) -> tuple[int, ...]:
    if len(names) > count:
        raise ValueError(f"a job names at most {count} of a sort, not {len(names)}")
    return (*names, *(0,) * (count - len(names)))


def unpack_submit(raw: bytes) -> Submit:
    """The tuple of one stored record."""
    client, key, spec_hash, uid, tenant, ask = _SUBMIT.unpack(raw)[4:]
    return unpack_ask(ask, Submitter(client, key if any(key) else b"", spec_hash, uid, tenant))


class Submitter(NamedTuple):
    """The part of a Submit that is not asked for."""

    client: int
    key: bytes
    spec_hash: int
    uid: int
    tenant: int


def unpack_ask(raw: bytes, by: Submitter) -> Submit:
    """The reverse of `pack_ask`."""
    f = _ASK.unpack(raw)
    gpu, cpu, queue, min_run, backoff, priority, tasks, placement, options, retries, kinds = f[26:]
    return Submit(
        *by, priority, gpu, cpu, f[0], tasks, f[1], f[2], f[3],
        f[4], f[5], _named(f[6:14]), _named(f[14:18]), _named(f[18:22]), _named(f[22:26]), queue,
        min_run, backoff, placement, options, retries, kinds,
    )  # fmt: skip


def _named(names: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(filter(None, names))
