# SPDX-License-Identifier: Apache-2.0
"""The verdict on a running job as its view says it: the bottleneck, its share, and the words.

Pure. The verdicts come from the nodes of its tasks; those of a gang are added up by bottleneck. A
job without a verdict has the reason instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from stoker.mesh.replica.replica import Replica
from stoker.mesh.wire import schema
from stoker.scheduler.book import Job
from stoker.scheduler.nouns import MILLI, JobSpec, JobVerdict

NO_DEVICE = "it holds no device"
DORMANT = "it was submitted with dormant tracers"


class Judged(NamedTuple):
    """The verdict on a job, or why there is none; both are empty for a job that does not run."""

    verdict: schema.VerdictView | None
    absent: str


def judged(
    replica: Replica, job: Job, spec: JobSpec, troubles: Sequence[schema.RankTroubleView]
) -> Judged:
    """Judge one job by what its nodes said last."""
    if job.state != "running":
        return Judged(None, "")
    if not spec.gpu_milli:
        return Judged(None, NO_DEVICE)
    verdicts, absent = replica.nodes.verdicts.of(job)
    if not verdicts:
        return Judged(None, DORMANT if spec.trace == "dormant" else absent)
    return Judged(_view(verdicts, max(1, len(job.ranks)), troubles), absent)


def _view(
    verdicts: Sequence[JobVerdict], tasks: int, troubles: Sequence[schema.RankTroubleView]
) -> schema.VerdictView:
    shares: Counter[str] = Counter()
    for each in verdicts:
        shares[each.bottleneck] += each.share_milli
    name, summed = max(shares.items(), key=lambda item: (item[1], item[0]))
    share = summed / len(verdicts) / MILLI
    seen = f" ({len(verdicts)} of {tasks} ranks)" if len(verdicts) < tasks else ""
    return schema.VerdictView(
        bottleneck=name,
        share=share,
        window_ns=max(each.window_ns for each in verdicts),
        tasks=len(verdicts),
        text=f"{_words(name, troubles)} {share * 100:.0f} %{seen}",
    )


def _words(name: str, troubles: Sequence[schema.RankTroubleView]) -> str:
    """Return a bottleneck in words: one that is a wait names the rank that is waited for."""
    if name == "waiting for a peer" and troubles:
        return f"waits for rank {troubles[0].rank}"
    return name
