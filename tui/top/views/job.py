# SPDX-License-Identifier: Apache-2.0
"""The views `job` and `logs`: a job on one page with its device time by causes, and its output.

Pure: the object of `stoker job -o json` in. The causes are all of the window, so that the bars add
up to 100 %; what was not observed is one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stoker.native.row_forms import short_id
from stoker.tui.calls.efficiency import efficiency
from stoker.tui.render import efficiency as use_words
from stoker.tui.render import rank_troubles, report, units
from stoker.tui.render.device_causes import CAUSES, percentages, throttles
from stoker.tui.top.answers import Answers
from stoker.tui.top.lines import Line, Look, Piece, Tone, cell, line, pairs, wrapped
from stoker.tui.top.view import View
from stoker.tui.top.views import words

Object = Mapping[str, Any]
KERNELS_MAX = 8
RANKS_MAX = 8
TAIL = 200
"""The most lines of output on the page of a job; the view `logs` has more."""
CAUSE_TONES: dict[str, Tone] = {
    "kernel_ns": "good", "copy_ns": "good", "throttled_ns": "bad", "held_idle_ns": "bad",
    "peer_ns": "warn", "not_observed_ns": "dim",
}  # fmt: skip


def _lines(answers: Answers, subject: str, look: Look) -> list[Line]:
    job = answers.job if answers.subject == subject else None
    if job is None:
        return [words.absent(f"job {subject}", answers.refused.get("job", ""))]
    return [
        *_title(job, look), *_troubles(job, look), *_use(job, look), *_times(job, look),
        *_kernels(job, look), *_ranks(job, look), *_output(answers, look),
    ]  # fmt: skip


def _use(job: Object, look: Look) -> Iterator[Line]:
    """Yield what `stoker eff` says of the job: its bottleneck, a remedy, and its use."""
    found = efficiency(job, job.get("rank_times") or (), look.now_ns)
    told = {**job, "efficiency": msgspec.to_builtins(found)}
    for label, said in use_words.lines(told):
        yield from wrapped(label, said, look.columns)


def _title(job: Object, look: Look) -> list[Line]:
    spec, times = job["spec"], job["times"]
    name = job.get("name") or spec["argv"][0].rpartition("/")[2]
    tone = words.JOB_TONES.get(job["state"], "")
    since_ns = times.get("ended_ns") or times.get("started_ns") or times["submitted_ns"]
    since = words.ago(since_ns, look.now_ns)
    ago = f" {since} ago" if times.get("ended_ns") else f" for {since}"
    head: Line = (
        Piece(f"job {job['job']} ", "title"), Piece(f"{name}  "), Piece(report.ending(job), tone),
        Piece(ago, "dim"),
    )  # fmt: skip
    tasks = f" x {spec['tasks']} tasks" if spec.get("tasks", 1) > 1 else ""
    held = units.share(spec["gpu_milli"]) + tasks
    about = (("of", job["user"]), ("devices", held), ("queue", spec["queue"] or "-"))
    lines = [head, pairs(about)]
    lines += wrapped("on ", _where(job), look.columns)
    lines += wrapped("runs ", " ".join(spec["argv"]), look.columns)[:2]
    verdict: Object = job.get("verdict") or {}
    if job["state"] == "running" and (verdict or job.get("verdict_absent")):
        bound = verdict.get("text") or f"not known: {job['verdict_absent']}"
        lines += wrapped("bound by ", str(bound), look.columns, "title")
    why = job.get("waits") or job.get("reason")
    if why and job["state"] not in ("running", "succeeded"):
        lines += wrapped("reason ", str(why), look.columns, tone)
    return lines


def _where(job: Object) -> str:
    decision = job.get("decision")
    if not decision:
        return "no node yet"
    devices = ", ".join(
        f"{'SIM ' if each.get('sim') else ''}{short_id(str(each.get('id') or each['index']))}"
        for each in decision["devices"]
    )
    nodes = ",".join(job.get("nodes") or ()) or decision["node"]
    return f"{nodes} {devices}".strip()


def _troubles(job: Object, look: Look) -> Iterator[Line]:
    for kind, sentence in rank_troubles.sentences(job):
        yield from wrapped(f"{kind}: " if kind else "", sentence, look.columns, "bad")


def _times(job: Object, look: Look) -> list[Line]:
    """Return where the time of each device went: a bar for each cause."""
    trace: Object = job.get("trace") or {}
    devices = trace.get("devices") or ()
    if not devices:
        why = job.get("trace_absent") or "no device of it was called"
        return wrapped("device time ", str(why), look.columns, "dim")
    return [each for device in devices for each in cause_lines(device, look)]


def cause_lines(device: Object, look: Look) -> list[Line]:
    """Return a device's window and a bar for each of its causes, which add up to it."""
    window = device["window_ns"]
    known = {name: device["causes"].get(name) or 0 for name in CAUSES}
    about = ", estimated" if device.get("estimate") else ""
    title = f"where {device['id']} spent {units.duration(window)}{about}"
    room = min(max(look.columns - 44, 6), 60)
    lines = [line(title, "title")]
    shares = percentages(list(known.values()), window)
    for (name, spent), percent in zip(known.items(), shares, strict=True):
        if spent:
            bar = words.bar(spent / window, room, look)
            label, tone = Piece(f"  {CAUSES[name]:<23}", "dim"), CAUSE_TONES.get(name, "")
            figures = Piece(f" {percent:5.1f} %  {units.duration(spent):>8}")
            lines.append((label, Piece(f"{bar:<{room}}", tone), figures))
    said = throttles(device)
    return [*lines, *(wrapped("  ", said, look.columns, "warn") if said else ())]


