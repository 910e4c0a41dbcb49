# SPDX-License-Identifier: Apache-2.0
"""Placements against the dumb full scan, and ratings that are kept against ratings from scratch."""

from __future__ import annotations

from random import Random

import pytest

from stoker.native.errors import BadRequest, NotFound, Refused
from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.effects import Start
from stoker.scheduler.hints import CLASSES_MAX, EVIDENCE_MAX, RequestClass, Sample
from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.policies import Option, Placement
from stoker.scheduler.reasons import Reason
from tests.scheduler.oracle_placement import Chooser, Inputs

GIB = 1 << 30
MODELS = (101, 102, 103)
LABELS = (7, 8)
RATED = [
    Placement.BEST,
    Placement.FGD,
    Placement.SPREAD,
    Placement.LEAST_BUSY,
    Placement.COST_OPTIMIZED,
    Placement.POWER,
    Placement.THERMAL,
    Placement.LEAST_LOADED,
    Placement.CONTIGUOUS,
    Placement.FASTEST,
]


def request(rng: Random) -> rec.Submit:
    gpu = rng.choice((0, 190, 250, 500, 810, 1000, 1000, 2000, 4000))
    return rec.Submit(
        client=1,
        gpu_milli=gpu,
        cpu_milli=rng.choice((0, 500, 1000, 4000)),
        memory_bytes=rng.choice((0, GIB, 3 * GIB + 1)),
        device_memory_bytes=rng.choice((0, 0, 0, GIB)) if gpu else 0,
        models=rng.choice(((), (), MODELS[:1], MODELS[1:])) if gpu else (),
        require=rng.choice(((), (), (), LABELS[:1])),
        avoid=rng.choice(((), (), (), LABELS[1:])),
        options=rng.choice((0, 0, int(Option.SAME_LINK), int(Option.MIX_VENDORS)))
        if gpu > 1000
        else 0,
        kinds=rng.choice((1, 1, 1, 2, 3)),
        series=rng.choice((0, 61, 61, 62)),
    )


def node(rng: Random, number: int) -> list[rec.Request]:
    devices = rng.choice((0, 1, 2, 4, 8, 9))
    models = rng.choice((MODELS[:1], MODELS[1:2], MODELS, (0,)))
    families = rng.choice((((1, 1),), ((1, 1),), ((1, 2),), ((1, 1), (2, 0)), ((1, 1), (1, 2))))
    commands: list[rec.Request] = [
        rec.NodeUp(
            node=number, boot=1, incarnation=1, cpu_milli=rng.choice((8000, 16000, 64000)),
            memory_bytes=rng.choice((16, 64)) * GIB + 5, devices=devices, domain=number % 3,
        )
    ]  # fmt: skip
    commands += [
        rec.DeviceSet(
            node=number, device=index, capacity_milli=rng.choice((1000, 1000, 1000, 500)),
            kind=(family := rng.choice(families))[0], vendor=family[1],
            memory_bytes=rng.choice((0, 4, 8)) * GIB, model=rng.choice(models),
            link=index // 4 if rng.random() < 0.8 else 0, numa=index // 2, bus=index % 2,
        )
        for index in range(devices)
    ]  # fmt: skip
    if rng.random() < 0.4:
        commands.append(rec.NodeLabel(node=number, label=rng.choice(LABELS), value=0))
    if rng.random() < 0.5:
        commands.append(
            rec.NodeLabel(node=number, label=50, value=rng.choice((3, 5, 900)), cost=True)
        )
    return commands


