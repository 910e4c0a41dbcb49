# SPDX-License-Identifier: Apache-2.0
"""A small cluster at one fixed moment, with an answer for every view of `stoker top`.

Its names come from people who mean harm as well: escape sequences, wide and joined characters.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
from fakes.views import SECOND, device, job, node

from stoker.mesh.client.kept_telemetry import Told
from stoker.mesh.wire import schema, schema_telemetry
from stoker.mesh.wire.schema import RankTroubleView
from stoker.mesh.wire.schema_alerts import AlertJudgement, AlertList, AlertSeen, AlertView
from stoker.tui.calls import views
from stoker.tui.top.answers import Answers, Logs, ServerState
from stoker.tui.top.browser import Browser
from stoker.tui.top.frame import Scene
from stoker.tui.top.lines import Look
from stoker.tui.top.marks import UNICODE, Marks
from stoker.tui.top.views.catalogue import VIEWS
from stoker.tui.top.visit import Visit

NOW = 1_000_000 * SECOND
HOSTILE = "\x1b[31mred\x1b]0;owned\x07 \u202emirror 日本 e\u0301\u0301"
GPU = "GPU-4f1c0a9e-0000-4000-8000-00000000000"


def devices() -> list[schema.DeviceView]:
    """Eight cards on n1, simulated, one of them sick, one hot; two on n2; the CPU of n3."""
    cards = [
        device(
            id=f"{GPU}{at}", node="n1", index=at, vendor="nvidia", model="H100 SXM", kind="gpu",
            memory_bytes=80 << 30, sim=True, granted_milli=1000 if at < 5 else 0,
            jobs=(7,) if at < 4 else (9,) if at == 4 else (), busy_ratio=at / 7,
            power_w=100.0 + 80 * at, temperature_c=40.0 + 7 * at,
            unavailable="needs a reset (Xid 79)" if at == 5 else "",
        )
        for at in range(8)
    ]  # fmt: skip
    more = [
        device(id=f"MI-{at}", node="n2", index=at, vendor="amd", model="MI300X", kind="gpu",
               memory_bytes=192 << 30, granted_milli=500 * at, jobs=(), busy_ratio=0.5 * at,
               power_w=300.0, temperature_c=55.0, cordoned="a new fan" if at == 0 else "")
        for at in range(2)
    ]  # fmt: skip
    return [*cards, *more, device(node="n3")]


def nodes() -> list[schema.NodeView]:
    """Three nodes, of which one is drained and one does not report any more."""
    base = node(observation=5, load_milli=1500, memory_free_bytes=700 << 20)
    replace = msgspec.structs.replace
    return [
        replace(base, devices=8, labels=("zone=a",)),
        replace(base, node="n2", devices=2, state="drained", drained="a new switch", jobs=0),
        replace(base, node="n3", state="silent", load_milli=None, memory_free_bytes=None),
    ]


def jobs() -> list[schema.JobView]:
    """Jobs in several states: one of them has a slow rank, one a hostile name, one waits."""
    late = RankTroubleView(
        rank=6, kind="slow", text="rank 6 is late", node="n1", task=6, devices=(f"{GPU}3",),
        sim=True, longer=0.2, since_ns=NOW - 12 * SECOND, named_ns=NOW - 9 * SECOND, lag_ns=0,
    )  # fmt: skip
    verdict = schema.VerdictView(
        bottleneck="waiting for a peer", share=0.41, window_ns=15 * SECOND, tasks=4,
        text="waiting for a peer 41 %",
    )  # fmt: skip
    share = schema.ShareView(id=f"{GPU}0", index=0, milli=1000, sim=True)
    placed = schema.DecisionView(
        id=3, node="n1", devices=(share,), reason="the fewest free devices that suffice",
        latency_ns=41_000, observations=(5,),
    )  # fmt: skip
    began = schema.Times(
        submitted_ns=NOW - 600 * SECOND, placed_ns=NOW - 599 * SECOND,
        started_ns=NOW - 598 * SECOND,
    )  # fmt: skip
    waits = schema.Times(submitted_ns=NOW - 61 * SECOND)
    ended = msgspec.structs.replace(began, ended_ns=NOW - 30 * SECOND)
    replace = msgspec.structs.replace
    found = [
        job(10, "pending", waits="2 devices of model H100 SXM are free, it needs 4"),
        job(9, "running", decision=placed, verdict_absent="it is not traced"),
        job(8, "failed", exit_code=1),
        job(7, "running", decision=placed, troubles=(late,), verdict=verdict),
        job(6, "succeeded", exit_code=0),
    ]
    times = (waits, began, ended, began, ended)
    names = ("", HOSTILE, "sweep", "pretrain", "eval")
    users = ("bob", "mallory", "bob", "ada", "ada")
    spec = replace(found[0].spec, gpu_milli=4000, queue="default")
    return [
        replace(each, times=when, name=name, user=user, spec=spec,
                reason="it ended with exit code 1" if each.state == "failed" else "")
        for each, when, name, user in zip(found, times, names, users, strict=True)
    ]  # fmt: skip


def trace() -> dict[str, Any]:
    """The trace summary of job 7, whose causes add up to its window."""
    causes = {
        "kernel_ns": 300 * SECOND, "copy_ns": 60 * SECOND, "host_on_cpu_ns": 90 * SECOND,
        "host_blocked_ns": 30 * SECOND, "peer_ns": 60 * SECOND, "not_observed_ns": 60 * SECOND,
    }  # fmt: skip
    kernel = {"name": HOSTILE, "count": 63_800, "total_ns": 200 * SECOND, "p50_ns": 3_100_000,
              "p99_ns": 5_200_000, "estimate": True, "error_ns": SECOND, "seen": 0.9}  # fmt: skip
    plain = {"name": "ampere_sgemm_128x64", "count": 1200, "total_ns": 100 * SECOND,
             "p50_ns": 83_000_000, "p99_ns": 84_000_000}  # fmt: skip
    row = {"id": f"{GPU}0", "window_ns": 600 * SECOND, "causes": causes}
    return {"devices": [row], "kernels": [kernel, plain], "copies": []}


def summaries() -> tuple[Told, ...]:
    """A minute of summaries of job 7: it computes for 40 s, then waits for the host."""
    told = []
    kernel = host = 0
    for at in range(60):
        kernel += SECOND * 9 // 10 if at < 40 else SECOND // 10
        host += SECOND // 10 if at < 40 else SECOND * 9 // 10
        causes = {"kernel_ns": kernel, "host_on_cpu_ns": host}
        t_ns = NOW - (60 - at) * SECOND
        row = {
            "job": 7, "attempt": 1, "task": 0, "node": "n1", "t_ns": t_ns, "copies": [],
            "devices": [{"id": f"{GPU}0", "causes": causes}],
            "kernels": [{"name": "ampere_sgemm_128x64", "total_ns": kernel}],
        }  # fmt: skip
        told.append(Told(t_ns, "kernels", row))
    return tuple(told)


def events() -> tuple[Told, ...]:
    """Four events, between which messages were lost."""
    rows: tuple[tuple[int, dict[str, Any], str], ...] = (
        (90, {"job": 7, "what": "running", "user": "ada"}, ""),
        (60, {}, "3 messages lost"),
        (30, {"job": 8, "what": "failed", "user": "bob", "reason": HOSTILE}, ""),
        (5, {"node": "n3", "what": "silent"}, ""),
    )
    return tuple(Told(NOW - ago * SECOND, "events", row, lost) for ago, row, lost in rows)


def explanation() -> schema.ExplainView:
    """The explanation of job 10, which waits."""
    return schema.ExplainView(
        job=10, state="pending", summary="it needs 4 devices of one node, and none has 4 free",
        reasons=(
            schema.ReasonView(code="devices", node="n1", text="2 of 8 devices are free"),
            schema.ReasonView(code="drained", node="n2", text="node n2 is drained: a new switch"),
        ),
        expected=schema.ExpectedStart(
            t_ns=NOW + 25 * 60 * SECOND, latest=True, basis="the time limit of job 7"
        ),
        actions=("wait for job 7, which holds 4 devices", "ask for 2 devices"),
    )  # fmt: skip


def readings() -> schema.ReadingsView:
    """A minute of one card: busy like a wave, with a gap of ten seconds."""
    points = [(NOW - at * SECOND, at) for at in range(60, 0, -1) if not 20 < at <= 30]
    busy = tuple((t, 0.5 + 0.5 * math.sin(at / 5)) for t, at in points)
    power = tuple((t, 350 + 300 * math.sin(at / 5)) for t, at in points)
    field = schema.FieldView
    return schema.ReadingsView(
        node="n1", device=f"{GPU}0", t_ns=NOW, state="ok", sim=True,
        fields={
            "busy_ratio": field(value=0.6, unit="1"),
            "power_w": field(value=400.0, unit="W", error=5.0),
            "power_limit_w": field(value=700.0, unit="W"),
            "temperature_c": field(absent="the driver does not say"),
            "clock_hz": field(value=1_980_000_000, unit="Hz"),
        },
        history={"busy_ratio": busy, "power_w": power},
    )  # fmt: skip


def topology() -> schema.TopologyView:
    """The links of the eight cards of n1."""
    names = tuple(f"{GPU}{at}" for at in range(8))
    matrix = tuple(
        tuple("X" if a == b else "NV4" if a // 4 == b // 4 else "SYS" for b in range(8))
        for a in range(8)
    )
    numa = tuple(at // 4 for at in range(8))
    cpus = tuple("0-31" if at < 4 else "32-63" for at in range(8))
    return schema.TopologyView(
        node="n1", names=names, matrix=matrix, numa=numa, cpus=cpus, devices=8, sim=names
    )


def cluster() -> schema.ClusterView:
    """Three schedulers, of which the first leads."""
    return schema.ClusterView(
        cluster="c0ffee", genesis="ab", seq=4711, term=3, limits={}, users=4, formats={},
        schedulers=tuple(
            schema.SchedulerView(number=at, public_key="k", leads=at == 1) for at in (1, 2, 3)
        ),
    )  # fmt: skip


def alerts() -> AlertList:
    """One alert that nobody has seen, one that somebody has, one that is over; n2 judges late."""
    fired = NOW - 90 * SECOND
    series = {"hw.id": f"{GPU}7", "hw.name": "H100 SXM (SIM)", "hw.sensor_location": "memory"}
    hot = AlertView(
        node="n1", alert=12, rule="hot", metric="hw.temperature", series=series,
        about=f"{GPU}7 SIM hw.sensor_location=memory", state="firing", value=91.0, sim=True,
        reason="hw.temperature is 91 Cel, above 85 for 30 s", fired_ns=fired,
        text="look at the fans of the rack",
    )  # fmt: skip
    replace = msgspec.structs.replace
    seen = AlertSeen(by="ada", at_ns=NOW - 40 * SECOND, why="a fan is on its way")
    idle = replace(
        hot, node="n2", alert=4, rule="idle", metric="stoker.job.device.time", sim=False,
        series={"stoker.job.id": 7, "stoker.job.name": HOSTILE}, fired_ns=NOW - 3600 * SECOND,
        about=f"stoker.job.id=7 stoker.job.name={HOSTILE}", reason="it grows by 0 s a second",
        acknowledged=seen, text="",
    )  # fmt: skip
    over = replace(hot, alert=11, state="resolved", resolved_ns=NOW - 600 * SECOND,
                   fired_ns=NOW - 900 * SECOND, reason="hw.temperature is 79 Cel, not above 80 for"
                   " 60 s")  # fmt: skip
    judged = AlertJudgement(age_ns=2 * SECOND, interval_ns=5 * SECOND)
    return AlertList(
        firing=2, unseen=1, alerts=(hot, idle, over),
        judged={"n1": judged, "n2": replace(judged, age_ns=40 * SECOND, silent=("losses",))},
        absent={"n3": "it is silent"},
    )  # fmt: skip


def alert_counts() -> AlertList:
    """The numbers of these alerts, without the alerts."""
    return msgspec.structs.replace(alerts(), alerts=(), judged={}, absent={})


def queues() -> tuple[schema.QueueView, ...]:
    """The default queue."""
    return (
        schema.QueueView(
            queue="default", parent="", weight=1, order="fifo", placement="best", depth=1,
            used_milli=8000, cpu_used_milli=0, memory_used_bytes=0, device_ns=0, pending=1, live=3,
        ),
    )  # fmt: skip


def streams() -> schema_telemetry.TelemetryList:
    """One kind that is kept, and one that is not."""
    view = schema_telemetry.TelemetryStreamView
    return schema_telemetry.TelemetryList(
        streams=(
            view(kind="events", subject="s", stream="T", max_bytes=1 << 25, max_age_s=600,
                 messages=120, bytes=40_000, oldest_t_ns=NOW - 500 * SECOND, discarded=2),
            view(kind="kernels", subject="s", stream="T", max_bytes=1 << 25, max_age_s=600,
                 why="no broker keeps it"),
        )
    )  # fmt: skip


def array() -> tuple[schema.JobView, ...]:
    """Jobs 11 to 14, an array of which one runs, one failed and two wait."""
    replace = msgspec.structs.replace
    first, running, failed = jobs()[0], jobs()[1], jobs()[2]
    rows = (failed, running, first, first)
    reasons = ("exit code 3", "reported by the node", "accepted", "accepted")
    return tuple(
        replace(row, job=11 + place, name="grid", user="bob", reason=reasons[place],
                waits="1 ahead in the queue" if place == 2 else "",
                array=schema.ArrayView(first=11, size=4, index=5 * place))
        for place, row in enumerate(rows)
    )  # fmt: skip


def array_row() -> schema.JobView:
    """The row that stands for this array in a list."""
    states = {"running": 1, "pending": 2, "failed": 1}
    shown = array()[1]
    whole = schema.ArrayView(first=11, size=4, index=5, states=states, waiting=13)
    return msgspec.structs.replace(shown, waits="1 ahead in the queue", array=whole)


SUBJECTS = {
    "array": "11-14", "node": "n1", "device": f"n1:{GPU}0", "job": "7", "logs": "7",
    "explain": "10", "topology": "n1", "traces": f"n1:{GPU}0",
}  # fmt: skip
"""The subject of each view that has one."""


def answers(subject: str = "") -> Answers:
    """Everything, as it was read a moment ago."""
    found = jobs()
    told = views.row(found[3])
    told |= {"trace": trace(), "kernels": trace()["kernels"], "copies": []}
    lines = ("epoch 1 loss 2.31", f"epoch 2 {HOSTILE}", "\x1b[2J\x1b[H", "-- stderr --", "warning")
    return Answers(
        at_ns=NOW - SECOND // 2, nodes=nodes(), devices=devices(), jobs=found, array=array(),
        queues=queues(),
        cluster=cluster(), streams=streams(), events=events(), summaries=summaries(),
        alerts=alerts(), alert_counts=alert_counts(),
        subject=subject, job=told, logs=Logs(lines, 4096), explain=explanation(),
        readings=readings(), topology=topology(), heard={"n1": NOW, "n2": NOW, "n3": NOW},
    )  # fmt: skip


def browser(view: str, *, readonly: bool = False) -> Browser:
    """A browser that shows a view of this cluster."""
    return Browser(VIEWS, [Visit(VIEWS[view], SUBJECTS.get(view, ""))], readonly=readonly)


def scene(
    view: str, columns: int = 80, rows: int = 24, marks: Marks = UNICODE, **more: Any
) -> Scene:
    """The moment at which it is shown; `more` overrides parts of the answers."""
    found = msgspec.structs.replace(answers(SUBJECTS.get(view, "")), **more)
    return Scene(found, ServerState(), Look(NOW, marks, columns, rows))
