# SPDX-License-Identifier: Apache-2.0
"""From the replicated state to what a user reads: jobs, explanations, nodes and devices.

Relied on by the job service. Pure; owns the translation of indexes and codes into ids and
sentences, and that one reply stays below the broker's limit.
"""

from __future__ import annotations

from stoker.mesh import schema
from stoker.mesh.replica import Replica
from stoker.mesh.state import node_id
from stoker.scheduler.book import Job
from stoker.scheduler.nouns import ENDED, Decision, DeviceSample, JobSpec, NodeReport
from stoker.scheduler.reasons import Reason, reason_of

SHORT_ARGV_CHARS = 400
"""Of the command line in a list."""
SILENT_NS = 5_000_000_000
"""A node without a sample for so long is shown as silent."""
EXPLAIN_MAX = 64


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
    )


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
        devices=tuple(
            schema.ShareView(id=_device_id(report, s.index), index=s.index, milli=s.milli)
            for s in decision.devices
        ),
        reason=decision.reason,
        latency_ns=decision.latency_ns,
        observations=decision.observations,
    )


def _device_id(report: NodeReport | None, index: int) -> str:
    if report is not None and index < len(report.devices):
        return report.devices[index].id
    return f"device-{index}"


# --- explain --------------------------------------------------------------------------------------


def explain_view(replica: Replica, job: Job) -> schema.ExplainView:
    """Why the job is where it is: the core's ranked reasons, then what would help."""
    lines = replica.state.core.explain(job.job)[:EXPLAIN_MAX]
    name = replica.state.node_name
    reasons = tuple(
        schema.ReasonView(
            code=_code(line.reason),
            text=f"ended: {job.reason}" if line.reason == Reason.ENDED else line.text(name),
            node=name(line.node) if line.node else "",
            data={"asked": line.asked, "have": line.have, "count": line.number, "job": line.job},
        )
        for line in lines
    )
    return schema.ExplainView(
        job=job.job,
        state=job.state,
        summary=_summary(job, reasons),
        reasons=reasons,
        actions=_actions(job, {line.reason for line in lines}),
        decision=_decision(replica, job.decision),
    )


def _code(number: int) -> str:
    reason = reason_of(number)
    return reason.name.lower() if isinstance(reason, Reason) else str(number)


def _summary(job: Job, reasons: tuple[schema.ReasonView, ...]) -> str:
    if job.state == "pending":
        return f"waits: {reasons[0].text}" if reasons else "waits"
    if job.state in ENDED or job.decision is None:
        return job.reason
    return f"on {job.decision.node}: {job.reason}"


_HELPS: dict[Reason, str] = {
    Reason.NO_NODES: "start a node: stoker up",
    Reason.NODES_DOWN: "look at the nodes: stoker nodes",
    Reason.DEVICES_UNAVAILABLE: "see who holds the devices: stoker devices",
    Reason.NEEDS_DEVICES: "wait for a device, ask for fewer, or cancel what holds them",
    Reason.NEEDS_SHARE: "ask for a smaller share, or wait for one",
    Reason.NEEDS_CPU: "ask for fewer CPUs, or wait",
    Reason.NEEDS_MEMORY: "ask for less memory, or wait",
    Reason.BEHIND: "raise its priority, or wait for the jobs ahead",
}


def _actions(job: Job, reasons: set[int]) -> tuple[str, ...]:
    if job.state == "pending":
        return tuple(text for reason, text in _HELPS.items() if reason in reasons)
    if job.state in ("failed", "timeout", "lost"):
        return (f"read its output: stoker logs {job.job}",)
    return ()


# --- the cluster ----------------------------------------------------------------------------------


def node_list(replica: Replica, now_ns: int) -> schema.NodeList:
    """All nodes that ever said hello, by name."""
    book = replica.state.book
    return schema.NodeList(
        nodes=tuple(_node(replica, book.nodes[name], now_ns) for name in sorted(book.nodes))
    )


def _node(replica: Replica, report: NodeReport, now_ns: int) -> schema.NodeView:
    sample, heard_ns = replica.observations.get(report.node, (None, 0))
    info = replica.state.core.node(node_id(report.node))
    # An agent that has just started said hello, and that is a sign of life as well.
    silent = now_ns - max(heard_ns, report.incarnation) >= SILENT_NS
    return schema.NodeView(
        node=report.node,
        state="silent" if silent else "ready",
        boot_id=report.boot_id,
        cpu_milli=report.cpu_milli,
        memory_bytes=report.memory_bytes,
        devices=len(report.devices),
        jobs=info.tasks if info is not None else 0,
        missing=report.missing,
        observation=sample.id if sample is not None else None,
        observed_ns=sample.t_ns if sample is not None else None,
        load_milli=sample.load_milli if sample is not None else None,
        memory_free_bytes=sample.memory_free_bytes if sample is not None else None,
    )


def device_list(replica: Replica, user: str | None) -> schema.DeviceList:
    """All devices, by node and index; jobs of `user` only, or of all with None."""
    book = replica.state.book
    rows: list[schema.DeviceView] = []
    for name in sorted(book.nodes):
        rows.extend(_devices(replica, book.nodes[name], user))
    return schema.DeviceList(devices=tuple(rows))


def _devices(replica: Replica, report: NodeReport, user: str | None) -> list[schema.DeviceView]:
    ledger = replica.state.core.devices(node_id(report.node))
    holders = _holders(replica, report.node, user)
    sample, _ = replica.observations.get(report.node, (None, 0))
    samples = {row.id: row for row in sample.devices} if sample is not None else {}
    rows: list[schema.DeviceView] = []
    for index, device in enumerate(report.devices):
        seen = samples.get(device.id, DeviceSample(device.id, absent={"sample": "none yet"}))
        rows.append(
            schema.DeviceView(
                id=device.id,
                node=report.node,
                index=index,
                vendor=device.vendor,
                model=device.model,
                kind=device.kind,
                memory_bytes=device.memory_bytes,
                unavailable=device.unavailable,
                sim=device.sim,
                granted_milli=ledger[index].used_milli if index < len(ledger) else 0,
                jobs=tuple(holders.get(index, ())),
                busy_ratio=seen.busy_ratio,
                power_w=seen.power_w,
                temperature_c=seen.temperature_c,
                absent=seen.absent,
            )
        )
    return rows


def _holders(replica: Replica, node: str, user: str | None) -> dict[int, list[int]]:
    """Device index -> jobs that hold part of it, of one user or of all."""
    holders: dict[int, list[int]] = {}
    for task in replica.state.core.node_tasks(node_id(node)):
        record = replica.state.book.live(task.job)
        if record is None or user not in (None, record.owner.user):
            continue
        for share in task.shares:
            holders.setdefault(share.index, []).append(task.job)
    return holders