class World:
    """A small cluster with everything that placements may look at, and one job at a time."""

    def __init__(self, seed: int, nodes: int = 9) -> None:
        self.rng = Random(seed)
        self.core = Core(Limits(nodes=80, devices=800, jobs=400, finished=50, tasks=400))
        self.inputs = Inputs()
        self.now = 1
        self.running: list[Start] = []
        for number in range(1, nodes + 1):
            self.commit(node(self.rng, number))
        self.configure()

    def commit(self, requests: list[rec.Request]) -> list[Start]:
        self.now += 1
        proposal = self.core.propose(requests, self.now, self.now, measure=False)
        effects = self.core.apply(proposal.commands, self.now)
        return [effect for effect in effects if isinstance(effect, Start)]

    def configure(self) -> None:
        rng, inputs = self.rng, self.inputs
        for _ in range(rng.randint(1, 12)):
            wanted = request(rng)
            inputs.classes.append(
                RequestClass(
                    rng.randint(1, 50), wanted.gpu_milli, wanted.cpu_milli, wanted.memory_bytes,
                    tuple(m for m in wanted.models if m in self.models()),
                )
            )  # fmt: skip
        inputs.classes.append(RequestClass(5, 250, 1000))
        self.core.workload(inputs.classes)
        for model in MODELS[:2]:
            inputs.watts[model] = (rng.choice((10, 30)) * 1000, rng.choice((70, 300)) * 1000)
            self.core.model_power(model, *(mw / 1000 for mw in inputs.watts[model]))
        inputs.socket = (8000, 15_000, 120_000)
        self.core.cpu_power(8000, 15, 120)

    def models(self) -> set[int]:
        devices = [d for n in self.core.nodes() for d in self.core.devices(n)]
        return {device.model for device in devices}

    def stir(self) -> None:
        """Something happens: a sample, a load, a device or node that goes or comes, an end."""
        rng = self.rng
        number = rng.choice(self.core.nodes())
        devices = self.core.devices(number)
        what = rng.randrange(6)
        if what == 0:
            self.inputs.loads[number] = (self.now, rng.randrange(4000))
            assert self.core.observe(number, *self.inputs.loads[number])
        elif what == 1 and devices:
            index = rng.randrange(len(devices))
            known = rng.random() < 0.9
            sample = Sample(
                self.now, rng.choice((None, 12.0, 60.0, 290.0)),
                rng.choice((30.5, 70.25, 83.0)) if known else None, rng.choice((83.0, 90.0)),
                busy=rng.choice((None, 0.0, 0.34, 0.97)),
                cap_w=rng.choice((None, None, 20.0, 65.0)),
                clock=rng.choice((None, 1.0, 0.5)), memory=rng.choice((None, 0.05, 0.6)),
                slowed=rng.random() < 0.1, warned=rng.random() < 0.2,
            )  # fmt: skip
            self.inputs.samples[number, index] = sample
            assert self.core.observe_device(number, index, sample)
        elif what == 2 and devices:
            index = rng.randrange(len(devices))
            at = devices[index]
            self.commit([
                rec.DeviceSet(
                    number, index, at.capacity_milli, at.memory_bytes,
                    available=rng.random() < 0.7, model=at.model, link=at.link, bus=at.bus,
                    numa=at.numa, kind=at.kind, vendor=at.vendor,
                )
            ])  # fmt: skip
        elif what == 3:
            info = self.core.node(number)
            assert info
            if info.up and rng.random() < 0.3:
                self.commit([rec.NodeDown(number)])
            elif not info.up:
                self.commit([
                    rec.NodeUp(
                        number, info.boot, info.incarnation + 1, info.cpu_milli,
                        info.memory_bytes, info.devices, info.domain,
                    )
                ])  # fmt: skip
        elif self.running:
            ended = self.running.pop(rng.randrange(len(self.running)))
            self.end(ended)

    def request(self, how: Placement) -> rec.Submit:
        """One that names no model which is nowhere: that would be refused at once."""
        wanted = request(self.rng)
        known = tuple(model for model in wanted.models if model in self.models())
        return wanted._replace(placement=how, models=known)

    def end(self, task: Start) -> None:
        info = self.core.job(task.job)
        assert info
        outcome = rec.TaskOutcome(
            task.job, task.attempt, task.node, rec.STATE_CODES["succeeded"],
            run_ns=self.rng.choice((0, 10**9, 2 * 10**9)),
            launch_ns=self.rng.choice((0, 0, 1000, 1049, 3000)),
        )  # fmt: skip
        devices = self.core.devices(task.node)
        models = {devices[share.index].model for share in task.shares}
        self.inputs.speeds.told(info.request, models, outcome)
        self.commit([outcome])

    def job(self, wanted: rec.Submit) -> tuple[int, Start | None]:
        """Submit and decide alone; what does not start is cancelled."""
        self.now += 1
        proposal = self.core.propose([wanted], self.now, self.now, measure=False)
        number = self.core.counters()["submitted"] + 1
        effects = self.core.apply(proposal.commands, self.now)
        started = [effect for effect in effects if isinstance(effect, Start)]
        if not started and not proposal.rejected:
            self.commit([rec.Cancel(number)])
        self.running += started
        return number, started[0] if started else None


