# SPDX-License-Identifier: Apache-2.0
"""The public views of jobs and of the decisions about them, made from the replicated state.

Pure. Owns the translation of indexes and codes into ids and sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from stoker.mesh.replica import followed_jobs, gangs
from stoker.mesh.replica.departed_nodes import report_of
from stoker.mesh.replica.replica import Replica
from stoker.mesh.server import verdict_words
from stoker.mesh.server.cluster_views import position
from stoker.mesh.server.numa_words import numa_words
from stoker.mesh.wire import output_spool, schema
from stoker.mesh.wire.job_request import shown_spec
from stoker.native.errors import NotFound
from stoker.scheduler.book import Attempt, Job
from stoker.scheduler.followed_ranges import RANGE
from stoker.scheduler.names import DEFAULT_QUEUE
from stoker.scheduler.nouns import Decision, DeviceShare, JobSpec, NodeReport

SHORT_ARGV_CHARS = 400
"""The most characters of a command line in a list."""
SPECS_KEPT = 64
SPEC_BYTES_KEPT = 8192
"""The most specs that are kept decoded, and the most bytes of one that is."""

_specs = msgspec.msgpack.Decoder(JobSpec)


def job_view(
    replica: Replica, job: Job, *, short: bool = False, at: schema.LogPosition | None = None
) -> schema.JobView:
    """Return one job, `at` this position; `short` omits the environment and most of a long command
    line."""
    spec, shown = _known_specs(job.spec, short)
    told = tuple(troubles(replica, job))
    verdict = verdict_words.judged(replica, job, spec, told)
    return schema.JobView(
        job=job.job,
        user=job.owner.user,
        uid=job.owner.uid,
        name=spec.name,
        state=job.state,
        reason=job.reason,
        attempt=job.attempt,
        times=schema.Times(
            submitted_ns=job.submitted_ns,
            placed_ns=job.placed_ns,
            started_ns=job.started_ns,
            ended_ns=job.ended_ns,
        ),
        spec=shown,
        decision=_decision(replica, spec, job.decision, short=short),
        exit_code=job.exit_code,
        signal=job.signal,
        usage=None
        if job.usage is None
        else schema.UsageView(
            cpu_ns=job.usage.cpu_ns,
            memory_peak_bytes=job.usage.memory_peak_bytes,
            output_bytes=job.usage.output_bytes,
            output_dropped_bytes=job.usage.output_dropped_bytes,
        ),
        attempts=tuple(map(attempt_view, job.attempts)),
        array=_array(job.job, spec),
        device_ns=_device_ns(replica, job.job),
        position=at,
        nodes=tuple(dict.fromkeys(rank.decision.node for rank in job.ranks)) if job.ranks else (),
        ranks=() if short else tuple(_ranks(replica, job)),
        master=_master(replica, job),
        follows=() if short else tuple(_follows(replica, spec)),
        troubles=told,
        verdict=verdict.verdict,
        verdict_absent=verdict.absent,
    )


def reply_view(replica: Replica, job: Job) -> schema.JobView:
    """Return a job as the state has it now, with the position in the log of that state.

    A job that was forgotten meanwhile is returned as it was, without a position.
    """
    try:
        now = replica.state.book.get(job.job)
    except NotFound:
        return job_view(replica, job)
    return job_view(replica, now, at=position(replica))


def shortened(view: schema.JobView) -> schema.JobView:
    """Return the job without its environment and most of a long command line."""
    argv, _ = short_argv(view.spec.argv)
    spec = msgspec.structs.replace(view.spec, env=None, argv=argv, short=True)
    return msgspec.structs.replace(view, spec=spec)


def attempt_view(attempt: Attempt) -> schema.AttemptView:
    """Return an attempt that was followed by another one."""
    return schema.AttemptView(
        attempt=attempt.attempt,
        state=attempt.state,
        reason=attempt.reason,
        node=attempt.decision.node if attempt.decision is not None else None,
        placed_ns=attempt.placed_ns,
        started_ns=attempt.started_ns,
        ended_ns=attempt.ended_ns,
        exit_code=attempt.exit_code,
        signal=attempt.signal,
    )


def _ranks(replica: Replica, job: Job) -> Iterator[schema.RankView]:
    for number, rank in enumerate(job.ranks):
        report = report_of(replica.state, rank.decision)
        yield schema.RankView(
            rank=number,
            node=rank.decision.node,
            devices=tuple(_share(report, share) for share in rank.decision.devices),
            state=rank.state,
            reason=rank.reason,
            exit_code=rank.exit_code,
            signal=rank.signal,
            decision=rank.decision.id,
        )


def troubles(replica: Replica, job: Job) -> Iterator[schema.RankTroubleView]:
    """Yield the ranks of a job that keep others waiting now."""
    for node, said in replica.nodes.ranks.troubles(job):
        report = replica.state.book.nodes.get(node)
        decision = _decision_of(job, said.task)
        shares = decision.devices if decision is not None else ()
        devices = [_share(report, share) for share in shares]
        yield schema.RankTroubleView(
            rank=said.rank,
            kind=said.kind,
            text=said.text,
            node=node,
            task=said.task,
            devices=tuple(each.id for each in devices),
            sim=any(each.sim for each in devices),
            longer=said.longer,
            since_ns=said.since_ns,
            named_ns=said.named_ns,
            lag_ns=said.lag_ns,
        )


def _decision_of(job: Job, task: int | None) -> Decision | None:
    if task is None or task >= max(1, len(job.ranks)):
        return None
    return job.ranks[task].decision if job.ranks else job.decision


def _master(replica: Replica, job: Job) -> str:
    gang = gangs.gang_of(job, replica.state.book.nodes) if job.master_port else None
    return f"{gang.master_addr}:{gang.master_port}" if gang is not None else ""


def _follows(replica: Replica, spec: JobSpec) -> Iterator[schema.FollowedView]:
    for each in followed_jobs.followed(replica.state.book, spec):
        array = (each.job + each.size - 1, each.left) if each.size > 1 else (None, None)
        yield schema.FollowedView(each.job, each.wanted, each.state, *array)


def _array(job: int, spec: JobSpec) -> schema.ArrayView | None:
    if not spec.array_size:
        return None
    first = job - spec.array_place
    return schema.ArrayView(first=first, size=spec.array_size, index=spec.array_index)


def _device_ns(replica: Replica, job: int) -> int | None:
    known = replica.state.core.job_figures(job)
    return known.attained_ns + max(known.charged_ns, known.spent_ns) if known is not None else None


def _known_specs(raw: bytes, short: bool) -> tuple[JobSpec, schema.Spec]:
    """Return a job's spec, and what is shown of it. Many jobs have the spec of the one before."""
    return (_kept_specs if len(raw) <= SPEC_BYTES_KEPT else _specs_of)(raw, short)


