# SPDX-License-Identifier: Apache-2.0
"""Admission of what a request says of its devices as a set: which ones, whose, and how linked.

Pure. Whether there are such devices is for the core to say; words that contradict each other are
refused here, each with one line that names both.
"""

from __future__ import annotations

from operator import attrgetter

from stoker.mesh.wire.job_request import JobRequest
from stoker.native.errors import BadRequest
from stoker.scheduler.conditions import JOB_CONDITIONS_MAX, PREFERENCES_MAX
from stoker.scheduler.names import check_label
from stoker.scheduler.nouns import MILLI

ID_CHARS_MAX = 256
_said = attrgetter(
    *("device_ids", "device_ids_mode", "exclusivity", "topology", "min_link_gbps", "numa"),
    *("prefer", "within", "prefer_within"),
)
_NOTHING_SAID = _said(JobRequest(argv=("true",)))


def check_devices(request: JobRequest) -> None:
    """Raise BadRequest for the first word on its devices that contradicts another."""
    if _said(request) == _NOTHING_SAID:
        return
    said = [name for name in ("device_ids", "exclusivity") if getattr(request, name)]
    said += ["topology"] if request.topology != "none" else []
    said += ["numa"] if request.numa == "require" else []
    if said and not request.gpu_milli:
        raise BadRequest(f"{said[0]} speaks of devices, but gpu_milli is 0")
    _check_ids(request)
    _check_exclusivity(request)
    _check_topology(request)
    wishes = len(request.prefer) + (request.topology == "preferred")
    wishes += bool(request.device_ids) and request.device_ids_mode == "prefer"
    _check_levels(request)
    wishes += len(request.prefer_within)
    if wishes > PREFERENCES_MAX:
        raise BadRequest(
            f"prefer, device_ids, topology and prefer_within come to {wishes} preferences, at most"
            f" {PREFERENCES_MAX}"
        )


def _check_levels(request: JobRequest) -> None:
    levels = (*filter(None, (request.within,)), *request.prefer_within)
    for level in levels:
        try:
            check_label(f"{level}=x")
        except BadRequest:
            raise BadRequest(f"{level[:80]!r} is not the key of a label, as rack is") from None
    if len(set(levels)) < len(levels):
        raise BadRequest("within and prefer_within name a level twice")
    if levels and max(request.tasks, request.tasks_per_node, request.nodes) == 1:
        raise BadRequest(
            f"within {levels[0]!r} keeps the tasks of a gang together, but the job has one task",
            hint=f"--node-label {levels[0]}=NAME keeps a job in one of them",
        )


def _check_ids(request: JobRequest) -> None:
    ids = request.device_ids
    if not ids:
        if request.device_ids_mode == "require":
            raise BadRequest("device_ids_mode is 'require', but device_ids names no device")
        return
    if len(ids) > JOB_CONDITIONS_MAX:
        raise BadRequest(f"device_ids has {len(ids)} devices, at most {JOB_CONDITIONS_MAX}")
    for id in ids:
        if not 0 < len(id) <= ID_CHARS_MAX or not id.isprintable():
            raise BadRequest(f"device_ids has ids of 1 to {ID_CHARS_MAX} printable characters")
    if len(set(ids)) < len(ids):
        raise BadRequest("device_ids names a device twice")
    wanted = max(1, request.gpu_milli // MILLI)
    if len(ids) < wanted:
        raise BadRequest(f"device_ids names {len(ids)} devices, but gpu_milli asks for {wanted}")


def _check_exclusivity(request: JobRequest) -> None:
    word, part = request.exclusivity, request.gpu_milli % MILLI
    if word in ("exclusive", "mig") and part:
        raise BadRequest(
            f"exclusivity is {word!r}, but gpu_milli asks for a part of one device",
            hint="ask for whole ones (--gpus 1), or say shared",
        )
    if word == "shared" and not part:
        raise BadRequest(
            "exclusivity is 'shared', but gpu_milli asks for whole devices",
            hint="ask for a part of one: --gpus 0.5",
        )
    if word == "exclusive" and request.profiles:
        raise BadRequest("exclusivity is 'exclusive', a whole card, but profiles names partitions")
    if word == "mig" and request.device_kind == "cpu":
        raise BadRequest("exclusivity is 'mig', a partition of a GPU, but device_kind is 'cpu'")


def _check_topology(request: JobRequest) -> None:
    mode, devices = request.topology, request.gpu_milli // MILLI
    if mode == "none":
        if request.min_link_gbps:
            raise BadRequest(f"min_link_gbps is {request.min_link_gbps}, but topology is 'none'")
        return
    if request.gpu_milli % MILLI:
        raise BadRequest(f"topology is {mode!r}, but a part of one device has no link of its own")
    if devices == 1 and max(request.tasks, request.tasks_per_node, request.nodes) == 1:
        raise BadRequest(f"topology is {mode!r}, but the job has one device: nothing to link")
    if mode == "preferred" and request.same_link:
        raise BadRequest("same_link requires the link that topology 'preferred' only prefers")