def shares(start: Start) -> tuple[tuple[int, int], ...]:
    return tuple((share.index, share.milli) for share in start.shares)


def reserves(wanted: rec.Submit) -> bool:
    return bool(wanted.gpu_milli or wanted.cpu_milli or wanted.memory_bytes)


@pytest.mark.parametrize("how", RATED, ids=lambda how: how.name.lower())
def test_the_choice_is_that_of_a_full_scan(how: Placement) -> None:
    chosen = 0
    for seed in range(12):
        world = World(seed)
        for _ in range(60):
            world.stir()
            wanted = world.request(how)
            expected = Chooser(world.core, world.inputs).choose(wanted, how)
            _, start = world.job(wanted)
            if not reserves(wanted) and how in (Placement.BEST, Placement.FGD):
                assert (start is None) == (expected is None)  # it goes to the least busy of four
            else:
                assert (start and (start.node, shares(start))) == expected
            chosen += start is not None
        assert world.core.scores_check()
        assert world.core.check() == ""
    assert chosen > 150


def test_chance_takes_any_node_that_fits_and_no_other() -> None:
    world = World(3)
    wanted = rec.Submit(client=1, gpu_milli=250, placement=Placement.RANDOM)
    fitting = Chooser(world.core, world.inputs).fitting(wanted)
    seen = set()
    for seed in range(200):
        proposal = world.core.propose([wanted], world.now, seed, measure=False)
        places = [c for c in rec.unpack_commands(proposal.commands) if isinstance(c, rec.Place)]
        seen.add(places[0].node)
        assert places[0].reason == Reason.BY_CHANCE
    assert len(fitting) > 2
    assert seen == set(fitting)


def test_the_same_seed_is_the_same_chance() -> None:
    world = World(3)
    wanted = rec.Submit(client=1, gpu_milli=250, placement=Placement.RANDOM)
    first, again = (world.core.propose([wanted], 9, 5, measure=False).commands for _ in range(2))
    assert first == again


@pytest.mark.parametrize("seed", range(6))
def test_kept_ratings_equal_ratings_from_scratch_whatever_happened(seed: int) -> None:
    """Many shapes, batches that are tried and taken back, and applied ones, in any order."""
    world = World(seed, nodes=70)
    rng = world.rng
    for _ in range(40):
        world.stir()
        asks = [world.request(rng.choice(RATED)) for _ in range(6)]
        if rng.random() < 0.5:
            world.core.propose(asks, world.now, rng.randrange(99), measure=False)
        else:
            world.job(asks[0])
        if rng.random() < 0.1:
            world.core.workload(world.inputs.classes[: rng.randint(1, 3)])
        assert world.core.scores_check()
    assert world.core.check() == ""


def test_more_shapes_than_are_kept() -> None:
    world = World(1)
    for cpu in range(1200):
        wanted = rec.Submit(client=1, gpu_milli=190, cpu_milli=cpu % 700, placement=Placement.BEST)
        world.core.propose([wanted], world.now, 0, measure=False)
    assert world.core.scores_check()


def test_a_batch_decides_as_one_by_one() -> None:
    tried = 0
    for seed in range(10):
        together, alone = World(seed), World(seed)
        rng = Random(seed)
        asks = [
            request(rng)._replace(placement=rng.choice(RATED), client=2, priority=0)
            for _ in range(8)
        ]
        fits = [wanted for wanted in asks if reserves(wanted) and alone.job(wanted)[1]]
        tried += len(fits)
        together.commit([])
        started = together.commit(list(fits))
        expected = [(task.node, task.shares) for task in alone.running]
        assert [(task.node, task.shares) for task in started] == expected
    assert tried > 30


def test_what_is_tried_changes_neither_state_nor_memory() -> None:
    world = World(2)
    before = world.core.digest(), world.core._core.memory_digest()
    for how in Placement:
        wanted = rec.Submit(client=1, gpu_milli=500, placement=how)
        world.core.propose([wanted], world.now, 1, measure=False)
    assert (world.core.digest(), world.core._core.memory_digest()) == before


