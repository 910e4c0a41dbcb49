# SPDX-License-Identifier: Apache-2.0
"""Admission: the checks of a JobRequest by itself, and the JobSpec that it becomes.

Guarantees that a refusal names the field. The limits of an option are in its declaration. The core
refuses requests that do not fit the cluster, such as missing devices or a full queue.
"""

from __future__ import annotations

import hashlib
from operator import attrgetter

import msgspec

from stoker.mesh.server.admission_conditions import check_conditions
from stoker.mesh.server.admission_devices import check_devices
from stoker.mesh.wire import output_spool
from stoker.mesh.wire.job_request import Afters, JobRequest, job_spec
from stoker.native.errors import BadRequest
from stoker.scheduler import array_indexes
from stoker.scheduler.array_indexes import INDEX_MAX, JOBS_MAX, ArrayIndexes
from stoker.scheduler.figures import Figure
from stoker.scheduler.followed_ranges import range_of
from stoker.scheduler.job_options import LIMITS
from stoker.scheduler.names import check_label, check_name, label_key
from stoker.scheduler.nouns import (
    ARGV_BYTES_MAX,
    DEVICES_PER_JOB_MAX,
    ENV_BYTES_MAX,
    MILLI,
    TASKS_PER_JOB_MAX,
    JobSpec,
)
from stoker.scheduler.policies import placement_name
from stoker.scheduler.wire_names import JOB_AFTERS_MAX, JOB_LABELS_MAX, JOB_MODELS_MAX

ARGV_MAX = 4096
ENV_MAX = 1024
CWD_BYTES_MAX = 4095
"""The length of PATH_MAX without its NUL (limits.h)."""
NAME_CHARS_MAX = 128
KEY_CHARS_MAX = 128
LAUNCH_KEY_CHARS_LEAST = 16
MODEL_BYTES_MAX = 128
RESTARTS = 3
"""The further attempts of a job whose restart policy names no number."""
ARRAY_CHARS_MAX = 32 * 1024
"""The longest list of indexes in words."""


NO_AFTERS = Afters()
NO_INDEXES = ArrayIndexes()
_USUAL = JobRequest(argv=("true",))
"""A request of which only the program is said, so that its other words need no check."""
_limited = attrgetter(*(limit.option for limit in LIMITS))
_USUAL_LIMITED = _limited(_USUAL)


def admit(request: JobRequest, afters: Afters = NO_AFTERS) -> JobSpec:
    """Return the spec to log; BadRequest names the first wrong field.

    `afters` has the numbers of the jobs that the request names.
    """
    _check_argv(request.argv)
    _check_env(request.env)
    _check_cwd(request.cwd)
    _check_words(request)
    _check_gpu(request.gpu_milli)
    _check_limits(request)
    _check_names(request)
    check_conditions(request)
    check_devices(request)
    _check_array(request)
    _check_again(request)
    _check_afters(afters)
    tasks, each = gang_shape(request)
    if request.mpi and tasks == 1:
        raise BadRequest("mpi is for a gang, but there is one task: --tasks or --nodes")
    implied = attempts_more(request), tasks, each, placement_name(request.placement)
    whole = request
    if implied != (request.retries, request.tasks, request.tasks_per_node, request.placement):
        retries, tasks, each, placement = implied
        whole = msgspec.structs.replace(
            request, retries=retries, tasks=tasks, tasks_per_node=each, placement=placement
        )
    if request.spool_output_bytes is not None:
        env = {**request.env, output_spool.VARIABLE: str(request.spool_output_bytes)}
        whole = msgspec.structs.replace(whole, env=env)
    spec = job_spec(whole, afters)
    return msgspec.structs.replace(spec, launch_key=_launch_key(request)) if spec.mpi else spec


def _launch_key(request: JobRequest) -> str:
    """Return a secret of this job: its key is known to nobody else, and is the same in a repeat."""
    key = request.idempotency_key.encode()
    return hashlib.blake2b(key, digest_size=16, person=b"stoker-launch").hexdigest()


def key_bytes(key: str) -> bytes:
    """Return an idempotency key as the core keeps it: 16 bytes, or empty for none."""
    return hashlib.blake2b(key.encode(), digest_size=16).digest() if key else b""


def _check_argv(argv: tuple[str, ...]) -> None:
    if not argv or not argv[0]:
        raise BadRequest("argv is empty: there is no program to run")
    if len(argv) > ARGV_MAX:
        raise BadRequest(f"argv has {len(argv)} words, at most {ARGV_MAX}")
    size = sum(_bytes(word, "argv") + 1 for word in argv)
    if size > ARGV_BYTES_MAX:
        raise BadRequest(f"argv has {size} bytes, at most {ARGV_BYTES_MAX}")