def _kernels(job: Object, look: Look) -> list[Line]:
    rows = sorted(
        [*(job.get("kernels") or ()), *(job.get("copies") or ())], key=lambda row: -row["total_ns"]
    )
    if not rows:
        return []
    room = max(look.columns - 44, 8)
    head = f"{'kernels and copies':<{room}}{'count':>14}{'total':>10}{'p50':>9}{'p99':>9}"
    lines = [line(head, "head")]
    lines += [_kernel(row, room, look) for row in rows[:KERNELS_MAX]]
    if len(rows) > KERNELS_MAX:
        lines.append(line(f"  and {len(rows) - KERNELS_MAX} more: stoker job {job['job']}", "dim"))
    return lines


def _kernel(row: Object, room: int, look: Look) -> Line:
    count, total = units.number(row["count"]), units.duration(row["total_ns"])
    count = f">={count}" if row.get("seen", 1.0) < 1 else count
    total = f"~{total}" if row.get("estimate") else total
    name = cell(str(row["name"]), room, look.marks)
    ends = f"{units.duration(row.get('p50_ns')):>9}{units.duration(row.get('p99_ns')):>9}"
    return (Piece(f"{name}{count:>14}{total:>10}{ends}"),)


def _ranks(job: Object, look: Look) -> Iterator[Line]:
    ranks: Sequence[Object] = job.get("ranks") or ()
    if ranks:
        yield line(f"{len(ranks)} ranks, which meet at {job.get('master') or 'no place yet'}",
                   "title")  # fmt: skip
    for rank in ranks[:RANKS_MAX]:
        devices = ", ".join(each.get("id") or str(each["index"]) for each in rank["devices"])
        sim = "SIM " if any(each.get("sim") for each in rank["devices"]) else ""
        yield from wrapped(
            f"  rank {rank['rank']} ", f"{report.ending(rank)} on {rank['node']} {sim}{devices}",
            look.columns,
        )  # fmt: skip
    if len(ranks) > RANKS_MAX:
        yield line(f"  and {len(ranks) - RANKS_MAX} more: stoker job {job['job']}", "dim")


def _output(answers: Answers, look: Look) -> list[Line]:
    logs = answers.logs
    if logs is None:
        return [words.absent("output", answers.refused.get("logs", ""))]
    if not logs.lines:
        return [line("output: none yet" if not logs.eof else "output: none", "dim")]
    return [line("output (l has all that is kept here)", "title"),
            *(line(f"  {each}") for each in logs.lines[-TAIL:])]  # fmt: skip


def _log_lines(answers: Answers, subject: str, look: Look) -> list[Line]:
    logs = answers.logs if answers.subject == subject else None
    if logs is None:
        return [words.absent(f"output of job {subject}", answers.refused.get("logs", ""))]
    lines: list[Line] = []
    if logs.skipped_bytes:
        skipped = f"{units.size(logs.skipped_bytes)} before this: stoker logs {subject}"
        lines.append(line(skipped, "dim"))
    lines += [line(each) for each in logs.lines]
    return lines or [line("no output yet" if not logs.eof else "it wrote nothing", "dim")]


VIEW = View(
    name="job",
    title="Job",
    says="one job: what bounds it, where its devices' time went, its kernels, ranks and output",
    needs=("job", "logs"),
    subject="job",
    lines=_lines,
)
LOGS = View(
    name="logs",
    title="Logs",
    says="the end of a job's output; it follows until a key scrolls up",
    needs=("logs", "nodes"),
    subject="job",
    lines=_log_lines,
    ends=True,
)
