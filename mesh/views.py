# SPDX-License-Identifier: Apache-2.0
"""From the replicated state to what a user reads: jobs, explanations, nodes and devices.

Relied on by the job service. Pure; owns the translation of indexes and codes into ids and
sentences, and that one reply stays below the broker's limit.
"""

from __future__ import annotations

from stoker.mesh import cluster_views, schema, wording
from stoker.mesh.replica import Replica
from stoker.scheduler.book import Attempt, Job
from stoker.scheduler.effects import Explained
from stoker.scheduler.names import DEFAULT_QUEUE
from stoker.scheduler.nouns import ENDED, Decision, DeviceShare, JobSpec, NodeReport
from stoker.scheduler.reasons import Reason, reason_of
from stoker.scheduler.remedies import Remedy

SHORT_ARGV_CHARS = 400
"""Of the command line in a list."""
EXPLAIN_MAX = 64
ACTIONS_MAX = 6


def job_view(replica: Replica, job: Job, *, short: bool = False) -> schema.JobView:
    """One job; `short` leaves out the environment and most of a long command line."""
    spec = job.decoded_spec()
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
        spec=_spec(spec, short),
        decision=_decision(replica, job.decision),
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
        attempts=tuple(map(_attempt, job.attempts)),
        array=_array(job.job, spec),
        device_ns=_device_ns(replica, job.job),
    )


def _attempt(attempt: Attempt) -> schema.AttemptView:
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


def _array(job: int, spec: JobSpec) -> schema.ArrayView | None:
    if not spec.array_size:
        return None
    first = job - spec.array_place
    return schema.ArrayView(first=first, size=spec.array_size, index=spec.array_index)


def _device_ns(replica: Replica, job: int) -> int | None:
    info = replica.state.core.job(job)
    return info.attained_ns + max(info.charged_ns, info.spent_ns) if info is not None else None


def _spec(spec: JobSpec, short: bool) -> schema.Spec:
    argv, cut = short_argv(spec.argv) if short else (spec.argv, False)
    return schema.Spec(
        argv=argv,
        cwd=spec.cwd,
        env=None if short else spec.env,
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
        short=cut,
        queue=spec.queue or DEFAULT_QUEUE,
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
        backoff_s=spec.backoff_s,
        preemptible=spec.preemptible,
        preemptor=spec.preemptor,
        min_run_s=spec.min_run_s,
        same_link=spec.same_link,
        device_memory_bytes=spec.device_memory_bytes,
        device_kind=spec.device_kind,
        mix_vendors=spec.mix_vendors,
    )