def _check_env(env: dict[str, str]) -> None:
    if len(env) > ENV_MAX:
        raise BadRequest(f"env has {len(env)} variables, at most {ENV_MAX}")
    size = 0
    for name, value in env.items():
        if not name or "=" in name:
            raise BadRequest(f"not the name of an environment variable: {name[:40]!r}")
        size += _bytes(name, "env") + _bytes(value, "env") + 2
    if size > ENV_BYTES_MAX:
        raise BadRequest(f"env has {size} bytes, at most {ENV_BYTES_MAX}")


def _check_cwd(cwd: str) -> None:
    if not cwd.startswith("/"):
        raise BadRequest(f"cwd is not an absolute path: {cwd[:80]!r}")
    if _bytes(cwd, "cwd") > CWD_BYTES_MAX:
        raise BadRequest(f"cwd has more than {CWD_BYTES_MAX} bytes")


def _check_words(request: JobRequest) -> None:
    if len(request.name) > NAME_CHARS_MAX or not request.name.isprintable():
        raise BadRequest(f"name has at most {NAME_CHARS_MAX} printable characters")
    if len(request.idempotency_key) > KEY_CHARS_MAX:
        raise BadRequest(f"idempotency_key has at most {KEY_CHARS_MAX} characters")
    _bytes(request.name, "name")
    _bytes(request.idempotency_key, "idempotency_key")


def _check_gpu(gpu_milli: int) -> None:
    if gpu_milli < 0:
        raise BadRequest(f"gpu_milli is {gpu_milli}, at least 0")
    if gpu_milli > MILLI and gpu_milli % MILLI:
        raise BadRequest(
            f"gpu_milli is {gpu_milli}: up to {MILLI} is a part of one device,"
            f" more must be a multiple of {MILLI}"
        )
    if gpu_milli > DEVICES_PER_JOB_MAX * MILLI:
        raise BadRequest(
            f"gpu_milli asks for {gpu_milli // MILLI} devices, at most {DEVICES_PER_JOB_MAX}"
        )


def _check_limits(request: JobRequest) -> None:
    if _limited(request) == _USUAL_LIMITED:
        return
    for limit in LIMITS:
        _within(limit.option, getattr(request, limit.option), limit.least, limit.most, limit.unit)


def _check_names(request: JobRequest) -> None:
    if request.queue:
        check_name(request.queue, "queue")
    if request.group:
        check_name(request.group, "group")
    if request.company and not request.group:
        raise BadRequest(f"company is {request.company!r}, but no group is named")
    for field in ("require", "avoid", "tolerate"):
        labels: tuple[str, ...] = getattr(request, field)
        if len(labels) > JOB_LABELS_MAX:
            raise BadRequest(f"{field} has {len(labels)} labels, at most {JOB_LABELS_MAX}")
        for label in labels:
            check_label(label, field)
    _check_labels_agree(request)
    if len(request.models) > JOB_MODELS_MAX:
        raise BadRequest(f"models has {len(request.models)} names, at most {JOB_MODELS_MAX}")
    for model in request.models:
        if not 0 < _bytes(model, "models") <= MODEL_BYTES_MAX or not model.isprintable():
            raise BadRequest(f"a device model has 1 to {MODEL_BYTES_MAX} bytes: {model[:80]!r}")


def _check_labels_agree(request: JobRequest) -> None:
    """Refuse labels that no node can have together: a node has one value of a key."""
    for label in request.require:
        if label in request.avoid:
            raise BadRequest(f"require and avoid both name {label!r}: no node is with and without")
        first = next(each for each in request.require if label_key(each) == label_key(label))
        if first != label:
            raise BadRequest(f"require names {first!r} and {label!r}: a node has one of them")


def check_afters_count(request: JobRequest) -> None:
    """Refuse more jobs to follow than a job may name, before any of them is looked up."""
    _check_count(len(request.after) + len(request.after_any) + len(request.after_fail))


def _check_count(named: int) -> None:
    if named > JOB_AFTERS_MAX:
        raise BadRequest(
            f"after, after_any and after_fail name {named} jobs, at most {JOB_AFTERS_MAX}",
            hint="let one job follow some of them, and this one follow that one",
        )


