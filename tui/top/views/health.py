# SPDX-License-Identifier: Apache-2.0
"""The view `health`: schedulers and their log, nodes that are not well, sick devices, telemetry.

Pure. What is well is counted in one line; what is not has a line of its own with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.tui.render import units
from stoker.tui.top.answers import Answers
from stoker.tui.top.lines import Line, Look, Piece, Tone, line, pairs, wrapped
from stoker.tui.top.view import View
from stoker.tui.top.views import words


def _lines(answers: Answers, subject: str, look: Look) -> list[Line]:
    return [
        *_log(answers, look), line(""), *_members(answers, look), line(""),
        *_devices(answers, look), line(""), *_telemetry(answers, look),
    ]  # fmt: skip


def _log(answers: Answers, look: Look) -> Iterator[Line]:
    cluster = answers.cluster
    if cluster is None:
        yield words.absent("the cluster", answers.refused.get("cluster", ""))
        return
    yield line(f"log of cluster {cluster.cluster}", "title")
    counts = (("schedulers", len(cluster.schedulers)), ("users", cluster.users))
    where = (("entry", cluster.seq), ("term", cluster.term))
    yield pairs((label, units.number(count)) for label, count in (*where, *counts))
    if not any(each.leads for each in cluster.schedulers):
        yield line("! no scheduler leads: nothing is decided", "bad")
    for each in cluster.schedulers:
        tone: Tone = "good" if each.leads else ""
        role = "leads" if each.leads else "follows"
        yield (Piece(f"  {each.number:016x} "), Piece(role, tone))


def _members(answers: Answers, look: Look) -> Iterator[Line]:
    if answers.nodes is None:
        yield words.absent("nodes", answers.refused.get("nodes", ""))
        return
    yield line("members", "title")
    states: dict[str, int] = {}
    for node in answers.nodes:
        states[node.state] = states.get(node.state, 0) + 1
    yield pairs(((state, str(count)) for state, count in sorted(states.items())))
    for node in answers.nodes:
        if node.state != "ready":
            why = node.evicted or node.drained or "no observation for 5 s"
            yield from wrapped(f"  {node.node} {node.state}: ", why, look.columns, "bad")


def _devices(answers: Answers, look: Look) -> Iterator[Line]:
    if answers.devices is None:
        yield words.absent("devices", answers.refused.get("devices", ""))
        return
    sick = [device for device in answers.devices if words.health(device) != "ok"]
    yield line("devices", "title")
    well = len(answers.devices) - len(sick)
    yield pairs((("well", str(well)), ("not well", str(len(sick)))))
    for device in sick:
        sim = "SIM " if device.sim else ""
        tone: Tone = "bad" if device.unavailable or device.cordoned else "warn"
        label = f"  {device.node}:{device.index} {sim}"
        yield from wrapped(label, words.health(device), look.columns, tone)


def _telemetry(answers: Answers, look: Look) -> Iterator[Line]:
    if answers.streams is None:
        yield words.absent("telemetry", answers.refused.get("streams", ""))
        return
    yield line("telemetry that is kept", "title")
    if answers.streams.dropped:
        yield line(f"  ! {answers.streams.dropped} rows could not be published", "warn")
    for stream in answers.streams.streams:
        if stream.messages is None:
            yield from wrapped(f"  {stream.kind:<13}", stream.why, look.columns, "warn")
            continue
        back = words.ago(stream.oldest_t_ns, look.now_ns)
        full = f"{units.size(stream.bytes)} of {units.size(stream.max_bytes)}"
        lost = f", {stream.discarded} discarded for room" if stream.discarded else ""
        yield (Piece(f"  {stream.kind:<13}", "dim"),
               Piece(f"{stream.messages:,} messages, {full}, {back} back{lost}",
                    "warn" if lost else ""))  # fmt: skip


VIEW = View(
    name="health",
    title="Health",
    says="the log and who leads, members, sick devices, kept telemetry",
    needs=("cluster", "nodes", "devices", "streams"),
    lines=_lines,
)
