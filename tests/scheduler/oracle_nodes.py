# SPDX-License-Identifier: Apache-2.0
"""The oracle's rules of nodes: what commands do to them, and what fits on one."""

from __future__ import annotations

from dataclasses import replace

from stoker.scheduler import records as rec
from stoker.scheduler.policies import Option
from stoker.scheduler.reasons import Reason as R
from stoker.scheduler.wire_names import Property
from tests.scheduler.oracle_conditions import NO_TRAITS, OF_TRAITS, keys_of_levels, meets
from tests.scheduler.oracle_nouns import LOST, Device, Job, No, Node, Task
from tests.scheduler.oracle_state import State


class Nodes(State):
    """NodeUp, NodeDown, NodeLabel, NodeReserve, DeviceSet and DeviceTraits."""

    def do_nodeup(self, c: rec.NodeUp) -> None:
        known = [n for n in self.nodes if n.id == c.node]
        have = len(known[0].devices) if known else 0
        total = sum(len(n.devices) for n in self.nodes)
        if c.node == 0:
            raise No(R.UNKNOWN_NODE)
        if c.devices > 64:
            raise No(R.BAD_DEVICE_INDEX, c.devices, 64)
        if not known and len(self.nodes) == self.limits.nodes:
            raise No(R.NODES_FULL, 1, self.limits.nodes)
        if c.devices > have and total + c.devices - have > self.limits.devices:
            raise No(R.DEVICES_FULL, c.devices, self.limits.devices)
        if known:
            self.refuse_old_news(known[0], c)
        node = known[0] if known else self.join(c)
        if node.boot != c.boot:
            self.lose(node, R.NODE_REBOOTED)
            node.boot_before, node.boot = node.boot, c.boot
        node.incarnation, node.cpu, node.memory = c.incarnation, c.cpu_milli, c.memory_bytes
        node.domain = c.domain
        node.devices += [Device() for _ in range(c.devices - len(node.devices))]
        for device in node.devices[c.devices :]:
            device.available, device.owner, device.reason = False, 0, R.DEVICE_GONE
        node.up, node.reason = True, 0

    def refuse_old_news(self, node: Node, c: rec.NodeUp) -> None:
        now = (node.boot, node.incarnation, node.cpu, node.memory, len(node.devices), node.domain)
        told = (c.boot, c.incarnation, c.cpu_milli, c.memory_bytes, c.devices, c.domain)
        if node.up and now == told:
            raise No(R.UNCHANGED)
        if node.boot == c.boot and c.incarnation < node.incarnation:
            raise No(R.STALE_INCARNATION)
        if node.boot_before and node.boot_before == c.boot:
            raise No(R.STALE_INCARNATION)

    def join(self, c: rec.NodeUp) -> Node:
        taken = {n.slot for n in self.nodes}
        slot = next(s for s in range(1, self.limits.nodes + 1) if s not in taken)
        self.nodes.append(Node(c.node, slot, c.boot))
        self.nodes.sort(key=lambda n: n.slot)
        return self.node(c.node)

    def do_nodedown(self, c: rec.NodeDown) -> None:
        node = self.node(c.node)
        busy = self.on_node(node)
        if c.remove and not c.evict and (node.up or busy):
            raise No(R.NODE_BUSY, 0, len(busy))
        if not c.remove and not node.up and node.reason == c.reason and not (c.evict and busy):
            raise No(R.UNCHANGED)
        node.up, node.reason = False, c.reason
        if c.evict:
            self.lose(node, R.NODE_EVICTED)
        if c.remove:
            self.nodes.remove(node)

    def lose(self, node: Node, reason: int) -> None:
        while self.on_node(node):
            job = self.jobs[self.on_node(node)[0].job]
            for task in [t for t in self.of_job(job) if t.node == node.id]:
                self.spend(job, self.held_ns(job, task))
                self.tasks.remove(task)
            if not job.verdict:
                job.verdict, job.reason = LOST, reason
            self.after_end(job, node.id)

    def do_deviceset(self, c: rec.DeviceSet) -> None:
        node = self.node(c.node)
        if c.device >= len(node.devices):
            raise No(R.BAD_DEVICE_INDEX, c.device, len(node.devices))
        used = self.used(node, c.device)
        before = node.devices[c.device]
        if c.capacity_milli > 1000:
            raise No(R.BAD_CAPACITY, c.capacity_milli, 1000)
        if c.kind not in (1, 2) or c.vendor > 15:
            raise No(R.BAD_DEVICE_KIND, c.kind, c.vendor)
        if c.capacity_milli < used:
            raise No(R.CAPACITY_IN_USE, c.capacity_milli, used)
        if used and (c.model != before.model or (c.kind, c.vendor) != before.family):
            raise No(R.CAPACITY_IN_USE, 0, used)
        if c.model and c.model not in self.models and len(self.models) == 64:
            raise No(R.MODELS_FULL, 1, 64)
        device = Device(
            c.capacity_milli, c.memory_bytes, c.available, c.owner, c.reason, c.model, c.link,
            c.bus, c.numa, c.kind, c.vendor, before.traits,
        )  # fmt: skip
        if device == before:
            raise No(R.UNCHANGED)
        if c.model and c.model not in self.models:
            self.models.append(c.model)
        node.devices[c.device] = device

    def do_devicetraits(self, c: rec.DeviceTraits) -> None:
        """New traits are not known on trial: they have to be committed first."""
        node = self.node(c.node)
        if c.device >= len(node.devices):
            raise No(R.BAD_DEVICE_INDEX, c.device, len(node.devices))
        traits = (c.compute, c.arch, c.profile, c.driver, c.link_gbps, c.near_cpus)
        if node.devices[c.device].traits == traits:
            raise No(R.UNCHANGED)
        if traits not in self.traits and any(traits):
            if self.trial:
                traits = NO_TRAITS
            else:
                self.traits.append(traits)
        node.devices[c.device] = replace(node.devices[c.device], traits=traits)

    def forget_devices(self) -> None:
        """Removes devices that their node no longer reports, once no task has them."""
        for node in self.nodes:
            for index, device in enumerate(node.devices):
                gone = device.reason == R.DEVICE_GONE and not device.available
                if gone and not self.used(node, index):
                    node.devices[index] = Device(reason=R.DEVICE_GONE)

    def do_nodelabel(self, c: rec.NodeLabel) -> None:
        node = self.node(c.node)
        if not c.label or (c.clear and c.label not in node.labels):
            raise No(R.UNKNOWN_LABEL)
        if c.clear:
            del node.labels[c.label]
            return
        label = (c.value, c.taint, c.cost)
        if node.labels.get(c.label) == label:
            raise No(R.UNCHANGED)
        if c.label not in node.labels and len(node.labels) == 16:
            raise No(R.NODE_LABELS_FULL, 1, 16)
        node.labels[c.label] = label

    def do_nodereserve(self, c: rec.NodeReserve) -> None:
        node = self.node(c.node)
        if c.queue not in self.queues:
            raise No(R.UNKNOWN_QUEUE, c.queue)
        ends = not c.until_ns
        if (ends and (c.from_ns or c.queue)) or (not ends and c.from_ns >= c.until_ns):
            raise No(R.BAD_RESERVATION, c.from_ns, c.until_ns)
        reserved = (c.from_ns, c.until_ns, c.queue)
        if reserved == node.reserved:
            raise No(R.UNCHANGED)
        node.reserved = reserved

    # -- what fits -------------------------------------------------------------------------

    def refuse_no_room(self, job: Job, node: Node) -> None:
        request = job.request
        count = len(self.on_node(node))
        if not node.up:
            raise No(R.NODE_NOT_UP)
        if len(self.tasks) >= self.limits.tasks:
            raise No(R.TASKS_FULL, 1, self.limits.tasks)
        if count >= self.limits.node_tasks:
            raise No(R.NODE_FULL, 1, count)
        if request.cpu_milli > self.cpu_free(node):
            raise No(R.CPU_FULL, request.cpu_milli, self.cpu_free(node))
        if request.memory_bytes > self.memory_free(node):
            raise No(R.MEMORY_FULL, request.memory_bytes, self.memory_free(node))
        self.refuse_kind(request, node)
        self.refuse_reserved(job, node)
        self.refuse_split(job, node)
        self.refuse_company(job, node)

    def known_models(self, request: rec.Submit) -> set[int]:
        return set(request.models) & set(self.models)

    def refuse_kind(self, request: rec.Submit, node: Node) -> None:
        self.refuse_lasting(request, node)
        taints = {label for label, (_, taint, _) in node.labels.items() if taint}
        if taints - set(request.tolerate):
            raise No(R.NOT_TOLERATED)

    def is_kind(self, request: rec.Submit, device: Device) -> bool:
        return bool(device.kind & request.kinds) and meets(
            device.values, request, self.insists, (Property.VENDOR,)
        )

    def refuse_lasting(self, request: rec.Submit, node: Node) -> None:
        models = self.known_models(request)
        if request.gpu_milli and not any(
            d.capacity and self.is_kind(request, d) for d in node.devices
        ):
            raise No(R.WRONG_KIND)
        if request.gpu_milli and models and not models & {d.model for d in node.devices}:
            raise No(R.WRONG_MODEL)
        if request.gpu_milli and not any(
            (d.capacity or any(d.traits)) and meets(d.values, request, self.insists, OF_TRAITS)
            for d in node.devices
        ):
            raise No(R.CONDITION_NOT_MET)
        if any(label not in node.labels for label in request.require):
            raise No(R.LABEL_MISSING)
        if any(label in node.labels for label in request.avoid):
            raise No(R.LABEL_AVOIDED)

    def refuse_reserved(self, job: Job, node: Node) -> None:
        since, until, queue = node.reserved
        if until <= self.now or queue in self.upwards(job.request.queue):
            return
        ends = self.now + job.request.estimate_ns
        if not (job.request.estimate_ns and since > self.now and ends <= since):
            raise No(R.NODE_RESERVED)

    def refuse_split(self, job: Job, node: Node) -> None:
        """All tasks are in the domain that is tried, or else in that of the first task."""
        keys = keys_of_levels(job.request, self.insists)
        first = [self.node(task.node) for task in self.of_job(job)][:1] or [node]
        near = self.near or first[0].domain_of(keys)
        if near is None or node.domain_of(keys) != near:
            raise No(R.LEVEL_SPLIT)

    def refuse_company(self, job: Job, node: Node) -> None:
        for task in self.of_job(job):
            if job.wants(Option.SPREAD_TASKS) and task.node == node.id:
                raise No(R.GANG_SPREAD)
            if job.wants(Option.PACK_TASKS) and task.node != node.id:
                raise No(R.GANG_PACKED)
        group = [t.node for t in self.tasks if self.jobs[t.job].request.group == job.request.group]
        if job.wants(Option.REPEL) and node.id in group:
            raise No(R.REPELLED)
        if job.wants(Option.ATTRACT) and group and node.id not in group:
            raise No(R.NOT_ATTRACTED)

    def refuse_device(self, request: rec.Submit, node: Node, index: int) -> None:
        models = self.known_models(request)
        if not self.is_kind(request, node.devices[index]):
            raise No(R.WRONG_KIND)
        if not meets(
            node.devices[index].values, request, self.insists, (*OF_TRAITS, Property.MEMORY)
        ):
            raise No(R.CONDITION_NOT_MET)
        if not meets(node.devices[index].values, request, self.insists, (Property.MODEL,)):
            raise No(R.WRONG_MODEL)
        if models and node.devices[index].model not in models:
            raise No(R.WRONG_MODEL)
        free = self.device_memory_free(node, index)
        if request.device_memory_bytes > free:
            raise No(R.DEVICE_MEMORY_FULL, request.device_memory_bytes, free)

    def refuse_shares(self, job: Job, node: Node, place: rec.Place) -> None:
        each = min(job.request.gpu_milli, 1000)
        wanted = job.request.gpu_milli // each if each else 0
        if len(place.shares) != wanted:
            raise No(R.BAD_SHARES, wanted, len(place.shares))
        seen = set()
        for index, milli in [(s.index, s.milli) for s in place.shares]:
            if index >= len(node.devices):
                raise No(R.BAD_DEVICE_INDEX, index, len(node.devices))
            if not node.devices[index].available:
                raise No(R.DEVICE_UNAVAILABLE, index)
            if milli > self.free(node, index):
                raise No(R.DEVICE_FULL, milli, self.free(node, index))
            self.refuse_device(job.request, node, index)
            if milli != each or index in seen:
                raise No(R.BAD_SHARES, each, milli)
            seen.add(index)
        held = [self.node(t.node).devices[s.index] for t in self.of_job(job) for s in t.shares]
        families = {d.family for d in [*held, *(node.devices[s.index] for s in place.shares)]}
        if len(families) > 1 and not job.wants(Option.MIX_VENDORS):
            raise No(R.VENDORS_MIXED, wanted)
        links = [node.devices[s.index].link for s in place.shares]
        if job.wants(Option.SAME_LINK) and wanted > 1 and (len(set(links)) > 1 or not links[0]):
            raise No(R.LINK_BROKEN)

    def take(self, job: Job, place: rec.Place) -> None:
        node = self.node(place.node)
        self.refuse_no_room(job, node)
        self.refuse_shares(job, node, place)
        task = Task(job.id, place.task, place.node, place.shares)
        self.refuse_over_limit(job.request.queue, task)
        self.tasks.append(task)