def _check_afters(afters: Afters) -> None:
    named: dict[int, str] = {}
    for option, jobs in afters._asdict().items():
        for job in jobs:
            if job in named:
                found = range_of(job)
                what = f"job {job}" if found is None else f"array {found.text}"
                raise BadRequest(f"{what} is named twice, in {named[job]} and in {option}")
            named[job] = option
    _check_count(len(named))


def indexes_of(request: JobRequest) -> ArrayIndexes:
    """Return the indexes that a request has in words; BadRequest if they are none."""
    if not request.array_list:
        return NO_INDEXES
    if len(request.array_list) > ARRAY_CHARS_MAX:
        raise BadRequest(f"array_list has more than {ARRAY_CHARS_MAX} characters")
    return array_indexes.parse(request.array_list, "array_list")


def _check_array(request: JobRequest) -> None:
    if not request.array and not request.array_list:
        return
    if request.array and request.array_list:
        raise BadRequest("array and array_list: one of them has the indexes")
    numbers = request.array or tuple(indexes_of(request))
    if len(numbers) > JOBS_MAX:
        raise BadRequest(f"array has {len(numbers)} jobs, at most {JOBS_MAX}")
    if len(set(numbers)) != len(numbers):
        raise BadRequest("array names an index twice")
    for index in (min(numbers, default=0), max(numbers, default=0)):
        _within("array", index, 0, INDEX_MAX)
    if numbers and request.stdin:
        raise BadRequest("stdin with an array: input goes to one job")


def gang_shape(request: JobRequest) -> tuple[int, int]:
    """Return how many tasks there are in all, and on each node (0: as it fits)."""
    tasks, each, nodes = request.tasks, request.tasks_per_node, request.nodes
    if not each and not nodes:
        return tasks, 0
    if each:
        whole = each * nodes or (tasks if tasks > 1 else each)
    else:
        whole = tasks if tasks > 1 else nodes
        each = max(1, whole // nodes)
    if whole > TASKS_PER_JOB_MAX:
        most = TASKS_PER_JOB_MAX
        raise BadRequest(f"{nodes} nodes with {each} tasks are {whole} tasks, at most {most}")
    if whole % each or (nodes and each * nodes != whole) or tasks not in (1, whole):
        shape = f"{nodes} nodes, {each} each" if nodes else f"{each} on each node"
        raise BadRequest(f"{tasks} tasks cannot be divided that way: {shape}")
    return whole, each if whole > 1 else 0


def attempts_more(request: JobRequest) -> int:
    """Return how many further attempts a job may have; a policy that names no number has a few."""
    implied = request.restart in ("on-node-loss", "always")
    return request.retries or (RESTARTS if implied else 0)


def _check_again(request: JobRequest) -> None:
    """Refuse options of further attempts and of devices that contradict each other."""
    if request.restart == "never" and request.retries:
        raise BadRequest(f"restart is 'never', but retries is {request.retries}")
    if request.rank_trouble == "restart" and (
        not attempts_more(request) or request.restart == "on-node-loss"
    ):
        raise BadRequest(
            "rank_trouble is 'restart', but no attempt follows one that failed: give retries"
        )
    if request.stdin and (attempts_more(request) or request.preemptible):
        raise BadRequest(
            "stdin with further attempts: input is given once; let the job read a file instead"
        )
    if (request.same_link or request.device_memory_bytes) and not request.gpu_milli:
        raise BadRequest("same_link and device_memory_bytes speak of devices, but gpu_milli is 0")
    if request.mpi and len(request.idempotency_key) < LAUNCH_KEY_CHARS_LEAST:
        raise BadRequest(
            f"mpi needs an idempotency_key of at least {LAUNCH_KEY_CHARS_LEAST} characters that"
            " nobody can guess: its ranks know each other by it"
        )
    if request.min_run_s and not request.preemptible:
        raise BadRequest("min_run_s is set, but the job is not preemptible")


def _within(field: str, value: float | None, low: float, high: float, unit: str = "") -> None:
    """Raise BadRequest unless a value is in its range.

    With a unit of `figures` the message reads "memory_bytes is 2 PiB, from 1 MiB to 1 PiB".
    """
    if value is not None and not low <= value <= high:  # false for NaN as well
        if unit:
            value, low, high = (Figure(number) for number in (value, low, high))
        raise BadRequest(f"{field} is {value:{unit}}, from {low:{unit}} to {high:{unit}}")


def _bytes(text: str, field: str) -> int:
    if "\0" in text:
        raise BadRequest(f"{field} holds a NUL character, which no program can be given")
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise BadRequest(f"{field} is not valid Unicode: {ascii(text)[:80]}") from None
