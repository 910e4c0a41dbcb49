# SPDX-License-Identifier: Apache-2.0
"""The oracle's rules of queues: the tree, quotas, and use that is slowly forgotten."""

from __future__ import annotations

from stoker.scheduler import records as rec
from stoker.scheduler.policies import Order, Placement
from stoker.scheduler.reasons import Reason as R
from tests.scheduler.oracle_nouns import (
    FINAL,
    FREE,
    M64,
    PENDING,
    ROOT,
    SECOND,
    Job,
    No,
    Queue,
    Task,
)
from tests.scheduler.oracle_state import State

HALF_LIFE = 24 * 3600 * SECOND
STEP = HALF_LIFE // 16
BY_TIME = {Order.SHORTEST, Order.LEAST_ATTAINED}


def decayed(queue: Queue, now: int) -> int:
    """Device time still counted now, in sixteenths of a half-life."""
    steps = max(0, now - queue.usage_at) // STEP
    usage = queue.usage >> (steps // 16)
    factor = int(2**32 / 2 ** (steps % 16 / 16))
    return (usage >> 32) * factor + ((usage & 0xFFFFFFFF) * factor >> 32)


class Queues(State):
    """QueueSet and QuotaSet."""

    def upwards(self, id: int) -> list[int]:
        """The queue and all above it, the root last."""
        path = []
        at: int | None = id
        while at is not None:
            path.append(at)
            at = self.queues[at].parent
        return path

    def children(self, id: int) -> int:
        return sum(queue.parent == id for queue in self.queues.values())

    def live_in(self, id: int) -> int:
        return sum(job.request.queue == id for job in self.live())

    def placed_in(self, id: int) -> int:
        return sum(self.jobs[task.job].request.queue == id for task in self.tasks)

    def below(self, id: int) -> list[Job]:
        return [job for job in self.live() if id in self.upwards(job.request.queue)]

    def queued_below(self, id: int) -> int:
        return sum(job.state == PENDING and job.hold == FREE for job in self.below(id))

    def milli_of(self, task: Task, model: int) -> int:
        devices = self.node(task.node).devices
        return sum(s.milli for s in task.shares if not model or devices[s.index].model == model)

    def holds(self, id: int, model: int) -> int:
        below = {job.id for job in self.below(id)}
        return sum(self.milli_of(task, model) for task in self.tasks if task.job in below)

    def refuse_over_limit(self, id: int, task: Task) -> None:
        for at in self.upwards(id):
            for model, (_, limit) in sorted(self.queues[at].quotas.items()):
                milli = self.milli_of(task, model)
                if milli and self.holds(at, model) + milli > limit:
                    raise No(R.OVER_LIMIT, self.holds(at, model) + milli, limit, max(0, at))

    def use(self, id: int, ns: int) -> None:
        for at in self.upwards(id):
            queue = self.queues[at]
            left = decayed(queue, self.now)
            age = max(0, self.now - queue.usage_at)
            queue.usage_at = queue.usage_at + age - age % STEP if queue.usage else self.now
            queue.usage = min(M64, left + ns)

    def do_queueset(self, c: rec.QueueSet) -> None:
        known = self.queues.get(c.queue)
        if c.remove:
            self.drop(c)
            return
        if not c.weight:
            raise No(R.BAD_WEIGHT)
        if c.order not in list(Order):
            raise No(R.BAD_ORDER, c.order, max(Order))
        if c.placement not in list(Placement):
            raise No(R.BAD_PLACEMENT, c.placement, max(Placement))
        if c.queue and c.parent == c.queue:
            raise No(R.QUEUE_CYCLE)
        parent = c.parent or ROOT
        if parent not in self.queues:
            raise No(R.UNKNOWN_QUEUE, c.parent)
        if known:
            self.refuse_change(known, parent, c)
        else:
            self.refuse_new(parent)
            taken = {queue.slot for queue in self.queues.values()}
            slot = next(s for s in range(1, self.limits.queues + 3) if s not in taken)
            self.queues[c.queue] = known = Queue(c.queue, slot, parent)
        if known.order != c.order:
            self.last_starts = {w: at for w, at in self.last_starts.items() if w[0] != known.id}
        known.weight, known.order, known.placement = c.weight, c.order, c.placement

    def drop(self, c: rec.QueueSet) -> None:
        if c.queue not in self.queues:
            raise No(R.UNKNOWN_QUEUE, c.queue)
        if c.queue == 0 or self.children(c.queue) or self.live_in(c.queue):
            raise No(R.QUEUE_IN_USE, self.children(c.queue), self.live_in(c.queue))
        del self.queues[c.queue]

    def refuse_change(self, queue: Queue, parent: int, c: rec.QueueSet) -> None:
        if queue.parent != parent:
            raise No(R.QUEUE_IN_USE, self.children(queue.id), self.live_in(queue.id))
        regroups = queue.order != c.order and Order.FAIR in (queue.order, c.order)
        moves = queue.order != c.order and BY_TIME & {queue.order, c.order} and not regroups
        if regroups and self.live_in(queue.id) + self.placed_in(queue.id) > 1024:
            raise No(R.QUEUE_IN_USE, self.children(queue.id), self.live_in(queue.id))
        if moves and not self.children(queue.id) and self.queued_below(queue.id):
            raise No(R.QUEUE_IN_USE, 0, self.queued_below(queue.id))
        if (queue.weight, queue.order, queue.placement) == (c.weight, c.order, c.placement):
            raise No(R.UNCHANGED)

    def refuse_new(self, parent: int) -> None:
        depth = len(self.upwards(parent)) - 1
        if self.live_in(parent):
            raise No(R.QUEUE_IN_USE, 0, self.live_in(parent))
        if depth >= 8:
            raise No(R.QUEUE_TOO_DEEP, depth + 1, 8)
        if len(self.queues) == self.limits.queues + 2:
            raise No(R.QUEUES_FULL, 1, self.limits.queues)

    def do_quotaset(self, c: rec.QuotaSet) -> None:
        if c.queue not in self.queues:
            raise No(R.UNKNOWN_QUEUE, c.queue)
        quotas = self.queues[c.queue].quotas
        if c.guaranteed_milli > c.limit_milli:
            raise No(R.BAD_QUOTA, c.guaranteed_milli, c.limit_milli)
        wanted = (c.guaranteed_milli, c.limit_milli)
        if wanted == (0, rec.NO_LIMIT):
            if c.model not in quotas:
                raise No(R.UNCHANGED)
            del quotas[c.model]
            return
        if c.model and c.model not in self.models:
            raise No(R.NO_NODE_HAS_MODEL, c.model)
        if c.model not in quotas and len(quotas) == 8:
            raise No(R.QUOTAS_FULL, 1, 8)
        if quotas.get(c.model) == wanted:
            raise No(R.UNCHANGED)
        quotas[c.model] = wanted

    def placement_of(self, job: Job) -> int:
        named = job.request.placement
        for id in [] if job.state in FINAL else self.upwards(job.request.queue):
            named = named or self.queues[id].placement
        return named or Placement.BEST
