# SPDX-License-Identifier: Apache-2.0
"""Every placement once more, dumb: all nodes, all devices, arithmetic on what the core shows.

Used by test_core_placement.py alone. Knows nothing of indexes, kept ratings or vectors; formulas
are those of docs/developer/placement.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp

from stoker.scheduler.core import Core
from stoker.scheduler.effects import DeviceState, NodeInfo
from stoker.scheduler.hints import RequestClass, Sample
from stoker.scheduler.policies import Option, Placement
from stoker.scheduler.records import Submit
from tests.scheduler.oracle_speeds import Speeds

MIB = 1 << 20
PART = 1 << 16
MILLI = 1000
Choice = tuple[int, tuple[tuple[int, int], ...]]
"""A node and its shares."""


@dataclass
class Inputs:
    """Observations that the leader has."""

    classes: list[RequestClass] = field(default_factory=list)
    loads: dict[int, tuple[int, int]] = field(default_factory=dict)
    samples: dict[tuple[int, int], Sample] = field(default_factory=dict)
    watts: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Milliwatts unused and full, by model."""
    socket: tuple[int, int, int] = (0, 0, 0)
    speeds: Speeds = field(default_factory=Speeds)


@dataclass
class View:
    """One node as it is."""

    info: NodeInfo
    devices: list[DeviceState]

    def free(self, index: int) -> int:
        device = self.devices[index]
        return device.capacity_milli - device.used_milli if device.available else 0

    @property
    def cpu_free(self) -> int:
        return max(0, self.info.cpu_milli - self.info.cpu_used)

    @property
    def memory_free(self) -> int:
        return max(0, self.info.memory_bytes - self.info.memory_used)

    @property
    def whole(self) -> int:
        return sum(
            self.free(i) == MILLI and self.devices[i].capacity_milli == MILLI
            for i in range(len(self.devices))
        )

    @property
    def models(self) -> set[int]:
        return {device.model for device in self.devices if device.model}