def plain(nodes: int, devices: int = 2, domains: int = 0) -> Core:
    core = Core(Limits(nodes=8, devices=64, jobs=5000, finished=5000, tasks=100))
    requests: list[rec.Request] = []
    for number in range(1, nodes + 1):
        domain = number % domains + 1 if domains else 0
        requests.append(rec.NodeUp(number, 1, 1, 64_000, 64 * GIB, devices, domain))
        requests += [rec.DeviceSet(number, index, model=9) for index in range(devices)]
    core.apply(core.propose(requests, 1).commands, 1)
    return core


def decided(core: Core, wanted: rec.Submit, seed: int = 0) -> list[rec.Place]:
    proposal = core.propose([wanted], 2, seed, measure=False)
    return [c for c in rec.unpack_commands(proposal.commands) if isinstance(c, rec.Place)]


def test_a_gang_that_spreads_takes_every_domain_before_it_takes_one_twice() -> None:
    core = plain(6, domains=3)
    wanted = rec.Submit(client=1, gpu_milli=500, tasks=6, placement=Placement.SPREAD)
    places = decided(core, wanted)
    assert [place.node % 3 for place in places[:3]] == [1, 2, 0]
    assert sorted(place.node for place in places) == [1, 2, 3, 4, 5, 6]


def test_hot_devices_are_not_taken() -> None:
    core = plain(2, devices=1)
    wanted = rec.Submit(client=1, gpu_milli=500, placement=Placement.THERMAL)
    core.observe_device(1, 0, Sample(77, temperature_c=60, limit_c=90))
    core.observe_device(2, 0, Sample(78, temperature_c=59, limit_c=90))
    (place,) = decided(core, wanted)
    assert (place.node, place.observations[0], place.reason) == (2, 78, Reason.COOLEST)
    core.observe_device(2, 0, Sample(79, temperature_c=90, limit_c=90))
    assert [place.node for place in decided(core, wanted)] == [1]
    core.observe_device(1, 0, Sample(80, temperature_c=91, limit_c=90))
    assert decided(core, wanted) == []


def whole(how: Placement, devices: int = 1) -> rec.Submit:
    return rec.Submit(client=1, gpu_milli=1000 * devices, placement=how)


def test_a_whole_device_is_the_best_one_of_its_node() -> None:
    """The whole devices of one node differ, and the placement compares them."""
    core = plain(1, devices=4)
    core.model_power(9, 30, 300)
    for index, heat in enumerate((51, 70, 34, 60)):
        sample = Sample(7, temperature_c=heat, limit_c=90, busy=heat / 100, power_w=30 + heat)
        core.observe_device(1, index, sample)
    for how in (Placement.THERMAL, Placement.LEAST_BUSY):
        assert [s.index for s in decided(core, whole(how))[0].shares] == [2]
        assert sorted(s.index for s in decided(core, whole(how, 2))[0].shares) == [0, 2]
    core.observe_device(1, 3, Sample(8, cap_w=100))
    assert [s.index for s in decided(core, whole(Placement.POWER))[0].shares] == [3]