def _specs_of(raw: bytes, short: bool) -> tuple[JobSpec, schema.Spec]:
    spec = _specs.decode(raw)
    return spec, _shown(spec, short)


_kept_specs = lru_cache(maxsize=SPECS_KEPT)(_specs_of)


def _shown(spec: JobSpec, short: bool) -> schema.Spec:
    argv, cut = short_argv(spec.argv) if short else (spec.argv, False)
    env = None if short else spec.env
    return shown_spec(
        _without_ranges(spec),
        argv=argv,
        env=env,
        short=cut,
        queue=spec.queue or DEFAULT_QUEUE,
        spool_output_bytes=output_spool.bytes_of(spec.env) or None,
    )


def _without_ranges(spec: JobSpec) -> JobSpec:
    """Return the spec with jobs alone among those that it follows; `follows` has the arrays."""
    afters = {name: getattr(spec, name) for name in ("after", "after_any", "after_fail")}
    if not any(number & RANGE for numbers in afters.values() for number in numbers):
        return spec
    jobs = {
        name: tuple(number for number in numbers if not number & RANGE)
        for name, numbers in afters.items()
    }
    return msgspec.structs.replace(spec, **jobs)


def short_argv(argv: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """Return the beginning of a command line, and True if anything was cut."""
    room = SHORT_ARGV_CHARS
    words: list[str] = []
    for word in argv:
        words.append(word[:room])
        room -= len(word) + 1
        if room <= 0:
            break
    shortened = tuple(words)
    return shortened, shortened != argv


def decision_view(
    replica: Replica, job: Job, decision: Decision | None, *, short: bool = False
) -> schema.DecisionView | None:
    """Return where a job was placed and why, with its devices by id; `short` omits its binding."""
    return _decision(replica, job.decoded_spec(), decision, short=short) if decision else None


def _decision(
    replica: Replica, spec: JobSpec, decision: Decision | None, *, short: bool
) -> schema.DecisionView | None:
    if decision is None:
        return None
    report = report_of(replica.state, decision)
    return schema.DecisionView(
        id=decision.id,
        node=decision.node,
        devices=tuple(_share(report, share) for share in decision.devices),
        reason=decision.reason,
        latency_ns=decision.latency_ns,
        observations=decision.observations,
        numa="" if short else numa_words(report, spec, decision),
    )


def _share(report: NodeReport | None, share: DeviceShare) -> schema.ShareView:
    index, milli = share.index, share.milli
    if report is None or index >= len(report.devices):
        return schema.ShareView(id=f"device-{index}", index=index, milli=milli)
    device = report.devices[index]
    return schema.ShareView(id=device.id, index=index, milli=milli, sim=device.sim)