class Chooser:
    """Chooses for one job on the state of `core` as it is."""

    def __init__(self, core: Core, inputs: Inputs) -> None:
        self.core, self.inputs = core, inputs
        infos = [core.node(node) for node in core.nodes()]
        self.views = [View(info, core.devices(info.node)) for info in infos if info]

    def choose(self, request: Submit, how: Placement) -> Choice | None:
        """Choose a place; `how` BEST and FGD need known classes, ties go to the first node."""
        best: tuple[tuple[int, ...], Choice] | None = None
        for view in self.views:
            found = self.rated(view, request, how)
            if found and (best is None or found[0] < best[0]):
                best = found[0], (view.info.node, found[1])
        return best[1] if best else None

    def fitting(self, request: Submit) -> list[int]:
        return [
            view.info.node for view in self.views if self.rated(view, request, Placement.RANDOM)
        ]

    # ---- what fits ----

    def room(self, view: View, request: Submit) -> bool:
        labels = self.core.labels(view.info.node)
        names = {one.label for one in labels}
        return (
            view.info.up
            and request.cpu_milli <= view.cpu_free
            and request.memory_bytes <= view.memory_free
            and set(request.require) <= names
            and not set(request.avoid) & names
            and {one.label for one in labels if one.taint} <= set(request.tolerate)
        )

    def suited(self, view: View, request: Submit) -> list[int]:
        each = min(request.gpu_milli, MILLI)
        return [
            index
            for index, device in enumerate(view.devices)
            if view.free(index) >= each
            and (not request.models or device.model in request.models)
            and device.kind & request.kinds
            and max(0, device.memory_bytes - device.memory_used) >= request.device_memory_bytes
        ]

    def own(self, view: View, request: Submit) -> bool:
        """True if conditions leave devices of the node out."""
        return False

    def rated(
        self, view: View, request: Submit, how: Placement
    ) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]] | None:
        """The criteria in order and the shares; None if the job does not fit."""
        if not self.room(view, request):
            return None
        among = (
            self.allowed(view, self.suited(view, request), request, how)
            if request.gpu_milli
            else []
        )
        shares = taken(view, among, request)
        if shares is None:
            return None
        if how in (Placement.BEST, Placement.FGD):
            return self.frag(view, request, how)
        rank = getattr(self, f"by_{how.name.lower()}")(view, request, shares)
        if how in (Placement.POWER, Placement.THERMAL, Placement.FASTEST):
            second = self.frag(view, request, Placement.BEST)
            assert second
            rank += second[0]
        return rank, shares

    def allowed(self, view: View, suited: list[int], request: Submit, how: Placement) -> list[int]:
        suited = self.unwarned(view, suited, request)
        if how in (Placement.THERMAL, Placement.POWER, Placement.LEAST_BUSY, Placement.FASTEST):
            return self.best(view, suited, request, how)
        if how == Placement.CONTIGUOUS and request.gpu_milli > MILLI:
            return self.window(view, suited, request)
        if how in (Placement.SPREAD, Placement.LEAST_LOADED) and request.gpu_milli < MILLI:
            room = max([view.free(i) for i in suited], default=0)
            return [i for i in suited if view.free(i) == room]
        return suited

    def window(self, view: View, suited: list[int], request: Submit) -> list[int]:
        count = request.gpu_milli // MILLI
        windows = [suited[i : i + count] for i in range(len(suited) - count + 1)]
        fit = [each for each in windows if taken(view, each, request) is not None]
        return min(fit, key=lambda each: self.gaps(view, each), default=suited)

    def unwarned(self, view: View, suited: list[int], request: Submit) -> list[int]:
        well = [i for i in suited if not self.sample(view, i).warned]
        return well if taken(view, well, request) is not None else suited

    def best(self, view: View, suited: list[int], request: Submit, how: Placement) -> list[int]:
        """The fewest best devices with which it can be done, all that are equal among them."""
        figure = {
            Placement.THERMAL: lambda i: -self.headroom(view, i),
            Placement.POWER: lambda i: self.adds(view, i),
            Placement.LEAST_BUSY: lambda i: self.load(view, i),
            Placement.FASTEST: lambda i: self.slowness(view, i, request),
        }[how]
        if how == Placement.THERMAL:
            suited = [i for i in suited if self.headroom(view, i) >= 0]
        for level in sorted(map(figure, suited)):
            found = [i for i in suited if figure(i) <= level]
            if taken(view, found, request) is not None:
                return found
        return []

    def sample(self, view: View, index: int) -> Sample:
        return self.inputs.samples.get((view.info.node, index), Sample(0))

    # ---- placements ----

    def by_random(self, view: View, request: Submit, shares: object) -> tuple[int, ...]:
        return ()

    def by_spread(self, view: View, request: Submit, shares: object) -> tuple[int, ...]:
        used = sum(device.used_milli for device in view.devices)
        return (used if request.gpu_milli else view.info.cpu_used, view.info.tasks)

    def by_least_busy(
        self, view: View, request: Submit, shares: tuple[tuple[int, int], ...]
    ) -> tuple[int, ...]:
        load, tasks = self.node_load(view)
        if not request.gpu_milli:
            return (load, tasks)
        return (max(self.load(view, index) for index, _ in shares), load // 8, tasks)

    def node_load(self, view: View) -> tuple[int, int]:
        seen, load = self.inputs.loads.get(view.info.node, (0, 0))
        return load if seen else 2**21 - 1, view.info.tasks

    def load(self, view: View, index: int) -> int:
        sample = self.sample(view, index)
        if sample.busy is None:
            return 11
        if sample.slowed or sample.warned:
            return 10
        ppm = round(1e6 * max(sample.busy, sample.memory or 0.0))
        clock = 1e6 if sample.clock is None else 1e6 * sample.clock
        return (1_000_000 - (1_000_000 - ppm) * round(clock) // 1_000_000) * 10 // 1_000_000

    def by_cost_optimized(self, view: View, request: Submit, shares: object) -> tuple[int, ...]:
        costs = [one.value for one in self.core.labels(view.info.node) if one.cost]
        if costs:
            return (0, min(costs), -view.whole)
        return (1, *self.by_least_loaded(view, request, shares))

    def by_least_loaded(self, view: View, request: Submit, shares: object) -> tuple[int, ...]:
        if not request.gpu_milli:
            return (-min(view.cpu_free, (1 << 21) - 1), view.info.tasks)
        return (-sum(map(view.free, self.suited(view, request))), view.info.tasks)

    def by_contiguous(
        self, view: View, request: Submit, shares: tuple[tuple[int, int], ...]
    ) -> tuple[int, ...]:
        if not request.gpu_milli:
            return (min(view.cpu_free, (1 << 32) - 2),)
        if request.gpu_milli >= MILLI:
            return (self.gaps(view, [i for i, _ in shares]), view.whole)
        least = min(map(view.free, self.suited(view, request)))
        return (least if least < MILLI else MILLI + view.whole,)

    def gaps(self, view: View, taken: list[int]) -> int:
        if len(taken) < 2:
            return 0
        links = {view.devices[i].link for i in taken}
        return 2 * (max(taken) - min(taken) + 1 - len(taken)) + (len(links) > 1 or 0 in links)

    def by_power(
        self, view: View, request: Submit, shares: tuple[tuple[int, int], ...]
    ) -> tuple[int, ...]:
        milli, idle, full = self.inputs.socket
        adds = sum(self.adds(view, index) for index, _ in shares)
        if milli:
            used = view.info.cpu_used
            adds += (-(-(used + request.cpu_milli) // milli) + -used // milli) * (full - idle)
        return (adds // 1000,)

    def adds(self, view: View, index: int) -> int:
        device = view.devices[index]
        if device.used_milli:
            return 0
        if device.model not in self.inputs.watts:
            return max([full - idle for idle, full in self.inputs.watts.values()], default=0)
        idle, full = self.inputs.watts[device.model]
        sample = self.sample(view, index)
        drawn = 0
        if sample.cap_w is not None:
            full = max(idle, min(full, round(sample.cap_w * 1000)))
        if sample.power_w is not None:
            drawn = max(0, round(sample.power_w * 1000) - idle)
        return max(0, full - idle - drawn) if drawn > (full - idle) // 4 else full - idle

    def by_thermal(
        self, view: View, request: Submit, shares: tuple[tuple[int, int], ...]
    ) -> tuple[int, ...]:
        return (1000 - min([self.headroom(view, index) for index, _ in shares], default=1000),)

    def headroom(self, view: View, index: int) -> int:
        sample = self.sample(view, index)
        if sample.temperature_c is None or sample.limit_c is None:
            return 0
        left = round(sample.limit_c * 1000) - round(sample.temperature_c * 1000)
        if left <= 0:
            return -1
        return 0 if sample.slowed or sample.warned else min(left // 1000, 1000)

    def by_fastest(
        self, view: View, request: Submit, shares: tuple[tuple[int, int], ...]
    ) -> tuple[int, ...]:
        return (max([self.slowness(view, index, request) for index, _ in shares], default=0),)

    def slowness(self, view: View, index: int, request: Submit) -> int:
        return self.inputs.speeds.slowness(request.series, view.devices[index].model)

    # ---- fragmentation ----

    def frag(
        self, view: View, request: Submit, how: Placement
    ) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]] | None:
        free = [view.free(index) for index in range(len(view.devices))]
        families = {family(d) for d in view.devices if d.capacity_milli}
        own = bool(request.device_memory_bytes) or len(families) > 1
        own |= bool(request.models) and len({d.model for d in view.devices}) > 1
        own |= self.own(view, request)
        suited = self.suited(view, request)
        if (
            request.gpu_milli > MILLI
            and not request.options & Option.MIX_VENDORS
            and len(families) > 1
        ):
            chosen = taken(view, suited, request)
            if chosen is None:
                return None
            kept = family(view.devices[chosen[0][0]])
            suited = [i for i in suited if family(view.devices[i]) == kept]
        if request.gpu_milli and own:
            free = [milli if index in suited else 0 for index, milli in enumerate(free)]
        if not request.gpu_milli:
            return (self.cost(view, request, how, free, []),), ()
        whole = taken(view, suited, request)
        if whole is None:
            return None
        if request.gpu_milli >= MILLI:
            well = taken(view, self.unwarned(view, self.suited(view, request), request), request)
            assert well
            return (self.cost(view, request, how, free, [i for i, _ in whole]),), well
        costs = [(self.cost(view, request, how, free, [i]), i) for i in suited]
        cost, index = min(costs, key=lambda pair: (pair[0], free.index(free[pair[1]])))
        equal = [i for i in range(len(free)) if free[i] == free[index]]
        first = min(equal, key=lambda i: (self.sample(view, i).warned, i))
        return (cost,), ((first, request.gpu_milli),)

    def cost(
        self, view: View, request: Submit, how: Placement, free: list[int], devices: list[int]
    ) -> int:
        each = min(request.gpu_milli, MILLI)
        after = [milli - each * (index in devices) for index, milli in enumerate(free)]
        before_at = view.cpu_free, view.memory_free
        after_at = view.cpu_free - request.cpu_milli, view.memory_free - request.memory_bytes
        if how == Placement.FGD:
            added = self.waste(view, after, after_at[0]) - self.waste(view, free, before_at[0])
            return 100 - points(added)
        lost = self.worth(view, free, *before_at) - self.worth(view, after, *after_at)
        excess = min(self.equals(request.cpu_milli), 1 << 20) - each * len(devices)
        return lost + c_divided(excess * self.lack(view, free), 32) + sum(free) // 4

    def shares_of(self) -> list[int]:
        total = sum(one.weight for one in self.inputs.classes)
        return [one.weight * PART // total for one in self.inputs.classes]

    def fits(self, view: View, one: RequestClass, cpu: int) -> bool:
        return one.cpu_milli <= cpu and (not one.models or bool(view.models & set(one.models)))

    def waste(self, view: View, free: list[int], cpu: int) -> int:
        waste = rest = 0
        for one, share in zip(self.inputs.classes, self.shares_of(), strict=True):
            each, count = min(one.gpu_milli, MILLI), -(-one.gpu_milli // MILLI)
            if not each:
                continue
            usable = [milli for milli in free if milli >= each]
            able = self.fits(view, one, cpu) and len(usable) >= count
            rest += share
            waste += share * (sum(free) - sum(usable) * able)
        return waste + (PART - rest) * sum(free)

    def worth(self, view: View, free: list[int], cpu: int, memory: int) -> int:
        pairs = list(zip(self.inputs.classes, self.shares_of(), strict=True))
        sizes = [(one, share) for one, share in pairs if one.gpu_milli]
        scale = sum((share << 24) // one.gpu_milli for one, share in sizes)
        worth = 0
        for one, share in sizes:
            if not self.fits(view, one, cpu) or -(-one.memory_bytes // MIB) > memory // MIB:
                continue
            each, count = min(one.gpu_milli, MILLI), -(-one.gpu_milli // MILLI)
            some = sum(milli // each for milli in free)
            many = sum(milli >= each for milli in free) // count
            worth += (share << 32) // scale * (some if count == 1 else many)
        return worth

    def equals(self, cpu: int) -> int:
        pairs = zip(self.inputs.classes, self.shares_of(), strict=True)
        sizes = [(one, share) for one, share in pairs if one.gpu_milli]
        milli = sum(share * one.gpu_milli for one, share in sizes)
        processors = sum(share * one.cpu_milli for one, share in sizes)
        scale = min((milli << 25) // (3 * processors), 1 << 34) if processors else 0
        return (min(cpu, 1 << 28) * scale) >> 24

    def lack(self, view: View, free: list[int]) -> int:
        equals = self.equals(view.cpu_free)
        return -1024 if equals >= 2 * sum(free) else 1024 - equals * 1024 // sum(free)


def family(device: DeviceState) -> tuple[int, int]:
    return device.kind, device.vendor


def c_divided(value: int, by: int) -> int:
    """Divide towards zero, as C does."""
    return value // by if value >= 0 else -(-value // by)


def points(added: int) -> int:
    """The published score of added waste in milli * 2^16."""
    milli = added / PART / 1000
    return min(99, int(100 / (1 + exp(milli)))) if milli < 700 else 0


def taken(view: View, among: list[int], request: Submit) -> tuple[tuple[int, int], ...] | None:
    """The devices of best fit: for a share the least free, for whole ones the closest group."""
    if not request.gpu_milli:
        return ()
    if request.gpu_milli < MILLI:
        best = min(among, key=lambda i: (view.free(i), i), default=None)
        return None if best is None else ((best, request.gpu_milli),)
    count = request.gpu_milli // MILLI
    among = [i for i in among if view.free(i) == MILLI]
    linked = bool(request.options & Option.SAME_LINK) and count > 1
    if linked:
        among = [i for i in among if view.devices[i].link]
    for level in (("link", "numa", "bus"), ("link", "numa"), ("link",), ("numa",), ()):
        groups: dict[tuple[int, ...], list[int]] = {}
        names = level if request.options & Option.MIX_VENDORS else (*level, "kind", "vendor")
        for i in among:
            groups.setdefault(tuple(getattr(view.devices[i], n) for n in names), []).append(i)
        enough = [group for group in groups.values() if len(group) >= count]
        if not enough:
            continue
        if linked and "link" not in level:
            continue
        best_group = min(enough, key=len)
        return tuple((i, MILLI) for i in best_group[:count])
    return None
