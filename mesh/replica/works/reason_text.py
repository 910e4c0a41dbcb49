# SPDX-License-Identifier: Apache-2.0
"""The core's reasons as sentences with the names of queues and labels, and with times to wait.

Pure. Owns which figure of which reason is the id of a queue or label, or a moment;
`scheduler/reasons.py` has the sentences.
"""

from __future__ import annotations

from typing import Any

from stoker.mesh.replica.works import device_conditions
from stoker.mesh.replica.works.fence import FENCE_ID
from stoker.scheduler.book import Book
from stoker.scheduler.policies import Kind
from stoker.scheduler.reasons import Reason, sentence

_QUEUE_IN_JOB = frozenset({Reason.OVER_LIMIT, Reason.QUEUE_AT_LIMIT, Reason.QUEUE_TURN})
_QUEUE_IN_ASKED = frozenset({Reason.UNKNOWN_QUEUE, Reason.QUEUE_NOT_LEAF})
_NAME_IN_ASKED = frozenset(
    {
        Reason.NEEDS_TOLERATION,
        Reason.NEEDS_LABELS,
        Reason.NO_NODE_HAS_LABELS,
        Reason.NO_NODE_HAS_MODEL,
    }
)
"""Reasons whose `asked` is the id of the label, taint or model that prevents the placement."""
_LEVEL_IN_JOB = frozenset({Reason.LEVEL_SHORT, Reason.NEEDS_LEVEL})
"""Reasons whose `job` is a level: the id of the key of labels."""
_MOMENT: dict[int, str] = {
    Reason.WAITS_UNTIL: "waits {wait} until its next attempt",
    Reason.EXPECTED_START: "expected to start in {wait}",
}
_OF_KIND = frozenset({Reason.NEEDS_DEVICES, Reason.NEEDS_SHARE, Reason.NEEDS_ONE_VENDOR})
"""Reasons whose `detail` holds the kinds of devices that are acceptable."""
_OF_CONDITION = frozenset({Reason.NO_DEVICE_MEETS, Reason.NEEDS_CONDITION})
"""Reasons whose `job` and `asked` are a condition on devices."""
_MIXED = frozenset({Reason.NO_NODE_HAS_DEVICES, Reason.GANG_TOO_LARGE})
"""Reasons whose `job` is what there is of all vendors together, if that is more."""
KINDS = {1: "GPU", 2: "CPU device", 3: "device"}
NS = 1_000_000_000


def words(
    book: Book,
    reason: int,
    *,
    asked: int = 0,
    have: int = 0,
    job: int = 0,
    node: str = "",
    count: int = 0,
    detail: int = 0,
    whose: str = "",
    now_ns: int = 0,
) -> str:
    """Return one sentence without a full stop.

    `now_ns` is CLOCK_REALTIME, for moments to come. `detail` holds the kinds of devices that are
    needed, or the reason why a job can never run. `whose` follows the job's number, for example
    " of another user".
    """
    if reason == Reason.NEVER_AS_IT_IS:
        return words(book, detail, asked=asked, have=have, job=job, node=node)
    if reason in _OF_CONDITION:
        return device_conditions.words(book, job, asked, have, count)
    if reason == Reason.NO_NODE_HAS_KIND and len(book.nodes) == 1:
        return f"this node has no {KINDS[asked]}"
    if reason == Reason.NEEDS_TOLERATION and asked == FENCE_ID:
        return f"nodes that cannot freeze a job which may run once only: {count}"
    if reason in _MOMENT and now_ns:
        return _MOMENT[reason].format(wait=span(have - now_ns))
    said = f"{job}{whose}" if job or whose else 0
    figures: dict[str, Any] = {"asked": asked, "have": have, "job": said, "node": node}
    if reason in _QUEUE_IN_JOB:
        figures["job"] = book.queue_name(job)
    elif reason in _LEVEL_IN_JOB:
        figures["job"] = book.level(job)
    elif reason in _QUEUE_IN_ASKED:
        figures["asked"] = book.queue_name(asked)
    text = sentence(reason, **figures, count=count, kinds=detail if reason in _OF_KIND else 0)
    if reason == Reason.USER_TURN and detail:
        text = f"{text}, and had its last start longer ago, or is older"
    name = book.word(asked) if reason in _NAME_IN_ASKED else ""
    return f"{text} ({name})" if name else text


def hint(book: Book, reason: int, asked: int, have: int, job: int = 0) -> str:
    """Return what a user can do about a request refused for this reason, or an empty string."""
    if reason in _MIXED and job >= asked:
        return "--mix-vendors takes devices of several vendors, if the program can"
    if reason != Reason.NO_NODE_HAS_KIND:
        return ""
    if asked == Kind.GPU and have & Kind.CPU:
        return f"--device-kind cpu uses {_cpu_devices(book)}"
    if asked == Kind.CPU and have & Kind.GPU:
        return "--device-kind gpu, which is the default, uses a GPU"
    return "stoker devices lists what there is, stoker doctor what is missing"


def _cpu_devices(book: Book) -> str:
    """Return a name of the CPU devices of all nodes, for example "the CPU device pocl-0"."""
    ids = sorted({d.id for r in book.nodes.values() for d in r.devices if d.kind == "cpu"})
    return f"the CPU device {ids[0]}" if len(ids) == 1 else "a CPU device"


def span(ns: int) -> str:
    """Return a duration as text, "12 s", "3 min 5 s" or "2 h 10 min"; a negative one is "0 s"."""
    seconds = max(0, -(-ns // NS))
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"