def test_links_come_before_signals_only_where_they_are_asked_for() -> None:
    core = plain(1, devices=4)
    requests = [rec.DeviceSet(1, i, model=9, link=1 + i // 2) for i in range(4)]
    core.apply(core.propose(requests, 2).commands, 2)
    for index, heat in enumerate((40, 80, 50, 45)):
        core.observe_device(1, index, Sample(7, temperature_c=heat, limit_c=90))
    free = whole(Placement.THERMAL, 2)
    assert [s.index for s in decided(core, free)[0].shares] == [0, 3]
    linked = free._replace(options=int(Option.SAME_LINK))
    assert [s.index for s in decided(core, linked)[0].shares] == [2, 3]


@pytest.mark.parametrize(
    ("how", "better", "worse"),
    [
        (Placement.THERMAL, {"temperature_c": 40.0}, {"temperature_c": 41.0}),
        (Placement.THERMAL, {"limit_c": 91.0}, {"limit_c": 90.0}),
        (Placement.THERMAL, {}, {"slowed": True}),
        (Placement.THERMAL, {}, {"warned": True}),
        (Placement.LEAST_BUSY, {"busy": 0.1}, {"busy": 0.9}),
        (Placement.LEAST_BUSY, {"memory": 0.1}, {"memory": 0.9}),
        (Placement.LEAST_BUSY, {"clock": 1.0}, {"clock": 0.5}),
        (Placement.LEAST_BUSY, {}, {"slowed": True}),
        (Placement.POWER, {"power_w": 200.0}, {"power_w": 30.0}),
        (Placement.POWER, {"cap_w": 150.0}, {"cap_w": 300.0}),
        (Placement.BINPACK, {}, {"warned": True}),
        (Placement.SPREAD, {}, {"warned": True}),
        (Placement.RANDOM, {}, {"warned": True}),
    ],
)
def test_each_signal_alone_flips_the_choice(
    how: Placement, better: dict[str, float], worse: dict[str, float]
) -> None:
    base = {"temperature_c": 40.0, "limit_c": 90.0, "busy": 0.1, "power_w": 30.0, "memory": 0.1}
    for good in (0, 1):
        core = plain(1, devices=2)
        core.model_power(9, 30, 300)
        core.observe_device(1, good, Sample(5, **{**base, **better}))
        core.observe_device(1, 1 - good, Sample(6, **{**base, **worse}))
        (place,) = decided(core, whole(how))
        assert [share.index for share in place.shares] == [good]
        assert place.observations, "what was read is named"


def test_evidence_is_what_was_read_of_both() -> None:
    core = plain(2, devices=1)
    core.observe(1, 76, 250)
    core.observe_device(1, 0, Sample(77, temperature_c=60.5, limit_c=90))
    core.observe_device(2, 0, Sample(78, temperature_c=59, limit_c=90))
    commands = core.propose([whole(Placement.THERMAL)], 2).commands
    core.observe_device(2, 0, Sample(79, temperature_c=89, limit_c=90))
    core.apply(commands, 2)
    found = core.evidence(1, 1)
    assert found is not None
    assert found.other is not None
    assert (found.placement, found.reason) == (Placement.THERMAL, Reason.COOLEST)
    assert (found.chosen.node, found.chosen.device, found.chosen.figure) == (2, 0, 1000 - 31)
    assert found.chosen.sample == Sample(78, temperature_c=59, limit_c=90)
    assert (found.other.node, found.other.figure, found.other.observation) == (1, 1000 - 29, 76)
    assert found.other.sample == Sample(77, temperature_c=60.5, limit_c=90)
    assert core.evidence(1, 2) is None
    assert core.evidence(2, 1) is None
    assert Core.restore(core.snapshot()).evidence(1, 1) is None


def test_the_next_best_may_be_beside_the_chosen_one() -> None:
    core = plain(2, devices=2)
    heats = {(1, 0): 60, (1, 1): 50, (2, 0): 70, (2, 1): 80}
    for (number, index), heat in heats.items():
        core.observe_device(number, index, Sample(7, temperature_c=heat, limit_c=90))
    core.apply(core.propose([whole(Placement.THERMAL)], 2).commands, 2)
    found = core.evidence(1, 1)
    assert found and found.other
    assert [(s.node, s.device) for s in (found.chosen, found.other)] == [(1, 1), (1, 0)]


def test_evidence_is_kept_of_the_newest_decisions() -> None:
    core = Core(Limits(nodes=2, devices=4, jobs=4000, finished=50, tasks=4000))
    core.apply(core.propose([rec.NodeUp(1, 1, 1, 64000, 64 * GIB, 0)], 1).commands, 1)
    wanted = rec.Submit(client=1, placement=Placement.LEAST_BUSY)
    while core.counters()["placed"] <= EVIDENCE_MAX:
        more = [wanted] * 500 if core.counters()["submitted"] < 3000 else []
        core.apply(core.propose(more, 2).commands, 2)
    last = core.counters()["placed"]
    assert core.evidence(last, 1)
    assert core.evidence(last - EVIDENCE_MAX + 1, 1)
    assert core.evidence(last - EVIDENCE_MAX, 1) is None


def test_a_stale_sample_is_none() -> None:
    core = plain(1, devices=2)
    core.observe_device(1, 0, Sample(7, temperature_c=40, limit_c=90))
    core.observe_device(1, 0, Sample(0, stale=True))
    commands = core.propose([whole(Placement.THERMAL)], 2).commands
    core.apply(commands, 2)
    (place,) = [c for c in rec.unpack_commands(commands) if isinstance(c, rec.Place)]
    assert (place.reason, place.observations) == (Reason.HEAT_UNKNOWN, ())
    found = core.evidence(1, 1)
    assert found and found.chosen.sample.stale


def test_what_a_snapshot_has_is_typical_at_once() -> None:
    core = plain(4)
    wanted = rec.Submit(client=1, gpu_milli=300, cpu_milli=100)
    core.apply(core.propose([wanted] * 16, 3).commands, 3)
    restored = Core.restore(core.snapshot())
    for each in (core, restored):
        assert each.workload_learn() == 1
        assert decided(each, wanted)[0].reason == Reason.LEAST_FRAGMENTED
    restored.workload([RequestClass(1, 500)])
    assert restored.workload_learn() == 0
    assert restored.digest() == core.digest()


def test_tasks_that_reserve_nothing_do_not_pile_up() -> None:
    core = plain(6)
    core.workload([RequestClass(1, 500)])
    core.apply(core.propose([rec.Submit(client=1)] * 60, 3).commands, 3)
    assert all(len(core.node_tasks(number)) > 3 for number in core.nodes())


def test_power_fills_devices_that_are_on() -> None:
    core = plain(3, devices=2)
    core.model_power(9, 30, 300)
    core.apply(core.propose([rec.Submit(client=1, gpu_milli=250)], 2).commands, 2)
    on = next(n for n in core.nodes() if core.node_tasks(n))
    (place,) = decided(core, rec.Submit(client=1, gpu_milli=250, placement=Placement.POWER))
    assert (place.node, place.shares[0].index) == (on, core.node_tasks(on)[0].shares[0].index)


def test_what_is_submitted_becomes_typical() -> None:
    """Before that nothing is known and the choice is best fit by the indexes."""
    core = plain(2)
    wanted = rec.Submit(client=1, gpu_milli=300, cpu_milli=100)
    assert decided(core, wanted)[0].reason == Reason.OPENED_DEVICE
    for batch in range(2):
        commands = core.propose([wanted] * 512, 3 + batch).commands
        core.apply(commands, 3 + batch)
    running = [task for node in core.nodes() for task in core.node_tasks(node)]
    ends = [
        rec.TaskOutcome(t.job, t.attempt, t.node, rec.STATE_CODES["succeeded"]) for t in running
    ]
    proposal = core.propose(ends, 9)
    places = [c for c in rec.unpack_commands(proposal.commands) if isinstance(c, rec.Place)]
    assert {place.reason for place in places} == {Reason.LEAST_FRAGMENTED}


def test_figures_that_cannot_be_are_refused() -> None:
    core = plain(1)
    with pytest.raises(BadRequest):
        core.workload([RequestClass(0, 500)])
    with pytest.raises(BadRequest):
        core.workload([RequestClass(1, 1500)])
    with pytest.raises(Refused):
        core.workload([RequestClass(1, 500)] * (CLASSES_MAX + 1))
    with pytest.raises(BadRequest):
        core.model_power(9, 300, 30)
    for model in range(1, 65):
        core.model_power(model, 1, 2)
    with pytest.raises(Refused):
        core.model_power(65, 1, 2)
    assert not core.observe_device(1, 5, Sample(1))
    assert not core.observe_device(9, 0, Sample(1))


def test_candidates_are_where_the_next_task_fits() -> None:
    core = plain(2, devices=2)
    wanted = rec.Submit(client=1, gpu_milli=1000, tasks=3, placement=Placement.CUSTOM)
    core.apply(core.propose([wanted], 2).commands, 2)
    first = core.candidates(1, 3)
    assert {c.node: c.shares for c in first} == {n: (DeviceShare(0, 1000),) for n in (1, 2)}
    chosen = [rec.Prefer(1, 1, 1, (DeviceShare(i, 1000),), i, 3) for i in range(2)]
    assert [(c.node, c.devices_free) for c in core.candidates(1, 3, 0, chosen)] == [(2, 2)]
    assert core.digest() == Core.restore(core.snapshot()).digest()
    with pytest.raises(BadRequest):
        core.candidates(1, 3, 0, chosen[1:])
    with pytest.raises(NotFound):
        core.candidates(2, 3)
