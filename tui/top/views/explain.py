# SPDX-License-Identifier: Apache-2.0
"""The view `explain`: why a job waits, runs where it runs, or ended as it did, and what would help.

Pure: the scheduler's own reasons, in its order; `stoker explain` prints the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.mesh.wire.schema import DecisionView, EvidenceView, ExpectedStart, ExplainView
from stoker.tui.render import units
from stoker.tui.render.explain import EXPECTED
from stoker.tui.top.answers import Answers
from stoker.tui.top.lines import Line, Look, line, wrapped
from stoker.tui.top.view import View
from stoker.tui.top.views import words


def told(found: ExplainView, look: Look) -> list[Line]:
    """Return the answer of an explanation: its summary, its reasons by rank, what would help."""
    lines = wrapped(f"{found.state}: ", found.summary, look.columns, "title")
    for each in found.troubles:
        lines += wrapped("  ! ", words.trouble(each, look.now_ns), look.columns, "bad")
    if found.expected is not None:
        start = _start(found.expected, look)
        lines += wrapped("  expected start: ", start, look.columns) if start else []
    others = [
        reason
        for reason in found.reasons
        if not found.summary.endswith(reason.text) and reason.code != EXPECTED
    ]
    for rank, reason in enumerate(others, 1):
        known = f"node {reason.node}" in reason.text
        where = f"node {reason.node}: " if reason.node and not known else ""
        lines += wrapped(f"  {rank}. ", where + reason.text, look.columns)
    for action in found.actions:
        lines += wrapped("  would help: ", action, look.columns, "good")
    return lines


def _start(expected: ExpectedStart, look: Look) -> str:
    """Return when a job is expected to start and what that rests on, or why nobody can tell."""
    if expected.t_ns is None:
        return f"not known: {expected.absent}" if expected.absent else ""
    wait = units.duration(max(0, expected.t_ns - look.now_ns) // 10**9 * 10**9)
    most = "at the latest " if expected.latest else ""
    return f"{most}in {wait}, by {expected.basis}"


def _lines(answers: Answers, subject: str, look: Look) -> list[Line]:
    found = answers.explain
    if found is None or str(found.job) != subject:
        return [words.absent(f"job {subject}", answers.refused.get("explain", ""))]
    lines = [line(f"job {found.job}", "title"), *told(found, look)]
    if found.decision is not None:
        lines += _decision(found.decision, look)
    if found.evidence is not None:
        lines += _evidence(found.evidence, look)
    return lines


def _decision(decision: DecisionView, look: Look) -> list[Line]:
    devices = ", ".join(
        f"{each.id or each.index} ({'SIM, ' if each.sim else ''}{units.share(each.milli)})"
        for each in decision.devices
    )
    seen = ", ".join(map(str, decision.observations)) or "none"
    lines = [line(""), line(f"decision {decision.id}", "title")]
    lines += wrapped("  where ", f"node {decision.node}{devices and ', '}{devices}", look.columns)
    lines += wrapped("  why ", decision.reason, look.columns)
    took = units.duration(decision.latency_ns)
    return [*lines, *wrapped("  read ", f"observations {seen}; took {took}", look.columns)]


def _evidence(evidence: EvidenceView, look: Look) -> Iterator[Line]:
    for label, side in (("chosen ", evidence.chosen), ("next best ", evidence.next_best)):
        if side is not None:
            device = f", {side.device}{' (SIM)' if side.sim else ''}" if side.device else ""
            said = f"node {side.node}{device}: {side.compared or side.absent}"
            yield from wrapped(f"  {label}", said, look.columns)
    if evidence.flip:
        yield from wrapped("  instead ", evidence.flip, look.columns)
    if evidence.absent:
        yield from wrapped("  signals ", f"none: {evidence.absent}", look.columns)


VIEW = View(
    name="explain",
    title="Explain",
    says="why one job waits, runs where it runs, or ended",
    needs=("explain",),
    subject="job",
    lines=_lines,
)
