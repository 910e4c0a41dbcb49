# SPDX-License-Identifier: Apache-2.0
"""A deliberately dumb scheduler to compare the core with: lists, full scans, copies, no index.

It states the rules of the core a second time, in the plainest way: propose is "copy everything, do
it, look at what happened". This file puts commands, queue 0 in the order FIFO and placement PACK
together; the rules are in the files beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from stoker.scheduler import records as rec
from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.policies import Option, Placement
from stoker.scheduler.reasons import Reason as R
from tests.scheduler.oracle_conditions import keys_of_levels, levels, meets
from tests.scheduler.oracle_jobs import Jobs
from tests.scheduler.oracle_nouns import (
    DOOMED,
    KINDS,
    M64,
    PENDING,
    Job,
    No,
    Node,
    Unit,
    each_of,
    gangs,
    mix,
)

NEVER = {
    *(R.NO_NODE_HAS_DEVICES, R.NO_NODE_HAS_CPU, R.NO_NODE_HAS_MEMORY, R.NO_NODE_FITS),
    *(R.GANG_TOO_LARGE, R.NO_DEVICE_HAS_SHARE, R.NO_NODE_HAS_LABELS, R.NO_NODE_HAS_MODEL),
    *(R.NO_NODE_HAS_DEVICE_MEMORY, R.OVER_ANY_LIMIT, R.NO_NODE_HAS_KIND),
    R.GANG_NODE_SHORT,
    *(R.NO_DEVICE_MEETS, R.NO_DEVICE_MEETS_ALL, R.LEVEL_SHORT),
}
"""Reasons that propose gives for a job that could never run; the oracle does not predict which."""


class Oracle(Jobs):
    """Both halves: apply for all commands, propose for queue 0 (FIFO, PACK) and preferences."""

    def do(self, command: Unit) -> None:
        """Carry out one command (a gang is a list); raises No where nothing changes."""
        name = "places" if isinstance(command, list) else type(command).__name__.lower()
        getattr(self, f"do_{name}")(command)
        there = {(job.request.queue, job.request.client) for job in self.live()}
        self.last_starts = {who: at for who, at in self.last_starts.items() if who in there}

    def do_term(self, c: rec.Term) -> None:
        if c.term <= self.term:
            raise No(R.STALE_TERM, c.term, self.term)
        self.term, self.leader = c.term, c.leader

    def apply(self, commands: Iterable[rec.Command], now: int) -> list[tuple[object, ...]]:
        """Effects the core should return for this batch; all commands are of the current term."""
        self.told, self.command, self.now = [], 0, now
        self.promote()
        for unit in gangs(commands):
            try:
                self.do(unit)
            except No as no:
                self.tell_no(unit, no)
            self.forget_devices()
            self.command += len(unit) if isinstance(unit, list) else 1
        return self.told

    def tell_no(self, unit: Unit, no: No) -> None:
        first = unit[0] if isinstance(unit, list) else unit
        job = no.job or getattr(first, "job", 0)
        if no.reason == R.DUPLICATE:
            self.told.append(("duplicate", self.command, job))
        else:
            self.told.append(("ignored", self.command, KINDS[type(first)], job, no.reason))

    def propose(
        self, requests: list[rec.Request], now: int, seed: int, never: set[int]
    ) -> tuple[list[rec.Command], list[tuple[int, ...]]]:
        """`never`: positions of submits that the core says could never run."""
        trial = self.clone()
        trial.now, trial.trial = now, True
        trial.promote()
        commands: list[rec.Command] = []
        rejected: list[tuple[int, ...]] = []
        for position, unit in enumerate(gangs(requests)):
            first = unit[0] if isinstance(unit, list) else unit
            try:
                if position in never:
                    raise No(R.NO_NODE_FITS)
                commands.extend(trial.try_request(unit))
                trial.forget_devices()
            except No as no:
                job = getattr(first, "job", 0) if no.job is None else no.job
                kind = KINDS[type(first)]
                rejected.append((position, kind, no.reason, job, no.asked, no.have))
        trial.cancel_doomed(commands)
        trial.place_waiting(commands, seed)
        return commands, rejected

    def cancel_doomed(self, commands: list[rec.Command]) -> None:
        """Cancel doomed jobs in at most 64 rounds: those that waited for one are doomed in turn."""
        for _ in range(64):
            doomed = [job.id for job in self.live() if job.hold == DOOMED]
            if not doomed:
                return
            commands.append(rec.Cancel(min(doomed), R.AFTER_FAILED))
            self.do(commands[-1])

    def try_request(self, unit: Unit) -> list[rec.Command]:
        if isinstance(unit, list):
            job = self.jobs.get(unit[0].job)
            if job and self.placement_of(job) != Placement.CUSTOM:
                raise No(R.NOT_CUSTOM)
            places = [
                rec.Place(
                    p.job, p.attempt, p.task, p.tasks, p.node, p.shares, R.AS_PREFERRED, 0,
                    p.observations, p.candidates,
                )
                for p in unit
            ]  # fmt: skip
            self.do(places)
            return list(places)
        asked = each_of(unit) if isinstance(unit, rec.SubmitArray) else unit
        if isinstance(asked, rec.Submit) and not getattr(unit, "first", 0):
            self.refuse_known_key(asked)
            self.refuse_shape(asked)
            if self.nodes and self.holds_at_most(asked) < asked.tasks:
                raise No(R.NO_NODE_FITS)
        self.do(unit)
        return [unit]

    def holds_at_most(self, request: rec.Submit) -> int:
        """Tasks on all empty nodes together; of a gang that is not to mix, of one family each; of
        one that stays within a level, on those of one domain."""
        families = [[one] for one in self.families()]
        if request.tasks == 1 or not request.gpu_milli or request.options & Option.MIX_VENDORS:
            families = [self.families()]
        return max(
            (
                sum(self.holds_empty(request, node, some) for node in nodes)
                for some in families
                for nodes in self.domains(keys_of_levels(request, 0)).values()
            ),
            default=0,
        )

    def domains(self, keys: list[int]) -> dict[tuple[int, ...], list[Node]]:
        """The nodes of each domain, without those that are in none; no keys: all are in one."""
        found: dict[tuple[int, ...], list[Node]] = {}
        for node in self.nodes:
            if (domain := node.domain_of(keys)) is not None:
                found.setdefault(domain, []).append(node)
        return found

    def families(self) -> list[tuple[int, int]]:
        return sorted({d.family for n in self.nodes for d in n.devices if d.capacity})

    def holds_empty(self, request: rec.Submit, node: Node, families: list[tuple[int, int]]) -> int:
        """Tasks of this kind that fit on the node when nothing else is there."""
        try:
            self.refuse_lasting(request, node)
        except No:
            return 0
        models = self.known_models(request)
        fits = [
            device
            for device in node.devices
            if (not models or device.model in models)
            and device.memory >= request.device_memory_bytes
            and device.kind & request.kinds
            and meets(device.values, request, 0)
            and device.family in families
        ]
        holds = [self.limits.node_tasks]
        if request.gpu_milli >= 1000:
            whole = Counter(device.family for device in fits if device.capacity == 1000)
            mixed = request.options & Option.MIX_VENDORS
            counts = [whole.total()] if mixed else list(whole.values())
            holds.append(sum(count // (request.gpu_milli // 1000) for count in counts))
        elif request.gpu_milli:
            holds.append(sum(device.capacity // request.gpu_milli for device in fits))
        if request.cpu_milli:
            holds.append(node.cpu // request.cpu_milli)
        if request.memory_bytes:
            holds.append(node.memory // request.memory_bytes)
        return min(holds)

    # -- choosing --------------------------------------------------------------------------

    def place_waiting(self, commands: list[rec.Command], seed: int) -> None:
        waiting = [job for job in self.jobs.values() if job.state == PENDING and not job.hold]
        waiting = [job for job in waiting if self.placement_of(job) != Placement.CUSTOM]
        waiting.sort(key=lambda job: (-job.request.priority, job.id))
        blocked: set[bool] = set()
        placed = 0
        for job in waiting:
            kind = job.request.gpu_milli > 0
            if kind in blocked:
                continue
            if placed + job.request.tasks > rec.BATCH_PLACES_MAX:
                return
            group = self.try_gang(job, seed)
            if group is None:
                blocked.add(kind)
            else:
                placed += len(group)
                self.do_places(group)
                commands.extend(group)

    def try_gang(self, job: Job, seed: int) -> list[rec.Place] | None:
        """All preferences are tried together, then one less, and so on."""
        for self.insists in levels(job.request):
            if group := self.try_domains(job, seed):
                break
        self.insists = 0
        return group

    def try_domains(self, job: Job, seed: int) -> list[rec.Place] | None:
        """A gang within a level tries one domain after the other, that with least room first."""
        keys = keys_of_levels(job.request, self.insists)
        if not keys:
            return self.try_families(job, seed)
        asked = (job.request.gpu_milli or job.request.cpu_milli) * job.request.tasks
        rooms = [
            (sum(self.room(job.request, node) for node in nodes), nodes[0].slot, domain)
            for domain, nodes in self.domains(keys).items()
        ]
        group = None
        for _, _, self.near in sorted(each for each in rooms if each[0] >= asked):
            if group := self.try_families(job, seed):
                break
        self.near = None
        return group

    def room(self, request: rec.Submit, node: Node) -> int:
        """Milli of devices, or of processors for a job without devices, that are free."""
        if not node.up:
            return 0
        if not request.gpu_milli:
            return self.cpu_free(node)
        return sum(self.free(node, index) for index in range(len(node.devices)))

    def try_families(self, job: Job, seed: int) -> list[rec.Place] | None:
        """A gang that is not to mix tries one family after the other, by kind and vendor."""
        if job.request.tasks == 1 or not job.request.gpu_milli or job.wants(Option.MIX_VENDORS):
            return self.try_among(job, seed, None)
        for family in self.families():
            if family[0] & job.request.kinds and (group := self.try_among(job, seed, family)):
                return group
        return None

    def try_among(
        self, job: Job, seed: int, family: tuple[int, int] | None
    ) -> list[rec.Place] | None:
        self.family = family
        before = list(self.tasks)
        group = []
        for task in range(job.request.tasks):
            place = self.choose(job, task, seed)
            if place is None:
                break
            self.take(job, place)
            group.append(place)
        self.tasks = before
        return self.by_locality(group) if len(group) == job.request.tasks else None

    def by_locality(self, group: list[rec.Place]) -> list[rec.Place]:
        """Number the places by the domains of the first three levels, node, link and device;
        domains and nodes in the order in which they were chosen."""
        chosen = [self.node(place.node) for place in group]
        keys = keys_of_levels(self.jobs[group[0].job].request, M64)[:3]

        def where(place: rec.Place) -> tuple[int, ...]:
            node = self.node(place.node)
            labels = [[each.label_of(key) for each in chosen] for key in keys]
            domains = [all_of.index(all_of[chosen.index(node)]) for all_of in labels]
            if not place.shares:
                return *domains, chosen.index(node), 0, 0
            first = place.shares[0].index
            link = node.devices[first].link or 1 << 16
            return *domains, chosen.index(node), link, first

        ordered = sorted(group, key=where)
        return [place._replace(task=task) for task, place in enumerate(ordered)]

    def fits(self, job: Job, place: rec.Place) -> bool:
        before = list(self.tasks)
        try:
            self.take(job, place)
        except No:
            return False
        finally:
            self.tasks = before
        return True

    def choose(self, job: Job, task: int, seed: int) -> rec.Place | None:
        gpu = job.request.gpu_milli
        if not gpu:
            return self.choose_host(job, task, seed)
        if gpu >= 1000:
            return self.first_that_fits(job, task, self.by_whole(gpu // 1000), R.FREE_DEVICES)
        packed = self.first_that_fits(job, task, self.by_part(gpu), R.PACKED_SHARE)
        return packed or self.first_that_fits(job, task, self.by_whole(1), R.OPENED_DEVICE)

    def free_whole(self, node: Node) -> list[int]:
        return [i for i in range(len(node.devices)) if self.free(node, i) == 1000]

    def by_whole(self, count: int) -> list[Node]:
        """Nodes with so many free devices, those with the fewest first."""
        enough = [n for n in self.nodes if len(self.free_whole(n)) >= count]
        return sorted(enough, key=lambda n: (len(self.free_whole(n)), n.slot))

    def by_part(self, milli: int) -> list[Node]:
        """Nodes once for each amount that a partly free device has, the least that does first."""
        parts = {
            (free, n.slot)
            for n in self.nodes
            for i in range(len(n.devices))
            if milli <= (free := self.free(n, i)) < 1000
        }
        by_slot = {n.slot: n for n in self.nodes}
        return [by_slot[slot] for _, slot in sorted(parts)]

    def first_that_fits(
        self, job: Job, task: int, nodes: list[Node], reason: int
    ) -> rec.Place | None:
        for node in nodes:
            place = self.place(job, task, node, self.choose_devices(job, node), reason)
            unused = not any(self.used(node, share.index) for share in place.shares)
            if reason == R.PACKED_SHARE and unused:
                continue
            if self.fits(job, place):
                return place
        return None

    def choose_devices(self, job: Job, node: Node) -> list[int]:
        """Whole devices by index, or the least free one that does."""
        fit = []
        for index in range(len(node.devices)):
            try:
                self.refuse_device(job.request, node, index)
                if self.family not in (None, node.devices[index].family):
                    continue
                fit.append((self.free(node, index), index))
            except No:
                continue
        gpu = job.request.gpu_milli
        if gpu >= 1000:
            whole = [index for free, index in fit if free == 1000]
            if job.wants(Option.MIX_VENDORS):
                return whole[: gpu // 1000]
            return smallest_family(node, whole, gpu // 1000)
        return [index for _, index in sorted(f for f in fit if f[0] >= gpu)[:1]]

    def choose_host(self, job: Job, task: int, seed: int) -> rec.Place | None:
        start = mix(((seed + task) & M64) ^ mix(job.id)) % max(1, len(self.nodes)) + 1
        places = {n.slot: self.place(job, task, n, [], R.LEAST_BUSY) for n in self.nodes}
        ring = [n for n in self.nodes if n.slot >= start] + [
            n for n in self.nodes if n.slot < start
        ]
        ring = [n for n in ring if self.fits(job, places[n.slot])]
        if not ring:
            return None
        best, read = ring[0], set()
        for node in ring[1:4]:
            tied = len(self.on_node(node)) == len(self.on_node(best))
            read |= {node.slot, best.slot} if tied else set()
            best = min(best, node, key=lambda n: (len(self.on_node(n)), n.load, n.slot))
        ids = [n.observation for n in ring[:4] if n.slot in read and n.observation]
        return places[best.slot]._replace(observations=tuple(dict.fromkeys(ids)))

    def place(self, job: Job, task: int, node: Node, devices: list[int], reason: int) -> rec.Place:
        shares = tuple(DeviceShare(index, min(1000, job.request.gpu_milli)) for index in devices)
        return rec.Place(
            job.id, job.attempt + 1, task, job.request.tasks, node.id, shares, reason, 0, (), 0
        )


def smallest_family(node: Node, whole: list[int], count: int) -> list[int]:
    """Take `count` devices of the family with the fewest that suffice; of equals the first."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index in whole:
        groups.setdefault(node.devices[index].family, []).append(index)
    enough = [group for group in groups.values() if len(group) >= count]
    return min(enough, key=len)[:count] if enough else []
