# SPDX-License-Identifier: Apache-2.0
"""The core's request of a JobSpec: names become ids, preferences become options.

Pure. Owns the expansion of an array into jobs with keys of their own, and the matching of shortened
device model names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import TypedDict

import msgspec

from stoker.mesh.replica.works import fence
from stoker.native.errors import BadRequest, KeyWindow
from stoker.scheduler.core import Core
from stoker.scheduler.names import hash64, name_id, queue_id
from stoker.scheduler.nouns import JobSpec, NodeReport, Owner
from stoker.scheduler.policies import Kind, Option, placement_of
from stoker.scheduler.wire_commands import Submit
from stoker.scheduler.wire_fields import Conditions
from stoker.scheduler.wire_names import JOB_MODELS_MAX

MODELS_SHOWN = 8
KINDS = {"gpu": Kind.GPU, "cpu": Kind.CPU, "any": Kind.GPU | Kind.CPU}
"""The core's kinds for each `device_kind`."""
NS = 1_000_000_000


def known_models(reports: Iterable[NodeReport]) -> list[str]:
    """Return the names of all device models of the cluster."""
    return sorted(
        {device.model for report in reports for device in report.devices if not device.gone}
    )


def models_of(spec: JobSpec, reports: Iterable[NodeReport]) -> tuple[str, ...]:
    """Return the models that a spec names; empty if it names none."""
    return models_meant(spec.models, known_models(reports)) if spec.models else ()


def models_meant(asked: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return the models that match names or parts of names in any case; BadRequest if none does."""
    everything = list(known)
    meant: dict[str, None] = {}
    for words in asked:
        exact = [model for model in everything if model.lower() == words.lower()]
        found = exact or [model for model in everything if _means(words.lower(), model.lower())]
        if not found:
            there = ", ".join(everything[:MODELS_SHOWN]) or "none"
            raise BadRequest(f"no device of model {words!r} is known", hint=f"There are: {there}")
        meant.update(dict.fromkeys(found))
    if len(meant) > JOB_MODELS_MAX:
        raise BadRequest(f"{len(meant)} device models are meant, at most {JOB_MODELS_MAX}")
    return tuple(meant)


def _means(words: str, model: str) -> bool:
    """True for a part of the name; a pattern with * or ? is for the whole name."""
    return fnmatchcase(model, words) if set("*?") & set(words) else words in model


def expand(
    spec: JobSpec, key: bytes, indexes: tuple[int, ...], after: int = 0
) -> Iterator[tuple[JobSpec, bytes]]:
    """Yield the job, or each job of an array behind the first ones, with its key."""
    if not indexes:
        yield spec, key
    for place in range(after, len(indexes)):
        index = indexes[place]
        own = msgspec.structs.replace(
            spec, array_size=len(indexes), array_index=index, array_place=place
        )
        mark = key + place.to_bytes(4, "little")
        yield own, hashlib.blake2b(mark, digest_size=16).digest() if key else b""


def forgotten(core: Core, owner: Owner, key: bytes, since_ns: int) -> KeyWindow | None:
    """Return the refusal of a repeat whose key may have been forgotten, or None."""
    if not since_ns or since_ns >= core.key_window(hash64(owner.user.encode()), key):
        return None
    return KeyWindow(
        "so many jobs were submitted since this key was first sent that it may have been forgotten",
        hint="`stoker jobs` shows whether its job exists; if not, submit it under a new key",
    )


def since_backup() -> KeyWindow:
    """Return the refusal of a repeat that was first sent before the cluster was restored."""
    return KeyWindow(
        "this key was first sent before the cluster was restored from a backup, which does not know"
        " it: its job may have run since that was taken",
        hint="If it may run again, submit it under a new key",
    )


def submit(
    owner: Owner,
    key: bytes,
    spec: JobSpec,
    raw: bytes,
    models: Iterable[str],
    *,
    conditions: Conditions = (),
    mark: bytes = b"",
) -> Submit:
    """Return the core's request; `raw` is the encoded spec, which a repeated key must match, and
    so must `mark`."""
    return Submit(
        client=hash64(owner.user.encode()),
        key=key,
        spec_hash=hash64(raw + mark),
        uid=owner.uid,
        priority=spec.priority,
        gpu_milli=spec.gpu_milli,
        cpu_milli=spec.cpu_milli or 0,
        memory_bytes=spec.memory_bytes or 0,
        device_memory_bytes=spec.device_memory_bytes or 0,
        estimate_ns=int((spec.estimate_s or 0) * NS),
        group=name_id(f"{owner.user}/{spec.group}") if spec.group else 0,
        series=series(owner.user, spec),
        models=tuple(map(name_id, models)),
        require=tuple(map(name_id, spec.require)),
        avoid=tuple(map(name_id, spec.avoid)),
        tolerate=tuple(map(name_id, fence.tolerations(spec))),
        **_afters(spec),
        queue=queue_id(spec.queue),
        min_run_s=spec.min_run_s,
        backoff_s=spec.backoff_s or 0,
        placement=placement(spec),
        options=options(spec),
        retries=spec.retries,
        tasks=spec.tasks,
        per_node=spec.tasks_per_node,
        kinds=KINDS[spec.device_kind],
        conditions=conditions,
    )


def series(user: str, spec: JobSpec) -> int:
    """Return the number of the jobs with which this one is compared in speed: those of one user
    with the same name, or the same program and arguments, and the same devices; 0 without any."""
    if not spec.gpu_milli:
        return 0
    what = [spec.name] if spec.name else ["", *spec.argv]
    shape = [str(spec.gpu_milli), str(spec.tasks)]
    return hash64("\0".join([user, *shape, *what]).encode()) or 1


class _Afters(TypedDict):
    after: tuple[int, ...]
    after_any: int
    after_fail: int


def _afters(spec: JobSpec) -> _Afters:
    """Return the jobs to follow as the core has them: one list, and which may end in what way."""
    after = (*spec.after, *spec.after_any, *spec.after_fail)
    ends_in_any_way, fails = len(spec.after), len(spec.after) + len(spec.after_any)
    return {
        "after": after,
        "after_any": (1 << fails) - (1 << ends_in_any_way),
        "after_fail": (1 << len(after)) - (1 << fails),
    }


def placement(spec: JobSpec) -> int:
    """Return the core's number of a placement policy."""
    return placement_of(spec.placement)


_chosen = attrgetter(
    *("preemptible", "preemptor", "company", "same_link", "mix_vendors", "restart")
)
_NOTHING_CHOSEN = _chosen(JobSpec(argv=()))


def options(spec: JobSpec) -> int:
    """Return the core's options of a job."""
    if _chosen(spec) == _NOTHING_CHOSEN:
        return 0
    chosen = {
        Option.PREEMPTIBLE: spec.preemptible,
        Option.PREEMPTOR: spec.preemptor,
        Option.ATTRACT: spec.company == "attract",
        Option.REPEL: spec.company == "repel",
        Option.SAME_LINK: spec.same_link,
        Option.MIX_VENDORS: spec.mix_vendors,
        Option.LOST_ONLY: spec.restart == "on-node-loss",
    }
    return sum(option for option, wanted in chosen.items() if wanted)