def short_argv(argv: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """The beginning of a command line, and whether it is not all of it."""
    room = SHORT_ARGV_CHARS
    words: list[str] = []
    for word in argv:
        words.append(word[:room])
        room -= len(word) + 1
        if room <= 0:
            break
    shortened = tuple(words)
    return shortened, shortened != argv


def _decision(replica: Replica, decision: Decision | None) -> schema.DecisionView | None:
    if decision is None:
        return None
    report = replica.state.book.nodes.get(decision.node)
    return schema.DecisionView(
        id=decision.id,
        node=decision.node,
        devices=tuple(_share(report, share) for share in decision.devices),
        reason=decision.reason,
        latency_ns=decision.latency_ns,
        observations=decision.observations,
    )


def _share(report: NodeReport | None, share: DeviceShare) -> schema.ShareView:
    index, milli = share.index, share.milli
    if report is None or index >= len(report.devices):
        return schema.ShareView(id=f"device-{index}", index=index, milli=milli)
    device = report.devices[index]
    return schema.ShareView(id=device.id, index=index, milli=milli, sim=device.sim)


# --- explain --------------------------------------------------------------------------------------


def explain_view(replica: Replica, job: Job, real_ns: int) -> schema.ExplainView:
    """Why the job is where it is: the core's ranked reasons, then what would help."""
    lines = replica.state.core.explain(job.job)[:EXPLAIN_MAX]
    name = replica.state.node_name
    reasons = tuple(
        schema.ReasonView(
            code=_code(line.reason),
            text=_text(replica, job, line, real_ns),
            node=name(line.node) if line.node else "",
            remedies=tuple(line.remedies),
            data={"asked": line.asked, "have": line.have, "count": line.number, "job": line.job},
        )
        for line in lines
    )
    return schema.ExplainView(
        job=job.job,
        state=job.state,
        summary=_summary(job, reasons),
        reasons=reasons,
        actions=_actions(job, lines),
        decision=_decision(replica, job.decision),
    )


def _text(replica: Replica, job: Job, line: Explained, real_ns: int) -> str:
    if line.reason == Reason.ENDED:
        return f"ended: {job.reason}"
    node = replica.state.node_name(line.node) if line.node else ""
    said = wording.words(
        replica.state.book,
        line.reason,
        asked=line.asked,
        have=line.have,
        job=line.job,
        node=node,
        count=line.number,
        detail=line.detail,
        now_ns=real_ns,
    )
    if line.reason in (Reason.DEVICE_UNAVAILABLE, Reason.DEVICES_UNAVAILABLE):
        said += cluster_views.why_unavailable(replica.state.book, node, line.asked)
    return said


def _code(number: int) -> str:
    reason = reason_of(number)
    return reason.name.lower() if isinstance(reason, Reason) else str(number)


def _summary(job: Job, reasons: tuple[schema.ReasonView, ...]) -> str:
    if job.state == "pending":
        first = reasons[0].text if reasons else "waits"
        return first if first.startswith("waits") else f"waits: {first}"
    if job.state in ENDED or job.decision is None:
        return job.reason
    return f"on {job.decision.node}: {job.reason}"


_HELPS: dict[Remedy, str] = {
    Remedy.WAIT: "wait: it starts by itself when there is room",
    Remedy.ASK_FOR_LESS: "ask for less: fewer devices, a smaller share, less CPU or memory",
    Remedy.RAISE_PRIORITY: "give it a higher priority: --priority",
    Remedy.CANCEL_HOLDER: "cancel a job that holds what it needs: stoker jobs --status running",
    Remedy.CHANGE_QUEUE: "use another queue: stoker queue list",
    Remedy.RAISE_LIMIT: "have the queue's limit raised by an administrator: stoker queue quota",
    Remedy.CHANGE_MODELS: "accept other device models: stoker devices shows which there are",
    Remedy.CHANGE_LABELS: "ask for other labels: stoker nodes -o wide shows which there are",
    Remedy.TOLERATE_TAINT: "tolerate the taint, if it is meant for such jobs: --tolerate",
    Remedy.END_RESERVATION: "have the reservation ended by an administrator: stoker node reserve",
    Remedy.CHANGE_GROUP: "do without --attract or --repel, or use another group",
    Remedy.ALLOW_ANY_LINK: "do without --same-link, or ask for fewer devices",
    Remedy.ADD_NODES: "start a node that has what it needs: stoker up",
    Remedy.BRING_NODES_UP: "look at the nodes that are down or drained: stoker nodes",
    Remedy.FREE_DEVICES: "see who holds the devices: stoker devices",
    Remedy.SAY_WHERE: "its placement is left to a scoring function, which must say where",
    Remedy.CANCEL_IT: "cancel it: what it waits for will not come",
    Remedy.CHANGE_KIND: "ask for what is there: --device-kind, --gpu-model; see stoker devices",
    Remedy.MIX_VENDORS: "take devices of several vendors, if the program can: --mix-vendors",
    Remedy.SAY_ESTIMATE: "say how long it runs, so that it may go first where it delays nobody:"
    " --time-estimate",
    Remedy.CHANGE_ORDER: "have an administrator let others pass: stoker queue set NAME --order any",
    Remedy.FORBID_PREEMPTION: "submit it without --preemptible, or with --min-run",
}


def _actions(job: Job, lines: list[Explained]) -> tuple[str, ...]:
    """What would help, each once: first what the first reasons ask for."""
    if job.state == "pending":
        remedies = dict.fromkeys(remedy for line in lines for remedy in line.remedies)
        return tuple(_HELPS[remedy] for remedy in remedies)[:ACTIONS_MAX]
    if job.state in ("failed", "timeout", "lost"):
        return (f"read its output: stoker logs {job.job}",)
    return ()
